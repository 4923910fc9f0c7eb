"""How long an experiment of a run of claims is wanted: while no other is expected to decide more."""

import time
from dataclasses import replace

import pytest

import report_examples as examples
from pgassay.analysis.claims.arm_claims import blocks_least
from pgassay.analysis.claims.claim_blocks import blocks_first, expected_of, least_of, pair_level
from pgassay.experiment.claims.run_claims import _Budget
from pgassay.experiment.claims.run_order import Outlook, Turn, Waiting
from pgassay.experiment.running.stopping_rules import standing_of
from pgassay.model.further_results.claims import Claim, Source
from pgassay.model.result import CompareResult, Forecast

STORED = examples.stored()
CONTROL, ARM = (arm for arm in examples.result(STORED).arms[:2])
CLAIM = Claim(
    id="one", text="…", source=Source(title="A page"), arm=ARM.name, against=CONTROL.name, says="faster"
)
LEAST = blocks_least(STORED.experiment)
SHARE_S = 100.0


def result(median: int | None, blocks: int = LEAST, verdict: str = "inconclusive") -> CompareResult:
    forecast = Forecast(blocks=(None, median, None), seconds=(None, None, None))
    arm = ARM.model_copy(update={"verdict": verdict, "blocks": blocks, "forecast": forecast})
    return examples.result(STORED, arms=(CONTROL, arm), blocks=blocks)


def is_wanted(
    found: CompareResult, *, share_s: float = SHARE_S, rival_rate: float = 0.0, left_s: float = 1e6
) -> bool:
    turn = Turn(Waiting("one", (Outlook(1.0),)), share_s, rival_rate)
    budget = _Budget((CLAIM,), 0, turn, time.monotonic() + left_s)
    return bool(budget(found, replace(STORED)))


@pytest.mark.parametrize(("median", "wanted"), [(1, True), (10_000, False)])
def test_it_goes_on_while_no_other_would_decide_more(median: int, wanted: bool) -> None:
    """Another promises a verdict in 100 s; this one needs a block, or ten thousand."""
    assert is_wanted(result(median), share_s=0.0, rival_rate=0.01) == wanted
    assert is_wanted(result(median))


def test_with_no_verdict_in_sight_it_has_its_share() -> None:
    assert is_wanted(result(10_000), left_s=1000.0)
    assert not is_wanted(result(10_000), share_s=0.0, left_s=1000.0)


def test_a_verdict_that_is_always_near_and_never_comes_ends_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found in a run of all: two claims were "nearly decided" for 40 minutes, which 37 others lacked."""
    clock_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock_s[0])
    turn = Turn(Waiting("one", (Outlook(1.0),)), share_s=0.0, rival_rate=0.01)
    budget = _Budget((CLAIM,), 0, turn, ends_at=1e6)
    wanted = []
    for _ in range(100):
        wanted.append(bool(budget(result(1), replace(STORED))))
        clock_s[0] += 10.0
    assert wanted[0] and not wanted[-1]
    assert wanted == sorted(wanted, reverse=True)


def test_the_blocks_of_a_first_verdict_are_run_if_they_fit() -> None:
    early = result(None, blocks=1)
    assert is_wanted(early, share_s=0.0)
    assert not is_wanted(early, left_s=0.0)


def test_a_decided_claim_wants_nothing() -> None:
    assert not is_wanted(result(None, verdict="faster"))


def test_an_arm_of_which_no_claim_is_open_rests() -> None:
    """Though it has no verdict; and one with a verdict goes on where a claim is open."""
    both = [arm.id for arm in STORED.experiment.arms if arm.role == "arm"]
    for verdict in ("inconclusive", "faster"):
        found = result(None, verdict=verdict)
        assert standing_of(STORED, found, lambda *_: both[:1]) == ("", frozenset(both[1:]))
    assert standing_of(STORED, result(None), lambda *_: ())[0] == "interrupted"


def test_a_statement_takes_the_blocks_of_its_family_and_a_pair_those_of_the_sign_test() -> None:
    """Else an experiment is left before any of its claims can be decided."""
    experiment = STORED.experiment
    of_statement = CLAIM.model_copy(update={"statement": "read-table"})
    of_pair = CLAIM.model_copy(update={"statement": "count", "against_statement": "sum", "against": ""})
    level = pair_level([of_pair, of_pair, of_statement], experiment.contract.alpha)
    assert level == experiment.contract.alpha / 2
    assert least_of(CLAIM, experiment, level) == LEAST <= least_of(of_statement, experiment, level)
    assert blocks_first([of_pair], experiment, level) == 8
    assert blocks_first([of_pair, CLAIM], experiment, level) == LEAST
    # The smaller the difference that was published, the more blocks; "equal" takes most.
    sizes = [expected_of(each, experiment, level, 0.05) for each in (of_size(2.0), of_size(1.1), EQUAL)]
    assert LEAST <= sizes[0] < sizes[1] < sizes[2]


def of_size(published: float) -> Claim:
    return CLAIM.model_copy(update={"published": published})


EQUAL = CLAIM.model_copy(update={"says": "equal"})
