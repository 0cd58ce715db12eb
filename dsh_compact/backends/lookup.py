"""From a name to a backend: built in, a file's, a module's, or another package's entry point.

`NAME` is one of `BUILT_IN` or an entry point of the group `dsh_compact.backends`; `FILE.py:NAME`
and `MODULE:NAME` name a class, a function without arguments that makes one, or an instance. Foreign
code is imported only when it is asked for by name.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Literal

from msgspec import Struct

from dsh_compact.backends import Backend
from dsh_compact.errors import UsageError
from dsh_compact.summarizers import Summarizer

ENTRY_POINTS: Final = "dsh_compact.backends"

DEFAULT: Final = "standard"


class Entry(Struct, frozen=True, kw_only=True):
    """A backend that can be named, and one sentence about it."""

    name: str
    kind: Literal["honest", "hostile", "entry point"]
    module: str
    attribute: str
    sentence: str


_HERE: Final = "dsh_compact.backends"


def _honest(name: str, attribute: str, sentence: str) -> Entry:
    module = f"{_HERE}.{name.replace('-', '_')}"
    return Entry(name=name, kind="honest", module=module, attribute=attribute, sentence=sentence)


def _hostile(name: str, attribute: str, sentence: str) -> Entry:
    module = f"{_HERE}.hostile.{name.replace('-', '_')}"
    return Entry(name=name, kind="hostile", module=module, attribute=attribute, sentence=sentence)


BUILT_IN: Final = {
    entry.name: entry
    for entry in (
        _honest(
            "standard", "Standard", "prunes long tool results, then folds the head into a summary"
        ),
        _honest("prune-only", "PruneOnly", "prunes long tool results and writes no summary"),
        _honest(
            "drop-oldest", "DropOldest", "folds the head into a note that says what was dropped"
        ),
        _hostile("lying", "Lying", "claims that it compacted and changes nothing"),
        _hostile("crash", "Crash", "raises before anything has landed"),
        _hostile("prune-then-crash", "PruneThenCrash", "prunes for real, then raises"),
        _hostile("hang", "Hang", "does not return within its time"),
        _hostile("bloated", "BloatedSummary", "writes a summary longer than what it replaces"),
        _hostile("empty", "Empty", "writes a summary with nothing in it"),
        _hostile("one-token", "OneToken", "moves the generation and saves next to nothing"),
        _hostile("splits-pairs", "SplitsPairs", "parts a tool call from its result"),
        _hostile("folds-system", "FoldsSystem", "folds the system prompt away"),
        _hostile("stale", "Stale", "replaces a span of a surface that is no more"),
        _hostile("memory-only", "MemoryOnly", "changes objects in memory and never the file"),
        _hostile("forger", "Forger", "sets the generation instead of earning it"),
        _hostile("scribbler", "Scribbler", "writes garbage behind the log's end"),
        _hostile("rewriter", "Rewriter", "rewrites what the log already said"),
        _hostile("flaky", "Flaky", "fails the first time and works the second"),
        _hostile("killer", "Killer", "ends the process that it runs in"),
    )
}
"""What ships with the package, honest ones first."""


def load(spec: str, make_summarizer: Callable[[], Summarizer]) -> Backend:
    """The backend that `spec` names; raises `UsageError` where there is none.

    `make_summarizer` is called only for a built-in backend that writes summaries.
    """
    entry = BUILT_IN.get(spec)
    if entry is not None:
        made = getattr(import_module(entry.module), entry.attribute)
        return _instance(made(make_summarizer()) if _summarises(made) else made, spec)
    if ":" in spec:
        source, _, name = spec.rpartition(":")
        return _instance(_attribute(source, name, spec), spec)
    return _instance(_entry_point(spec), spec)


def entries() -> tuple[Entry, ...]:
    """Everything that can be named without a file or module: built in, then entry points."""
    return (*BUILT_IN.values(), *_foreign_entries())


def is_foreign(spec: str) -> bool:
    """Whether the spec names code that does not ship with this package."""
    return spec not in BUILT_IN


def _summarises(made: Any) -> bool:
    return getattr(made, "needs_summarizer", False) is True


def _instance(made: Any, spec: str) -> Backend:
    backend = made() if callable(made) and not hasattr(made, "compact") else made
    if isinstance(backend, type):
        backend = backend()
    if not callable(getattr(backend, "compact", None)):
        raise UsageError(
            f"{spec} is no backend: it has no method compact(bench)",
            'see "Your own backend" in the README',
        )
    if not isinstance(getattr(backend, "name", None), str):
        backend = Named(spec, backend)
    return backend  # type: ignore[no-any-return]  # checked above, by what it can do


class Named:
    """A backend that did not say its name, under the one it was asked for by."""

    def __init__(self, name: str, backend: Any) -> None:
        self.name = name
        self.compact = backend.compact


def _attribute(source: str, name: str, spec: str) -> Any:
    module = _module_of_file(source) if source.endswith(".py") else _imported(source, spec)
    try:
        return getattr(module, name)
    except AttributeError:
        raise UsageError(f"{source} has no {name}", "check the name behind the colon") from None


def _module_of_file(path: str) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    if not Path(path).is_file():
        raise UsageError(f"{path}: no such file", "name an existing FILE.py:NAME")
    name = f"dshc_backend_{Path(path).stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None, "a .py file has a loader"
    assert spec.loader is not None, "a .py file has a loader"
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _imported(name: str, spec: str) -> Any:
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")  # a module beside the user, as with `python -m`
    try:
        return import_module(name)
    except ModuleNotFoundError as fault:
        raise UsageError(f"{spec}: {fault}", "name a module that can be imported") from None


def _entry_point(spec: str) -> Any:
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS, name=spec):
        return point.load()
    raise UsageError(f"there is no backend {spec!r}", 'see "dshc backends" for their names')


def _foreign_entries() -> tuple[Entry, ...]:
    from importlib.metadata import entry_points

    return tuple(
        Entry(
            name=point.name,
            kind="entry point",
            module=point.module,
            attribute=point.attr,
            sentence=f"from {point.dist.name if point.dist is not None else point.module}",
        )
        for point in entry_points(group=ENTRY_POINTS)
    )
