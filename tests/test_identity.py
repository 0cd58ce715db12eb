"""A tool result's identity: all that its record says beside its content, however it is written."""

import pytest

from dsh_compact.codec import Identity
from dsh_compact.errors import Damage, RuleBroken

CONTENTS = b'[{"type":"text","text":"A"}]', b'[{"type":"text","text":"B"}]'


def record(data: bytes) -> bytes:
    """A tool result's line with that data."""
    return b'{"type":"tool/result","seq":1,"time":1,"data":{%b},"surfaceOp":"append"}' % data


def result(content: bytes, beside: bytes = b"1") -> bytes:
    """Of a result that says no more than its content, and `beside` it."""
    return record(b'"meta":%b,"message":{"role":"tool","content":%b}' % (beside, content))


def test_the_content_is_no_part_of_it() -> None:
    """Two that differ in nothing else are equal, and have one hash."""
    one, other = (Identity(result(content)) for content in CONTENTS)
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":"A"}', b'{"b":"A","a":1}'),
        (b'{"a":1,"b":"A"}', b'{ "a" : 1, "b":"\\u0041" }'),
    ],
    ids=["order", "style"],
)
def test_what_says_the_same_is_equal(one: bytes, other: bytes) -> None:
    """The order of keys, spaces and escapes tell nothing."""
    assert Identity(result(CONTENTS[0], one)) == Identity(result(CONTENTS[1], other))


@pytest.mark.parametrize(
    ("one", "other"), [(b'"A"', b'"B"'), (b"1", b"null"), (b'{"content":1}', b'{"content":2}')]
)
def test_what_says_something_else_is_not(one: bytes, other: bytes) -> None:
    """Whatever stands beside the message counts, a member called content too."""
    assert Identity(result(CONTENTS[0], one)) != Identity(result(CONTENTS[0], other))


@pytest.mark.parametrize(
    "data",
    [
        b'"meta":{"content":%b},"message":{"role":"tool","content" :%b}',
        b'"meta":{"content":%b},"message":{"role":"tool","c\\u006fntent":%b}',
        b'"message":{"role":"tool","content" :%b},"meta":{"content":%b}',
        b'"message":{"content":[{"type":"tool-result","x":{"content":%b},"content" :%b}]}',
    ],
    ids=["spaced", "escaped", "behind", "in the block"],
)
def test_another_content_is_not_taken_for_the_messages(data: bytes) -> None:
    """Not where it holds the same bytes, and the message's own is written in an odd way."""
    one, other = (Identity(record(data % (content, content))) for content in CONTENTS)
    assert one != other


def test_what_is_nested_too_deep_to_be_compared_is_damage() -> None:
    """It can be read, and not be written again."""
    deep = b"[" * 1_000 + b"]" * 1_000
    one, other = (Identity(result(content, deep)) for content in (CONTENTS[0], b"[1]"))
    with pytest.raises(RuleBroken) as caught:
        assert one == other
    assert Damage.TOO_DEEP == caught.value.damage
