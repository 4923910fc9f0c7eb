"""Claims of two statements of one arm, of blocks, settings and limits: judged by what trials recorded."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import report_examples as examples
from pgassay.analysis.claims.claim_blocks import is_open
from pgassay.analysis.claims.judge_claims import judge, wanted_by
from pgassay.errors import UsageError
from pgassay.model.cause import Cause
from pgassay.model.further_results.claims import Claim, JudgedClaim, Source
from pgassay.model.plans.executed_plan import StatementPlan
from pgassay.model.plans.explained_plan import PlanNode
from pgassay.model.trial import TrialFacts
from pgassay.record.experiment import StoredExperiment

BLOCK = 8192
CONTROL, ARM = "io_method=sync", "io_method=worker"
FIRST, SECOND = examples.STATEMENTS[:2]


def claim(**changes: Any) -> Claim:
    fields = {"id": "one", "text": "…", "source": Source(title="A page"), "arm": CONTROL, "says": "faster"}
    return Claim(**(fields | changes))


def stored(
    blocks: int,
    seed: int = 1,
    times: float = 1.0,
    spread: float = 0.05,
    *,
    is_counted: bool = True,
    settings: dict[str, dict[str, str]] | None = None,
) -> StoredExperiment:
    """SECOND takes FIRST's time times `times`, with noise; both ask for 10 blocks or for 1,000."""
    random = np.random.default_rng(seed)
    of = examples.stored(blocks=blocks)
    names = {arm.id: arm.name for arm in of.experiment.arms}

    def changed(trial: Any) -> Any:
        arm = names[trial.record.arm_id]
        asked = 10 if arm == CONTROL else 1000
        first, second, *others = trial.record.statements
        hit = {"postgres_hit_bytes": asked * BLOCK if is_counted else None, "postgres_read_bytes": 0}
        first = first.model_copy(update={"elapsed_s": 1.0, **hit})
        noise = math.exp(spread * random.standard_normal())
        second = second.model_copy(update={"elapsed_s": times * noise, **hit})
        facts = TrialFacts(settings=(settings or {}).get(arm, {}))
        update = {"statements": (first, second, *others), "facts": facts}
        return replace(trial, record=trial.record.model_copy(update=update))

    return replace(of, trials=tuple(map(changed, of.trials)))


def judged(of: Claim, by: StoredExperiment, **result: Any) -> JudgedClaim:
    (found,) = judge((of,), examples.result(by, **result), by)
    return found


def test_a_statement_against_another_of_the_control() -> None:
    of = claim(statement=FIRST, against_statement=SECOND, published=2.0, band=(1.5, 2.5))
    found = judged(of, stored(12, times=2.0))
    assert found.verdict == "reproduced" and found.interval is not None
    low, high = found.interval
    assert low is not None and high is not None and low < 2.0 < high and low > 1.8
    assert judged(of, stored(12, times=4.0)).verdict == "same direction, other size"
    assert judged(of, stored(12, times=0.5)).verdict == "refuted"
    assert judged(of, stored(12, times=1.0, spread=0.001)).verdict == "no difference here"
    assert judged(of, stored(12, times=1.0, spread=0.5)).verdict == "undecided"
    assert "a verdict takes 7 at least" in judged(of, stored(3, times=9.0)).why


def test_more_blocks_are_wanted_of_an_arm_that_runs_with_the_control() -> None:
    of = claim(statement=FIRST, against_statement=SECOND)
    few = stored(3, times=2.0)
    result = examples.result(few)
    assert is_open(of, judged(of, few), 3)
    arms = {arm.id for arm in few.experiment.arms if arm.role == "arm"}
    assert wanted_by((of,), result, few) and wanted_by((of,), result, few) <= arms
    enough = stored(12, times=2.0)
    assert not wanted_by((of,), examples.result(enough), enough)


def test_false_directions_of_statements_are_rare_at_every_look() -> None:
    """Two statements that take as long, looked at after each block from 1 to 30."""
    of = claim(statement=FIRST, against_statement=SECOND)
    wrong = 0
    for seed in range(60):
        whole = stored(30, seed=seed)
        for blocks in range(8, 31, 2):
            trials = tuple(trial for trial in whole.trials if trial.record.block < blocks)
            if judged(of, replace(whole, trials=trials)).verdict in ("reproduced", "refuted"):
                wrong += 1
                break
    assert wrong <= 7  # of 60 at 5 %: more are as improbable as 2 %


def test_two_claims_on_statements_share_the_level() -> None:
    of = claim(statement=FIRST, against_statement=SECOND)
    by = stored(7, times=2.0)
    result = examples.result(by)
    (alone,) = judge((of,), result, by)
    both = judge((of, of.model_copy(update={"id": "two"})), result, by)
    assert alone.verdict == "reproduced"
    assert [each.verdict for each in both] == ["undecided", "undecided"]


def test_blocks_are_counted() -> None:
    of = claim(arm=CONTROL, against=ARM, statement=FIRST, says="fewer", blocks=True, published=0.0099)
    of = of.model_copy(update={"band": (0.008, 0.012)})
    found = judged(of, stored(2))
    assert found.verdict == "reproduced"
    assert found.here == pytest.approx(0.01) and "10 and 1,000 blocks" in found.why
    assert judged(of.model_copy(update={"says": "more"}), stored(2)).verdict == "refuted"
    plans = tuple(
        StatementPlan.model_construct(
            statement=FIRST, arm=arm, stratum="", executed=True, nodes=(_top(blocks),)
        )
        for arm, blocks in ((CONTROL, 3), (ARM, 300))
    )
    by_plan = judged(of, stored(2), plans=plans)
    assert by_plan.verdict == "reproduced" and "3 and 300 blocks in the executed plans" in by_plan.why
    alike = claim(statement=FIRST, against_statement=SECOND, says="equal", blocks=True)
    assert judged(alike, stored(2)).verdict == "reproduced"
    uncounted = stored(2, is_counted=False)
    assert judged(of, uncounted).verdict == "undecided"


def _top(blocks: int) -> PlanNode:
    return PlanNode.model_construct(id=0, buffers_hit=blocks - 1, buffers_read=1)


def test_settings_of_both_arms_are_those_of_their_servers() -> None:
    of = claim(arm=ARM, against=CONTROL, says="differs", setting="checkpoint_completion_target")
    name = of.setting
    same = stored(1, settings={CONTROL: {name: "0.9"}, ARM: {name: "0.9"}})
    found = judged(of, same)
    assert found.verdict == "refuted" and found.why == f"{name} is 0.9 in both"
    other = stored(1, settings={CONTROL: {name: "0.5"}, ARM: {name: "0.9"}})
    assert judged(of, other).verdict == "reproduced"
    assert judged(of.model_copy(update={"says": "equal"}), other).verdict == "refuted"
    assert "not among the settings" in judged(of, stored(1)).why


def test_a_limit_is_that_of_most_trials() -> None:
    of = claim(says="limited", cause="storage-throughput")
    by = stored(4)
    assert judged(of, by, causes=()).verdict == "undecided"
    # Of data that were in memory nobody knows what another device would have done.
    causes = ("storage-throughput", "backend-core", "cached", "unknown")
    limits = {cause: _limit(cause) for cause in causes}
    verdicts = {cause: judged(of, by, causes=(limit,)).verdict for cause, limit in limits.items()}
    assert verdicts == {
        "storage-throughput": "reproduced",
        "backend-core": "refuted",
        "cached": "undecided",
        "unknown": "undecided",
    }
    assert "3 at least" in judged(of, stored(2), causes=(limits["backend-core"],)).why


def _limit(cause: str) -> Cause:
    return Cause.model_construct(arm=CONTROL, stratum="", kind="limit", cause=cause)


def test_a_statement_that_is_not_there_is_refused() -> None:
    of = claim(statement=FIRST, against_statement="none-such")
    with pytest.raises(UsageError, match=r"there is no statement 'none-such' in .*, which has "):
        judged(of, stored(2))
