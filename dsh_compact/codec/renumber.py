"""Other numbers for a record: its own seq, every seq that it refers to, its turn.

What carries no number is copied byte for byte: a record is taken apart at its first and second
level only, and put together again. The tables say where numbers stand; a type that they don't name
carries none that we know of.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from msgspec import Raw

from dsh_compact.codec.splice import GONE, joined, load, parts
from dsh_compact.codec.types import PACKED_TYPES

Resolve = Callable[[int], int | None]
"""The new number of what a record calls by a seq; None where it is gone."""

Move = Callable[[int, int | None], tuple[int, int | None]]
"""Where an event of a turn (and step, where it names one) belongs."""

LOST: Final = 2**53 - 1
"""Stands for an event that is gone where its number cannot be left out: no event has it."""

MOST_RANGED: Final = 10_000_000
"""Seqs that the ranges of one list may stand for; a few bytes can name billions."""

_MOST_BACK: Final = 10_000
"""Events that may be gone in a row before a place "up to which" something was done is given up."""

_SHORTEST_RANGE: Final = 3
"""The harness writes three consecutive seqs or more as a range, where the list rises throughout."""


def renumber(
    line: bytes,
    version: int,
    seq: int,
    resolve: Resolve,
    move: Move | None = None,
) -> bytes:
    """The record in `line` as event `seq`, its references as `resolve` and `move` give them.

    A list of sources or citations loses what resolves to None; the end of a range becomes `LOST`.
    The line itself where nothing changes.
    """
    fields = parts(line)
    kind = load(fields["type"])
    changed: dict[str, Any] = {"seq0" if kind in PACKED_TYPES and "seq0" in fields else "seq": seq}
    changed |= _envelope(fields, version, resolve)
    data = _data(kind, fields.get("data"), version, resolve, move)
    same = data is None and all(load(fields[key]) == changed[key] for key in changed)
    if same and all(value is not GONE for value in changed.values()):
        return line
    if data is not None:
        changed["data"] = data
    return joined(fields, changed)


def renumber_header(line: bytes, count: Callable[[int], int]) -> bytes:
    """A log's header in `line`, its `seedLength` as `count` gives it: how many events, the first
    ones, came from a seed.

    The line itself where nothing changes.
    """
    fields = parts(line)
    length = load(fields["seedLength"]) if "seedLength" in fields else None
    if not isinstance(length, int) or isinstance(length, bool) or count(length) == length:
        return line
    return joined(fields, {"seedLength": count(length)})


def _envelope(fields: dict[str, Raw], version: int, resolve: Resolve) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    if "sourceEventSeqs" in fields:
        sources = load(fields["sourceEventSeqs"])
        if isinstance(sources, list):
            changed["sourceEventSeqs"] = _sources(sources, resolve) or GONE
    op = load(fields["surfaceOp"]) if "surfaceOp" in fields else None
    if isinstance(op, dict):
        names = ("start", "end") if version == 0 else ("startSeq", "endSeq")
        changed["surfaceOp"] = {
            key: _moved(value, resolve) if key in names else value for key, value in op.items()
        }
    return changed


def _sources(entries: list[Any], resolve: Resolve) -> list[Any]:
    """The list under new numbers, each once, written as the harness writes it."""
    plain = not any(isinstance(entry, list) for entry in entries)
    moved: dict[int, None] = {}
    for entry in entries:
        for seq in _spelt_out(entry):
            found = resolve(seq)
            if found is not None:
                moved[found] = None
    seqs = list(moved)
    if plain or any(left >= right for left, right in pairwise(seqs)):
        return seqs
    return _as_ranges(seqs)


def _spelt_out(entry: Any) -> range:
    match entry:
        case [int(first), int(last)] if 0 <= last - first <= MOST_RANGED:
            return range(first, last + 1)
        case int():
            return range(entry, entry + 1)
        case _:
            return range(0)


def _as_ranges(seqs: list[int]) -> list[Any]:
    written: list[Any] = []
    start = 0
    for at in range(1, len(seqs) + 1):
        if at < len(seqs) and seqs[at] == seqs[at - 1] + 1:
            continue
        run = seqs[start:at]
        written += [[run[0], run[-1]]] if len(run) >= _SHORTEST_RANGE else run
        start = at
    return written


def _moved(value: Any, resolve: Resolve) -> Any:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    found = resolve(value)
    return LOST if found is None else found


# The data -----------------------------------------------------------------------------------------


def _data(
    kind: str,
    raw: Raw | None,
    version: int,
    resolve: Resolve,
    move: Move | None,
) -> bytes | None:
    """The data under new numbers; None where none of them changes."""
    movers = _MOVERS.get(kind, {})
    if raw is None or not (movers or move is not None):
        return None
    fields = parts(bytes(raw))
    if kind == _DELIVERY and not _is_ours(fields, version):
        return None
    changed: dict[str, Any] = {}
    for key, mover in movers.items():
        if key in fields:
            old = load(fields[key])
            new = mover(old, resolve)
            if new != old:
                changed[key] = new
    if move is not None:
        changed |= _place(fields, move)
    return joined(fields, changed) if changed else None


def _place(fields: dict[str, Raw], move: Move) -> dict[str, int]:
    turn, step = (load(fields[key]) if key in fields else None for key in ("turn", "step"))
    if not isinstance(turn, int) or isinstance(turn, bool):
        return {}
    is_step = isinstance(step, int) and not isinstance(step, bool)
    new_turn, new_step = move(turn, step if is_step else None)
    changed = {} if new_turn == turn else {"turn": new_turn}
    return changed if new_step in (None, step) else {**changed, "step": new_step}


_DELIVERY: Final = "session-log-deepseek/delivery-accepted"


def _is_ours(fields: dict[str, Raw], version: int) -> bool:
    raw = fields.get("sessionFormatVersion")
    return (0 if raw is None else load(raw)) == version


def _move_list(value: Any, resolve: Resolve) -> Any:
    """A list of citations: what is gone is left out."""
    if not isinstance(value, list):
        return value
    found = [resolve(seq) if isinstance(seq, int) else seq for seq in value]
    return [seq for seq in found if seq is not None]


def _move_shadow(value: Any, resolve: Resolve) -> Any:
    if not isinstance(value, list):
        return value
    return [_moved(seq, resolve) for seq in value]


def _move_range(value: Any, resolve: Resolve) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _moved(seq, resolve) for key, seq in value.items()}


def _move_back(value: Any, resolve: Resolve) -> Any:
    """Up to where something was done: where that event is gone, up to the one before it."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    earlier = (resolve(seq) for seq in range(value, max(-1, value - _MOST_BACK), -1))
    return next((seq for seq in earlier if seq is not None), LOST)


def _move_targets(value: Any, resolve: Resolve) -> Any:
    if not isinstance(value, list):
        return value
    return [
        {**target, "seq": _moved(target["seq"], resolve)}
        if isinstance(target, dict) and "seq" in target
        else target
        for target in value
    ]


Mover = Callable[[Any, Resolve], Any]
_SHADOW: Final[dict[str, Mover]] = {"shadowedRange": _move_range, "shadowedSeqs": _move_shadow}
_MOVERS: Final[dict[str, dict[str, Mover]]] = {
    "compaction/start": {"shadowedRange": _move_range},
    "compaction/summary": _SHADOW,
    "compaction/prune": _SHADOW,
    "session/title": {"messageSeqs": _move_list},
    "session/title-llm-request": {"messageSeqs": _move_list},
    "developer/message": {"headerSeq": _moved},
    "command/done": {"sourceEventSeq": _moved},
    "image/offload": {"targets": _move_targets},
    _DELIVERY: {"throughSeq": _move_back},
}
"""Where seqs stand in the data, by type and key."""
