"""Sets of fixes timed in turn on the copy, so that a machine that gets faster or slower favours none of them.

What the search times once, minutes after the workload as it was, is good enough to say what is worth a
closer look. Three questions need more: whether a fix that looked slower is, which of two that gain about as
much is faster, and what the chosen set will gain in the proof.
"""

import math
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pgassay.errors import MeasurementError, UsageError
from pgassay.tune.candidate import Candidate
from pgassay.tune.proof.proof_arms import AS_IT_IS, CHOSEN, without
from pgassay.tune.search.search_run import SearchRun
from pgassay.tune.search.selection import ROUNDS, Baseline, Seconds, Tried, is_longer, total_s
from pgassay.tune.tuned_statements import sql_with

# Of the chosen set and the sets beside it: each is timed so often at most, and at least, if twice the time
# that is meant for it has room for that.
PREDICTION_ROUNDS_MAX, PREDICTION_ROUNDS_MIN = 6, 3
# Data of so many bytes are put back in about a second.
PUT_BACK_BYTES_MAX = 512 << 20
# In fewer rounds nothing that was chosen is left out again.
LEAVING_ROUNDS_MIN = 4
# Of normal values: their deviation over the median distance from their median, times the deviation of the
# median of many over that of their mean.
MEDIAN_DEVIATION_TIMES = 1.4826 * math.sqrt(math.pi / 2)
# Of those that gain about as much as the best and are cheaper so many are set beside it; smaller is what
# takes at most this part of its space.
CHEAPER_MAX, SMALLER_SHARE_MAX = 2, 0.8
# What takes at most this part of the space of another is taken where that spares the workload less than the
# margin of what it takes now.
TINY_SHARE_MAX = 0.1
# An index that serves one value alone must be that much faster than one that serves all.
GENERAL_TIMES_MAX = 1.5
# Timed once, and without time for turns, two are alike where the workload takes no longer than that beside.
ALIKE_TIMES_MAX = 1.1


def timed(
    run: SearchRun, fixes: Sequence[Candidate], names: Collection[str], *, anew: bool = False
) -> dict[str, float]:
    """Have exactly these fixes applied, and time these statements. Raises UsageError, MeasurementError.

    `anew`: on data that were put back, where what writes is timed once, as a trial does it.
    """
    run.copy.align(fixes, anew=anew)
    texts = {rewrite.statement: rewrite.sql for each in fixes for rewrite in each.rewrites}
    return {
        each.name: run.copy.seconds(
            each,
            sql_with(each, texts),
            usual_s=run.baseline.seconds[each.name],
            once=anew and each.of.writes,
        )
        for each in run.baseline.statements
        if each.name in names
    }


def seconds_in_turn(
    run: SearchRun, one: Sequence[Candidate], other: Sequence[Candidate], names: Collection[str]
) -> tuple[list[Seconds], list[Seconds]] | None:
    """The seconds of these statements in each round with `one` set of fixes, and with the `other`.

    None where a set can't be applied.
    """
    taken: dict[bool, list[Seconds]] = {False: [], True: []}
    try:
        for is_other in ROUNDS:
            taken[is_other].append(timed(run, other if is_other else one, names))
    except (UsageError, MeasurementError):
        return None
    return taken[False], taken[True]


def totals(baseline: Baseline, others: Seconds, rounds: Sequence[Seconds]) -> tuple[float, ...]:
    """The workload's seconds in each round; `others`: the seconds of what was not timed in them."""
    return tuple(total_s(baseline.weights, {**others, **each}) for each in rounds)


def time_in_turn(
    run: SearchRun,
    one: Sequence[Candidate],
    other: Sequence[Candidate],
    names: Collection[str],
    others: Seconds,
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """The whole workload's seconds in each round, likewise; `others`: those of the statements not timed."""
    rounds = seconds_in_turn(run, one, other, names)
    if rounds is None:
        return None
    return totals(run.baseline, others, rounds[0]), totals(run.baseline, others, rounds[1])


@dataclass(frozen=True)
class PairedTiming:
    """Decides by timing in turn what one timing of each candidate does not tell. `tried`: by id.

    `on_top`: by id what one touches on top of what was taken, where that was asked. The record's `alike` gets
    by the id of what was not taken the one that was, where their gains could not be told apart.
    """

    run: SearchRun
    tried: Mapping[str, Tried]
    on_top: dict[str, Seconds] = field(default_factory=dict)
    # By the id of what spares too little for its space the one that was taken instead.
    dearer: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _candidates(self) -> dict[str, Candidate]:
        return self.run.found.by_id

    def preferred(self, taken: Sequence[str], names: Sequence[str], current: Seconds) -> str:
        """Of the best (the first) and those that gain about as much: which is taken.

        One that serves more values, else the smallest, unless the best is clearly faster. Only what takes
        space in the database is compared by it.
        """
        best, *others = names
        cheaper = [name for name in others if self._is_cheaper(name, best)]
        cheaper.sort(key=lambda name: (self._candidates[name].for_one_value, self.tried[name].bytes or 0))
        for name in cheaper[:CHEAPER_MAX]:
            if self._is_as_good(taken, name, best, current):
                return name
        return best

    def _is_as_good(self, taken: Sequence[str], name: str, best: str, current: Seconds) -> bool:
        """Whether a cheaper one is taken in the place of the best; without time for turns by one timing."""
        rounds = self._rounds(taken, name, best, current)
        if rounds is None:
            is_alike = is_good = not taken and self._took_alike(name, best)
        else:
            is_general = self._candidates[best].for_one_value and not self._candidates[name].for_one_value
            # As the rounds are numbered: the first are those of the cheaper one.
            is_good = not is_longer(*rounds, 1 / (GENERAL_TIMES_MAX if is_general else self.run.gain_min))
            is_alike = not any(is_longer(*pair, 1 / self.run.gain_min) for pair in (rounds, rounds[::-1]))
            longer_s = statistics.median(rounds[0]) - statistics.median(rounds[1])
            is_little = longer_s < (self.run.gain_min - 1) * total_s(self.run.baseline.weights, current)
            if is_little and self._is_tiny(name, best):
                is_good = True
                self.dearer[best] = name
        if is_alike:
            self.run.found.alike[best] = name
        return is_good

    def _took_alike(self, name: str, best: str) -> bool:
        """Whether the statements that either touches took hardly longer with the one than with the best."""
        weights, base = self.run.baseline.weights, self.run.baseline.seconds
        found = [self.tried[each].seconds for each in (name, best)]
        names = {statement for each in found for statement in each}
        mine, least = (math.fsum(weights[one] * each.get(one, base[one]) for one in names) for each in found)
        return mine <= ALIKE_TIMES_MAX * least

    def is_gain(self, taken: Sequence[str], name: str, current: Seconds) -> bool | None:
        """Whether one gains on top of those that are taken, by more than the noise; None without time."""
        if self.dearer.get(name) in taken:
            return False
        rounds = self._rounds(taken, None, name, current)
        return None if rounds is None else is_longer(*rounds, 1 / self.run.gain_min)

    def _rounds(
        self, taken: Sequence[str], one: str | None, other: str, current: Seconds
    ) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        compared = [self.tried[name] for name in (one, other) if name is not None]
        if not self.run.clock.has_rounds(*compared):
            return None
        names = {name for each in compared for name in self.on_top.get(each.id, each.seconds)}
        first, second = (
            [self._candidates[each] for each in (*taken, *([name] if name else []))] for name in (one, other)
        )
        return time_in_turn(self.run, first, second, names, current)

    def _is_tiny(self, name: str, best: str) -> bool:
        sizes = [self.tried[each].bytes or 0 for each in (name, best)]
        return sizes[1] > 0 and sizes[0] <= TINY_SHARE_MAX * sizes[1]

    def _is_cheaper(self, name: str, best: str) -> bool:
        one, other = self._candidates[name], self._candidates[best]
        if not all(each.sql and not each.settings for each in (one, other)):
            return False
        if one.for_one_value != other.for_one_value:
            return other.for_one_value
        sizes = [self.tried[each].bytes or 0 for each in (name, best)]
        return sizes[1] > 0 and sizes[0] <= SMALLER_SHARE_MAX * sizes[1]


def prediction_rounds(
    run: SearchRun, members: Sequence[Candidate], names: Collection[str], ends_at: float
) -> dict[str, tuple[float, ...]]:
    """The workload's seconds in each round with every set that the proof compares, by the arm's name.

    Timed anew, for whoever is best of many by its first timing was lucky on average, and there and back by
    turns. Where some of `names` write, and the data are small enough, on data that were put back for each
    set. Ends at `ends_at` (monotonic seconds), once a further round would take longer, and somewhat later for
    the first few; {} without time, or where a set wants another server.
    """
    if any(each.build is not None or each.storage is not None for each in members):
        return {}
    sets = {AS_IT_IS: list[Candidate](), CHOSEN: list(members)}
    if len(members) > 1:
        sets |= {without(each): [other for other in members if other is not each] for each in members}
    order = list(sets)
    writes = any(each.of.writes for each in run.baseline.statements if each.name in names)
    anew = writes and run.copy.snapshot.bytes <= PUT_BACK_BYTES_MAX
    rounds: list[dict[str, float]] = []
    longest_s, time_s = 0.0, ends_at - time.monotonic()
    while len(rounds) < PREDICTION_ROUNDS_MAX:
        began = time.monotonic()
        if began + longest_s > ends_at + (time_s if len(rounds) < PREDICTION_ROUNDS_MIN else 0.0):
            break
        try:
            seconds = {name: timed(run, sets[name], names, anew=anew) for name in order}
        except (UsageError, MeasurementError):
            break
        whole = {
            name: totals(run.baseline, run.baseline.seconds, [each])[0] for name, each in seconds.items()
        }
        if all(math.isfinite(each) for each in whole.values()):
            rounds.append(whole)
        longest_s = max(longest_s, time.monotonic() - began)
        order.reverse()
    return {name: tuple(each[name] for each in rounds) for name in sets} if rounds else {}


def retime_selection(run: SearchRun, ends_at: float) -> None:
    """Leave out of what was chosen what gains too little in it once it is timed anew; keep that set's rounds.

    One at a time: of two that do the same neither gains anything beside the other. Half of the time that is
    left until `ends_at` is for each set. What is left out of a set that gains too little as a whole, and so
    does not hide its gain, gets that gain in the record's `tried`.
    """
    found, base = run.found, run.baseline.seconds
    while found.selection.steps:
        members = found.members
        names = {statement for each in members for statement in found.tried[each.id].touched}
        # And what one touches only on top of the others.
        last = found.selection.steps[-1].seconds
        names |= {each for each, before in base.items() if last.get(each, before) != before}
        now = time.monotonic()
        found.rounds = prediction_rounds(run, members, names, now + (ends_at - now) / 2)
        if len(found.rounds.get(CHOSEN, ())) < LEAVING_ROUNDS_MIN:
            return
        together, gains = _gains(found.rounds, members, statistics.median)
        weakest = min(gains, key=lambda name: gains[name])
        if gains[weakest] >= run.gain_min:
            return
        if together < run.gain_min:
            found.tried[weakest] = replace(found.tried[weakest], gain_again=together)
        found.selection = found.selection.less(weakest, gains[weakest])
    found.rounds = {}


def _gains(
    rounds: Mapping[str, Sequence[float]], members: Sequence[Candidate], of: Callable[[list[float]], float]
) -> tuple[float, dict[str, float]]:
    """By `of` from the logarithms of the ratios within each round: together, and of each member by its id."""

    def gain(name: str) -> float:
        pairs = zip(rounds[name], rounds[CHOSEN], strict=True)
        return math.exp(of([math.log(before / after) for before, after in pairs]))

    together = gain(AS_IT_IS)
    if len(members) == 1:
        return together, {members[0].id: together}
    return together, {each.id: gain(without(each)) for each in members}


def predicted_gains(
    rounds: Mapping[str, Sequence[float]], members: Sequence[Candidate]
) -> tuple[float, dict[str, float]]:
    """What the chosen set will gain over the workload as it is, and by its id each member in it.

    From the ratios within each round, as the proof sets arms beside each other within blocks; a member's gain
    is that of the set over the set without it. Shrunk towards no gain as far as the rounds differ.
    """
    return _gains(rounds, members, shrunk)


def shrunk(logarithms: Sequence[float]) -> float:
    """The median times the share of its square that is not its own variance, never below 0.

    That share is what an empirical Bayes estimate around 0 leaves of one measured effect (Efron and Morris,
    1973: the positive part of James and Stein's rule). Its deviation is by the median's distance from the
    values, which a single round that something disturbed does not decide; 0 for one value.
    """
    middle = statistics.median(logarithms)
    if middle == 0:
        return 0.0
    apart = statistics.median(abs(each - middle) for each in logarithms)
    variance = (MEDIAN_DEVIATION_TIMES * apart) ** 2 / len(logarithms)
    return middle * max(0.0, 1 - variance / middle**2)
