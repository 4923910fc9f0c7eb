"""Claims that follow from the verdicts on arms: of an order, of a price, of two factors."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import report_examples as examples
from pgassay.analysis.claims.judge_claims import judge, wanted_by
from pgassay.errors import UsageError
from pgassay.model.further_results.claims import Claim, JudgedClaim, Source
from pgassay.model.further_results.effects import FactorEffects, FactorSize
from pgassay.model.result import ArmResult
from pgassay.model.volumes.arm import ArmVolumes

STORED = examples.stored()
CONTROL, WORKER, URING = examples.result(STORED).arms[:3]
NAMES = tuple(arm.name for arm in (CONTROL, WORKER, URING))


def claim(**changes: Any) -> Claim:
    return Claim(**({"id": "one", "text": "…", "source": Source(title="A page")} | changes))


def judged(of: Claim, **result: Any) -> JudgedClaim:
    (found,) = judge((of,), examples.result(STORED, **result), STORED)
    return found


def arm(of: ArmResult, low: float, high: float, margin: float = 0.03, **changes: Any) -> ArmResult:
    verdict = "faster" if low > 1 else "slower" if high < 1 else "inconclusive"
    if low >= 1 / (1 + margin) and high <= 1 + margin:
        verdict = "equivalent"
    found = {"ratio": (low * high) ** 0.5, "interval": (low, high), "verdict": verdict, "withheld": False}
    return of.model_copy(update=found | changes)


@pytest.mark.parametrize(
    ("worker", "uring", "verdict"),
    [
        ((0.8, 0.9), (0.6, 0.7), "reproduced"),
        ((0.8, 0.9), (0.85, 0.95), "undecided"),
        ((1.1, 1.2), (0.6, 0.7), "refuted"),
        ((0.8, 0.9), (0.92, 0.97), "refuted"),
        ((0.99, 1.01), (0.6, 0.7), "no difference here"),
    ],
)
def test_an_order_is_that_of_all_neighbours(
    worker: tuple[float, float], uring: tuple[float, float], verdict: str
) -> None:
    found = judged(
        claim(order=NAMES, says="ordered"), arms=(CONTROL, arm(WORKER, *worker), arm(URING, *uring))
    )
    assert found.verdict == verdict and found.why


ENDS = st.tuples(st.floats(0.5, 2.0), st.floats(1.001, 1.3)).map(lambda made: (made[0], made[0] * made[1]))


@given(worker=ENDS, uring=ENDS, order=st.permutations(NAMES))
def test_what_is_said_of_an_order_is_true_of_all_speeds_in_the_intervals(
    worker: tuple[float, float], uring: tuple[float, float], order: list[str]
) -> None:
    of = claim(order=tuple(order), says="ordered")
    verdict = judged(of, arms=(CONTROL, arm(WORKER, *worker), arm(URING, *uring))).verdict
    for speeds in itertools.product((1.0,), worker, uring):
        named = dict(zip(NAMES, speeds, strict=True))
        falls = [named[one] > named[next_] for one, next_ in itertools.pairwise(order)]
        if verdict == "reproduced":
            assert all(falls)
        if verdict == "refuted":
            assert not all(falls)


def test_a_withheld_arm_leaves_the_order_open() -> None:
    arms = (CONTROL, arm(WORKER, 0.8, 0.9, withheld=True), arm(URING, 0.6, 0.7))
    of = claim(order=NAMES, says="ordered")
    assert judged(of, arms=arms).verdict == "undecided"
    result = examples.result(STORED, arms=arms)
    open_arms = wanted_by((of,), result, STORED)
    assert {each.name for each in STORED.experiment.arms if each.id in open_arms} == {*NAMES[1:]}


def test_why_a_verdict_is_withheld_is_the_arm_s_own_reason() -> None:
    busy = "the load generator was busy for 98 % of the time, so this measures the client, not the server"
    client_bound = arm(WORKER, 0.8, 0.9, verdict="inconclusive", withheld=True, note=f"withheld: {busy}")
    arms = (CONTROL, client_bound, arm(URING, 0.6, 0.7))
    speed = claim(arm=WORKER.name, against=CONTROL.name, says="slower")
    assert judged(speed, arms=arms).why == f"the verdict is withheld: {busy}"
    # Of two arms beside the control, of which the other one's is withheld.
    between = claim(arm=URING.name, against=WORKER.name, says="slower")
    assert judged(between, arms=arms).why == f"the verdict is withheld: {busy}"
    assert judged(claim(order=NAMES, says="ordered"), arms=arms).why.endswith(busy)
    of_arms = (volumes(CONTROL.name, 100.0), volumes(WORKER.name, 110.0))
    assert judged(PRICE, arms=arms, volumes=of_arms).why.endswith(busy)


def volumes(name: str, per_month: float | None, currency: str = "USD") -> ArmVolumes:
    return ArmVolumes.model_construct(
        arm=name,
        stratum="",
        per_month=per_month,
        currency=currency,
        missing=() if per_month is not None else ("rds-gp3",),
    )


PRICE = claim(arm=WORKER.name, against=CONTROL.name, price=True, says="cheaper")


def priced(of: Claim, low: float, high: float, month: float | None = 110.0, **changes: Any) -> JudgedClaim:
    of_arms = (volumes(CONTROL.name, 100.0), volumes(WORKER.name, month, **changes))
    return judged(of, arms=(CONTROL, arm(WORKER, low, high), URING), volumes=of_arms)


def test_a_price_is_that_of_a_unit_of_work() -> None:
    found = priced(PRICE, 1.9, 2.1)
    assert found.verdict == "reproduced" and found.interval == pytest.approx((1.1 / 2.1, 1.1 / 1.9))
    assert "110.00 and 100.00 USD a month" in found.why and "cheaper" in found.why
    assert priced(PRICE, 0.8, 0.9).verdict == "refuted"
    # Faster by as much as it costs more.
    assert priced(PRICE, 1.099, 1.101).verdict == "no difference here"
    assert priced(PRICE, 1.0, 1.2).verdict == "undecided"
    dearer = PRICE.model_copy(update={"says": "dearer", "published": 1.3, "band": (1.2, 1.5)})
    assert priced(dearer, 0.8, 0.9).verdict == "reproduced"
    assert priced(dearer, 0.4, 0.5).verdict == "same direction, other size"
    # The estimate lies outside the band; another run could have it within.
    at_the_edge = priced(dearer, 0.55, 0.9)
    assert at_the_edge.here is not None and at_the_edge.here > 1.5
    assert at_the_edge.verdict == "reproduced" and "its interval reaches the band" in at_the_edge.why
    equal = PRICE.model_copy(update={"says": "equal"})
    assert priced(equal, 1.099, 1.101).verdict == "reproduced"
    assert priced(equal, 1.9, 2.1).verdict == "refuted"


def test_how_many_more_blocks_a_price_takes_is_not_what_the_speed_takes() -> None:
    """Where it is certain that an arm is faster, it may be open whether it is worth its price."""

    def told(of: Claim, *interval: float) -> str:
        decided = arm(WORKER, *interval, blocks=16)
        of_arms = (volumes(CONTROL.name, 100.0), volumes(WORKER.name, 110.0))
        found = judged(of, arms=(CONTROL, decided, URING), volumes=of_arms)
        assert found.verdict == "undecided"
        return found.why

    assert told(PRICE, 1.05, 1.3).endswith("about 35 more blocks would decide it")
    equal = PRICE.model_copy(update={"says": "equal"})
    assert "more blocks would decide it" in told(equal, 1.11, 1.25)
    assert "perhaps by no more than the margin" in told(equal, 1.11, 1.25)


def test_a_price_of_nothing_has_no_ratio() -> None:
    assert priced(PRICE, 1.9, 2.1, 0.0).verdict == "can't be tried here"
    of_arms = (volumes(CONTROL.name, 0.0), volumes(WORKER.name, 10.0))
    found = judged(PRICE, arms=(CONTROL, arm(WORKER, 1.9, 2.1), URING), volumes=of_arms)
    assert found.why == f"{CONTROL.name} costs nothing, so that prices have no ratio"


def test_without_a_price_the_claim_can_t_be_tried() -> None:
    found = priced(PRICE, 1.9, 2.1, None)
    assert (found.verdict, found.why) == (
        "can't be tried here",
        "the catalogue of volumes has no price of rds-gp3",
    )
    assert priced(PRICE, 1.9, 2.1, currency="EUR").verdict == "can't be tried here"
    assert judged(PRICE, volumes=()).verdict == "undecided"


def effects(storage: FactorSize, method: FactorSize) -> FactorEffects:
    return FactorEffects.model_construct(ranking=(storage, method))


def test_two_factors_are_told_apart_by_what_is_proven_of_each() -> None:
    factors = {"storage": "gp3", "io_method": "sync"}
    levels = tuple(each.model_copy(update={"levels": factors}) for each in STORED.experiment.arms)
    stored = replace(STORED, experiment=STORED.experiment.model_copy(update={"arms": levels}))

    def found(of: Claim, storage: FactorSize, method: FactorSize) -> str | None:
        (each,) = judge((of,), examples.result(stored, effects=effects(storage, method)), stored)
        return each.verdict

    large = FactorSize(factor="storage", ratio=2.0, interval=(1.9, 2.2), at_most=2.2)
    small = FactorSize(factor="io_method", at_most=1.02)
    open_ = FactorSize(factor="io_method")
    huge = FactorSize(factor="storage", ratio=1271.4, interval=(1144.0, 1399.0), at_most=1399.0)
    of = claim(factor="storage", against_factor="io_method", says="larger")
    assert found(of, large, small) == "reproduced"
    assert found(of, large, open_) == "undecided"
    (each,) = judge((of,), examples.result(stored, effects=effects(huge, small)), stored)
    assert each.why.startswith("storage: 1,271 ×, at most 1,399 ×; io_method: at most 1.02 ×")
    # A second level of io_method may do more than the one that is proven.
    proven = FactorSize(factor="io_method", ratio=1.5, interval=(1.4, 1.6))
    assert found(of, large, proven) == "undecided"
    assert found(of, large, proven.model_copy(update={"at_most": 2.5})) == "undecided"
    assert found(of, large, proven.model_copy(update={"at_most": 1.6})) == "reproduced"
    swapped = claim(factor="io_method", against_factor="storage", says="larger")
    assert found(swapped, large, small) == "refuted"
    (none,) = judge((of,), examples.result(stored), stored)
    assert none.verdict == "undecided"
    wanted = wanted_by((of,), examples.result(stored), stored)
    assert wanted == {each.id for each in stored.experiment.arms if each.role == "arm"}
    with pytest.raises(UsageError, match="clients is not a factor"):
        judge((of.model_copy(update={"factor": "clients"}),), examples.result(stored), stored)
