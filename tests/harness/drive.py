"""Runs inside the harness's own environment and does what the parent says, line by line.

The rule: one JSON object a line on stdin (`{"do": "start" | "resume" | "prompt", …}`), one JSON
object a line on stdout; the harness lives until stdin ends. The first argument is the JSON of the
SDK's keyword arguments. It imports nothing but the SDK and the standard library.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def obey(harness: Any, session: Any, order: dict[str, str]) -> tuple[Any, dict[str, Any]]:
    """Do one order; the session from now on, and what to tell the parent."""
    match order["do"]:
        case "start":
            return harness.start_session(order["id"]), {}
        case "resume":
            return harness.resume_session(order["id"]), {}
        case "prompt":
            result = session.run(order["text"])
            return session, {"finish": result.finish_reason, "text": result.final_response}
    raise ValueError(order["do"])


def main() -> None:
    """Serve orders until stdin ends. An error is told, and the harness goes on living."""
    sdk: Any = importlib.import_module("deepseek_harness")
    session: Any = None
    with sdk.DeepSeekHarness(**json.loads(sys.argv[1])) as harness:
        for line in sys.stdin:
            try:
                session, told = obey(harness, session, json.loads(line))
            except Exception as fault:  # noqa: BLE001 - the parent decides what it means
                told = {"error": f"{type(fault).__name__}: {fault}"}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
