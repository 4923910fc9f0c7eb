"""An experiment as data frames, and its files read by others."""

import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as datasets
import pytest

import pgassay
from load_records import SECONDS, write_load
from pgassay.errors import UsageError
from pgassay.record import observations
from pgassay.report.compare import trial_series


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a stored load: 2 strata × (2 arms and a twin) × 3 blocks."""
    target = tmp_path_factory.mktemp("stored") / "load"
    write_load(target, strata=["1", "8"])
    return target


def test_tables_have_a_row_for_each_arm_trial_and_sample(folder: Path) -> None:
    opened = pgassay.open(folder)
    assert opened.arms.num_rows == 4
    assert set(opened.arms.column("io_method").to_pylist()) == {"sync", "worker"}
    assert opened.trials.num_rows == 18
    by_arm = opened.trials.group_by("arm").aggregate([("value", "mean")]).to_pylist()
    means = {row["arm"]: row["value_mean"] for row in by_arm}
    assert means["io_method=worker clients=8"] == pytest.approx(
        2 * means["io_method=sync clients=8"], rel=0.05
    )
    assert opened.statements.num_rows == 0
    assert opened.series_names == ["device", "host_cpu", "load_seconds"]
    seconds = opened.series("load_seconds")
    assert seconds.num_rows == 18 * SECONDS
    assert {"number", "arm", "role", "second", "transactions"} <= set(seconds.column_names)
    with pytest.raises(UsageError, match="there are device, host_cpu, load_seconds"):
        opened.series("waits")


def test_statements_of_an_experiment_are_rows(folder: Path) -> None:
    opened = pgassay.open(str(folder))
    assert opened.result.metric.name == "throughput"
    with pytest.raises(UsageError, match="has no experiment"):
        pgassay.open(folder.parent)


def test_the_documented_files_are_read_where_they_lie(folder: Path) -> None:
    files = sorted(str(path) for path in folder.glob("trials/*/attempt-*/observations/device.parquet"))
    table = datasets.dataset(files, format="parquet").to_table(columns=["read_bytes"])
    assert table.num_rows == 18 * (SECONDS + 2)


def test_opening_is_all_that_imports() -> None:
    heavy = "{name.split('.')[0] for name in sys.modules} & {'pyarrow', 'numpy', 'pydantic'}"
    script = f"import sys, pgassay; print(sorted({heavy}))"
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


def test_latencies_are_those_of_the_merged_histograms(folder: Path) -> None:
    observed = trial_series.observe(pgassay.open(folder).stored)
    rows = {(row.stratum, row.group): row for row in observed.latencies}
    slow, fast = rows["clients=8", "io_method=sync"], rows["clients=8", "io_method=worker"]
    assert slow.transactions == 3000
    assert slow.percentiles_ms[0] == pytest.approx(5.0, rel=0.01)
    assert fast.percentiles_ms[3] == pytest.approx(9.9 / 2, rel=0.01)
    assert not observed.unreadable


def test_rates_of_the_device_begin_with_the_measured_part(folder: Path) -> None:
    observed = trial_series.observe(pgassay.open(folder).stored)
    timelines = {each.group: each.shown for each in observed.timelines}
    panels = {panel.title: panel.points for panel in timelines["io_method=worker at clients=8"].panels}
    reads = [point for point in panels["device, MB/s"] if point.series == "reads"]
    assert [round(point.value / 1.048576) for point in reads] == [200] * SECONDS
    assert [point.begin_s for point in reads] == list(range(SECONDS))
    busy = [point.value for point in panels["all processors of the machine"] if point.series == "busy"]
    assert busy == pytest.approx([1.3] * SECONDS)
    assert {row.stratum for row in observed.seconds} == {"clients=1", "clients=8"}


def test_a_damaged_file_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    stored = write_load(tmp_path / "load", strata=[""], blocks=1)
    first = stored.trials[0].folder
    (first / "latency.hdr").write_bytes(b"no histogram")
    (first / "observations" / "device.parquet").write_bytes(b"no columns")
    observed = trial_series.observe(stored)
    assert len(observed.unreadable) == 2
    assert all("is damaged" in sentence for sentence in observed.unreadable)
    assert len(observed.latencies) == 2
    with pytest.raises(UsageError, match="damaged"):
        observations.columns(first, "device")
