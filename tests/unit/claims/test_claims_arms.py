"""Which arms an experiment is planned with for its claims: what is never judged is no part of the family."""

from dataclasses import replace
from typing import Any

import pytest
from plans_for_tests import make_arms

import report_examples as examples
from pgassay.analysis.claims.arm_claims import missing_condition
from pgassay.analysis.claims.judge_claims import claimed_arms, judge
from pgassay.errors import UsageError
from pgassay.model.experiment import MachineFacts
from pgassay.model.further_results.claims import Claim, Needs, Source

SIZES = make_arms(["work_mem=17MB,16MB,18MB"], workload="select-only")
GRID = make_arms(["io_method=sync,worker,io_uring", "clients=1,8"], workload="select-only")


def claim(**changes: Any) -> Claim:
    fields = {"id": "one", "text": "…", "source": Source(title="A page"), "says": "faster"}
    return Claim(**{**fields, **changes})


def names(claims: list[Claim], plan: Any) -> tuple[list[str], list[str]]:
    """The names of the arms that are kept, with their roles, and of those in the contrasts."""
    arms, contrasts = claimed_arms(claims, *plan)
    by_id = {arm.id: arm.name for arm in arms}
    return (
        [f"{arm.role} {arm.name}" for arm in arms],
        [by_id[each.arm_id] for each in contrasts],
    )


def test_an_arm_that_no_claim_is_of_is_not_planned() -> None:
    kept, compared = names([claim(arm="work_mem=18MB", against="work_mem=17MB")], SIZES)
    assert kept == ["control work_mem=17MB", "arm work_mem=18MB", "twin work_mem=17MB"]
    assert compared == ["work_mem=18MB"]


def test_two_arms_neither_of_which_is_the_control_are_both_planned() -> None:
    _, compared = names([claim(arm="work_mem=18MB", against="work_mem=16MB")], SIZES)
    assert compared == ["work_mem=16MB", "work_mem=18MB"]


def test_strata_without_a_claim_are_not_planned() -> None:
    claims = [claim(arm="io_method=worker", against="io_method=sync", stratum="clients=8")]
    kept, compared = names(claims, GRID)
    assert compared == ["io_method=worker clients=8"]
    assert kept == [
        "control io_method=sync clients=8",
        "arm io_method=worker clients=8",
        "twin io_method=sync clients=8",
    ]


def test_a_control_that_is_claimed_alone_has_an_arm_beside_it() -> None:
    of_control = claim(arm="work_mem=17MB", cause="storage-throughput", says="limited")
    assert names([of_control], SIZES)[1] == ["work_mem=16MB"]
    both = [of_control, claim(arm="work_mem=18MB", against="work_mem=17MB")]
    assert names(both, SIZES)[1] == ["work_mem=18MB"]


def test_a_claim_of_whole_factors_takes_all_arms() -> None:
    of_factors = claim(factor="io_method", against_factor="clients", says="larger")
    assert claimed_arms([of_factors], *GRID) == GRID
    assert claimed_arms([], *GRID) == GRID


def test_an_arm_that_only_an_untried_claim_is_of_takes_no_other_claim_along() -> None:
    """Its arm can't be had here, so the other arm of the claim was not planned either."""
    stored = examples.stored()
    result = examples.result(stored)
    control, worker = (each.name for each in result.arms[:2])
    tried = claim(id="tried", arm=worker, against=control)
    untried = claim(id="untried", arm="io_method=another", against="io_method=left_out")

    def judged(**changes: Any) -> list[Any]:
        experiment = stored.experiment.model_copy(update=changes)
        return list(judge((tried, untried), result, replace(stored, experiment=experiment)))

    skipped = "io_method=another was skipped: it needs another build"
    first, second = judged(skipped=(skipped,))
    assert first.verdict != "can't be tried here"
    assert (second.verdict, second.why) == ("can't be tried here", skipped)
    # The build is there by now, and its arm is not: only arms that claims could be tried of were planned.
    first, second = judged(command=("pgassay", "claims", "run", "claims.toml", "--seed", "1"))
    assert first.verdict != "can't be tried here"
    assert second.verdict == "can't be tried here" and "in a new folder (--out)" in second.why
    with pytest.raises(UsageError, match="there is no arm"):
        judged(command=("pgassay", "run", "claims.toml"))


def test_each_condition_that_is_missing_is_told() -> None:
    of = claim(needs=Needs(cores=64, memory_gb=256.0, elsewhere="a managed service"))
    machine = MachineFacts(cores_online=2, memory_bytes=8 * 10**9)
    assert missing_condition(of, machine) == (
        "needs a managed service, 64 processors and 256 GB of memory; this machine has 2 and 8.0 GB"
    )
    assert missing_condition(claim(needs=Needs(cores=2)), machine) == ""
