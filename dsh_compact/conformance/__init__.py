"""Whether a backend keeps the rules: every session under every fault, and a scorecard of it.

Rule: each case is a rehearsal of its own on a copy of its own, with a fresh backend. `sessions` are
what is tried, `faults` what goes wrong, `rules` what is owed; this module plays and collects.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Final

from msgspec import Struct, structs

from dsh_compact import simulate, tokenizers, verify
from dsh_compact.backends import Backend
from dsh_compact.backends.running import Runner, run_here
from dsh_compact.conformance.faults import KINDS, NO_FAULT, Fault, Watch
from dsh_compact.conformance.rules import LEAST_SAVED, Rule, Violation, violations
from dsh_compact.conformance.sessions import OVERFLOWING, Tried, written_to
from dsh_compact.copies import private_copy, private_folder
from dsh_compact.journal import LOCK_NAME
from dsh_compact.measurement import window_of
from dsh_compact.policy import DEFAULT, Policy
from dsh_compact.session import Session, open_session
from dsh_compact.simulate import Rehearsal, Rehearsed
from dsh_compact.tokenizers import Tokenizer
from dsh_compact.tokenizers.cache import CountCache
from dsh_compact.wall import Wall, in_words_of, like_provider

__all__ = ["Case", "Fault", "Rule", "Scorecard", "Violation", "Wishes", "cases", "run"]

DEFAULT_TIMEOUT_SECONDS: Final = 60.0
"""For one run of a backend on one session; a model that summarises may want more."""

MOST_OPERATIONS: Final = 32
"""The disk fails at the first operation, then at the second, and so on, but not for ever."""

MakeBackend = Callable[[], Backend]


class Case(Struct, frozen=True, kw_only=True):
    """One session under one fault; `made_room` says whether the conversation was replaced."""

    session: str
    fault: Fault
    violations: tuple[Violation, ...]
    made_room: bool
    seconds: float


class Scorecard(Struct, frozen=True, kw_only=True):
    """All cases of one backend, session by session."""

    backend: str
    cases: tuple[Case, ...]

    @property
    def ok(self) -> bool:
        """Whether no rule was broken."""
        return not any(case.violations for case in self.cases)


class Wishes(Struct, frozen=True, kw_only=True):
    """How the cases are played."""

    policy: Policy = DEFAULT
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    run: Runner = run_here


NO_WISHES: Final = Wishes()


def run(
    make: MakeBackend,
    logs: Sequence[str | os.PathLike[str]] = (),
    *,
    wishes: Wishes = NO_WISHES,
    progress: Callable[[int], None] | None = None,
) -> Scorecard:
    """Plays every case with a backend that `make` makes anew; `progress` is told each that is done.

    `logs` are tried beside the built-in sessions, on copies. Raises `LogError` and its kin where
    one of them cannot be written to even as a copy.
    """
    done = []
    for case in cases(make, logs, wishes=wishes):
        done.append(case)
        if progress is not None:
            progress(1)
    return Scorecard(backend=make().name, cases=tuple(done))


def cases(
    make: MakeBackend,
    logs: Sequence[str | os.PathLike[str]] = (),
    *,
    wishes: Wishes = NO_WISHES,
) -> Iterator[Case]:
    """The cases one by one, as they are played; for those who stop at the first violation.

    First the session that ships, then `logs`, then the other built-in ones.
    """
    with private_folder() as folder:
        given = (Tried(name=os.fspath(log), log=os.fspath(log)) for log in logs)
        for tried in chain([OVERFLOWING], given, written_to(str(folder))):
            yield from _cases(make, tried, wishes)


def _cases(make: MakeBackend, tried: Tried, wishes: Wishes) -> Iterator[Case]:
    for kind in KINDS:
        if kind == "disk":
            yield from _disk_cases(make, tried, wishes)
        else:
            yield _Play(make(), tried, Fault(kind=kind), wishes).case()


def _disk_cases(make: MakeBackend, tried: Tried, wishes: Wishes) -> Iterator[Case]:
    for operation in range(1, MOST_OPERATIONS + 1):
        play = _Play(make(), tried, Fault(kind="disk", operation=operation), wishes)
        case = play.case()
        if not play.watch.disk.has_failed:  # the backend was done before
            return
        yield case


class _Play:
    """One case: a copy, a rehearsal on it, and the judgement."""

    def __init__(self, backend: Backend, tried: Tried, fault: Fault, wishes: Wishes) -> None:
        self.watch = Watch(fault, wishes.run)
        self._backend = backend
        self._tried = tried
        self._fault = fault
        self._wishes = wishes

    def case(self) -> Case:
        begun = monotonic()
        with private_copy(self._tried.log) as path:
            found_before = _damage(path)
            rehearsed = self._rehearse(path, self.watch)
            broken = [one for seen in self.watch.seen for one in violations(seen, self._fault)]
            broken += self._damage_since(path, found_before)
            broken += _strangers(path)
            broken += self._at_the_end(rehearsed)
            if not broken and self._fault.kind == "disk" and self._tried.has_room:
                broken += self._again(path)
        told = [structs.replace(one, detail=one.detail.replace(path, "LOG")) for one in broken]
        return Case(
            session=self._tried.name,
            fault=self._fault,
            violations=tuple(dict.fromkeys(told)),
            made_room=rehearsed.generation_after > rehearsed.generation_before,
            seconds=monotonic() - begun,
        )

    def _rehearse(self, path: str, watch: Watch) -> Rehearsed:
        wishes = self._wishes
        with open_session(path, disk=watch.disk) as session:
            decide = simulate.discipline(
                "proof",
                self._backend,
                wishes.policy,
                timeout_seconds=wishes.timeout_seconds,
                run=watch,
            )
            return Rehearsal(
                session, _tokenizer(), _wall(session), decide, backend=self._backend.name
            ).play()

    def _damage_since(self, path: str, before: set[str]) -> list[Violation]:
        new = sorted(_damage(path) - before)
        return [Violation(rule=Rule.LEAVES_NO_DAMAGE, detail=detail) for detail in new]

    def _at_the_end(self, rehearsed: Rehearsed) -> Iterator[Violation]:
        kind, attempt = self._fault.kind, rehearsed.attempt
        if rehearsed.notices and kind != "disk":
            yield Violation(rule=Rule.OBEYS_THE_END, detail=rehearsed.notices[0])
        if kind != "none" or attempt is None:
            return
        grew = attempt.generation_after > attempt.generation_before
        if self._tried.has_room and not grew:
            detail = f"nothing was replaced in a session of {attempt.tokens_before:,} tokens"
            yield Violation(rule=Rule.MAKES_ROOM, detail=detail)
        if grew and attempt.tokens_after > attempt.tokens_before * (1 - LEAST_SAVED):
            sizes = f"{attempt.tokens_before:,} → {attempt.tokens_after:,}"
            yield Violation(rule=Rule.SAVES, detail=f"the conversation went {sizes} tokens")

    def _again(self, path: str) -> Iterator[Violation]:
        """The same backend once more, on what the fault has left, with nothing going wrong."""
        watch = Watch(NO_FAULT, self._wishes.run)
        rehearsed = self._rehearse(path, watch)
        if rehearsed.generation_after <= rehearsed.generation_before:
            seen = next(violations(watch.seen[-1], NO_FAULT), None) if watch.seen else None
            detail = "nothing was replaced" if seen is None else seen.detail
            yield Violation(rule=Rule.WORKS_AGAIN, detail=detail)


@cache
def _tokenizer() -> Tokenizer:
    """The provider's, with a memory: every case counts nearly the same texts."""
    return CountCache(tokenizers.load(tokenizers.NAMES[0]))


def _wall(session: Session) -> simulate.MakeWall:
    known = window_of(session.pressure()).tokens
    header = session.newest_header
    refuse = in_words_of(like_provider(None if header is None else header.provider))
    return lambda requested: Wall(
        limit_tokens=simulate.default_limit(requested, known), refuse=refuse
    )


def _damage(path: str) -> set[str]:
    """All that verify finds, in words that do not depend on the log's name."""
    return {f"{one.code}: {one.message}" for one in verify.verify(path).findings}


def _strangers(path: str) -> Iterator[Violation]:
    log = Path(path)
    for found in sorted(log.parent.iterdir()):
        if found.name not in (log.name, LOCK_NAME):
            yield Violation(rule=Rule.LEAVES_NO_FILES, detail=f"{found.name} lies beside the log")
