"""Checkpoints and WAL of loads that write: what the servers' counters say, and when that is too little."""

from dataclasses import replace
from typing import Any

import pytest

import report_examples as examples
from pgassay.analysis.descriptive.checkpoints import arm_checkpoints
from pgassay.analysis.verdicts.compare import analyse
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare.page import page_of


def stored(rows: dict[str, list[dict[str, Any]]], *, kind: str = "load") -> StoredExperiment:
    """Trials of a load that writes, on max_wal_size, whose counters moved so."""
    found = examples.stored(blocks=2)
    arms = []
    for arm in found.experiment.arms:
        workload = arm.spec.workload.model_copy(update={"kind": kind, "writes": True})
        spec = arm.spec.model_copy(update={"workload": workload})
        levels = {"max_wal_size": arm.levels["io_method"]}
        arms.append(arm.model_copy(update={"spec": spec, "levels": levels}))
    trials = tuple(
        replace(trial, record=trial.record.model_copy(update={"counters": rows})) for trial in found.trials
    )
    experiment = found.experiment.model_copy(update={"arms": tuple(arms)})
    return replace(found, experiment=experiment, trials=trials)


WAL = {"pg_stat_wal": [{"wal_bytes": 3_000_000, "wal_fpi": 200}]}


@pytest.mark.parametrize(
    "rows",
    [
        {"pg_stat_checkpointer": [{"num_requested": 4, "num_timed": 1}]},
        {"pg_stat_bgwriter": [{"checkpoints_req": 4, "checkpoints_timed": 1}]},
    ],
)
def test_both_kinds_are_told_apart_in_every_version(rows: dict[str, list[dict[str, Any]]]) -> None:
    found = arm_checkpoints(stored(rows | WAL))
    assert [each.arm for each in found] == ["io_method=sync", "io_method=worker", "io_method=io_uring"]
    first = found[0]
    assert (first.requested, first.timed, first.trials) == (4, 1, 2)
    assert (first.wal_bytes, first.full_page_images) == (3_000_000, 200)


def test_without_a_checkpoint_there_are_none_and_without_counters_nothing_is_known() -> None:
    (first, *_) = arm_checkpoints(stored(WAL))
    assert (first.requested, first.timed) == (0, 0)
    assert arm_checkpoints(stored({})) == ()
    assert arm_checkpoints(stored(WAL, kind="statements")) == ()


def test_too_few_for_what_is_compared_are_said() -> None:
    few, many = stored(WAL), stored({"pg_stat_checkpointer": [{"num_requested": 4}]} | WAL)
    shown = {}
    for name, of in (("few", few), ("many", many)):
        result = examples.result(of).model_copy(update={"checkpoints": arm_checkpoints(of)})
        shown[name] = " ".join(page_of(result, of).markdown().split())
    assert all("Checkpoints and WAL" in page and "2.86 MB" in page for page in shown.values())
    told = "Fewer than 3 checkpoints in a trial say little about what is compared"
    assert told in shown["few"] and told not in shown["many"]


def test_an_experiment_that_only_reads_has_no_such_section() -> None:
    of = examples.stored(blocks=2)
    assert "Checkpoints and WAL" not in page_of(analyse(of), of).terminal()
