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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.experiment import BASELINES, BETWEEN, COVARIATES, DECIDE, OBSERVE, PLAN_KINDS, RESTART
from pgassay.typed.quantities import seconds
from pgassay.workloads import pgbench, replay

# Key of the file → (field of the request, type it must have).
_KEYS: Mapping[str, tuple[str, type | tuple[type, ...]]] = {
    "workload": ("workload", str),
    "metric": ("metric", str),
    "scale": ("scale", int),
    "dataset": ("dataset", str),
    "prepare": ("prepare", (str, list)),
    "settle": ("settle", str),
    "cache": ("cache", str),
    "storage": ("storage", str),
    "memory": ("memory", str),
    "cpus": ("cpus", (str, int, float)),
    "pg": ("build", str),
    "control": ("control", str),
    "stratum": ("strata", (str, list)),
    "blocks": ("blocks", int),
    "max-time": ("max_time_s", (str, int, float)),
    "margin": ("margin", (int, float)),
    "alpha": ("alpha", (int, float)),
    "seed": ("seed", int),
    "skip-unavailable": ("skip_unavailable", bool),
    "pool": ("pool_twin", bool),
    "covariate": ("covariate", str),
    "observe": ("observe", str),
    "between": ("between", str),
    "decide": ("decide", str),
    "restart": ("restart", str),
    "plans": ("plans", str),
    "baseline": ("baseline", str),
    "server": ("server", str),
    "swap": ("swap", str),
    "allow-writes": ("allow_writes", str),
    "vcpus": ("vcpus", (str, int, float)),
    "before-trial": ("before_trial", str),
}
# What was published of the experiment (`claiming/files.py`) changes nothing of it.
_TABLES = ("factors", "set", "claim")
# Keys whose value is one of a few words: the field, what it is where nothing is said, and the words.
_WORDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("covariate", "none", COVARIATES),
    ("observe", "normal", OBSERVE),
    ("between", "nothing", BETWEEN),
    ("decide", "arms", DECIDE),
    ("restart", "each", RESTART),
    ("plans", "work", PLAN_KINDS),
    ("baseline", "fixed", BASELINES),
)


def read_file(path: Path, out: Path | None, command: tuple[str, ...]) -> CompareRequest:
    """The request that a TOML file describes; raises UsageError naming the file and the key.

    A workload `sql:FILE` or `maintenance:FILE`, the source of a dataset, and SQL files of `prepare` and `sql`
    are looked for beside the TOML file.
    """
    document = read_document(path)
    unknown = [key for key in document if key not in _KEYS and key not in _TABLES]
    if unknown:
        known = ", ".join([*_TABLES, *_KEYS])
        raise UsageError(f"{path}: there is no key '{unknown[0]}': the keys are {known}")
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


def fields_of(path: Path, document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the request that the keys of a table give; keys that are none of these are left alone.

    Raises UsageError naming the file and the key. Files that a value names are looked for beside the file.
    """
    fields = {
        field: _checked(path, key, document[key], kind)
        for key, (field, kind) in _KEYS.items()
        if key in document
    }
    if "max_time_s" in fields:
        fields["max_time_s"] = seconds(str(fields["max_time_s"]), f"{path}: max-time")
    for name in ("cpus", "vcpus"):
        if name in fields:
            fields[name] = str(fields[name])
    for name, default, known in _WORDS:
        if fields.get(name, default) not in known:
            what = f"{path}: {name} '{fields[name]}' is not known"
            raise UsageError(f"{what}: write {'one of ' if name == 'covariate' else ''}{', '.join(known)}")
    if "strata" in fields:
        fields["strata"] = _strata(path, fields["strata"])
    if "workload" in fields:
        fields["workload"] = _beside(path, fields["workload"])
    if "dataset" in fields:
        fields["dataset"] = _dataset_beside(path, fields["dataset"])
    if "prepare" in fields:
        fields["prepare"] = _prepare(path, fields["prepare"])
    return fields


# What is read is any value that TOML has; the type that is asked for is the one that is returned.
def _checked(path: Path, key: str, value: object, kind: type | tuple[type, ...]) -> Any:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        names = " or ".join(each.__name__ for each in kinds)
        if key == "server":
            # It may hold a password.
            raise UsageError(f"{path}: {key} is not a {names}: write one connection string")
        raise UsageError(f"{path}: {key} = {value!r} is not a {names}: correct it")
    return value


def _beside(path: Path, workload: str) -> str:
    family, colon, rest = workload.partition(":")
    if family == pgbench.FAMILY:
        return _scripts_beside(path, rest)
    if family not in ("sql", "maintenance", replay.FAMILY) or not colon or Path(rest).is_absolute():
        return workload
    return f"{family}:{path.parent / rest}"


def _scripts_beside(path: Path, options: str) -> str:
    """The options of a load of scripts, whose files are looked for beside the TOML file."""
    for name in pgbench.files_of(options):
        if not Path(name).is_absolute():
            options = options.replace(name, str(path.parent / name), 1)
    return f"{pgbench.FAMILY}:{options}"


def _dataset_beside(path: Path, dataset: str) -> str:
    kind, colon, rest = dataset.partition(":")
    return f"{kind}:{path.parent / rest}" if colon and rest else dataset


def _sql_beside(path: Path, text: str) -> str:
    """A level or a `prepare` that names an SQL file, looked for beside the TOML file."""
    name, comma, options = text.partition(",")
    return f"{path.parent / name}{comma}{options}" if name.endswith(".sql") else text


def _prepare(path: Path, given: str | list[object]) -> tuple[str, ...]:
    levels = given if isinstance(given, list) else [given]
    texts = [text for text in levels if isinstance(text, str)]
    if len(texts) < len(levels):
        raise UsageError(f'{path}: prepare = {given!r} is not SQL: write "CREATE INDEX …", or a list of such')
    return tuple(_sql_beside(path, text) for text in texts)


def _strata(path: Path, given: str | list[object]) -> tuple[str, ...]:
    names = given if isinstance(given, list) else [given]
    texts = [text for text in names if isinstance(text, str)]
    if len(texts) < len(names):
        raise UsageError(f'{path}: stratum = {given!r} is no name: write "clients=8", or a list of such')
    return tuple(texts)


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
    if name != "storage" and (not text or any(character in text for character in ",' ")):
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
