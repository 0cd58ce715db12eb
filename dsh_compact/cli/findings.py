"""A finding in JSON, for every command that tells of damage: its names stay as they are."""

from typing import Any

from dsh_compact.verify.damage import Finding


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding under its fixed names."""
    return {
        "code": finding.code,
        "line": finding.line,
        "seq": finding.seq,
        "byte": finding.byte,
        "message": finding.message,
        "consequence": finding.consequence,
        "severity": finding.severity,
        "repairable": finding.repairable,
    }
