"""iostat's columns of an experiment's arms: from the samplers' counters over each trial's measured part."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import report_examples as examples
from pgassay.analysis.descriptive.iostat import IOSTAT_COLUMNS, IOWAIT, arm_iostat
from pgassay.analysis.verdicts.compare import analyse
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare.page import page_of

SECOND = 1_000_000_000
ZEROS = (
    *("reads", "reads_merged", "read_bytes", "read_ms", "writes", "writes_merged", "write_bytes", "write_ms"),
    *("in_flight", "in_flight_ms", "weighted_ms", "flushes", "flush_ms"),
    *("discards", "discards_merged", "discard_bytes", "discard_ms"),
)
PROCESSORS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def stored(tmp_path: Path, reads_s: float = 100.0) -> StoredExperiment:
    """Trials of 10 s, each with a device that reads so many requests of 8 kB a second, 2 ms each."""
    found = examples.stored(blocks=2)
    trials = []
    for number, trial in enumerate(found.trials):
        folder = tmp_path / str(number)
        (folder / "observations").mkdir(parents=True)
        # The samples begin before the measured part and end after it.
        clock = [0, 5 * SECOND, 20 * SECOND]
        seconds = [0.0, 5.0, 20.0]
        moved = {"reads": reads_s, "read_bytes": 8192 * reads_s, "read_ms": 2 * reads_s}
        moved |= {"in_flight_ms": 500.0, "weighted_ms": 200.0}
        device = {name: [moved.get(name, 0.0) * each for each in seconds] for name in ZEROS}
        used = {"user": 0.5, "idle": 1.0, "iowait": 0.5}
        cpu = {name: [used.get(name, 0.0) * each for each in seconds] for name in PROCESSORS}
        for name, columns in (("device", device), ("host_cpu", cpu)):
            path = folder / "observations" / f"{name}.parquet"
            pyarrow.parquet.write_table(pa.table({"clock_ns": clock, **columns}), path)
        record = trial.record.model_copy(update={"clock_ns": (5 * SECOND, 15 * SECOND)})
        trials.append(replace(trial, folder=folder, record=record))
    return replace(found, trials=tuple(trials))


def test_columns_are_those_of_the_measured_part(tmp_path: Path) -> None:
    found = arm_iostat(stored(tmp_path))
    assert [each.arm for each in found] == ["io_method=sync", "io_method=worker", "io_method=io_uring"]
    columns = found[0].columns
    assert tuple(columns) == (*IOSTAT_COLUMNS, IOWAIT) and found[0].trials == 2
    expected = {"r/s": 100, "rkB/s": 800, "r_await": 2, "rareq-sz": 8, "aqu-sz": 0.2, "%util": 50, IOWAIT: 25}
    assert {name: columns[name] for name in expected} == pytest.approx(expected)
    assert columns["w/s"] == columns["f/s"] == 0


def test_the_terminal_has_the_columns_that_people_look_at_and_the_page_all(tmp_path: Path) -> None:
    of = stored(tmp_path)
    page = page_of(analyse(of), of)
    shown = page.terminal()
    assert "The device, in iostat's columns" in shown and "%iowait" in shown
    assert "rareq-sz" not in shown and "rareq-sz" in page.markdown()
    # Nothing was written: such columns are left out.
    assert "w_await" not in page.markdown()
    assert '"%iowait": 25.0' in page.json()


def test_without_a_device_there_is_nothing(tmp_path: Path) -> None:
    of = examples.stored(blocks=2)
    assert arm_iostat(of) == ()
    assert "iostat" not in page_of(analyse(of), of).json()
    damaged = stored(tmp_path)
    for trial in damaged.trials:
        (trial.folder / "observations" / "device.parquet").write_bytes(b"no table")
    assert arm_iostat(damaged) == ()
