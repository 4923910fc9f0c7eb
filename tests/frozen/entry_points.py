"""Every module of pgassay that the frozen set imports: what is moved or renamed is mended here alone."""

import contextlib
import io
import random
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

import pgassay
from pgassay.analysis.diagnosis.diagnose import diagnose
from pgassay.analysis.diagnosis.interval import Interval
from pgassay.analysis.verdicts.compare import analyse
from pgassay.cli import main
from pgassay.design.schedule import block_order, next_step
from pgassay.experiment.running.loop import RunLimits, run_experiment
from pgassay.model.probe import CellSpec, ProbeRecord
from pgassay.model.trial import TrialRecord
from pgassay.native.binary import binary, source_id
from pgassay.native.load import run_load
from pgassay.native.probe import NativeProbe, ProbeError
from pgassay.native.process import StatementError
from pgassay.native.sql import SqlSession
from pgassay.probe.analysis.analyse import analyse_probe
from pgassay.probe.analysis.diff import compare_probes
from pgassay.progress import NullProgress
from pgassay.record.experiment import load
from pgassay.report import terminal
from pgassay.report.charts import drawing, interval_chart, result_charts
from pgassay.report.compare import page as compare_page
from pgassay.report.diagnosis import diagnosis_page as diagnosis_report
from pgassay.report.page import Page
from pgassay.report.probe import probe_page as probe
from pgassay.running_server.diagnosis.sampling import APPLICATION, sample
from pgassay.running_server.open_server import open_target
from pgassay.trial.measure.timed_load import document_of
from pgassay.trial.observe.server_observer import ServerObserver

__all__ = [
    "NativeProbe",
    "ProbeError",
    "ServerObserver",
    "SqlSession",
    "StatementError",
    "binary",
    "run_load",
]
ROOT = Path(__file__).resolve().parents[2]
WIDTH = 120
_INTERVAL = TypeAdapter(Interval)
# Recorded intervals have the names that their fields had then.
_RENAMED = {"looks": "samples", "upkeep": "vacuum_state"}


def command(*words: str) -> tuple[int, str]:
    """Run `pgassay words…` in this process; its exit status and what it printed."""
    handlers = {number: signal.getsignal(number) for number in main.SIGNALS}
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = main.main(list(words))
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    said.flush()
    assert isinstance(said.buffer, io.BytesIO)
    return status, said.buffer.getvalue().decode()


def commands() -> list[str]:
    """The names of all commands."""
    return list(main.COMMANDS)


def intervals_and_trials(folder: Path, width_px: int) -> list[str]:
    """Two drawings of a stored experiment's page; the first has the verdict above it."""
    stored = load(folder)
    result = analyse(stored)
    intervals = interval_chart.specification(result, width_px=width_px)
    sentence, _, qualified = result.verdict.removesuffix(").").partition(" (")
    below = [qualified, "speed against the control; the band is the margin"]
    intervals["title"] = drawing.title(sentence, below)
    return [drawing.svg(intervals, "intervals"), result_charts.trials(stored, width_px=width_px)]


# The document names the version that made it, which is no part of what must stay.
DIAGNOSIS_RECORDED_WITH = "0.1.0"


def pages(folder: Path) -> dict[str, str]:
    """What `pgassay report` prints of a stored experiment in each format, from one analysis."""
    stored = load(folder)
    return _forms(compare_page.page_of(analyse(stored), stored))


def tables(folder: Path) -> dict[str, Any]:
    """The notebook's tables: Arrow tables by name."""
    opened = pgassay.open(folder)
    found = {name: getattr(opened, name) for name in ("arms", "trials", "statements", "accounts")}
    return found | {f"series {name}": opened.series(name) for name in opened.series_names}


def probe_pages(record: bytes, old: bytes | None = None) -> dict[str, str]:
    """What `pgassay probe` says of a recorded probe, and with `--compare` of it and an older one."""
    result = analyse_probe(ProbeRecord.model_validate_json(record))
    comparison = None
    if old is not None:
        before = analyse_probe(ProbeRecord.model_validate_json(old))
        comparison = compare_probes(result, before, "old.json")
    return _forms(probe.page_of(result, comparison))


def sample_interval(dsn: str, seconds: float, folder: Path) -> bytes:
    """Look at a server as `pgassay diagnose` does; the interval as JSON, its samples in `folder`."""
    found = sample(open_target(dsn, "DSN", APPLICATION), seconds, folder, lambda _: None)
    return _INTERVAL.dump_json(found, indent=1)


def diagnosis_pages(interval: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """What `pgassay diagnose` says of a recorded interval."""
    fields = {_RENAMED.get(name, name): value for name, value in interval.items()}
    diagnosis = diagnose(_INTERVAL.validate_python({**fields, "folder": folder}))
    recorded = diagnosis.model_copy(update={"pgassay_version": DIAGNOSIS_RECORDED_WITH})
    return {**_forms(diagnosis_report.page_of(diagnosis)), "json": diagnosis_report.page_of(recorded).json()}


def _forms(page: Page) -> dict[str, str]:
    width = WIDTH if page.is_wrapped else terminal.UNWRAPPED
    return {
        "json": page.json(),
        "md": page.markdown(),
        "txt": page.terminal(width=width),
        "html": page.html(),
    }


def order(seed: int, block: int, arms: Sequence[str]) -> list[str]:
    """The arms of a block in their order."""
    return block_order(seed, block, arms)


def steps(folder: Path, seed: int, trials: int, failing: float) -> Iterator[list[Any]]:
    """What the schedule asks for, trial after trial, when a fraction of them fails."""
    experiment = load(folder).experiment
    contract = experiment.contract.model_copy(update={"seed": seed})
    experiment = experiment.model_copy(update={"contract": contract})
    records: list[TrialRecord] = []
    draw = random.Random(f"failures {seed}")
    for _ in range(trials):
        step = next_step(experiment, records)
        spec = step.spec
        kind = draw.choice(("failed", "invalid", "interrupted")) if draw.random() < failing else "ok"
        yield [
            *(spec.number, spec.attempt, spec.block, spec.position, spec.arm.id, spec.arm.spec.dataset.load),
            *(step.begins_block, step.voided_in_a_row, kind),
        ]
        place = {
            "number": spec.number,
            "attempt": spec.attempt,
            "block": spec.block,
            "position": spec.position,
        }
        seen = {"started_at": "", "ended_at": "", "wall_s": 1.0, "host": "h", "boot_id": "b"}
        records.append(
            TrialRecord.model_validate({**place, **seen, "arm_id": spec.arm.id, "status": kind, "reason": ""})
        )


def run_replayed(folder: Path, runner: Any, blocks: int) -> None:
    """The loop of an experiment on a runner that replays trials."""
    run_experiment(load(folder), runner, RunLimits(blocks, 600.0), NullProgress())


def native_version() -> str:
    """What the binary must answer to `--version`."""
    return f"pgassay-native {pgassay.__version__} {source_id(ROOT)}"


class _Place:
    """A server by the parameters of a connection to it."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = dict(parameters)

    def parameters(self) -> dict[str, Any]:
        return self._parameters


def load_request(folder: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What the load generator is asked for the first arm of a stored experiment."""
    experiment = load(folder).experiment
    return document_of(_Place(parameters), experiment.arms[0].spec, experiment.contract.seed)


def cell() -> CellSpec:
    """A way of reading that every kernel has."""
    return CellSpec.model_validate(
        {"engine": "sync", "cache": "cold", "pattern": "sequential", "request_bytes": 131072, "depth": 1}
    )


def write_cell() -> CellSpec:
    """A durable write of single pages."""
    return cell().model_copy(update={"pattern": "wal", "request_bytes": 8192})
