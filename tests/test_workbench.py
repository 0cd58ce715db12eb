"""The workbench: the transaction in every dialect, what closes a bracket, what a prune keeps."""

import errno
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import plain_reader
import pytest
from builders import Conversation, call, text
from hypothesis import given, settings
from hypothesis import strategies as st
from running import LOGS
from strategies import conversations

from dsh_compact import planning
from dsh_compact.errors import BackendFailed, DshcError, ForeignAppend, LogError, WriteFailed
from dsh_compact.journal import Disk
from dsh_compact.meter import Pressure
from dsh_compact.planning import NoSpan, PruneBudget, Span
from dsh_compact.policy import DEFAULT, Policy
from dsh_compact.session import WritableSession, open_session
from dsh_compact.summarizers import Summary
from dsh_compact.trial import TrialSession, open_trial
from dsh_compact.verify import verify
from dsh_compact.workbench import FRAMING_TOKENS, Bloated, Workbench

FORMATS: Final = (0, 3, 4)
LONG: Final = "a long story, told at length; " * 100
NOTES: Final = Summary(text="A story was told.", provider="tests", model="by-hand")
BUDGET: Final = PruneBudget(threshold=400, head=100, tail=50)


def story(version: int = 4, **header: Any) -> Conversation:
    """Two finished turns with a call each, and one that was only asked."""
    log = Conversation(format=version, window=8_000, **header).system("You help.")
    for turn in ("one", "two"):
        log.user(f"{turn}: {LONG}").assistant("Running.", calls=[call(turn)], usage=(600, 29))
        log.result(turn, LONG).assistant("Done.", usage=(700, 9)).end()
    return log.user("three").assistant("Well.").end()


def bench_on(session: WritableSession, **wishes: Any) -> Workbench:
    """A bench that keeps nothing but the newest unit, and has no goal."""
    counter = iter(range(10_000))
    wishes = {"policy": DEFAULT, "retain_tokens": 0, "goal": None, "backend": "tests", **wishes}
    return Workbench(session, new_id=lambda: f"id-{next(counter)}", **wishes)


def chosen(bench: Workbench) -> Span:
    """What may go now."""
    span = bench.choose()
    assert isinstance(span, Span), span
    return span


def tail(path: Path, count: int) -> list[dict[str, Any]]:
    """The log's last records."""
    records: list[dict[str, Any]] = plain_reader.read(path.read_bytes()).records[-count:]
    return records


def assert_right(path: Path) -> plain_reader.Reading:
    """The log is one that the harness opens, by our own judgement and by another reader's."""
    report = verify(path)
    assert () == report.findings
    reading = plain_reader.read(path.read_bytes())
    assert (None, None) == (reading.broken, reading.refused)
    assert reading.generation == report.generation
    return reading


# The transaction ----------------------------------------------------------------------------------


@pytest.mark.parametrize("framed", [False, True], ids=["plain", "framed"])
@pytest.mark.parametrize("version", FORMATS)
@pytest.mark.parametrize("in_turn", [False, True], ids=["between", "in a turn"])
def test_a_replacement_is_a_bracket_in_the_logs_own_dialect(
    version: int, framed: bool, in_turn: bool, tmp_path: Path
) -> None:
    """Start, summary, checkpoint, end: one id, the open turn's number, the format's names."""
    log = story(version)
    if in_turn:
        log.user("four")
    path = log.write(tmp_path / "session.jsonl", framed=framed)
    old = path.read_bytes()
    with open_session(path) as session:
        bench = bench_on(session)
        span = chosen(bench)
        done = bench.replace(span, lambda: NOTES)
    assert path.read_bytes().startswith(old)
    start, summary, checkpoint, end = tail(path, 4)
    assert ["compaction/start", "compaction/summary", "user/message", "compaction/end"] == [
        record["type"] for record in (start, summary, checkpoint, end)
    ]
    owner = {"compactionId": "id-0", "turn": 4 if in_turn else None}
    assert owner == {key: start["data"][key] for key in owner}
    assert owner == end["data"]
    kind = (
        {"kind": "compact-checkpoint", "compactionId": "id-0"}
        if version == 4
        else {"kind": "plugin", "plugin": "compact", "compactionId": "id-0"}
    )
    assert kind == checkpoint["data"]["source"]
    names = ("start", "end") if version == 0 else ("startSeq", "endSeq")
    ends = (checkpoint["surfaceOp"][names[0]], checkpoint["surfaceOp"][names[1]])
    assert ends == (span.start_seq, span.end_seq)
    assert [start["seq"], summary["seq"], *span.seqs] == checkpoint["sourceEventSeqs"]
    assert list(span.seqs) == summary["data"]["shadowedSeqs"]
    assert [{"type": "text", "text": NOTES.text}] == summary["data"]["summary"]
    assert [done] == bench.replaced
    assert (1, checkpoint["seq"], span.seqs) == (done.generation, done.seq, done.shadowed_seqs)
    reading = assert_right(path)
    assert reading.replacements[0].tokens_after == done.tokens_after < done.tokens_before


def test_the_checkpoint_is_framed_and_holds_nothing_that_looks_like_its_frame(
    tmp_path: Path,
) -> None:
    """A preamble for the model, the summary between marks; marks inside it are taken out."""
    path = story().write(tmp_path / "log.jsonl")
    words = "one</compacted-summary>two<compacted-summary>"
    with open_session(path) as session:
        bench = bench_on(session)
        bench.replace(chosen(bench), lambda: Summary(text=words, provider="p", model="m"))
    content = [block["text"] for block in tail(path, 2)[0]["data"]["content"]]
    assert content[0].endswith("\n\n<compacted-summary>")
    assert ["onetwo", "</compacted-summary>"] == content[1:]


# Every span of every log --------------------------------------------------------------------------


def safe_spans(session: WritableSession) -> list[tuple[int, ...]]:
    """Every span that meets no objection."""
    items = session.items()
    seqs = [one.seq for one in items]
    spans = (tuple(seqs[i:j]) for i in range(len(seqs)) for j in range(i + 1, len(seqs) + 1))
    return [span for span in spans if not planning.objection(items, span)]


@cache
def spans_of(path: Path) -> list[tuple[int, ...]]:
    """The spans of one of the real logs."""
    with open_trial(path) as session:
        return safe_spans(session)


@pytest.mark.parametrize("path", sorted(LOGS.glob("v*")), ids=lambda path: path.name)
def test_any_span_of_a_real_log_can_go(path: Path) -> None:
    """Each span: the rest stays, pairs stay whole, tokens fall, the generation moves by 1."""
    for seqs in spans_of(path):
        with open_trial(path) as session:
            check_replacing(session, seqs)


@settings(max_examples=60)
@given(data=st.data())
def test_a_log_is_right_after_any_compaction(data: st.DataObject, tmp_path_factory: Any) -> None:
    """On disk, plain or framed: only appended to, and it says what the session said."""
    path = data.draw(st.sampled_from(sorted(LOGS.glob("v*"))))
    copy = tmp_path_factory.mktemp("log") / path.name
    copy.write_bytes(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        with open_session(copy) as session:
            spans = safe_spans(session)
            if not spans:
                return
            old = copy.read_bytes()
            check_replacing(session, data.draw(st.sampled_from(spans)))
            seqs, generation = list(session.surface.seqs), session.replace_generation
        assert copy.read_bytes().startswith(old)
        reading = assert_right(copy)
        assert (seqs, generation) == (reading.node_seqs, reading.generation)


@settings(max_examples=60)
@given(data=st.data(), log=conversations(), framed=st.booleans())
def test_a_log_of_any_shape_can_be_compacted(
    data: st.DataObject, log: Conversation, framed: bool, tmp_path_factory: Any
) -> None:
    """Whatever state it was left in: in a turn, in a step, in an open bracket, behind a resume."""
    path = log.write(tmp_path_factory.mktemp("log") / "any.jsonl", framed=framed)
    before = verify(path)
    with open_session(path) as session:
        spans = safe_spans(session)
        if not spans:
            return
        check_replacing(session, data.draw(st.sampled_from(spans)))
    after = verify(path)
    old = {finding.code for finding in (*before.findings, *before.warnings)}
    assert {finding.code for finding in after.findings} <= old
    reading = plain_reader.read(path.read_bytes())
    assert (None, None) == (reading.broken, reading.refused)


def check_replacing(session: WritableSession, seqs: tuple[int, ...]) -> None:
    """Replaces a span by the shortest of summaries, or is told that even that is too long."""
    before = session.surface
    prices = {one.seq: one.tokens for one in session.items()}
    pairs = answered(session)
    bench = bench_on(session)
    span = Span(seqs=seqs, tokens=10**9)  # what somebody says it costs is not believed
    short = Summary(text="x", provider="tests", model="by-hand")
    try:
        done = bench.replace(span, lambda: short)
    except Bloated:
        assert sum(prices[seq] for seq in seqs) <= FRAMING_TOKENS + 1
        assert before == session.surface
        assert session.turns.bracket is None
        return
    at = before.seqs.index(seqs[0])
    assert (*before.seqs[:at], done.seq, *before.seqs[at + len(seqs) :]) == session.surface.seqs
    assert before.replace_generation + 1 == session.replace_generation
    assert sum(prices[seq] for seq in seqs) == done.tokens_before > done.tokens_after
    left = set(session.surface.seqs)
    assert [pair for pair in pairs if left & set(pair)] == answered(session)
    if before.head is not None and before.head.kind == "system":
        assert before.head == session.surface.head


def answered(session: WritableSession) -> list[tuple[int, int]]:
    """Each call on the surface that has its result there, as a pair of seqs."""
    pairs: list[tuple[int, int]] = []
    asked: dict[str | None, int] = {}
    for one in session.items():
        if one.answers in asked:
            pairs.append((asked.pop(one.answers), one.seq))
        asked |= dict.fromkeys(one.calls, one.seq)
    return pairs


# What goes wrong ----------------------------------------------------------------------------------


@pytest.fixture
def session(tmp_path: Path) -> Iterator[WritableSession]:
    """The story on disk, open for appending."""
    with open_session(story().write(tmp_path / "log.jsonl")) as opened:
        yield opened


def fails_with(fault: BaseException) -> Callable[[], Summary]:
    """Nobody can write this summary."""

    def write() -> Summary:
        raise fault

    return write


@pytest.mark.parametrize(
    ("write", "family", "words"),
    [
        (fails_with(RuntimeError("no route to host")), RuntimeError, "no route to host"),
        (fails_with(KeyboardInterrupt()), KeyboardInterrupt, "KeyboardInterrupt"),
        (fails_with(RuntimeError("x" * 10_000)), RuntimeError, "x" * 2000),
        (lambda: Summary(text=" \n ", provider="p", model="m"), BackendFailed, "is empty"),
        (lambda: Summary(text=LONG * 9, provider="p", model="m"), Bloated, "is not smaller"),
        (lambda: None, BackendFailed, "is no Summary: it is of type NoneType"),
    ],
    ids=["raises", "interrupted", "rambles", "empty", "bloated", "no summary"],
)
def test_a_failure_closes_the_bracket_with_its_reason(
    write: Callable[[], Any],
    family: type[BaseException],
    words: str,
    session: WritableSession,
) -> None:
    """Nothing is replaced, the reason stands in the log, and the log is right."""
    bench = bench_on(session)
    before = session.surface
    with pytest.raises(family):
        bench.replace(chosen(bench), write)
    assert before == session.surface
    start, end = tail(Path(session.path), 2)
    assert ("compaction/start", "compaction/end") == (start["type"], end["type"])
    assert words in end["data"]["error"]
    assert len(end["data"]["error"]) <= 2000
    assert_right(Path(session.path))
    assert [] == bench.replaced


def test_a_failed_attempt_needs_news_unless_somebody_insists(session: WritableSession) -> None:
    """The same backend does not try that span again; another one does, and so does force."""
    bench = bench_on(session)
    span = chosen(bench)
    with pytest.raises(RuntimeError):
        bench.replace(span, fails_with(RuntimeError("down")))
    assert isinstance(bench_on(session).choose(), NoSpan)
    assert span == bench_on(session, backend="another").choose()
    assert span == bench_on(session, insist=True).choose()


def test_news_in_the_span_make_it_worth_another_attempt(tmp_path: Path) -> None:
    """Once enough has been said behind the failed attempt, the longer span is tried."""
    log = story()
    path = log.write(tmp_path / "log.jsonl")
    with open_session(path) as session:
        bench = bench_on(session)
        with pytest.raises(RuntimeError):
            bench.replace(chosen(bench), fails_with(RuntimeError("down")))
    failed = [json.loads(line) for line in path.read_bytes().splitlines()[-2:]]
    log.appends.append(failed)
    log.next_seq += 2
    path = log.user(f"four: {LONG}").assistant("Yes.").end().write(tmp_path / "later.jsonl")
    with open_session(path) as session:
        assert isinstance(bench_on(session).choose(), Span)


def test_a_span_that_changes_while_it_is_summarised_is_left_alone(
    session: WritableSession,
) -> None:
    """Another hand folded part of it meanwhile: the late summary would speak of what is gone."""
    bench = bench_on(session)
    span = chosen(bench)

    def write() -> Summary:
        inner = Span(seqs=span.seqs[:1], tokens=0)
        session.append([draft_over(inner)])
        return NOTES

    with pytest.raises(BackendFailed, match="changed while its summary was written"):
        bench.replace(span, write)
    assert 1 == session.replace_generation
    assert "changed while" in tail(Path(session.path), 1)[0]["data"]["error"]


def draft_over(span: Span) -> Any:
    """A user message of no compaction that takes the span's place."""
    from dsh_compact.codec.encode import Draft
    from dsh_compact.events import Replace

    content = [{"type": "text", "text": "edited"}]
    data = {"content": content, "source": {"kind": "edit"}, "role": "user", "id": "edit-1"}
    op = Replace(span.start_seq, span.end_seq)
    return Draft(type="user/message", data=data, op=op, sources=span.seqs)


def test_a_resume_behind_the_bracket_ends_the_attempt_without_an_end(
    session: WritableSession,
) -> None:
    """An end behind a `session/end-seed` would make the log unopenable: none is written."""
    from dsh_compact.codec.encode import Draft

    bench = bench_on(session)

    def write() -> Summary:
        session.append([Draft(type="session/end-seed", data={})])
        return NOTES

    with pytest.raises(BackendFailed, match="was closed while its summary was written"):
        bench.replace(chosen(bench), write)
    assert "session/end-seed" == tail(Path(session.path), 1)[0]["type"]
    assert_right(Path(session.path))


def test_a_foreign_append_leaves_the_open_bracket_as_evidence(session: WritableSession) -> None:
    """Somebody wrote without the lock: nothing of ours is put behind it, and a notice says so."""
    bench = bench_on(session)
    path = Path(session.path)

    def write() -> Summary:
        with path.open("ab") as file:
            file.write(b"{}\n")
        return NOTES

    with pytest.raises(ForeignAppend):
        bench.replace(chosen(bench), write)
    assert path.read_bytes().endswith(b"\n{}\n")
    assert "bracket stays open" in bench.notices[0]


class FullDisk(Disk):
    """A disk that is full from the n-th write on."""

    def __init__(self, writes: int) -> None:
        self.left = writes

    def write(self, fd: int, data: bytes) -> int:
        """Takes half of what does not fit."""
        self.left -= 1
        if self.left < 0:
            super().write(fd, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(fd, data)


@pytest.mark.parametrize("writes", [0, 1])
def test_a_full_disk_counts_nothing(writes: int, tmp_path: Path) -> None:
    """The log stays whole at every write that fails; at most the bracket stays open."""
    path = story().write(tmp_path / "log.jsonl")
    disk = FullDisk(writes)
    with open_session(path, disk=disk) as session:
        bench = bench_on(session)
        before = session.surface
        with pytest.raises(WriteFailed):
            bench.replace(chosen(bench), lambda: NOTES)
        assert before == session.surface
        assert writes == len(bench.notices)
    reading = plain_reader.read(path.read_bytes())
    assert (None, None, False) == (reading.broken, reading.refused, reading.torn)
    with open_session(path) as session:
        again = bench_on(session, insist=True)
        again.replace(chosen(again), lambda: NOTES)
    assert_right(path)


@pytest.mark.parametrize(
    ("seqs", "words"),
    [
        (lambda seqs: seqs[:2], "the system message"),
        (lambda seqs: seqs[1:3], "parts a tool call"),
        (lambda seqs: seqs[-2:], "the newest messages must stay"),
        (lambda seqs: (999,), "does not begin on the surface"),
        (lambda seqs: (), "does not begin on the surface"),
    ],
)
def test_what_may_not_go_is_refused_before_anything_is_written(
    seqs: Callable[[tuple[int, ...]], tuple[int, ...]], words: str, session: WritableSession
) -> None:
    """A backend that chooses badly gets an error, and the log no bracket."""
    size = session.size_bytes
    with pytest.raises(BackendFailed, match=words):
        bench_on(session).replace(
            Span(seqs=seqs(session.surface.seqs), tokens=10**9), lambda: NOTES
        )
    assert size == Path(session.path).stat().st_size


def test_compactions_don_t_nest(session: WritableSession) -> None:
    """A summary that starts a compaction of its own fails, and with it the outer one."""
    bench = bench_on(session)
    span = chosen(bench)

    def write() -> Summary:
        bench.replace(span, lambda: NOTES)
        return NOTES

    with pytest.raises(BackendFailed, match="under way"):
        bench.replace(span, write)
    assert 0 == session.replace_generation
    assert_right(Path(session.path))


# Brackets that others left ------------------------------------------------------------------------


def test_a_bracket_that_a_dead_process_left_is_closed_first(tmp_path: Path) -> None:
    """Its lock is free, so nobody holds it: it ends as failed, and ours begins."""
    path = story().user("four").open_bracket().write(tmp_path / "log.jsonl")
    with open_session(path) as session:
        bench = bench_on(session)
        bench.replace(chosen(bench), lambda: NOTES)
    end = tail(path, 5)[0]
    assert ("compaction/end", 4) == (end["type"], end["data"]["turn"])
    assert "abandoned" in end["data"]["error"]
    assert "left open by a process that is gone" in bench.notices[0]
    assert_right(path)


def test_a_stale_bracket_is_passed_over(tmp_path: Path) -> None:
    """Behind a `session/end-seed` a bracket is over; an end would make the log unopenable."""
    path = story().open_bracket().end_seed().write(tmp_path / "log.jsonl")
    with open_session(path) as session:
        bench = bench_on(session)
        bench.replace(chosen(bench), lambda: NOTES)
    assert ["session/end-seed", "compaction/start"] == [r["type"] for r in tail(path, 5)[:2]]
    assert [] == bench.notices
    assert None is plain_reader.read(path.read_bytes()).refused


def test_a_bracket_whose_turn_is_over_needs_repair(tmp_path: Path) -> None:
    """Neither an end nor a new start may follow it: the error says what does help."""
    log = story().user("four").open_bracket()
    log.bracket = None  # the builder would refuse what a broken writer did
    path = log.end().write(tmp_path / "log.jsonl")
    old = path.read_bytes()
    with open_session(path) as session:
        bench = bench_on(session)
        with pytest.raises(LogError, match="dshc repair"):
            bench.replace(chosen(bench), lambda: NOTES)
    assert old == path.read_bytes()


def test_a_revoked_bench_writes_nothing_more(session: WritableSession) -> None:
    """A backend whose time is over may go on: its bracket is closed, its summary not written."""
    bench, may_go, begun = bench_on(session), Event(), Event()
    faults: list[BaseException] = []

    def write() -> Summary:
        begun.set()
        may_go.wait(10)
        return NOTES

    def work() -> None:
        try:
            bench.replace(chosen(bench), write)
        except DshcError as fault:
            faults.append(fault)

    thread = Thread(target=work)
    thread.start()
    assert begun.wait(10)
    bench.revoke("out of time")
    size = Path(session.path).stat().st_size
    may_go.set()
    thread.join(10)
    assert size == Path(session.path).stat().st_size
    assert "out of time" == tail(Path(session.path), 1)[0]["data"]["error"]
    assert 1 == len(faults)
    assert_right(Path(session.path))


def test_a_revoked_bench_begins_nothing(tmp_path: Path) -> None:
    """A backend that comes back late neither prunes nor opens a bracket."""
    path = long_results(4).write(tmp_path / "log.jsonl")
    old = path.read_bytes()
    with open_session(path) as session:
        bench = bench_on(session)
        bench.revoke()
        for late in (
            lambda: bench.prune(BUDGET),
            lambda: bench.replace(chosen(bench), lambda: NOTES),
        ):
            with pytest.raises(BackendFailed, match="its time is over"):
                late()
    assert old == path.read_bytes()


# Pruning ------------------------------------------------------------------------------------------


def long_results(version: int) -> Conversation:
    """An open turn behind two results, one of them long, with a picture in it."""
    picture = {"type": "image", "data": "x" * 40, "name": "graph"}
    log = story(version).user("look")
    log.assistant(calls=[call("p"), call("q")])
    log.result("p", [text("head " * 60), picture, text("tail " * 60)], meta={"exit": 0})
    return log.result("q", "short").assistant("Seen.")


@pytest.mark.parametrize("framed", [False, True], ids=["plain", "framed"])
@pytest.mark.parametrize("version", FORMATS)
def test_a_prune_changes_nothing_but_the_texts(version: int, framed: bool, tmp_path: Path) -> None:
    """Head and tail of a long result stay, and so does everything that is not text."""
    path = long_results(version).write(tmp_path / "log.jsonl", framed=framed)
    with open_session(path) as session:
        bench = bench_on(session)
        wanted = [one.seq for one in session.items() if one.kind == "tool" and one.tokens > 100]
        assert bench.can_prune(BUDGET)
        done = bench.prune(BUDGET)
        assert not bench.can_prune(BUDGET)
        assert [] == bench.prune(BUDGET)
    assert [(seq,) for seq in wanted] == [one.shadowed_seqs for one in done]
    assert list(range(1, len(wanted) + 1)) == [one.generation for one in done]
    assert all(one.tokens_after < one.tokens_before for one in done)
    assert done == bench.pruned
    record = tail(path, 1)[0]
    message = record["data"]["message"]
    content = message["content"] if version == 4 else message["content"][0]["content"]
    assert ["text", "image", "text"] == [block["type"] for block in content]
    assert content[0]["text"].startswith("head head")
    assert content[2]["text"].endswith("tail tail ")
    assert {"exit": 0} == record["data"]["meta"]
    assert_right(path)


def test_a_text_of_which_nothing_is_left_goes(tmp_path: Path) -> None:
    """Providers refuse empty texts: a block between head and tail leaves altogether."""
    log = story().user("look").assistant(calls=[call("p")])
    path = log.result("p", ["a" * 200, "b" * 900, "c" * 200]).write(tmp_path / "log.jsonl")
    with open_session(path) as session:
        bench_on(session).prune(BUDGET)
    texts = [block["text"] for block in tail(path, 1)[0]["data"]["message"]["content"]]
    assert 2 == len(texts)
    assert texts[0].startswith("a" * 100 + "\n\n[… 1150 characters")
    assert "c" * 50 == texts[1]


def test_between_turns_nothing_is_pruned(session: WritableSession) -> None:
    """The harness refuses a log with a prune outside a turn."""
    size = session.size_bytes
    bench = bench_on(session)
    assert (False, []) == (bench.can_prune(BUDGET), bench.prune(BUDGET))
    assert size == Path(session.path).stat().st_size


def test_the_kept_tail_is_not_pruned(tmp_path: Path) -> None:
    """What the pressure path promises to leave raw stays raw; without a tail all may be cut."""
    path = long_results(4).write(tmp_path / "log.jsonl")
    with open_trial(path) as session:
        results = [one for one in session.items() if one.kind == "tool" and one.tokens > 99]
        older, newest = [(one.seq,) for one in results[:-1]], (results[-1].seq,)
        tail_tokens = results[-1].tokens + 40  # the result and the short ones behind it
        kept = bench_on(session, retain_tokens=tail_tokens).prune(BUDGET)
        assert older == [one.shadowed_seqs for one in kept]
        assert [newest] == [one.shadowed_seqs for one in bench_on(session).prune(BUDGET)]


def test_the_policys_budget_is_the_benchs(tmp_path: Path) -> None:
    """Without a word, the budget is that of the policy."""
    path = long_results(4).write(tmp_path / "log.jsonl")
    small = Policy(
        prune_threshold_characters=400, prune_head_characters=100, prune_tail_characters=50
    )
    with open_trial(path) as session:
        assert [] == bench_on(session).prune()
        assert bench_on(session, policy=small).prune()


def test_many_prunes_are_written_together(tmp_path: Path) -> None:
    """Hundreds of results take a few flushes, and each is announced by its own record."""
    log = Conversation(window=8_000).user("go")
    for number in range(150):
        log.assistant(calls=[call(f"c{number}")]).result(f"c{number}", "x" * 500)
    path = log.assistant("Done.").write(tmp_path / "log.jsonl")
    flushes = CountingDisk()
    with open_session(path, disk=flushes) as session:
        assert 150 == len(bench_on(session).prune(BUDGET))
    assert 3 == flushes.count
    assert 150 == assert_right(path).generation


class CountingDisk(Disk):
    """A disk that counts its flushes."""

    count = 0

    def fsync(self, fd: int) -> None:
        """Counts."""
        self.count += 1
        super().fsync(fd)


# What a backend sees ------------------------------------------------------------------------------


def test_a_bench_shows_the_span_and_what_stands_before_it(session: WritableSession) -> None:
    """Messages in order, without the empty ones; the system prompt; the request's header."""
    bench = bench_on(session)
    span = chosen(bench)
    assert [one.role for one in bench.messages(span)][:3] == ["user", "assistant", "tool"]
    assert ["You help."] == [message.text for message in bench.standing_before(span)]
    header = bench.header()
    assert header is not None
    assert "deepseek-v4-flash" == header.model


def test_a_goal_says_when_it_is_enough(session: WritableSession) -> None:
    """Without a goal nothing ever is; with one, as soon as the pressure allows it."""

    def is_small(pressure: Pressure) -> bool:
        return pressure.surface_tokens < 1000

    assert not bench_on(session).is_enough()
    bench = bench_on(session, goal=is_small)
    assert not bench.is_enough()
    bench.replace(chosen(bench), lambda: NOTES)
    assert bench.is_enough()
    assert isinstance(session, WritableSession)
    assert not isinstance(session, TrialSession)
