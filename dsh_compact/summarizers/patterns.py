"""What stands out in a text: paths, names, numbers, the lines that tell an error.

Shared by the summarizer that keeps such things and the check that counts which were kept, so that
both mean the same. Texts are hostile: every scanner is one pass over bounded runs of characters, so
the time is linear whatever the text, and nothing raises.
"""

import re
from collections.abc import Iterator
from typing import Final

LONGEST_PATH_CHARS: Final = 260
"""A longer run is no path that anybody would open: base64, a hash list, minified code."""

LONGEST_NAME_CHARS: Final = 80
"""A longer identifier is generated."""

LONGEST_LINE_CHARS: Final = 400
"""So much of a line is looked at for an error: what went wrong stands at its beginning."""

LONGEST_REMARK_CHARS: Final = 80
"""A longer last line tells more than an exit code."""

MOST_ERROR_LINES: Final = 200
"""Lines of one text, for each clue, that are weighed as the telling one, half of them its last."""


# Harmless text ------------------------------------------------------------------------------------

_ESCAPE_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-9;:?]{0,32}[ -/]?[@-~]|\][^\x07\x1b]{0,256}\x07?)"
)
_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
_FRAME_MARK: Final = re.compile(r"<(/?[ \t]{0,8}compacted-summary)(>?)", re.IGNORECASE)


def harmless(text: str) -> str:
    r"""`text` without what a terminal or a parser might obey.

    Escape sequences go, line ends become `\n`, any other control or invisible character and every
    lone surrogate becomes U+FFFD, and the checkpoint's frame marks lose their angle brackets. The
    result is never longer than `text`.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _ESCAPE_SEQUENCE.sub("", text)
    if not text.isascii() or _CONTROL.search(text):
        text = _CONTROL.sub("\ufffd", text)
    return _FRAME_MARK.sub(_unframed, text) if "<" in text else text


def _unframed(mark: re.Match[str]) -> str:
    return f"[{mark[1]}{']' if mark[2] else ''}"


def one_line(text: str) -> str:
    """`text` with every run of white space as one space."""
    return " ".join(text.split())


# Paths --------------------------------------------------------------------------------------------

_PATH_RUN: Final = re.compile(
    rf"[A-Za-z0-9_./\\~@+%#\u00c0-\u024f\u0400-\u04ff-]{{3,{LONGEST_PATH_CHARS}}}"
)

_EXTENSION_WORDS: Final = """
    adoc asm avro bash bat bib bin bz2 c cc cfg cjs clj cmake cmd conf cpp cs css csv cu cxx
    dart db diff dll dockerfile docx dot el elm env erl ex exs f90 fish fs go gradle graphql
    groovy gz h h5 hcl hpp hs html hxx ico ini ipynb jar java jl jpeg jpg js json json5 jsonl
    jsx kt kts less lock log lua m4 make md mdx mjs mk ml mli mm mov mp3 mp4 ndjson nim nix npy
    npz onnx odt parquet patch pb pdf php pkl pl plist png po ppt pptx pro properties proto ps1
    psd pt pth py pyc pyi pyx qml r rake rar rb rds rlib rs rst rtf sass scala scss sh sln so
    sol sql sqlite sqlite3 srt svelte svg swift tar tcl tex tf tfvars tgz tif tiff toml tpl ts
    tsv tsx txt typ v vb vhd vim vue wasm wav webp whl woff2 xls xlsx xml xsd xz yaml yml zig
    zip zsh zst zstd
"""
_EXTENSIONS: Final = frozenset(_EXTENSION_WORDS.split())
"""What a file's name ends in, where nothing else tells that a word is one."""

_NOT_FILES: Final = {
    "node.js", "next.js", "vue.js", "react.js", "d3.js", "three.js", "nuxt.js", "express.js",
    "ember.js", "deno.js",
}  # fmt: skip
"""Products that are named like files."""

_URL: Final = re.compile(r"(?<![a-z0-9+])[a-z][a-z0-9+]{1,9}://[^\s<>\"'`]{1,2000}")


def paths(text: str) -> list[str]:
    """The file paths that `text` names, each once, in the order of their first appearance.

    A path has a directory or a known extension; URLs, dates and fractions are none.
    """
    if "://" in text:
        text = _URL.sub(" ", text)
    found: dict[str, None] = {}
    for run in _PATH_RUN.findall(text):
        word = run.rstrip(".-#@+%~").lstrip("@+%#")
        if ("." in word or "/" in word or "\\" in word) and is_path(word):
            found[word] = None
    return [*found]


def is_path(word: str) -> bool:
    """Whether a word without white space names a file or a directory."""
    if not 3 <= len(word) <= LONGEST_PATH_CHARS or ".." in word.strip("./\\"):
        return False
    folders, _, name = word.replace("\\", "/").rpartition("/")
    stem, dot, extension = name.rpartition(".")
    known = bool(dot) and extension.lower() in _EXTENSIONS
    if not folders and "/" not in word:
        return known and bool(stem) and not stem[0].isdigit() and word.lower() not in _NOT_FILES
    if not any(character.isalpha() for character in word):
        return False
    if word[0] in "/~." or known:
        return len(word.strip("/.~\\")) > 1
    return (bool(dot) and bool(stem) and extension.isalnum()) or folders.count("/") >= 1


def last_part(path: str) -> str:
    """A path's own name, without its folders."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


# Names and numbers --------------------------------------------------------------------------------

_NAME_RUN: Final = re.compile(
    rf"(?<![A-Za-z0-9_./\\-])(?:--)?[A-Za-z_][A-Za-z0-9_]{{0,{LONGEST_NAME_CHARS}}}"
    rf"(?:(?:\.|::|->|-)[A-Za-z_][A-Za-z0-9_]{{0,{LONGEST_NAME_CHARS}}}){{0,6}}(?:\(\))?"
)
_CAMEL: Final = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_NUMBER: Final = re.compile(
    r"(?<![A-Za-z0-9_.,:/\\#-])[-−]?\d{1,20}(?:[.,:]\d{1,20}){0,4}"
    r"(?:%|[µmnk]?s|min|h|[KMGTkmg]i?[Bb]?|px|x)?(?![A-Za-z0-9_/\\])"
)


def names(text: str) -> list[str]:
    """The identifiers of code in `text`, each once: what prose would not spell so.

    A name with an underscore, a change of case inside, dots or colons, a call's brackets, or a
    flag.
    """
    found: dict[str, None] = {}
    for run in _NAME_RUN.findall(text):
        word = run.strip("_-") if not run.startswith("--") else run
        if len(word) >= 3 and _is_name(word):
            found[word.removesuffix("()")] = None
    return [*found]


def _is_name(word: str) -> bool:
    if word.startswith("--") or word.endswith("()") or "::" in word or "->" in word:
        return True
    if "_" in word:
        return True
    if "-" in word:
        return False
    if "." in word:
        return not is_path(word) and all(len(part) > 1 for part in word.split("."))
    return bool(_CAMEL.search(word))


def numbers(text: str) -> list[str]:
    """The numbers of `text` that tell something, each once, with a unit that is written to them.

    A lone digit is none, and neither is a part of a word, a path or a colour.
    """
    found = (number for number in _NUMBER.findall(text) if len(number) > 1)
    return [*dict.fromkeys(found)]


# Errors -------------------------------------------------------------------------------------------

_ERROR_CLUES: Final = (
    "error", "exception", "fail", "fatal", "panic", "traceback", "denied", "not found", "no such",
    "cannot", "can't", "could not", "undefined", "unresolved", "refused", "timed out", "timeout",
    "abort", "segfault", "segmentation", "not enough", "mismatch", "invalid", "unexpected",
    "expected", "unknown", "conflict", "missing", " want ", "✗", "✘", "fehler", "erreur", "ошибк",
    "错误", "失败", "エラー", "오류",
)  # fmt: skip
"""What a line that tells an error holds, in lower case. Searched one by one: each search is one
pass in C, where a pattern of alternatives would try them all at every character."""

_ERROR_WITH_MESSAGE: Final = re.compile(
    r"(?:^|[\s:.])[A-Z]\w{0,60}(?:Error|Exception|Panic|Fault)\b[^\n:]{0,24}: \S"
    r"|(?:^|[\s:])(?:error|fatal|panic|emerg|ERROR|FATAL)(?:\[\w{1,12}\]| \w{1,12})?[\]:] ?\S"
    r"|^\S{1,200}\.\w{1,6}:\d{1,7}:(?:\d{1,5}:)? \S"
)
_ERROR_NAMED: Final = re.compile(
    r"(?:^|[\s:.])[A-Z]\w{0,60}(?:Error|Exception|Panic|Fault)\b|\b(?:FAILED|FAIL|fatal|panic)\b|[✗✘]"
)
_FAILURES_ZERO: Final = re.compile(r"\b(?:0|no) (?:errors?|failures?|failed)\b", re.IGNORECASE)
_EXIT_CODE: Final = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: code| status)?|return(?:ed)? code|rc|status)[ :=]{1,3}"
    r"(-?\d{1,5})\b",
    re.IGNORECASE,
)


def error_lines(text: str, most: int) -> list[str]:
    """At most `most` lines of `text` that tell what went wrong, in their order.

    A line with an error and its message beats one that only names an error, and that beats a mere
    mention. Of equals the last comes first, then the first: the end of a traceback, and a
    compiler's first complaint. Lines are cut at `LONGEST_LINE_CHARS`.
    """
    lines = [*dict.fromkeys(_clue_lines(text))]
    kinds: tuple[list[str], ...] = ([], [], [])
    for line in lines:
        kinds[
            0 if _ERROR_WITH_MESSAGE.search(line) else 1 if _ERROR_NAMED.search(line) else 2
        ].append(line)
    told = next((kind for kind in kinds if kind), [])
    chosen = {*told[-1:], *told[: most - 1]} if most > 1 else {*told[-1:]}
    return [line for line in lines if line in chosen]


def _clue_lines(text: str) -> list[str]:
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter that grows when it is lowered: keep the places true
        lowered = text
    starts = {start for clue in _ERROR_CLUES for start in _starts(lowered, clue)}
    lines = (one_line(text[start : _line_end(text, start)]) for start in sorted(starts))
    return [line for line in lines if not _FAILURES_ZERO.search(line)]


def _starts(text: str, clue: str) -> Iterator[int]:
    """Where the lines with `clue` begin: the first ones, and the last ones."""
    at = 0
    for _ in range(MOST_ERROR_LINES // 2):
        if (place := text.find(clue, at)) < 0:
            return
        yield _line_start(text, place)
        at = _line_end(text, place)
    low, at = at, len(text)
    for _ in range(MOST_ERROR_LINES // 2):
        if (place := text.rfind(clue, low, at)) < 0:
            return
        at = _line_start(text, place)
        yield at


def _line_start(text: str, place: int) -> int:
    floor = max(0, place - LONGEST_LINE_CHARS // 2)
    return max(text.rfind("\n", floor, place) + 1, floor)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start, start + LONGEST_LINE_CHARS)
    return min(len(text), start + LONGEST_LINE_CHARS) if end < 0 else end


def exit_code(text: str) -> int | None:
    """The exit code that a tool's output states at its beginning or end, None where it doesn't."""
    for piece in (text[-200:], text[:200]):
        if found := _EXIT_CODE.findall(piece):
            return int(found[-1])
    return None


def without_exit_code(text: str) -> str:
    """`text` without a last line that tells only how the command ended, and no blanks behind.

    That is an exit code alone, or a harness's remark in brackets that states one.
    """
    text = text.rstrip()
    end = text.rfind("\n") + 1
    line = text[end:].strip()
    if len(line) > LONGEST_REMARK_CHARS:
        return text
    bare = line.strip("[]().")
    remark = line[:1] in {"[", "("} and _EXIT_CODE.search(line)
    return text[:end].rstrip() if remark or _EXIT_CODE.fullmatch(bare) else text


# Sentences ----------------------------------------------------------------------------------------

_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])\s+|\n+|(?<=[。！？；])")


def sentences(text: str) -> list[str]:
    """The sentences and lines of prose, without fenced code; each on one line, none blank."""
    if "```" in text:
        text = "\n".join(text.split("```")[::2])
    return [line for part in _SENTENCE_END.split(text) if (line := one_line(part))]
