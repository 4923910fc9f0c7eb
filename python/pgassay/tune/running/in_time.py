"""Which of the chosen fixes the time left can prove in one server, and by which statements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.proof.proof_arms import SharedArms, shared_arms
from pgassay.tune.running.time_needed import proof_s, start_s
from pgassay.tune.search.proof_time import PROOF_SHARE
from pgassay.tune.search.search_run import SearchRun
from pgassay.tune.search.selection import Baseline, Seconds, gain_over


@dataclass(frozen=True)
class ArmsInTime:
    """The arms of a proof. `cut`: by id what is left out for lack of time, and what it gains by the search.

    `whole_block_s`: what a start would take in which nothing is left out.
    """

    shared: SharedArms
    cut: Mapping[str, float]
    whole_block_s: float


def arms_in_time(
    run: SearchRun, chosen: Seconds, members: Sequence[Candidate], facts: SchemaFacts | None, left_s: float
) -> ArmsInTime:
    """The arms of the most statements whose proof can come to a verdict in the time that is left.

    The run's baseline and `chosen`: the workload as its proof has it, as it is and with all members. Where
    the proof of all takes too long, the statement that takes most of it is left out, and what serves that one
    alone: one slow report would else leave all others unproven. One that is served stays in any case, and so
    do writes, which tell what the fixes cost. Raises as `shared_arms`.
    """
    everything = shared = shared_arms(run, members, facts)
    whole, kept, cut = run.baseline, [*members], dict[str, float]()
    block_s = whole_block_s = _block_s(run, shared, chosen)
    while len(served := _served(shared)) > 1 and proof_s(block_s, 0.0, is_shared=True) > PROOF_SHARE * left_s:
        slowest = max(sorted(served), key=lambda name: _taken_s(name, shared, whole, chosen))
        left = replace(
            run.baseline,
            statements=tuple(each for each in run.baseline.statements if each.name != slowest),
            endless=tuple(name for name in run.baseline.endless if name != slowest),
        )
        run, names = replace(run, baseline=left), {each.name for each in left.statements}
        for member in [each for each in kept if each.id in everything.touched]:
            touched = everything.touched[member.id]
            if names.isdisjoint(touched):
                kept.remove(member)
                cut[member.id] = gain_over(whole.weights, whole.seconds, chosen, touched)
        shared = shared_arms(run, kept, facts)
        block_s = _block_s(run, shared, chosen)
    return ArmsInTime(shared, cut, whole_block_s)


def _served(shared: SharedArms) -> set[str]:
    """The statements that some member does something to."""
    return {name for names in shared.touched.values() for name in names}


def _block_s(run: SearchRun, shared: SharedArms, chosen: Seconds) -> float:
    return start_s(shared, run.copy.opened_s, run.baseline.seconds, chosen, run.baseline.endless)


def _taken_s(name: str, shared: SharedArms, baseline: Baseline, chosen: Seconds) -> float:
    """What a statement takes in all arms, once in each."""
    touching = {each for each, names in shared.touched.items() if name in names}
    slow = sum(not touching.isdisjoint(left_out) for left_out in shared.left_out.values())
    return slow * baseline.seconds[name] + (len(shared.left_out) + 1 - slow) * chosen[name]
