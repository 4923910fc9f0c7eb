"""What a gate's time can find, said before its first trial and held against the noise that was met."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgassay.analysis.gate.judge_gate import NOTHING_DIFFERS
from pgassay.analysis.gate.units import findable_effect
from pgassay.analysis.statistics.power import minimum_blocks
from pgassay.analysis.statistics.starts import STARTS_MIN
from pgassay.model.gates.gate import GatedSystem, GateResult, GateRule
from pgassay.words import duration_rounded, figure, join, percent_rounded, plural

# Of single trials, where nothing is known of their spread: what a shared virtual machine shows.
SPREAD_UNKNOWN = 0.07
# So many of the latest runs say how a unit's trials spread here.
RUNS_ASKED = 5


@dataclass(frozen=True)
class TimeBudget:
    """The time of one workload's experiment, and what becomes of it.

    trial_s: one trial with all that is around it; members: the trials of a block; blocks_max: a limit that
    was typed. blocks_per_row: the blocks that count once, where arms own copies of the data. by_starts: a
    block is a start of one server in which both sides take turns.
    """

    time_s: float
    trial_s: float
    members: int
    blocks_max: int
    blocks_per_row: int = 1
    pooled: bool = True
    by_starts: bool = False

    @property
    def blocks(self) -> int:
        """The blocks that it has room for."""
        return min(self.blocks_max, int(max(self.time_s, 0.0) / (self.trial_s * self.members) + 1e-9))

    @property
    def rows(self) -> int:
        """The units of evidence that it has room for."""
        return self.blocks // self.blocks_per_row

    def findable(self, spread: float, rule: GateRule) -> float | None:
        """The slow-down that it finds with 90 % where single trials spread so; None for none."""
        return findable_effect(self.rows, spread, rule, pooled=self.pooled, by_starts=self.by_starts)


@dataclass(frozen=True)
class Noise:
    """The spread of a single trial's log speed by unit ('' is the workload), and in words whence it is known.

    {}: nothing is known.
    """

    spreads: Mapping[str, float]
    source: str


def noise_of(gates: Sequence[GateResult], workload: str, spread: float | None) -> Noise:
    """What earlier gates of a history showed of a workload's units, else what the machine remembers of it.

    gates: oldest first; spread: of the workload's total, from other experiments of this kind, if known.
    """
    found: dict[str, list[float]] = {}
    asked = [gate for gate in gates if any(each.name == workload for each in gate.workloads)][-RUNS_ASKED:]
    for gate in asked:
        for unit in gate.units:
            if unit.workload == workload and unit.spread:
                found.setdefault(unit.statement, []).append(unit.spread)
    spreads = {
        name: math.sqrt(math.fsum(value**2 for value in values) / len(values))
        for name, values in found.items()
    }
    if spreads:
        return Noise(spreads, f"at the noise of this machine in {plural(len(asked), 'earlier run')}")
    if spread:
        return Noise({"": spread}, "at the noise of this machine in earlier experiments of this kind")
    return Noise({}, "")


def promise(name: str, time: TimeBudget, noise: Noise, rule: GateRule) -> str:
    """What the time finds with 90 %, in one or two sentences."""
    span = duration_rounded(time.time_s)
    given = f"{name}: {span} {'is' if span.startswith('1 ') else 'are'} "
    if time.blocks == 0:
        block_s = duration_rounded(time.trial_s * time.members)
        one = "one start" if time.by_starts else f"one block of {time.members} trials"
        less = f"{given}less than {one} takes ({block_s})"
        if time.time_s < 1:
            less = f"{name}: no time is left, and {one} takes {block_s}"
        return f"{less}, so nothing will be found: {_remedy(time, rule)}."
    if time.by_starts:
        given += f"about {plural(time.blocks, 'start')} of one server for both sides"
    else:
        given += f"about {plural(time.blocks, 'block')} of {time.members} trials"
    if time.findable(SPREAD_UNKNOWN, rule) is None:
        return f"{given}, too few to find any slow-down: {_remedy(time, rule)}."
    if not noise.spreads:
        known = time.findable(SPREAD_UNKNOWN, rule) or math.inf
        return (
            f"{given}: a slow-down of {percent_rounded(known)} is found with 90 % probability if single "
            f"trials spread by {percent_rounded(SPREAD_UNKNOWN)}; their spread here is not known yet."
        )
    effects = {unit: time.findable(spread, rule) or math.inf for unit, spread in noise.spreads.items()}
    ordered = sorted(effects, key=lambda unit: effects[unit])
    middle, noisiest = ordered[(len(ordered) - 1) // 2], ordered[-1]
    sentence = (
        f"{given}: a slow-down of {percent_rounded(effects[middle])} is found with 90 %, {noise.source}"
    )
    if len(ordered) > 1:
        sentence += (
            f" (the median of {len(ordered)} units; in the noisiest, {noisiest or 'the whole'}, one of "
            f"{percent_rounded(effects[noisiest])})"
        )
    return f"{sentence}."


def _remedy(time: TimeBudget, rule: GateRule) -> str:
    alpha = 2 * rule.units / rule.threshold
    least = minimum_blocks(pooled=time.pooled, contrasts=rule.units, alpha=alpha) * time.blocks_per_row
    least = STARTS_MIN if time.by_starts else least
    # Below the least number nothing is found whatever the effect; a little above it only large ones are.
    least_s = least * time.trial_s * time.members
    return (
        f"give it {duration_rounded(2 * least_s)} (a large slow-down needs {duration_rounded(least_s)}), "
        "or gate fewer statements"
    )


def opening(
    names: Sequence[str], equal: Sequence[str], baseline: GatedSystem, rule: GateRule | None
) -> list[str]:
    """What is compared, how false alarms are bounded, and what is left out since nothing differs for it.

    rule: None where there is nothing to run.
    """
    if rule is None:
        return [NOTHING_DIFFERS]
    at = f" ({baseline.revision[:12]})" if baseline.revision else ""
    alarms = rule.false_alarms_per_year
    allowed = f"{figure(alarms, 6)} false alarm{'s' if alarms != 1 else ''}"
    sentences = [
        f"gate: {join(names)} against {baseline.name}{at}, {plural(rule.units, 'unit')}; at "
        f"{figure(rule.runs_per_year, 6)} runs a year at most {allowed} over all of them are expected"
    ]
    if equal:
        verb = "is" if len(equal) == 1 else "are"
        sentences.append(f"{join(equal)} {verb} left out: nothing in them differs")
    return sentences
