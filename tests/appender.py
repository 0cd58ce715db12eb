"""Appends messages to a log, one after the other, and says which are acknowledged.

    python tests/appender.py LOG NAME COUNT     NAME-0, NAME-1, … each under its own lock
    python tests/appender.py --hold LOG NAME COUNT     all under one lock

The rule of this file: a line on stdout is an acknowledgement, written only after `append` returned.
Where another process holds the lock, it waits and tries again.
"""

import sys
import time

from dsh_compact.codec import encode
from dsh_compact.errors import OwnedLog
from dsh_compact.events import Text
from dsh_compact.session import WritableSession, open_session

WAIT_SECONDS = 0.002
PATIENCE_SECONDS = 60


def main(words: list[str]) -> None:
    """Do what the module's docstring says."""
    hold = words[0] == "--hold"
    log, name, count = words[1:] if hold else words
    ids = [f"{name}-{number}" for number in range(int(count))]
    if hold:
        with patiently(log) as session:
            for message_id in ids:
                append(session, message_id)
        return
    for message_id in ids:
        with patiently(log) as session:
            append(session, message_id)


def patiently(log: str) -> WritableSession:
    """The session, once nobody else holds it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return open_session(log)
        except OwnedLog:
            if time.monotonic() > deadline:
                raise
            time.sleep(WAIT_SECONDS)


def append(session: WritableSession, message_id: str) -> None:
    """One message, and its acknowledgement."""
    words = f"{message_id} is here. " * 20
    session.append([encode.user_message([Text(text=words)], message_id)])
    print(message_id, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
