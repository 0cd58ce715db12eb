"""The extractive summarizer: what it keeps, in whose words, within which bound."""

import time
from typing import Final
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talks import ALL, Talk, edit, long_session, read, run, todo, write

from dsh_compact.events import Block, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from dsh_compact.summarizers import Request, SummarizerFailed, Summary, load
from dsh_compact.summarizers.extract.language import PHRASES
from dsh_compact.summarizers.extract.outline import Section
from dsh_compact.summarizers.facts import FactKind, check
from dsh_compact.tokens import price_message, price_text

PLENTY: Final = 4_000

HOSTILE_CHARS: Final = 2_000_000
HOSTILE_SECONDS: Final = 20
"""What a busy machine may take; here the slowest takes three, most a tenth of one."""


def summary_of(talk: Talk, max_tokens: int = PLENTY, wishes: str = "") -> str:
    """The summary's text of a conversation."""
    request = Request(messages=talk.messages, max_tokens=max_tokens, instructions=wishes)
    return load("extractive").summarise(request).text


def section(text: str, name: str) -> list[str]:
    """The entries under a heading, without their bullets."""
    body = text.partition(f"## {name}\n")[2].partition("\n\n## ")[0]
    return [entry.removeprefix("- ") for entry in body.split("\n- ") if entry]


# What it keeps ------------------------------------------------------------------------------------


def test_short_requests_stay_word_by_word() -> None:
    """A user's message of a few lines is in the summary as it was written, line breaks too."""
    talk = Talk().user("Rename Foo to Bar.\nKeep the tests green.").answer("On it.")
    assert ["Rename Foo to Bar.\n  Keep the tests green."] == section(summary_of(talk), "Requests")


def test_what_the_harness_says_in_the_users_name_is_no_request() -> None:
    """A runtime-context message is not in the summary at all."""
    text = summary_of(Talk().note("Working directory: /srv/app").user("Add a README."))
    assert ["Add a README."] == section(text, "Requests")
    assert "/srv/app" not in text


def test_a_correction_is_kept_as_a_decision() -> None:
    """A short message that begins with a correction stands under decisions, whole."""
    talk = Talk().user("Add a cache.").answer("Adding redis.").user("No, use the local disk.")
    text = summary_of(talk)
    assert ["No, use the local disk."] == section(text, "Decisions and corrections")
    assert ["Add a cache."] == section(text, "Requests")


def test_a_reply_keeps_its_question() -> None:
    """A short message behind a question means nothing without it, so both are one entry."""
    talk = Talk().user("Clean up the database.").answer("Done. Drop the table `old_users`?")
    assert ["Drop the table `old_users`? → yes, after a dump"] == section(
        summary_of(talk.user("yes, after a dump")), "Decisions and corrections"
    )


def test_a_message_of_code_alone_is_a_request() -> None:
    """A message without any prose is kept like another, and so is a question inside code."""
    code = "```\nSELECT 1;\n```"
    talk = Talk().user("Run this:").user(code).answer("```?").user(code + "\n--")
    assert ["Run this:", "```\n  SELECT 1;\n  ```", "```\n  SELECT 1;\n  ```\n  --"] == section(
        summary_of(talk), "Requests"
    )


def test_only_the_next_message_replies() -> None:
    """A question is answered once: what the user says next is a request of its own."""
    talk = Talk().user("Clean up.").answer("Drop the table?").user("yes").user("And add an index.")
    text = summary_of(talk)
    assert ["Drop the table? → yes"] == section(text, "Decisions and corrections")
    assert ["Clean up.", "And add an index."] == section(text, "Requests")


def test_rules_inside_a_long_request_are_kept_as_decisions() -> None:
    """Of a request too long to stay whole, sentences that forbid or demand survive."""
    padding = "The old system is described here at length. " * 60
    talk = Talk().user(f"Port the importer. {padding} Never write to the live database. {padding}")
    assert "Never write to the live database." in section(
        summary_of(talk, 400), "Decisions and corrections"
    )


def test_files_are_listed_with_what_was_done_to_them() -> None:
    """Each file once, with its deeds and how often; a failed edit is none."""
    talk = Talk().answer("", read("a.py"), edit("a.py", "x", "y"), edit("a.py", "y", "z"))
    talk.result("x").result("ok").result("ok")
    talk.answer("", write("b.py", "1"), edit("b.py", "?", "!")).result("ok")
    talk.result("old_string not found", error=True)
    assert ["`a.py`: read, edited 2×", "`b.py`: written"] == section(summary_of(talk), "Files")


def test_a_file_named_like_its_tool_is_a_file() -> None:
    """What a call is doesn't hang on how its target begins; other tools stand with the commands."""
    talk = Talk().answer(
        "", read("readme.md"), ("edit", {"path": "editor.py"}), ("web", {"q": "x"})
    )
    text = summary_of(talk.result("a").result("b").result("c"))
    assert ["`readme.md`: read", "`editor.py`: edited"] == section(text, "Files")
    assert ['`web {"q": "x"}` → ok: c'] == section(text, "Commands")


def test_changed_files_outlive_those_that_were_read() -> None:
    """Where room is short, files that were only read go first, however new."""
    talk = Talk().answer("", edit("src/changed.py", "a", "b")).result("ok")
    for number in range(60):
        talk.answer("", read(f"src/package/module_number_{number}.py")).result("x")
    assert "`src/changed.py`: edited" in section(summary_of(talk, 200), "Files")


def test_a_patch_names_its_files() -> None:
    """A call with a patch is an edit of every file in it."""
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n*** Add File: b.py\n+1\n*** End Patch"
    talk = Talk().answer("", ("apply_patch", {"input": patch})).result("Done")
    assert ["`a.py`: edited", "`b.py`: written"] == section(summary_of(talk), "Files")


def test_commands_are_listed_with_their_outcome() -> None:
    """Each command line once, how often it ran, how it ended last and what it printed last."""
    talk = Talk().answer("", run("make test")).result("1 failed\nexit code: 2")
    talk.answer("", run("make test")).result("7 passed\nexit code: 0").answer("", run("sleep 9"))
    assert ["`make test` 2× → ok: 7 passed", "`sleep 9` → no result yet"] == section(
        summary_of(talk), "Commands"
    )


def test_an_error_is_told_with_what_mended_it() -> None:
    """An error's entry holds the error, the files edited before it was gone, and the cause."""
    assert any(
        "AssertionError: assert Decimal('0.12') == Decimal('0.13') → mended: edited "
        "`src/invoices/totals.py`, `src/invoices/line.py`; “The root cause is" in entry
        for entry in section(summary_of(ALL["debugging"]()), "Errors")
    )


def test_an_error_that_nobody_mended_is_still_open() -> None:
    """What failed last and never went well is said to be open."""
    errors = section(summary_of(ALL["analysis"]()), "Errors")
    assert [False, True, True] == [entry.endswith("→ still open") for entry in errors]


def test_all_of_a_command_must_go_well_to_mend_it() -> None:
    """Half of a failed command line that goes well later mends nothing."""
    talk = Talk().answer("", run("make lib && make app")).result("error: no app\nexit code: 2")
    talk.answer("", run("make lib")).result("exit code: 0")
    assert ["`make lib && make app`: error: no app → still open"] == section(
        summary_of(talk), "Errors"
    )
    talk.answer("", run("make app")).result("ok").answer("", run("make app && make lib")).result("")
    assert ["`make lib && make app`: error: no app → mended"] == section(summary_of(talk), "Errors")


def test_open_errors_outlive_mended_ones() -> None:
    """Where room is short, errors that are over go first, however new."""
    talk = Talk().answer("", run("deploy")).result("error: no route to host\nexit code: 1")
    for number in range(60):
        talk.answer("", run(f"make part{number}")).result(f"error: boom {number}\nexit code: 1")
        talk.answer("", run(f"make part{number}")).result("exit code: 0")
    assert "`deploy`: error: no route to host → still open" in section(
        summary_of(talk, 250), "Errors"
    )


def test_printing_a_log_with_errors_is_no_error() -> None:
    """A command that only shows text hasn't failed because the text tells of errors."""
    talk = Talk().answer("", run("cat app.log")).result("Error: boom\nError: bang")
    assert [] == section(summary_of(talk), "Errors")


def test_the_newest_to_do_list_is_the_open_work() -> None:
    """Items of the newest list that aren't done are open; those of older lists are forgotten."""
    talk = Talk().answer("", todo(("old", "pending"))).result("ok")
    talk.answer("", todo(("write docs", "in_progress"), ("fix", "completed"), ("ship", "pending")))
    assert ["write docs (in progress)", "ship"] == section(
        summary_of(talk.result("ok")), "Open work"
    )


def test_boxes_in_an_answer_are_a_to_do_list() -> None:
    """Unticked boxes are open work, ticked ones aren't, and neither is a finding."""
    talk = Talk().user("Go.").answer("Plan:\n- [x] parse 12 files\n- [ ] write 7\n- [ ] test")
    text = summary_of(talk.answer("Now write."))
    assert ["write 7", "test"] == section(text, "Open work")
    assert [] == section(text, "Findings")


def test_open_work_named_long_ago_is_forgotten() -> None:
    """What an answer called open is open only as long as it is among the last answers."""
    talk = Talk().user("Go.").answer("Still missing: the docs.")
    assert ["Still missing: the docs."] == section(summary_of(talk), "Open work")
    for _ in range(3):
        talk.answer("Working.")
    assert [] == section(summary_of(talk), "Open work")


def test_the_last_thing_in_progress_ends_the_summary() -> None:
    """The newest request, the last answer and the call without a result stand at the end."""
    assert [
        "Working on: Good. Do the changelog now, and then make the PDF print the tax of each line.",
        "Said last: Now the PDF.",
        "Done last: `python -m invoices.pdf --sample /tmp/sample.pdf` → no result yet",
    ] == section(summary_of(ALL["debugging"]()), "Last in progress")


def test_going_on_is_not_what_is_worked_on() -> None:
    """`go on` asks for nothing: the request before it is what is in progress."""
    progress = section(summary_of(ALL["refactoring"]()), "Last in progress")
    assert "Working on: wait — keep `ttlSeconds` configurable" in progress[0]


def test_sentences_with_facts_are_findings() -> None:
    """Of an answer the sentences with figures and names are kept, the chatter isn't."""
    talk = Talk().user("How many?").answer("Let me think about it. There are 48,213 orders. Nice!")
    talk.answer("Now something else entirely, which tells nothing.")
    assert ["There are 48,213 orders."] == section(summary_of(talk), "Findings")


def test_a_finding_is_said_once() -> None:
    """A sentence that stands in another section isn't repeated as a finding."""
    for name, talk in ALL.items():
        lines = [line for line in summary_of(talk()).split("\n") if line.startswith("- ")]
        assert len(lines) == len(set(lines)), name


def test_wishes_decide_what_is_kept() -> None:
    """Where room is short, entries that hold a word of the user's wishes are kept."""
    talk = long_session()
    assert "`shop/mailer2/views.py`" not in summary_of(talk, 800)
    assert "`shop/mailer2/views.py`" in summary_of(talk, 800, "keep all about mailer2")


def test_results_of_older_formats_are_read() -> None:
    """Formats 0 and 3 wrap a result into a user's message: no request, and it ends its call."""
    wrapped = ToolResult(call_id="c", content=(Text(text="boom: no such file"),), is_error=True)
    messages = (
        Message(
            role="assistant", content=(ToolCall(id="c", name="bash", arguments='{"command":"x"}'),)
        ),
        Message(role="user", content=(wrapped,), source_kind="tool", call_id="c"),
    )
    text = load("extractive").summarise(Request(messages=messages, max_tokens=500)).text
    assert ["`x`: boom: no such file → still open"] == section(text, "Errors")
    assert [] == section(text, "Requests")


def test_what_is_no_text_is_named() -> None:
    """An image in a request is mentioned, since it can't be kept."""
    image = Opaque(kind="image", json=b'{"type":"image"}', length=16)
    message = Message(role="user", content=(Text(text="Why this?"), image), source_kind="user")
    text = load("extractive").summarise(Request(messages=(message,), max_tokens=500)).text
    assert ["Why this?\n  [attached: image]"] == section(text, "Requests")


def test_reasoning_is_not_kept() -> None:
    """The model's thinking is nobody's statement."""
    message = Message(role="assistant", content=(Reasoning(text="Port 8443 it is, because."),))
    text = load("extractive").summarise(Request(messages=(message,), max_tokens=500)).text
    assert "8443" not in text


def test_it_says_who_wrote_it() -> None:
    """The summary is the offline summarizer's, and cost nothing."""
    made = load("extractive").summarise(Request(messages=Talk().user("x").messages, max_tokens=9))
    assert ("dsh-compact", "extractive", None, None, 0) == (
        made.provider, made.model, made.usage, made.cost_usd, made.requests,
    )  # fmt: skip


# Checkpoints --------------------------------------------------------------------------------------


def test_an_earlier_checkpoint_is_merged_section_by_section() -> None:
    """Its requests, decisions, files and open work go on under the same headings, once each."""
    earlier = summary_of(ALL["debugging"]())
    talk = Talk().checkpoint(earlier).user("Now translate the PDF.")
    talk.answer("", edit("src/invoices/pdf.py", "a", "b"), edit("CHANGELOG.md", "a", "b"))
    text = summary_of(talk.result("ok").result("ok"))
    assert 1 == text.count("## Requests")
    assert [*section(earlier, "Requests"), "Now translate the PDF."] == section(text, "Requests")
    assert section(earlier, "Decisions and corrections") == section(
        text, "Decisions and corrections"
    )
    assert ["`CHANGELOG.md`: edited", "`src/invoices/pdf.py`: edited"] == sorted(
        section(text, "Files")[-2:]
    )
    assert "Print the tax of each line in src/invoices/pdf.py" in section(text, "Open work")


def test_a_newer_fact_replaces_an_older_one() -> None:
    """A file or command that an earlier checkpoint tells of has one entry, the newest."""
    talk = Talk().checkpoint("## Commands\n- `make` → failed\n- `ls` → ok").answer("", run("make"))
    assert ["`ls` → ok", "`make` → ok: built"] == section(
        summary_of(talk.result("built\nexit code: 0")), "Commands"
    )


def test_open_work_of_a_checkpoint_goes_on_until_it_is_done() -> None:
    """It is carried on without what is ticked off, and a newer list takes its place."""
    talk = Talk().checkpoint("## Open work\n- [x] parse\n- write").user("go on, please")
    assert ["write"] == section(summary_of(talk), "Open work")
    talk.answer("", todo(("ship", "pending"))).result("ok")
    assert ["ship"] == section(summary_of(talk), "Open work")


def test_a_framed_message_is_no_request() -> None:
    """A checkpoint that only its frame gives away is merged, not quoted."""
    framed = "Background.\n\n<compacted-summary>\n## Requests\n- port it\n</compacted-summary>"
    assert ["port it", "Test it."] == section(
        summary_of(Talk().user(framed).user("Test it.")), "Requests"
    )


def test_what_was_in_progress_then_is_no_longer() -> None:
    """Of an earlier checkpoint's last section only what was said stays, as a finding."""
    talk = Talk().checkpoint(
        "## Last in progress\n- Working on: the port\n- Said last: halfway there\n"
        "- Done last: `make` → ok\n- rebase next"
    )
    text = summary_of(talk.user("Go on with the tests."))
    assert ["halfway there", "rebase next"] == section(text, "Findings")
    assert ["Working on: Go on with the tests."] == section(text, "Last in progress")


def test_a_models_checkpoint_is_merged_too() -> None:
    """A foreign summary's sections are recognised by the words in their headings."""
    foreign = (
        "## Primary Request and Intent\n- port the parser\n\n"
        "## Key Technical Concepts\n- LALR(1)\n\n"
        "**Errors and fixes:**\n- stack overflow, now iterative\n\n"
        "3. Pending Tasks:\n   - benchmarks\n"
    )
    text = summary_of(Talk().checkpoint(foreign).user("Do the benchmarks."))
    assert ["port the parser", "Do the benchmarks."] == section(text, "Requests")
    assert ["LALR(1)"] == section(text, "Findings")
    assert ["stack overflow, now iterative"] == section(text, "Errors")
    assert ["benchmarks"] == section(text, "Open work")


def test_the_first_request_survives_many_generations() -> None:
    """Ten compactions later the request that began it all is still there, and nothing nests."""
    text = summary_of(ALL["debugging"](), 600)
    for turn in range(10):
        talk = Talk().checkpoint(text).user(f"Now task {turn}.")
        talk.answer(f"Task {turn} took {turn + 10} ms.", run(f"make {turn}")).result("ok")
        text = summary_of(talk, 600)
        assert price_text(text) <= 600
    assert "test_discount_is_applied_before_tax in tests/test_totals.py" in text
    assert "Now task 9." in text
    small = summary_of(Talk().checkpoint(text).user("And now?"), 30)
    assert "test_discount" in small
    assert "task 3" not in small
    assert "<" not in text


# The bound ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("max_tokens", [1, 2, 5, 13, 40, 60, 100, 159, 160, 161, 300, 999])
def test_the_bound_holds(name: str, max_tokens: int) -> None:
    """However small, the bound holds by our own price, and something is said."""
    text = summary_of(ALL[name](), max_tokens)
    assert text.strip()
    assert price_text(text) <= max_tokens


@pytest.mark.parametrize("name", ALL)
def test_sixty_tokens_still_tell_what_was_asked(name: str) -> None:
    """At sixty tokens the first request's beginning and where the work stands are left."""
    talk = ALL[name]()
    first = next(m.text for m in talk.messages if m.source_kind == "user")
    assert first[:24] in summary_of(talk, 60)


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_no_room_is_an_error(max_tokens: int) -> None:
    """A bound below one token holds no summary, and says so with exit code 5."""
    with pytest.raises(
        SummarizerFailed, match=r"summarizer extractive: .* hold no summary"
    ) as caught:
        summary_of(Talk().user("x"), max_tokens)
    assert 5 == caught.value.exit_code


def test_more_room_never_loses_a_request() -> None:
    """From bound to bound the first request is there, and with plenty all of them are."""
    talk = long_session(16)
    asked = [m.text for m in talk.messages if m.source_kind == "user"]
    kept = [
        sum(words[:30] in summary_of(talk, bound) for words in asked) for bound in (200, 800, 3_000)
    ]
    assert kept == sorted(kept)
    assert len(asked) == kept[-1]


def test_what_is_left_out_is_counted() -> None:
    """A section that couldn't keep all its entries says how many it left out."""
    text = summary_of(long_session(), 800)
    files = section(text, "Files")
    assert 128 == len(files) - 1 + int(files[-1].split()[1])


def test_a_count_is_carried_on() -> None:
    """What an earlier checkpoint left out is still counted after a merge."""
    talk = Talk().checkpoint("## Files\n- `a.py`: read\n- … 7 more").user("go")
    assert ["`a.py`: read", "… 7 more"] == section(summary_of(talk), "Files")
    for number in range(99):
        talk.answer("", write(f"source/module_{number}.py", "x")).result("ok")
    files = section(summary_of(talk, 300), "Files")
    assert 1 + 7 + 99 == len(files) - 1 + int(files[-1].split()[1])


def test_an_empty_span_says_that_nothing_was_said() -> None:
    """A span without a word still gets a summary that isn't blank."""
    assert "Nothing was said." == summary_of(Talk())


# Language -----------------------------------------------------------------------------------------

SAID: Final = {
    "en": "Please rename the function and run all the tests.",
    "de": "Bitte benenne die Funktion um und lass alle Tests laufen.",
    "fr": "Renomme la fonction et lance tous les tests, s'il vous plaît.",
    "es": "Cambia el nombre de la función y ejecuta todas las pruebas.",
    "pt": "Muda o nome da função e corre todos os testes, não te esqueças.",
    "ru": "Переименуй функцию и запусти все тесты.",
    "zh": "请重命名这个函数，然后运行 npm test。",
    "ja": "この関数の名前を変えて、npm test を実行してください。",
    "ko": "이 함수의 이름을 바꾸고 npm test를 실행해 주세요.",
}


@pytest.mark.parametrize("code", SAID)
def test_headings_are_in_the_users_language(code: str) -> None:
    """Headings follow what the user speaks, whatever language the tools and answers have."""
    talk = Talk().user(SAID[code]).answer("", run("npm test")).result("ok\nexit code: 0")
    heading = PHRASES[code].headings[Section.REQUESTS]
    assert summary_of(talk).startswith(f"## {heading}\n- {SAID[code]}")


# Hostile texts ------------------------------------------------------------------------------------


def test_nothing_harmful_gets_through() -> None:
    """Escapes, NUL, lone surrogates, direction overrides and frame marks are made harmless."""
    evil = "a\x1b[31mb\x00c\ud800d\u202ee</compacted-summary>f<compacted-summary>g\x9bh"
    talk = Talk().checkpoint(evil).user(evil).answer(evil + " is 12.", run(evil), read(evil))
    text = summary_of(talk.result(evil, error=True).result(evil))
    assert "ab\ufffdc\ufffdd\ufffde[/compacted-summary]f[compacted-summary]g\ufffdh" in text
    assert text.isprintable() or {"\n"} == {c for c in text if not c.isprintable()}
    assert "<compacted-summary>" not in text
    assert "</compacted-summary" not in text


@pytest.mark.parametrize(
    "piece",
    ["a", "://a", "```\n", "?", "- [ ] x\n", "\x1b[31m\0\ud800", " ", "😀", "报告。", "e ",
     "Error: x\n", "<compacted-summary>", "a.b/", "`", "\\", '{"a":', "x. "],
)  # fmt: skip
def test_millions_of_characters_take_seconds(piece: str) -> None:
    """Time is linear, whatever the text and wherever it stands."""
    text = piece * (HOSTILE_CHARS // len(piece))
    talk = Talk().checkpoint(text).user(text).answer(text, run(text), write("a.py", text))
    talk.result(text, error=True).result(text)
    began = time.monotonic()
    assert price_text(summary_of(talk, 500)) <= 500
    assert time.monotonic() - began < HOSTILE_SECONDS


def test_many_messages_take_seconds() -> None:
    """Time is linear in the number of messages too: errors, retries, requests."""
    talk = Talk()
    for turn in range(8_000):
        talk.user(f"Task {turn}: no, not so.").answer(f"I'll do {turn}.", run(f"make {turn % 7}"))
        talk.result(f"Error: {turn}", error=turn % 2 == 0)
    began = time.monotonic()
    assert price_text(summary_of(talk, 2_000)) <= 2_000
    assert time.monotonic() - began < HOSTILE_SECONDS


_TEXTS: Final = st.text(
    st.sampled_from("ab \n.?:`-#[]x0/\\<>\x1b\0\ud800\u202eé中。😀") | st.characters(), max_size=60
) | st.sampled_from(
    [
        "## Files\n- `a`: read",
        "<compacted-summary>",
        "</compacted-summary>",
        "… 3 more",
        "no, 12",
        "?",
    ]
)
_BLOCKS: Final[st.SearchStrategy[Block]] = st.one_of(
    st.builds(Text, text=_TEXTS),
    st.builds(Reasoning, text=_TEXTS),
    st.builds(
        ToolCall,
        id=st.sampled_from("abc"),
        name=_TEXTS | st.sampled_from(["bash", "edit", "todo"]),
        arguments=_TEXTS
        | st.builds('{{"{}":"{}"}}'.format, st.sampled_from(["command", "path", "todos"]), _TEXTS),
    ),
    st.builds(
        ToolResult,
        call_id=st.sampled_from("abc"),
        content=st.tuples(st.builds(Text, text=_TEXTS)),
        is_error=st.booleans(),
    ),
    st.just(Opaque(kind="image", json=b"{}", length=2)),
)
_MESSAGES: Final = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "tool", "system", "developer", "other"]),
    content=st.lists(_BLOCKS, max_size=4).map(tuple),
    source_kind=st.sampled_from(["", "user", "tool", "compact-checkpoint", "runtime-context"]),
    call_id=st.none() | st.sampled_from("abc"),
    is_error=st.booleans(),
)


def summarise(messages: list[Message], max_tokens: int) -> Summary:
    """The summary of any messages."""
    return load("extractive").summarise(Request(messages=tuple(messages), max_tokens=max_tokens))


@given(st.lists(_MESSAGES, max_size=12), st.integers(1, 400))
def test_any_span_has_a_summary_within_its_bound(messages: list[Message], max_tokens: int) -> None:
    """Whatever the messages: never blank, never too long, never harmful, the same every time."""
    text = summarise(messages, max_tokens).text
    assert text.strip()
    assert price_text(text) <= max_tokens
    assert set() == {c for c in text if c != "\n" and category(c) in {"Cc", "Cs"}}
    assert "<compacted-summary>" not in text
    assert text == summarise(messages, max_tokens).text


@given(st.lists(_MESSAGES, max_size=8))
def test_a_summary_of_a_summary_stays_one(messages: list[Message]) -> None:
    """Summing up nothing but a checkpoint neither fails nor nests nor grows beyond its bound."""
    first = summarise(messages, 300).text
    text = summary_of(Talk().checkpoint(first), 300)
    assert price_text(text) <= 300
    assert "compacted-summary>" not in text


# Facts: the floor ---------------------------------------------------------------------------------

FLOOR: Final = {
    # share of the span's tokens → least ratio of facts kept, over all kinds, on every conversation
    0.50: 0.90,
    0.25: 0.55,
    0.15: 0.20,
}
"""What the summarizer promises on conversations of a page, where every sentence is a fact. The
conversations in `talks` keep 0.94, 0.61 and 0.24 at worst."""

LONG_FLOOR: Final = {8_000: 0.85, 4_000: 0.45, 2_000: 0.22}
"""The same on a session of 288,000 tokens: bound in tokens → least ratio."""


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("share", FLOOR)
def test_facts_are_kept_down_to_a_floor(name: str, share: float) -> None:
    """On real conversations' shapes the summary keeps what `FLOOR` says."""
    messages = ALL[name]().messages
    bound = int(share * sum(map(price_message, messages)))
    report = check(messages, summarise([*messages], bound).text)
    assert report.ratio >= FLOOR[share]


@pytest.mark.parametrize("bound", LONG_FLOOR)
def test_facts_of_a_long_session_are_kept_down_to_a_floor(bound: int) -> None:
    """A summary of a fortieth of the session keeps most facts, of a hundredth a fifth."""
    messages = long_session().messages
    report = check(messages, summarise([*messages], bound).text)
    assert report.ratio >= LONG_FLOOR[bound]


@pytest.mark.parametrize("name", ALL)
def test_instructions_are_the_last_to_go(name: str) -> None:
    """At a quarter of the span's tokens no kind of fact is kept better than the user's words."""
    messages = ALL[name]().messages
    bound = sum(map(price_message, messages)) // 4
    report = check(messages, summarise([*messages], bound).text)
    assert report.of(FactKind.INSTRUCTION).ratio >= 0.6
