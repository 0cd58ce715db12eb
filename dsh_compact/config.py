"""Configuration: what is in force for a log's provider and model, and who said so.

Defaults < one file < environment (`DSHC_…`) < flags. The file is the first of `dshc.toml` beside
the log, `dshc.toml` in the working directory, and `[tool.dshc]` in `pyproject.toml` there; others
are not read. Its `[[models]]` tables overrule its other values for their provider and model. A
wrong value is an error that names the key and where it stands.

This module reads, and runs nothing: a file may name a backend or a summarizer, but whether that is
to be trusted is decided where it is loaded.
"""

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from dsh_compact.errors import UsageError
from dsh_compact.events import Header
from dsh_compact.policy import DEFAULT, Policy, PolicyWrong, check_tail

FILE: Final = "dshc.toml"
PYPROJECT: Final = "pyproject.toml"

PREFIX: Final = "DSHC_"
"""`DSHC_RETAIN_TOKENS` sets `retain_tokens`, and so on."""

TRUST: Final = f"{PREFIX}TRUST"
"""Set to 1, it stands for `--trust`: whatever a file names may be run."""

MOST_BYTES: Final = 1 << 20
"""A file of settings is a page of text; what is longer is something else."""

FILES_REMEMBERED: Final = 16
"""Parsed files that are kept: for thousands of logs it is the same one or two, and parsing a
project's file costs five times as much as measuring a small log."""

ALIKE: Final = 0.85
"""How much an unknown variable must look like one of ours to be taken for a slip of the pen."""

KEYS: Final = Policy.__struct_fields__

_FLAGS: Final = {"window_tokens": "--window"}
"""Flags whose name is not that of their key."""

Kind: TypeAlias = Literal["default", "file", "environment", "flag"]


class Origin(Struct, frozen=True, kw_only=True):
    """Who said a value: `where` is the file (and table), the variable or the flag."""

    kind: Kind
    where: str = ""


class ConfigWrong(UsageError):
    """A value cannot be used; `key` names it (empty: the file as a whole), `where` its place."""

    def __init__(self, key: str, where: str, problem: str, remedy: str = "") -> None:
        super().__init__(f"{where}: {f'{key}: ' if key else ''}{problem}", remedy)
        self.key = key
        self.where = where


class Resolved(Struct, frozen=True, kw_only=True):
    """What is in force for `provider` and `model` (None: unknown), and the origin of each value.

    `file` is the file that was read, `unread` are others that would have been.
    """

    policy: Policy
    origins: Mapping[str, Origin]
    provider: str | None
    model: str | None
    file: str | None = None
    unread: tuple[str, ...] = ()

    def check_window(self, window_tokens: int) -> None:
        """Raises `ConfigWrong` where `retain_tokens` is not below the threshold of the window."""
        try:
            check_tail(self.policy, window_tokens)
        except PolicyWrong as fault:
            raise _wrong(fault, self.origins) from None


def resolve(
    log_path: str,
    provider: str | None = None,
    model: str | None = None,
    flags: Mapping[str, object] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: str = ".",
) -> Resolved:
    """What is in force for the log at `log_path`, whose requests go to that provider and model.

    `flags` are values by key, None where a flag was not given; `environment` and `folder` stand in
    for the process's own. Raises `ConfigWrong`.
    """
    return load(log_path, flags, environment=environment, folder=folder).resolve(provider, model)


def load(
    log_path: str,
    flags: Mapping[str, object] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: str = ".",
) -> "Config":
    """The configuration of the log at `log_path`, all of it checked; raises `ConfigWrong`."""
    file, unread = _find(log_path, folder)
    tables = _Tables({}, {}) if file is None else _read(file)
    config = Config(
        file=None if file is None else file.where,
        unread=unread,
        common=_Layer("file", "" if file is None else file.where, tables.common),
        models=tables.models,
        environment=_from_environment(os.environ if environment is None else environment),
        flags=_from_flags(flags or {}),
    )
    config.resolve(None, None)
    for provider, model in config.models:
        config.resolve(provider, model)
    return config


class Config(Struct, frozen=True, kw_only=True):
    """All that was said, by place, for every provider and model."""

    file: str | None
    unread: tuple[str, ...]
    common: "_Layer"
    models: "dict[tuple[str, str], _Layer]"
    environment: "tuple[_Layer, ...]"
    flags: "tuple[_Layer, ...]"

    def resolve(self, provider: str | None, model: str | None) -> Resolved:
        """What is in force for that provider and model."""
        values: dict[str, Any] = {}
        origins = {key: Origin(kind="default") for key in KEYS}
        for layer in self._layers(provider, model):
            if "retain_ratio" in layer.values:  # one form overrules the other
                values.pop("retain_tokens", None)
                origins["retain_tokens"] = Origin(kind="default")
            values |= layer.values
            origins |= dict.fromkeys(layer.values, layer.origin)
        try:
            policy = Policy(**values)
        except PolicyWrong as fault:
            raise _wrong(fault, origins) from None
        return Resolved(
            policy=policy,
            origins=origins,
            provider=provider,
            model=model,
            file=self.file,
            unread=self.unread,
        )

    def resolve_for(self, header: Header | None) -> Resolved:
        """What is in force for the requests that a log's `header` describes; None: none yet."""
        if header is None:
            return self.resolve(None, None)
        return self.resolve(header.provider, header.model)

    def _layers(self, provider: str | None, model: str | None) -> "Iterator[_Layer]":
        """The weakest first."""
        yield self.common
        if provider is not None and model is not None and (provider, model) in self.models:
            yield self.models[provider, model]
        yield from self.environment
        yield from self.flags


def _wrong(fault: PolicyWrong, origins: Mapping[str, Origin]) -> ConfigWrong:
    """The fault with the place of the value that somebody said: its own, or one it does not fit."""
    said = (origins[key].where for key in (fault.key, *fault.others) if origins[key].where)
    return ConfigWrong(fault.key, next(said, "defaults"), fault.reason)


class _Layer(Struct, frozen=True):
    """Values from one place."""

    kind: Kind
    where: str
    values: dict[str, Any]

    @property
    def origin(self) -> Origin:
        return Origin(kind=self.kind, where=self.where)


# The file ---------------------------------------------------------------------------------------


class _File(Struct, frozen=True):
    """A file of settings and its bytes."""

    where: str
    content: bytes


class _Tables(Struct, frozen=True):
    """What stands in a file: for every model, and for some."""

    common: dict[str, Any]
    models: dict[tuple[str, str], _Layer]


def _find(log_path: str, folder: str) -> tuple[_File | None, tuple[str, ...]]:
    """The file in force, and those that are not read because of it."""
    found: _File | None = None
    unread: list[str] = []
    for path in _candidates(log_path, folder):
        content = _content(path)
        if content is None:
            continue
        if found is None:
            found = _File(str(path), content)
        else:
            unread.append(str(path))
    return found, tuple(unread)


def _candidates(log_path: str, folder: str) -> list[Path]:
    here = Path(folder)
    log = here / log_path
    is_folder = os.path.isdir(log)  # noqa: PTH112, the Path's own raises where it may not look
    beside = [] if log_path == "-" else [(log if is_folder else log.parent) / FILE]
    own = here / FILE
    if beside and _is_same(beside[0], own):
        beside = []
    return [*beside, own, here / PYPROJECT]


def _is_same(left: Path, right: Path) -> bool:
    try:
        return left.samefile(right)
    except OSError:
        return False


def _content(path: Path) -> bytes | None:
    """What stands in the file; None where there is none, or a project's without our table."""
    try:
        found = path.stat()
        if not S_ISREG(found.st_mode):
            raise ConfigWrong("", str(path), "is no regular file", "move it away")
        if found.st_size > MOST_BYTES and path.name == FILE:
            raise ConfigWrong("", str(path), f"has more than {MOST_BYTES} bytes", "shorten it")
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as fault:
        raise ConfigWrong("", str(path), f"cannot be read: {fault.strerror}") from None
    if path.name != PYPROJECT:
        return content
    return content if b"dshc" in content and _own_table(str(path), content) is not None else None


def _read(file: _File) -> _Tables:
    if file.where.endswith(PYPROJECT):
        table = _own_table(file.where, file.content)
        assert table is not None, "a project's file without our table is not in force"
    else:
        table = _parsed(file.where, file.content)
    common = {key: value for key, value in table.items() if key != "models"}
    return _Tables(
        _checked(common, file.where, also=("models",)), _models(table.get("models", []), file.where)
    )


def _own_table(where: str, content: bytes) -> dict[str, Any] | None:
    tool = _parsed(where, content).get("tool")
    table = tool.get("dshc") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ConfigWrong("tool.dshc", where, "is no table")
    return table


@lru_cache(maxsize=FILES_REMEMBERED)  # what it returns is read and never changed
def _parsed(where: str, content: bytes) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(content.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as fault:
        problem = "nests too deeply" if isinstance(fault, RecursionError) else str(fault)
        raise ConfigWrong("", where, f"is no TOML: {problem}") from None


def _models(tables: object, where: str) -> dict[tuple[str, str], _Layer]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigWrong("models", where, "is no list of tables", "write [[models]]")
    found: dict[tuple[str, str], _Layer] = {}
    for number, table in enumerate(tables, 1):
        place = f"{where}, [[models]] {number}"
        names = (_name(table, "provider", place), _name(table, "model", place))
        if names in found:
            raise ConfigWrong(
                "models",
                place,
                f"{'/'.join(names)} stands there twice",
                "put its values into one table",
            )
        own = {key: value for key, value in table.items() if key not in ("provider", "model")}
        values = _checked(own, place, also=("provider", "model"))
        found[names] = _Layer("file", place, values)
    return found


def _name(table: dict[str, Any], key: str, where: str) -> str:
    name = table.get(key)
    if not isinstance(name, str) or not name:
        raise ConfigWrong(key, where, "a table of [[models]] names a provider and a model")
    return name


# Values -----------------------------------------------------------------------------------------


def _checked(values: dict[str, Any], where: str, also: tuple[str, ...] = ()) -> dict[str, Any]:
    """The values, each of the type of its key; `also` are keys that may stand there besides."""
    for key, value in values.items():
        if key not in KEYS:
            raise ConfigWrong(key, where, "there is no such key", _neighbours(key, also))
        if not isinstance(value, _type_of(key)):
            raise ConfigWrong(key, where, f"{value!r:.60} {_WRONG[_type_of(key)]}")
        if value == "":
            raise ConfigWrong(key, where, "is empty", "leave it out")
    if "retain_ratio" in values and "retain_tokens" in values:
        raise ConfigWrong(
            "retain_tokens", where, "retain_ratio is set there too", "keep one of the two"
        )
    return values


def _type_of(key: str) -> type[Any] | tuple[type[Any], ...]:
    """The units in a key's name tell: a ratio or a time is a number, a count a whole one; what is
    neither is text, unless its default says that it is a switch.
    """
    if isinstance(getattr(DEFAULT, key), bool):
        return bool
    unit = key.rpartition("_")[2]
    if unit in ("ratio", "seconds"):
        return (int, float)
    return int if unit in ("tokens", "retries", "characters") else str


_WORDS: Final = {"1": True, "true": True, "0": False, "false": False}
"""A switch in a variable, in any case."""

_WRONG: Final[dict[Any, str]] = {
    (int, float): "is no number",
    int: "is no whole number",
    str: "is no text",
    bool: "is neither true nor false",
}


def _neighbours(key: str, also: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, (*KEYS, *also), n=1)
    return f"did you mean {near[0]}?" if near else 'see "dshc config" for all keys'


def _from_environment(environment: Mapping[str, str]) -> tuple[_Layer, ...]:
    names = {key: PREFIX + key.upper() for key in KEYS}
    said = {key: name for key, name in names.items() if name in environment}
    return _one_form(
        tuple(
            _Layer("environment", name, _checked({key: _of_text(key, environment[name])}, name))
            for key, name in said.items()
        )
    )


def _from_flags(flags: Mapping[str, object]) -> tuple[_Layer, ...]:
    said = {key: value for key, value in flags.items() if value is not None}
    names = {key: _FLAGS.get(key, f"--{key.replace('_', '-')}") for key in said}
    return _one_form(
        tuple(
            _Layer("flag", names[key], _checked({key: value}, names[key]))
            for key, value in said.items()
        )
    )


def _one_form(layers: tuple[_Layer, ...]) -> tuple[_Layer, ...]:
    places = {key: layer.where for layer in layers for key in layer.values}
    if "retain_ratio" in places and "retain_tokens" in places:
        raise ConfigWrong(
            "retain_tokens",
            places["retain_tokens"],
            f"{places['retain_ratio']} is set too",
            "keep one of the two",
        )
    return layers


def _of_text(key: str, text: str) -> Any:
    """A variable's text as its key wants it; what cannot be stays text, for the check to refuse."""
    if _type_of(key) is str:
        return text
    if _type_of(key) is bool:
        return _WORDS.get(text.lower(), text)
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables that look like ours and set nothing, each with the one that may be meant."""
    from difflib import get_close_matches

    ours = [PREFIX + key.upper() for key in KEYS]
    found = []
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in (*ours, TRUST):
            near = get_close_matches(name, ours, n=1, cutoff=ALIKE)
            found += [f"{name} sets nothing; did you mean {one}?" for one in near]
    return found


def is_trusted(flag: bool, environment: Mapping[str, str] | None = None) -> bool:
    """Whether what a file names may be run: `--trust` or `DSHC_TRUST=1`."""
    said = (os.environ if environment is None else environment).get(TRUST, "")
    return flag or said not in ("", "0")
