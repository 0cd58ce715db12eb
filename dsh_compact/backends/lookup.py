"""From a name to a backend: built in, a file's, a module's, or another package's entry point.

`NAME` is one of `BUILT_IN` or an entry point of the group `dsh_compact.backends`; `FILE.py:NAME`
and `MODULE:NAME` name a class, a function that makes a backend, or one. What says
`needs_summarizer = True` is called with the summarizer in force, anything else without arguments.
Foreign code is imported only when it is asked for by name.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from dsh_compact.backends import Backend, Claim
from dsh_compact.errors import BackendFailed, DshcError, UsageError
from dsh_compact.summarizers import Summarizer
from dsh_compact.workbench import Workbench

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


MakeSummarizer: TypeAlias = Callable[[], Summarizer]


def load(spec: str, make_summarizer: MakeSummarizer) -> Backend:
    """The backend that `spec` names, made anew.

    `make_summarizer` is called only for one that asks for it. Raises `UsageError` where there is
    none of that name, `BackendFailed` where its own code fails on the way.
    """
    return _made(_found(spec), spec, make_summarizer)


def maker(backend: object, make_summarizer: MakeSummarizer) -> Callable[[], Backend]:
    """What makes a backend anew: out of a name, a class, or a function; out of a backend itself,
    what gives that one again and again.
    """
    if isinstance(backend, str):
        return lambda: load(backend, make_summarizer)
    name = getattr(backend, "__name__", type(backend).__name__)
    return lambda: _made(backend, name, make_summarizer)


def entries() -> tuple[Entry, ...]:
    """Everything that can be named without a file or module: built in, then entry points."""
    return (*BUILT_IN.values(), *_foreign_entries())


def is_foreign(spec: str) -> bool:
    """Whether the spec names code that does not ship with this package."""
    return spec not in BUILT_IN


def _found(spec: str) -> Any:
    """What stands behind the name: a class, a function that makes a backend, or one."""
    entry = BUILT_IN.get(spec)
    if entry is not None:
        return getattr(import_module(entry.module), entry.attribute)
    if ":" not in spec:
        return _entry_point(spec)
    source, _, name = spec.rpartition(":")
    module = _module_of_file(source, spec) if source.endswith(".py") else _imported(source, spec)
    try:
        return getattr(module, name)
    except AttributeError:
        raise UsageError(f"{source} has no {name}", "check the name behind the colon") from None


def _made(found: Any, name: str, make_summarizer: MakeSummarizer) -> Backend:
    backend = found
    if isinstance(found, type) or (callable(found) and not hasattr(found, "compact")):
        needs_summarizer = getattr(found, "needs_summarizer", False) is True
        given = (make_summarizer(),) if needs_summarizer else ()
        with _foreign(name, "cannot be made"):
            backend = found(*given)
    if not callable(getattr(backend, "compact", None)):
        raise UsageError(
            f"{name} is no backend: it has no method compact(bench)",
            'see "Your own backend" in the README',
        )
    if not isinstance(getattr(backend, "name", None), str):
        backend = Named(name, backend)
    return backend  # type: ignore[no-any-return]  # checked above, by what it can do


class Named:
    """A backend that did not say its name, under the one that it was asked for by."""

    def __init__(self, name: str, backend: Any) -> None:
        self.name = name
        self._backend = backend

    def compact(self, bench: Workbench) -> Claim:
        """What the backend does."""
        return self._backend.compact(bench)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


@contextmanager
def _foreign(spec: str, what: str) -> Iterator[None]:
    """While somebody else's code runs: what it raises is told as its failure, with its place."""
    try:
        yield
    except (KeyboardInterrupt, DshcError):
        raise
    except BaseException as fault:
        from dsh_compact.backends.running import words_of

        raise BackendFailed(spec, f"{what}: {words_of(fault)}") from fault


def _module_of_file(path: str, spec: str) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    # Path's own raise where they may not look, and for links that lead round in a circle.
    if not os.path.isfile(path):  # noqa: PTH113
        raise UsageError(f"{path}: no such file", "name an existing FILE.py:NAME")
    file = Path(os.path.realpath(path))
    name = f"dshc_backend_{file.stem}_{hash(file):x}"
    if name in sys.modules:
        return sys.modules[name]
    found = spec_from_file_location(name, file)
    assert found is not None, "a .py file has a loader"
    assert found.loader is not None, "a .py file has a loader"
    module = module_from_spec(found)
    _look_in(str(file.parent))  # for what it imports from beside itself, as `python FILE.py` does
    sys.modules[name] = module
    try:
        with _foreign(spec, "cannot be imported"):
            found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _imported(name: str, spec: str) -> Any:
    _look_in("")  # a module beside the user, as with `python -m`
    try:
        with _foreign(spec, "cannot be imported"):
            return import_module(name)
    except BackendFailed as failed:
        if isinstance(failed.__cause__, ModuleNotFoundError) and failed.__cause__.name == name:
            raise UsageError(f"{spec}: there is no module {name}", "check its name") from None
        raise


def _look_in(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _entry_point(spec: str) -> Any:
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS, name=spec):
        with _foreign(spec, "cannot be imported"):
            return point.load()
    raise UsageError(f"there is no backend {spec!r}", _hint(spec))


def _hint(spec: str) -> str:
    from difflib import get_close_matches

    if spec.endswith(".py"):
        return f"name what is in the file, too: {spec}:NAME"
    near = get_close_matches(spec, [entry.name for entry in entries()], n=1)
    return f"did you mean {near[0]}?" if near else 'see "dshc backends" for their names'


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
