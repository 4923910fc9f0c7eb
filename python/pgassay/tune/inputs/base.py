"""What a path holds that somebody wants to go on from, and what such results bring to a tuning."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgassay.errors import UsageError
from pgassay.model.arm import ArmSpec
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.record.layout import EXPERIMENT_FILE, GATE_FILE, PROBE_FILE, SEARCH_FILE, TUNE_FILE
from pgassay.tune.candidate import TunedStatement
from pgassay.workloads.statements import ELAPSED

Kind = Literal["tune", "experiment", "diagnosis"]
TAKEN = (
    "tune continues from its own results, from an experiment of pgassay compare, or from a "
    "file written by 'pgassay diagnose DSN --json'"
)
# Files that tell what else a folder or a file is, and what to type instead.
_OTHER_FOLDERS = {
    GATE_FILE: "the results of a gate, which have no data: name one of its experiments",
    PROBE_FILE: "a probe's results, which have no statements",
    "PG_VERSION": "a data folder of PostgreSQL: write --dataset folder:{path} --workload sql:FILE",
}
# Statements of a diagnosis are cut, and there are not many of them.
_DIAGNOSIS_BYTES_MAX = 64 * 1024**2
_OF_A_DIAGNOSIS = {"activity", "sampled", "statements", "causes"}


@dataclass(frozen=True)
class Start:
    """What earlier results bring: the statements, the workload that they are, and what is to be said of it.

    `spec`: the arm that is tuned as it was recorded; None where only statements are known.
    """

    workload: WorkloadSpec
    statements: tuple[TunedStatement, ...]
    spec: ArmSpec | None = None
    notes: tuple[str, ...] = ()


def kind_of(path: Path) -> Kind:
    """What a path holds; raises UsageError that says what else it is.

    A path that is not there counts as a folder of tune's, whose reader says so.
    """
    if path.is_dir():
        if (path / SEARCH_FILE).is_file() or (path / TUNE_FILE).is_file():
            return "tune"
        if (path / EXPERIMENT_FILE).is_file():
            return "experiment"
        for name, words in _OTHER_FOLDERS.items():
            if (path / name).is_file():
                raise UsageError(f"{path} holds {words.format(path=path)}; {TAKEN}")
        raise UsageError(f"{path} holds no results of pgassay: {TAKEN}")
    if not path.is_file():
        return "tune"
    if _is_diagnosis(path):
        return "diagnosis"
    raise UsageError(
        f"{path} is a file but not a diagnosis: {TAKEN} (statements are named by --workload sql:FILE, data "
        "by --dataset)"
    )


def _is_diagnosis(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            # A dump that was meant for --dataset may be larger than the memory.
            text = file.read(_DIAGNOSIS_BYTES_MAX + 1)
        value = json.loads(text) if len(text) <= _DIAGNOSIS_BYTES_MAX else None
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.keys() >= _OF_A_DIAGNOSIS


def workload_named(text: str, statements: tuple[TunedStatement, ...]) -> WorkloadSpec:
    """A list of these statements as a workload; `text` says where they come from."""
    return WorkloadSpec(
        text=text,
        family="sql",
        kind="statements",
        metric=ELAPSED,
        writes=any(each.writes for each in statements),
        statements=tuple(Statement(name=each.name, sql=each.sql) for each in statements),
    )
