"""Reading a gate's TOML file: the system under test, and the workloads that a change may not slow down.

max-time = "10m"                      # of the whole gate
margin = 0.03

[system]
pg = "18"
prepare = ["migrations/*.sql"]

[system.set]
shared_buffers = "1GB"

[workloads.orders]
workload = "sql:orders.sql"
scale = 20
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path

from pgassay.analysis.gate.detector import FALSE_ALARMS_PER_YEAR, RUNS_PER_YEAR
from pgassay.environment.source_builds.tree_syntax import is_source
from pgassay.errors import UsageError
from pgassay.experiment.planning.experiment_file import (
    fields_of,
    keys,
    read_document,
    refuse_unknown,
    settings_of,
)
from pgassay.experiment.planning.request import CompareRequest, parse_settings
from pgassay.factors.prepare import FILE_SUFFIX
from pgassay.options.evidence import BLOCKS_MAX
from pgassay.options.option import GATE_FILE
from pgassay.value_syntax.quantities import seconds

TIME_DEFAULT_S = 600.0
# The keys above all tables that each workload may have of its own.
_OF_ALL = ("margin", "restart")
_TOP = ("max-time", *_OF_ALL, "must-find", "runs-per-year", "false-alarms-per-year", "system", "workloads")
_SYSTEM = ("pg", "prepare", "server", "set")
# A workload's own beside the options; what is compared, and how often, is the gate's.
_WORKLOAD = ("must-find", "set")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")


@dataclass(frozen=True)
class SystemFile:
    """The table [system]: `prepare` holds SQL, or names of SQL files, each found."""

    pg: str | None = None
    prepare: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    server: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class GateFile:
    """A gate's file. workloads: what `compare` would be asked, by name, with margin and time, no factor.

    must_find: of those that name one, the slow-down that they have to be able to find.
    """

    path: Path
    system: SystemFile
    workloads: Mapping[str, CompareRequest]
    must_find: Mapping[str, float]
    runs_per_year: float = RUNS_PER_YEAR
    false_alarms_per_year: float = FALSE_ALARMS_PER_YEAR


def read_gate_file(path: Path, builds_from: Path | None = None) -> GateFile:
    """Read and check a gate's file; raises UsageError naming the file and the key.

    Files that it names are looked for beside it; a build that is a path beside `builds_from`, where that is
    given: a revision in git has the file, but not what was built from it.
    """
    document = read_document(path)
    refuse_unknown(path, "", document, _TOP)
    tables = document.get("workloads")
    if not isinstance(tables, dict) or not tables:
        raise UsageError(f'{path}: no workloads: add a table [workloads.NAME] with workload = "sql:FILE"')
    defaults = fields_of(path, {key: document[key] for key in _OF_ALL if key in document})
    workloads = {name: _workload(path, name, table, defaults) for name, table in tables.items()}
    total_s = seconds(str(document.get("max-time", f"{TIME_DEFAULT_S:g}s")), f"{path}: max-time")
    return GateFile(
        path=path,
        system=_system(path, document.get("system", {}), builds_from or path.parent),
        workloads=_with_times(path, workloads, total_s),
        must_find=_must_find(path, document, tables),
        runs_per_year=_number(path, document, "runs-per-year", RUNS_PER_YEAR),
        false_alarms_per_year=_number(path, document, "false-alarms-per-year", FALSE_ALARMS_PER_YEAR),
    )


def _number(path: Path, document: Mapping[str, object], key: str, default: float) -> float:
    value = document.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0.01 <= value <= 1e6:
        raise UsageError(f"{path}: {key} = {value!r} is out of range: write a number from 0.01 to 1000000")
    return float(value)


def _must_find(
    path: Path, document: Mapping[str, object], tables: Mapping[str, Mapping[str, object]]
) -> dict[str, float]:
    """By workload the slow-down that it has to be able to find; its own value goes before the file's."""
    found = {}
    for name, table in tables.items():
        value = table.get("must-find", document.get("must-find"))
        if value is None:
            continue
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0.001 <= value <= 10:
            raise UsageError(f"{path}: must-find = {value!r} is not a fraction: write 0.05 for 5 %")
        found[name] = float(value)
    return found


def _workload(
    path: Path, name: str, table: object, defaults: Mapping[str, object]
) -> tuple[CompareRequest, float | None]:
    """What a workload's table asks, and its own time where it names one."""
    where = f"workloads.{name}"
    if not isinstance(table, dict):
        raise UsageError(f'{path}: {where} is not a table: write [{where}] with workload = "sql:FILE"')
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{path}: '{name}' is not a valid workload name, which names a folder too: use letters, digits, "
            "'-', '_' and '.'"
        )
    refuse_unknown(path, where, table, (*keys(GATE_FILE), *_WORKLOAD))
    fields = {**defaults, **fields_of(path, table)}
    fields["prepare"] = _files(path, fields.get("prepare", ()))
    fields.setdefault("blocks", BLOCKS_MAX)
    # Executing plans once more takes a tenth of the time, which the gate needs for its promise.
    fields.setdefault("plans", "estimate")
    own_s = fields.pop("max_time_s", None)
    if "workload" not in fields:
        raise UsageError(f'{path}: [{where}] has no workload: write workload = "sql:FILE"')
    settings = settings_of(path, table.get("set", {}))
    try:
        return CompareRequest(factors=(), settings=settings, **fields), own_s
    except UsageError as error:
        raise UsageError(f"{path}: [{where}]: {error}") from error


def _with_times(
    path: Path,
    workloads: Mapping[str, tuple[CompareRequest, float | None]],
    total_s: float,
) -> dict[str, CompareRequest]:
    """Each workload with its own time, or an equal share of what these leave of the whole."""
    own = [own_s for _, own_s in workloads.values() if own_s is not None]
    sharing = len(workloads) - len(own)
    left_s = total_s - sum(own)
    if sharing and left_s < sharing:
        raise UsageError(
            f"{path}: max-time = {total_s:g} s is used up by the workloads that set their own: give "
            "more, or set max-time for each workload"
        )
    return {
        name: replace(request, max_time_s=own_s if own_s is not None else left_s / sharing)
        for name, (request, own_s) in workloads.items()
    }


def _system(path: Path, table: object, builds_from: Path) -> SystemFile:
    if not isinstance(table, dict):
        raise UsageError(f'{path}: system is not a table: write [system] with pg = "18", or leave it out')
    refuse_unknown(path, "system", table, _SYSTEM)
    fields = fields_of(path, {key: table[key] for key in ("pg", "prepare", "server") if key in table})
    settings = parse_settings(settings_of(path, table.get("set", {})))
    found = SystemFile(
        pg=_build(fields.get("build"), builds_from),
        prepare=_files(path, fields.get("prepare", ())),
        settings=settings,
        server=fields.get("server"),
    )
    if found.server is not None and (found.pg is not None or found.prepare):
        raise UsageError(
            f"{path}: [system]: pg and prepare are for servers that pgassay starts, but server "
            "names a running one: leave one of them out"
        )
    return found


def _build(text: str | None, folder: Path) -> str | None:
    """A build as `--pg` names one; a relative path is one beside the gate's file."""
    if text is not None and is_source(text):
        kind, _, place = text.partition(":")
        return text if place.startswith(("/", "~")) else f"{kind}:{folder.absolute()}/{place}"
    if text is None or text.startswith("~") or "/" not in text:
        return text
    return str((folder / text).absolute())


def _files(path: Path, texts: Iterable[str]) -> tuple[str, ...]:
    """SQL and SQL files, a pattern such as migrations/*.sql replaced by the files that it names, by name."""
    found: list[str] = []
    for text in texts:
        name = Path(text)
        if not text.endswith(FILE_SUFFIX) or not has_pattern(name.name):
            found.append(text)
            continue
        matching = sorted(str(each) for each in _beside(name.parent) if fnmatch(each.name, name.name))
        if not matching:
            raise UsageError(f"{path}: prepare: no file matches {text}: correct the pattern")
        found += matching
    return tuple(found)


def _beside(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []


def has_pattern(name: str) -> bool:
    """Whether a file's name stands for several."""
    return any(sign in name for sign in "*?[")
