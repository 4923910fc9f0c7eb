"""How long what is left of a run takes: a proof, and a search for what was not tried. Pure."""

import math
from collections.abc import Collection, Sequence

from pgassay.trial.shared_start import planned_turns
from pgassay.tune.proof.proof_arms import SharedArms
from pgassay.tune.search.proof_time import BLOCKS_MIN, PROOF_SHARE
from pgassay.tune.search.search import ALONE_SHARE
from pgassay.tune.search.selection import Seconds

# A verdict takes so many starts at least (docs/statistics.md), of which each has a server to start and stop.
STARTS_MIN, START_OVERHEAD_S = 3, 2.0
# Warming the caches reads what the statements read, and each arm's are executed once between readings.
EXECUTIONS_OF_AN_ARM = 2
# A proof that is expected to take longer than this many times what is left is not begun.
TOO_LONG_TIMES = 1.5
# Of the time that is left the search takes half (`look.py`).
SEARCHES_SHARE = 0.5
LEAST_S = 20.0


def start_s(
    shared: SharedArms, opened_s: float, base: Seconds, chosen: Seconds, endless: Collection[str] = ()
) -> float:
    """A start in which the arms take turns, in seconds. `base`, `chosen`: of the statements, by name.

    `opened_s`: what giving a server its copy of the data, and starting it, takes. `endless`: what a start
    stops as it is, once, and `base` has how long it is waited for.
    """
    # The chosen set has a twin.
    sets = (*shared.left_out.values(), ())
    arms = [_of_arm(shared, left_out, base, chosen) for left_out in sets]
    waited_s = math.fsum(math.fsum(each) for each in arms)
    once = {**base, **dict.fromkeys(endless, 0.0)}
    arms = [_of_arm(shared, left_out, once, chosen) for left_out in sets]
    turns = planned_turns(arms)
    round_s = math.fsum(
        seconds * (often + 1)
        for of_arm, counts in zip(arms, turns.repeats, strict=True)
        for seconds, often in zip(of_arm, counts, strict=True)
    )
    return opened_s + START_OVERHEAD_S + EXECUTIONS_OF_AN_ARM * waited_s + turns.usual * round_s


def _of_arm(shared: SharedArms, left_out: Sequence[str], base: Seconds, chosen: Seconds) -> tuple[float, ...]:
    """The seconds of the measured statements: as they are, where what touches them is left out."""
    slow = {name for each in left_out for name in shared.touched.get(each, ())}
    return tuple((base if name in slow else chosen)[name] for name in sorted(shared.statements))


def proof_s(block_s: float, data_s: float, *, is_shared: bool) -> float:
    """The shortest proof that can come to a verdict, of blocks that take so long."""
    return data_s + (STARTS_MIN if is_shared else BLOCKS_MIN) * block_s


def can_be_begun(needed_s: float, left_s: float) -> bool:
    """Whether a proof that takes so long can come to a verdict in the time that is left."""
    return needed_s <= TOO_LONG_TIMES * PROOF_SHARE * left_s


def search_on_s(
    base: Seconds, took_s: Collection[float], untried: int, proof_needed_s: float, load_s: float
) -> float:
    """How long it takes to try so many more, and to prove the set anew.

    `took_s`: what trying each of the others took; `load_s`: loading the data, 0 where they are there.
    """
    base_s = math.fsum(base.values())
    each_s = math.fsum(took_s) / len(took_s) if took_s else 2 * base_s
    searching_s = untried * each_s / ALONE_SHARE
    whole_s = max(searching_s / SEARCHES_SHARE, searching_s + proof_needed_s / PROOF_SHARE)
    return max(LEAST_S, load_s + 2 * base_s + whole_s)
