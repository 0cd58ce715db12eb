"""What a repair did, as text: where the log is now, and line by line what was done to it."""

from typing import Final

from dsh_compact.repair import Repair
from dsh_compact.repair.mender import Action
from dsh_compact.report.terminal import safe, styled
from dsh_compact.verify.damage import Finding
from dsh_compact.words import counted

LONGEST_WORDS: Final = 200
"""Characters of what was done that are shown: it may quote what stands in the log."""

SHOWN_ACTIONS: Final = 40
"""Actions shown one by one; the file beside the log has all that was set aside."""


def text(done: Repair, *, dry_run: bool, color: bool = False) -> str:
    """One repair: what was found, what was done, what is left."""
    if not done.is_needed:
        return _nothing(done, color=color)
    lines = [f"{safe(done.log)}: {counted(len(done.before.findings), 'finding')}"]
    lines += [f"  {_action(action)}" for action in done.actions[:SHOWN_ACTIONS]]
    more = len(done.actions) - SHOWN_ACTIONS + done.untold
    lines += [f"  and {more:,} more"] if more > 0 else []
    lines += ["", _summary(done, dry_run=dry_run), *_files(done)]
    return "\n".join([*lines, *_rest(done, dry_run=dry_run, color=color)])


def _nothing(done: Repair, *, color: bool) -> str:
    if done.ok:
        return f"{safe(done.log)}: {styled('sound', 'green', color=color)}, nothing to mend"
    count = counted(len(done.after.findings), "finding")
    lines = [f"{safe(done.log)}: {count}, and nothing that can be mended"]
    return "\n".join([*lines, *map(_finding, done.after.findings)])


def _action(action: Action) -> str:
    if action.line is None:
        where = f"seq {action.seq}, new"
    else:
        where = f"line {action.line}" + ("" if action.seq is None else f", seq {action.seq}")
    return f"{where}: {action.code}: {safe(action.what, LONGEST_WORDS)}"


def _summary(done: Repair, *, dry_run: bool) -> str:
    facts = [f"{counted(done.kept, 'record')} kept"]
    facts += [f"{done.renumbered:,} renumbered"] if done.renumbered else []
    facts += [f"{done.inserted:,} put in"] if done.inserted else []
    facts += [f"{done.set_aside:,} set aside"] if done.set_aside else []
    return ("would be: " if dry_run else "") + ", ".join(facts)


def _files(done: Repair) -> list[str]:
    lines = [] if done.target is None else [f"repaired log  {safe(done.target)}"]
    lines += [] if done.backup is None else [f"damaged log   {safe(done.backup)}"]
    return lines + ([] if done.aside is None else [f"set aside     {safe(done.aside)}"])


def _rest(done: Repair, *, dry_run: bool, color: bool) -> list[str]:
    if done.ok:
        verdict = "it would be sound" if dry_run else "it is sound now"
        return [styled(verdict, "green", color=color)]
    count = counted(len(done.after.findings), "finding")
    kept = "" if done.target is not None or dry_run else "; nothing was written"
    words = styled(f"{count} cannot be mended{kept}", "red", color=color)
    return [words, *map(_finding, done.after.findings)]


def _finding(finding: Finding) -> str:
    where = "" if finding.line is None else f"line {finding.line}: "
    return f"  {where}{finding.code}: {safe(finding.message, LONGEST_WORDS)}"
