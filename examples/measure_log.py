"""How full is a session's window, and what has become of the conversation so far?

python examples/measure_log.py session.v4.jsonl
"""

import sys

from dsh_compact import DshcError, measure, read_history, read_session


def main(path: str) -> int:
    """Print a few lines about the log at `path`; return the exit code that `dshc` would give."""
    try:
        with read_session(path) as session:
            measured = measure(session)
        history = read_history(path)
    except DshcError as fault:
        print(fault, file=sys.stderr)
        return fault.exit_code

    print(f"{measured.total_tokens:,} tokens, {measured.baseline.kind}")
    if measured.window_tokens is not None:
        print(f"window {measured.window_tokens:,}, told by: {measured.window_source}")
        print("pack it" if measured.over_threshold else "there is room")
    for row in history.replacements:
        gone = len(row.shadowed_seqs)
        folded = "1 message" if gone == 1 else f"{gone:,} messages"
        print(f"generation {row.generation}: a {row.kind} took the place of {folded}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
