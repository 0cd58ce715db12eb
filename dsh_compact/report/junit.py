"""Results in the XML that CI systems read as tests: one case a check, with its reason if it failed.

Rule: what XML cannot hold (control characters, lone surrogates) is shown as an escape.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from dsh_compact.report.terminal import safe, safe_block

_MARKUP: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


class Case(Struct, frozen=True, kw_only=True):
    """One check; `failure` is why it failed, empty where it passed, `details` what CI shows."""

    name: str
    group: str
    failure: str = ""
    details: str = ""
    seconds: float = 0.0


def junit(suite: str, cases: Sequence[Case]) -> str:
    """A test suite with its cases, in their order."""
    failed = sum(bool(case.failure) for case in cases)
    seconds = sum(case.seconds for case in cases)
    counts = f'tests="{len(cases)}" failures="{failed}" errors="0" time="{seconds:.3f}"'
    lines = ['<?xml version="1.0" encoding="utf-8"?>']
    lines.append(f"<testsuites {counts}>")
    lines.append(f"<testsuite name={_quoted(suite)} {counts}>")
    lines += [_case(case) for case in cases]
    lines += ["</testsuite>", "</testsuites>", ""]
    return "\n".join(lines)


def _case(case: Case) -> str:
    head = f"<testcase classname={_quoted(case.group)} name={_quoted(case.name)}"
    parts = [f'{head} time="{case.seconds:.3f}">']
    if case.failure:
        parts.append(f"<failure message={_quoted(case.failure)}/>")
    if case.details:
        parts.append(f"<system-out>{safe_block(case.details).translate(_MARKUP)}</system-out>")
    return "".join([*parts, "</testcase>"])


def _quoted(text: str) -> str:
    return f'"{safe(text).translate(_MARKUP)}"'
