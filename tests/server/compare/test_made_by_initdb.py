"""What initdb decides as factors: checksums and the size of WAL segments, each level on data of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

import server_helpers
import whole_tool
from pgassay.environment.datasets import snapshots
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import control
from pgassay.environment.server.validation import assert_from_inside, with_data_format
from pgassay.errors import MeasurementError
from pgassay.experiment.planning.arm_baseline import with_wal_sizes
from pgassay.model.arm import DatasetSpec
from pgassay.record.experiment import StoredExperiment, load
from report_examples import spec as arm_spec

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


def held_by_arm(stored: StoredExperiment, name: str) -> dict[str, set[str]]:
    """By the arms' names what their servers said of a setting; all trials must be valid."""
    arms = {arm.id: arm.name for arm in stored.experiment.arms}
    found: dict[str, set[str]] = {}
    for trial in stored.trials:
        assert trial.record.status == "ok", trial.record.reason
        found.setdefault(arms[trial.record.arm_id], set()).add(trial.record.facts.settings[name])
    return found


def test_a_cluster_is_verified_to_be_made_as_its_arm_says(require: Callable[..., None]) -> None:
    """64 MB segments need a larger min_wal_size to start: while loading, preparing and measuring."""
    require("build")
    build = with_data_format(server_helpers.best_build())
    made = DatasetSpec(scale=1, checksums=False, wal_segment_mb=64)
    base = arm_spec({}).model_copy(update={"build": build, "dataset": made, "settings": {}})
    [(_, spec)] = with_wal_sizes([({}, base)], {}, is_shipped=False)
    with server_helpers.own_home():
        index = ("CREATE INDEX ON pgbench_accounts (bid)",)
        snapshot = snapshots.ensure(build, made, index, lambda _stage, _fraction: None)
        with Server(build, snapshot.path, spec.settings) as server, control(server) as session:
            facts = assert_from_inside(session, spec)["settings"]
            assert (facts["data_checksums"], facts["wal_segment_size"]) == ("off", "64MB")
            for field, other, complaint in (
                ("wal_segment_mb", 16, "wal_segment_size is 64MB, not 16MB"),
                ("checksums", True, "data_checksums is off, unlike the dataset's"),
            ):
                wrong = spec.model_copy(update={"dataset": made.model_copy(update={field: other})})
                with pytest.raises(MeasurementError, match=complaint):
                    assert_from_inside(session, wrong)


@pytest.mark.slow
def test_checksums_are_compared_on_data_of_their_own(tmp_path: Path, require: Callable[..., None]) -> None:
    require("build", "cold-cache")
    statements = tmp_path / "count.sql"
    statements.write_text("SELECT count(*) FROM pgbench_branches;\n")
    words = ["compare", "checksums=off,on", "--workload", f"sql:{statements}", "--cache", "warm-pages"]
    words += [*whole_tool.SMALL, "--blocks", "1", "--plans", "off", "--observe", "off"]
    result = whole_tool.result_of(whole_tool.run(*words, "--out", tmp_path / "out", "--json", "--quiet"))
    stored = load(tmp_path / "out")
    assert held_by_arm(stored, "data_checksums") == {"checksums=off": {"off"}, "checksums=on": {"on"}}
    assert result["confounds"] == []
    assert stored.experiment.dataset_loads == 2
    made = [facts["dataset"] for facts in stored.experiment.environment["datasets"].values()]
    assert sorted((each["checksums"], each["load"]) for each in made) == [
        (checksums, load) for checksums in (False, True) for load in (0, 1)
    ]


@pytest.mark.slow
def test_wal_segments_are_verified_in_the_server_and_an_experiment_of_them_is_resumed(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    """64 MB and more need a larger min_wal_size to start at all, while loading, preparing and measuring."""
    require("build")
    words = ["compare", "wal_segsize=16MB,64MB,256MB", "--workload", "tpcb:clients=2,duration=1s,warmup=0s"]
    words += [*whole_tool.SMALL, "--prepare", "CREATE INDEX ON pgbench_accounts (bid)", "--blocks", "1"]
    out = tmp_path / "out"
    result = whole_tool.result_of(whole_tool.run(*words, "--out", out, "--json", "--quiet"))
    assert result["confounds"] == []
    whole_tool.result_of(whole_tool.run("resume", out, "--blocks", "2", "--json", "--quiet"))
    stored = load(out)
    sizes = ("16MB", "64MB", "256MB")
    assert held_by_arm(stored, "wal_segment_size") == {f"wal_segsize={size}": {size} for size in sizes}
    assert held_by_arm(stored, "min_wal_size") == {f"wal_segsize={size}": {"512MB"} for size in sizes}
    assert len(stored.trials) == 2 * len(stored.experiment.arms)
