"""Waiting between tries: after the server's time where it names one, a growing one otherwise."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from endpoints import Endpoint, Refused, Streamed, frame

from dsh_compact.summarizers import Secret, SummarizerFailed
from dsh_compact.summarizers.models import http
from dsh_compact.summarizers.models.http import Patience, Read, endpoint, send

BUSY = {"error": {"message": "overloaded"}}


def target(url: str) -> http.Endpoint:
    """The endpoint at `url`."""
    return endpoint(
        "test", url, key_header=("x-key", "{}"), key=Secret("k-12345678"), variable="K",
        environment={}, needs_key=False,
    )  # fmt: skip


def read(objects: Iterator[dict[str, Any]]) -> Read:
    """The texts of all objects."""
    return Read(text="".join(str(one.get("text", "")) for one in objects))


def waits(*headers: dict[str, str], left_seconds: float = 1_000.0) -> list[float]:
    """How long a client waits, refused once with each of `headers`; no time really passes."""
    slept: list[float] = []
    patience = Patience(99, left_seconds, sleep=slept.append, now=lambda: sum(slept))
    refusals = [Refused(503, BUSY, one) for one in headers]
    with Endpoint(*refusals, Streamed([frame({"text": "ok"})])) as server:
        assert "ok" == send(target(server.url), {}, patience, read).text
    return slept


def test_waiting_grows() -> None:
    """Without a word from the server each wait is twice the last, up to half a minute."""
    assert [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] == waits(*[{}] * 7)


@pytest.mark.parametrize(
    ("seconds", "headers"),
    [
        (7.0, {"retry-after": "7"}),
        (0.25, {"retry-after": "0.25"}),
        (0.5, {"retry-after-ms": "500", "retry-after": "7"}),
        (0.0, {"retry-after": "-3"}),
        (1.0, {"retry-after": "soon"}),
    ],
)
def test_the_servers_time_is_honoured(seconds: float, headers: dict[str, str]) -> None:
    """Seconds and milliseconds are understood, nonsense is as if nothing were said."""
    assert [seconds] == waits(headers)


def test_a_date_is_a_time_too() -> None:
    """The server may name the moment from which on it listens again."""
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    (seconds,) = waits({"retry-after": then})
    assert 95 < seconds <= 100


def test_no_wait_beyond_the_end() -> None:
    """A wait that would use up the time is not begun."""
    with pytest.raises(SummarizerFailed, match="more than is left"):
        waits({"retry-after": "50"}, {"retry-after": "60"}, left_seconds=100.0)


def test_an_answer_without_end_is_given_up() -> None:
    """A server that streams for ever is left, though every frame is right."""
    flood = [frame({"text": "x" * 1_000_000})] * 20
    with (
        Endpoint(Streamed(flood)) as server,
        pytest.raises(SummarizerFailed, match="doesn't stop answering"),
    ):
        send(target(server.url), {}, Patience(1, 60.0), read)


def test_a_long_error_is_read_only_so_far() -> None:
    """Of an error only the beginning is looked at."""
    with Endpoint(Refused(404, "not here " + "x" * 30_000_000)) as server:
        began = time.monotonic()
        with pytest.raises(http.Refused) as caught:
            send(target(server.url), {}, Patience(1, 60.0), read)
    assert len(caught.value.failure.message) <= http.MOST_ERROR_BYTES
    assert time.monotonic() - began < 10


def test_the_url_is_shown_without_secrets() -> None:
    """Neither a password nor a query of the base URL is in an error."""
    with pytest.raises(SummarizerFailed) as caught:
        send(target("http://me:secret@127.0.0.1:9/x?token=abc"), {}, Patience(1, 5.0), read)
    assert "http://127.0.0.1:9 can't be reached" in str(caught.value)
    assert "secret" not in str(caught.value) + repr(caught.value.__cause__)


@pytest.mark.parametrize("text", ["key k-12345678!", "sk-abcdef123456", "Bearer abcdefgh12345"])
def test_keys_are_redacted(text: str) -> None:
    """The key itself, and whatever looks like one, is replaced."""
    shown = target("http://x").redacted(text)
    assert "[key]" in shown
    assert "12345" not in shown


def test_an_endpoint_shows_no_key() -> None:
    """Printing what holds the key doesn't print the key."""
    assert "k-12345678" not in repr(target("http://x"))
    assert "k-12345678" not in f"{Secret('k-12345678')} {Secret('k-12345678')!r}"
