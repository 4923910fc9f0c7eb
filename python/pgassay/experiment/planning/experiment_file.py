"""Reading an experiment's TOML file: the options of `compare` as keys, factors as a table.

workload = "full-scan"
scale = 100
cache = "cold-each"
max-time = "12m"

[factors]
io_method = ["sync", "worker", "io_uring"]

[set]
shared_buffers = "1GB"
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors import pooler
from pgassay.options.option import FILE, Option
from pgassay.options.table import options_for
from pgassay.value_syntax.paths import typed_path, typed_paths
from pgassay.workloads import pgbench, replay

# What was published of the experiment (`claims/claim_files.py`) changes nothing of it.
TABLES = ("factors", "set", "claim")
# Factors whose levels are told apart by the name of a kind: a comma of an option needs no quotes there.
_KINDS_WITH_OPTIONS = ("storage", pooler.NAME)


def read_file(path: Path, out: Path | None, command: tuple[str, ...]) -> CompareRequest:
    """The request that a TOML file describes; raises UsageError naming the file and the key.

    A workload `sql:FILE` or `maintenance:FILE`, the source of a dataset, and SQL files of `prepare` and `sql`
    are looked for beside the TOML file.
    """
    document = read_document(path)
    refuse_unknown(path, "", document, (*TABLES, *keys(FILE)))
    return CompareRequest(
        factors=_factors(path, document.get("factors")),
        settings=settings_of(path, document.get("set", {})),
        out=out,
        command=command,
        **fields_of(path, document),
    )


def read_document(path: Path) -> dict[str, Any]:
    """A TOML file as it is; raises UsageError for one that can't be read, or is none."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"can't read {path} ({error.strerror}): name a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML ({error}): correct it") from error


def keys(kind: str) -> dict[str, Option]:
    """The options that a kind of file has as keys, `FILE` or `GATE_FILE`, by key."""
    return {option.file_key: option for option in options_for(kind) if option.file_key}


def refuse_unknown(path: Path, table: str, found: Iterable[str], known: Iterable[str]) -> None:
    """Raise UsageError for a key that a table, "" for the file itself, does not have."""
    unknown = [key for key in found if key not in known]
    if unknown:
        where = f" in [{table}]" if table else ""
        raise UsageError(f"{path}: there is no key '{unknown[0]}'{where}: the keys are {', '.join(known)}")


def fields_of(path: Path, document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the request that the keys of a table give; keys that are none of these are left alone.

    Raises UsageError naming the file and the key. Files that a value names are looked for beside the file.
    """
    known = keys(FILE)
    fields = {
        known[key].field: known[key].of_file(given, f"{path}: {key}")
        for key, given in document.items()
        if key in known
    }
    return {name: _BESIDE.get(name, _as_it_is)(path, found) for name, found in fields.items()}


def _beside(path: Path, workload: str) -> str:
    workload = typed_paths(workload)
    family, colon, rest = workload.partition(":")
    if family not in ("sql", "maintenance", replay.FAMILY):
        return f"{family}{colon}{pgbench.with_files(rest, lambda name: str(path.parent / name))}"
    if not colon or Path(rest).is_absolute():
        return workload
    return f"{family}:{path.parent / rest}"


def _dataset_beside(path: Path, dataset: str) -> str:
    kind, colon, rest = dataset.partition(":")
    return f"{kind}:{path.parent / typed_path(rest)}" if colon and rest else dataset


def _sql_beside(path: Path, text: str) -> str:
    """A level or a `prepare` that names an SQL file, looked for beside the TOML file."""
    name, comma, options = text.partition(",")
    return f"{path.parent / typed_path(name)}{comma}{options}" if name.endswith(".sql") else text


def _prepare_beside(path: Path, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_sql_beside(path, text) for text in texts)


def _as_it_is(_path: Path, found: object) -> object:
    return found


_BESIDE: Mapping[str, Callable[[Path, Any], object]] = {
    "workload": _beside, "dataset": _dataset_beside, "prepare": _prepare_beside
}  # fmt: skip


def _factors(path: Path, table: object) -> tuple[str, ...]:
    if not isinstance(table, dict) or not table:
        raise UsageError(f'{path}: no factors: add a table [factors] with io_method = ["sync", "worker"]')
    texts = []
    for name, levels in table.items():
        if not isinstance(levels, list) or not all(isinstance(level, str | int | float) for level in levels):
            raise UsageError(f'{path}: factor {name} is not a list of levels: write {name} = ["a", "b"]')
        if name in ("sql", "prepare"):
            levels = [_sql_beside(path, level) if isinstance(level, str) else level for level in levels]
        texts.append(f"{name}={','.join(_level(name, level) for level in levels)}")
    return tuple(texts)


def _level(name: str, level: str | float | bool) -> str:
    """A level as it is typed on the command line; quoted where a comma would split it."""
    if isinstance(level, bool):
        return "on" if level else "off"
    text = str(level)
    if name.strip().lower() not in _KINDS_WITH_OPTIONS and (
        not text or any(character in text for character in ",' ")
    ):
        return "'" + text.replace("'", "''") + "'"
    return text


def settings_of(path: Path, table: object) -> tuple[str, ...]:
    """The settings of a table as NAME=VALUE; raises UsageError for what is no table of values."""
    if not isinstance(table, dict):
        raise UsageError(f"{path}: [set] is not a table: write NAME = VALUE lines below [set]")
    texts = []
    for name, value in table.items():
        if not isinstance(value, str | int | float):
            raise UsageError(f"{path}: setting {name} = {value!r} is not a value: write a string or a number")
        texts.append(f"{name}={_plain(value)}")
    return tuple(texts)


def _plain(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
