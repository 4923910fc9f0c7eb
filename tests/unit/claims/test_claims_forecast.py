"""How many more blocks are said of a pair that the experiment gives no forecast of."""

import math
import random
from datetime import UTC, datetime, timedelta

import pytest

import analysis_samples
import report_examples as examples
from pgassay.analysis.claims.arm_claims import compared, further, more_blocks
from pgassay.analysis.claims.claim_blocks import further_of
from pgassay.analysis.claims.pair_forecast import forecast_of
from pgassay.experiment.claims.claim_outlooks import round_s
from pgassay.model.further_results.claims import Claim, JudgedClaim, Source
from pgassay.model.result import ArmResult

STORED = examples.stored()
CONTROL, ARM = examples.result(STORED).arms[:2]
MARGIN = 0.05


def arm(name: str, spread: float, ratio: float, blocks: int, seed: int, **changes: object) -> ArmResult:
    """An undecided arm whose trials spread so within blocks that spread by 10 %, this much faster."""
    chance, shared = random.Random(f"{name} {seed}"), random.Random(seed)
    fields = {
        "name": name,
        "ratio": ratio,
        "interval": (0.72, 1.41),
        "verdict": "inconclusive",
        "values": tuple(
            math.exp(chance.gauss(0, spread) + shared.gauss(0, 0.1)) / ratio for _ in range(blocks)
        ),
        "blocks": blocks,
        "forecast": None,
        "replicates": None,
        "starts": None,
    }
    return ARM.model_copy(update={**fields, **changes})


def more(found: ArmResult, other: ArmResult, *, is_between: bool = False, comparisons: int = 1) -> int:
    forecast = forecast_of(found, other, MARGIN, comparisons, is_between=is_between)
    assert forecast is not None and forecast.blocks[1] is not None
    return forecast.blocks[1]


def test_two_arms_that_are_alike_on_a_quiet_machine_take_few_more_blocks() -> None:
    """Six blocks bound little whatever the noise is: by the width alone it would be more than a thousand."""
    arms = tuple(arm(name, 0.01, 1.0, 6, 1) for name in ("work_mem=8MB", "work_mem=16MB"))
    result = examples.result(STORED, arms=(CONTROL, *arms), margin=MARGIN)
    claim = Claim(
        id="one",
        text="…",
        source=Source(title="A page"),
        arm=arms[0].name,
        against=arms[1].name,
        says="equal",
    )
    found = compared(claim, claim.arm, claim.against, result)
    assert found is not None and found.verdict == "inconclusive" and found.forecast is not None
    said = further(found, 4, MARGIN)
    assert said.startswith("about ") and 1 <= int(said.split()[1]) <= 30


def test_a_difference_at_the_edge_of_the_margin_takes_many_more_blocks_to_be_called_equal_or_not() -> None:
    """Its direction is proven, which decides nothing: as many more blocks are expected as are said."""
    found = arm("work_mem=8MB", 0.05, 1.111, 29, 1, verdict="faster", interval=(1.087, 1.133))
    result = examples.result(STORED, arms=(CONTROL, found), margin=0.1)
    claim = Claim(
        id="one", text="…", source=Source(title="A page"), arm=found.name, against=CONTROL.name, says="equal"
    )
    judged = JudgedClaim.of(claim, "", "", "undecided", here=found.ratio, interval=found.interval)
    more_there = further_of(claim, judged, result, STORED.experiment, 0.05)
    said = more_blocks(found.ratio, found.interval, found.blocks, 0.1, is_equal=True)
    assert math.ceil(more_there) == int(said.split()[1]) > 50


@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_the_spread_and_the_difference_ask_for(seed: int) -> None:
    def both(spread: float, ratio: float, blocks: int = 6) -> tuple[ArmResult, ArmResult]:
        return arm("a", spread, ratio, blocks, seed), arm("b", spread, 1.0, blocks, seed)

    noisy, quiet = more(*both(0.3, 1.1)), more(*both(0.01, 1.1))
    assert quiet == 2 < noisy
    # Half of the difference for each of two intervals; and the more comparisons, the longer.
    assert more(*both(0.3, 1.1), is_between=True) > 2 * noisy
    assert more(*both(0.3, 1.1), comparisons=20) > noisy
    # What should have sufficed is followed by a quarter more of it.
    assert more(*both(0.001, 1.2, blocks=40)) == 10
    # Three blocks on each set of copies count once.
    found, other = both(0.3, 1.1)
    assert more(found.model_copy(update={"replicates": 2}), other) > 2 * noisy


def test_nothing_is_said_of_too_few_blocks_or_of_starts() -> None:
    few, enough = arm("a", 0.05, 1.1, 2, 1), arm("a", 0.05, 1.1, 6, 1)
    assert forecast_of(few, few, MARGIN, 1, is_between=False) is None
    assert forecast_of(enough, few, MARGIN, 1, is_between=False) is None
    assert forecast_of(replace_starts(enough), enough, MARGIN, 1, is_between=False) is None


def replace_starts(found: ArmResult) -> ArmResult:
    return found.model_copy(update={"starts": 6})


def test_a_block_takes_its_trials_and_what_lies_between_two_blocks() -> None:
    """Copies of the data that arms have of their own often take longer than the trials."""
    plan = analysis_samples.experiment()
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    records = []
    for number in range(9):
        # Trials of 2 s one after the other, and 10 s before the second and the third block.
        started = begin + timedelta(seconds=2 * number + 10 * (number // 3))
        stamps = {"started_at": started.isoformat(), "ended_at": (started + timedelta(seconds=2)).isoformat()}
        arm = plan.arms[number % 3]
        records.append(analysis_samples.record(plan, number, number // 3, arm.id, 1.0, wall_s=2.0, **stamps))
    open_arms = [each.arm_id for each in plan.contrasts]
    assert round_s(analysis_samples.stored(plan, records), open_arms) == 3 * 2 + 10
    # Before the second block nothing is known of it.
    assert 6 < round_s(analysis_samples.stored(plan, records[:3]), open_arms) < 8
