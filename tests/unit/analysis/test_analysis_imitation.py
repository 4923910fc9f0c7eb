"""Verdicts between imitated volumes: none where imitating them took too much of the machine."""

from typing import Any

import pytest

from analysis_samples import experiment, simulate, stored
from pgassay.analysis.verdicts.compare import analyse, interim_result
from pgassay.model.experiment import Experiment
from pgassay.model.result import DesignWarning
from pgassay.model.storage import StorageSpec
from pgassay.model.trial import TrialFacts, TrialRecord

FAST = StorageSpec(kind="volume", own=(("volume", "io2"),))
SLOW = StorageSpec(kind="volume", own=(("volume", "gp3"),))


def on_storages(control: StorageSpec, arm: StorageSpec) -> Experiment:
    """Two arms, which lie on these."""
    plan = experiment()
    arms = tuple(
        each.model_copy(
            update={"spec": each.spec.model_copy(update={"storage": arm if each.id == "s0-1" else control})}
        )
        for each in plan.arms
    )
    return plan.model_copy(update={"arms": arms})


def with_shares(records: list[TrialRecord], shares: dict[str, dict[str, Any]]) -> list[TrialRecord]:
    """The trials, with what imitating took in those of each arm."""
    return [
        record.model_copy(update={"facts": TrialFacts.model_validate(shares[record.arm_id])})
        if record.arm_id in shares
        else record
        for record in records
    ]


def result_of(plan: Experiment, shares: dict[str, dict[str, Any]], effect: float = 0.1) -> Any:
    trials = stored(plan, with_shares(simulate(plan, 20, {"s0-1": effect}), shares))
    return analyse(trials), interim_result(trials).arms[0]


@pytest.mark.parametrize(
    "facts",
    [
        {"volume": {"cpu_share": 0.14}},
        # What both volumes of a server took counts together.
        {"volume": {"cpu_share": 0.08}, "wal_volume": {"cpu_share": 0.06}},
    ],
)
def test_no_verdict_between_volumes_that_take_the_processors(facts: dict[str, Any]) -> None:
    result, standing = result_of(on_storages(SLOW, FAST), {"s0-1": facts, "s0-0": {"volume": {}}})
    arm = result.arms[1]
    assert (arm.verdict, arm.withheld, arm.meaningful) == ("inconclusive", True, False)
    assert "imitating the volume of io_method=method1 took 14" in arm.note
    assert standing.withheld
    # The figures stay.
    assert arm.ratio is not None and arm.ratio > 1.05
    warnings = [each for each in result.warnings if isinstance(each, DesignWarning)]
    (warning,) = [each for each in warnings if each.kind == "imitation"]
    assert warning.arm == "io_method=method1"
    assert "(limit 10" in warning.sentence
    assert all(each.arms[1].withheld for each in result.statements)


def test_the_control_s_volume_counts_as_well() -> None:
    result, _ = result_of(on_storages(FAST, SLOW), {"s0-0": {"volume": {"cpu_share": 0.2}}})
    assert result.arms[1].withheld
    assert "imitating the volume of io_method=sync took 20" in result.arms[1].note


@pytest.mark.parametrize(
    ("plan", "share"),
    [
        (on_storages(SLOW, FAST), 0.1),
        # Settings on one volume pay alike, however much it takes.
        (on_storages(FAST, FAST), 0.5),
    ],
)
def test_a_verdict_stays_where_little_was_taken_or_both_pay_alike(plan: Experiment, share: float) -> None:
    shares = {name: {"volume": {"cpu_share": share}} for name in ("s0-0", "s0-1", "s0-2")}
    result, _ = result_of(plan, shares)
    assert (result.arms[1].verdict, result.arms[1].withheld) == ("faster", False)
    assert not any(isinstance(each, DesignWarning) and each.kind == "imitation" for each in result.warnings)


def test_storages_that_nothing_imitates_have_verdicts() -> None:
    result, _ = result_of(on_storages(StorageSpec(), StorageSpec(kind="loop")), {})
    assert result.arms[1].verdict == "faster"
