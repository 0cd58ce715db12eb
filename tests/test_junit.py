"""Results as XML: a parser reads what was meant, whatever the texts hold."""

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from dsh_compact.report.junit import Case, junit
from dsh_compact.report.terminal import safe, safe_block

texts = st.text() | st.sampled_from(["\x00<&>\"'", "]]>", "\ud83d", "\x1b[31m", "é👩‍👩‍👧"])


@given(texts, texts, texts, texts)
def test_any_text_arrives(suite: str, name: str, failure: str, details: str) -> None:
    """Names, failures and details are read back as they are shown, control characters escaped."""
    xml = junit(suite, [Case(name=name, group=suite, failure=failure, details=details)])
    root = ET.fromstring(xml.encode("utf-8"))
    (found,) = root.findall("./testsuite")
    (case,) = found.findall("testcase")
    assert safe(suite) == found.get("name")
    assert (safe(name), safe(suite)) == (case.get("name"), case.get("classname"))
    told = [one.get("message") for one in case.findall("failure")]
    assert ([safe(failure)] if failure else []) == told
    assert safe_block(details) == case.findtext("system-out", default="")


def test_the_counts_are_right() -> None:
    """Tests, failures and seconds, in the suite and above it."""
    xml = junit(
        "s",
        [
            Case(name="a", group="g", seconds=0.25),
            Case(name="b", group="g", failure="it broke", seconds=0.5),
        ],
    )
    root = ET.fromstring(xml.encode("utf-8"))
    for element in (root, root[0]):
        counts = [element.get(key) for key in ("tests", "failures", "errors", "time")]
        assert ["2", "1", "0", "0.750"] == counts
    assert [None, "it broke"] == [
        found if (found := case.find("failure")) is None else found.get("message")
        for case in root[0]
    ]
