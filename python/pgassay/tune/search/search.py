"""Every candidate tried on the copy: what it touches by its plans, what it gains there, what it costs."""

import math
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import psycopg

from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.tune.candidate import Candidate
from pgassay.tune.copy import TrialCopy
from pgassay.tune.search.forward import Space, select
from pgassay.tune.search.paired_timing import Clock, Turns, in_turn, seconds_in_turn, totals
from pgassay.tune.search.planner_screen import (
    estimates,
    estimates_with,
    is_planner_setting,
    on_top,
    promised,
    set_beside,
    timed,
    touched_by,
    waits_for,
)
from pgassay.tune.search.selection import (
    WORSE_MAX,
    Baseline,
    Seconds,
    Selection,
    Tried,
    gain_of,
    longest_s,
    total_s,
)
from pgassay.tune.statements import MeasuredStatement

# Of the search's time for trying candidates alone: what is not tried together is not chosen.
ALONE_SHARE = 0.6
# What gains less than that by one timing is not looked at more closely.
MAY_GAIN_MIN = 0.25
UNUSED = "the planner uses it in no statement, once it is there"


@dataclass
class Searched:
    """What the search has found so far; it grows while it goes on, and is whole at any moment.

    `waiting`: by the id of an index that no plan uses as the server is set, the planner's setting that it
    would be used with.
    """

    tried: dict[str, Tried] = field(default_factory=dict)
    checks: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    screened: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    selection: Selection = field(default_factory=Selection)
    # By the id of what was not taken the one that was, where their gains could not be told apart.
    alike: dict[str, str] = field(default_factory=dict)
    # Of each set that the proof compares the workload's seconds, timed in turn once the set was chosen.
    rounds: dict[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def chosen_bytes(self) -> int:
        """What the chosen set takes on disk."""
        return sum(self.tried[name].bytes or 0 for name in self.selection.ids if name in self.tried)

    def best(self, base: Seconds) -> dict[str, float]:
        """The least that any fix brought each statement to; `base`: what it takes as it is."""
        least = dict(base)
        for tried in self.tried.values():
            least |= {name: min(least[name], seconds) for name, seconds in tried.seconds.items()}
        return least


def search(
    copy: TrialCopy,
    baseline: Baseline,
    candidates: Sequence[Candidate],
    clock: Clock,
    found: Searched,
    say: Callable[[str], None],
    *,
    gain_min: float,
    members_max: int,
    space_bytes: float = math.inf,
) -> None:
    """Try every candidate alone, then together; `found` holds what is known at any moment.

    `space_bytes`: so many bytes may what is chosen take on disk together.
    """
    by_id = {candidate.id: candidate for candidate in candidates}
    settings = {each.id: each for each in candidates if is_planner_setting(each)}
    plans = {name: estimates_with(copy, baseline.statements, {}, each) for name, each in settings.items()}
    has_told = False
    begins_at = time.monotonic()
    promises = {each.id: promised(copy, baseline, each) for each in candidates}
    for candidate in _in_order(candidates, settings, promises):
        if candidate.id in found.tried or candidate.id in found.screened:
            continue  # by an earlier search
        if time.monotonic() >= begins_at + ALONE_SHARE * (clock.ends_at - begins_at):
            break
        _try(copy, baseline, candidate, found, gain_min, lambda: waits_for(copy, baseline, plans, settings))
        if not clock.is_over:
            look_beside(copy, baseline, candidate, found)
        if not has_told and time.monotonic() >= clock.tells_at:
            has_told = True
            say(best_so_far(baseline, candidates, found))

    look_closer(copy, baseline, by_id, clock, found, gain_min)
    _select(
        copy, baseline, by_id, clock, found,
        gain_min=gain_min, members_max=members_max, space_bytes=space_bytes,
    )  # fmt: skip
    look_again(copy, baseline, by_id, clock, found)


def _in_order(
    candidates: Sequence[Candidate], settings: Collection[str], promises: Mapping[str, Mapping[str, float]]
) -> list[Candidate]:
    """The most promising for each statement first, then the second of each; settings of the planner last.

    Those touch every statement, and take the time of all. `promises`: by id, new over old time by statement.
    """
    places: dict[str, int] = {}
    ranks: dict[str, int] = {}
    for each in sorted(candidates, key=lambda each: min(promises[each.id].values(), default=1.0)):
        mine = promises[each.id] or dict.fromkeys(each.statements, 1.0)
        statement = min(mine, key=lambda name: mine[name], default="")
        ranks[each.id] = places[statement] = places.get(statement, -1) + 1
    return sorted(candidates, key=lambda each: (each.id in settings, ranks[each.id]))


def _select(
    copy: TrialCopy,
    baseline: Baseline,
    by_id: Mapping[str, Candidate],
    clock: Clock,
    found: Searched,
    *,
    gain_min: float,
    members_max: int,
    space_bytes: float,
) -> None:
    """Choose among what was tried, and the planner's settings that changed no plan alone."""
    settings = {name for name, each in by_id.items() if is_planner_setting(each)}
    took_s = max((each.took_s for each in found.tried.values()), default=0.0)
    unused = {name: Tried(name, took_s=took_s) for name in settings & found.screened.keys()}
    tried = unused | found.tried
    in_turns = Turns(copy, baseline, by_id, tried, clock, gain_min, alike=found.alike)

    def measure(taken: Sequence[str], name: str, current: Seconds) -> Seconds | None:
        members = [by_id[each] for each in taken]
        seconds = on_top(copy, baseline, members, by_id[name], alone=tried[name].touched, current=current)
        if seconds is not None:
            in_turns.on_top[name] = seconds
        return seconds

    found.selection = select(
        baseline.weights,
        baseline.seconds,
        list(tried.values()),
        measure,
        gain_min=gain_min,
        members_max=members_max,
        pick=in_turns.preferred,
        holds=in_turns.is_gain,
        anew=settings,
        has_time=lambda: not clock.is_over,
        space=Space(space_bytes, {name: each.bytes or 0 for name, each in tried.items()}),
    )
    for name, other in in_turns.dearer.items():
        if name in found.alike:
            continue  # which says more
        said = f"'{by_id[other].title}' takes a tenth of its space or less, and the workload little longer"
        found.notes[name] = "; ".join(filter(None, (said, found.notes.get(name, ""))))
    for name in unused.keys() & {*found.selection.ids}:
        del found.screened[name]
        alone = as_alone(found.selection, name, baseline)
        found.tried[name] = replace(unused[name], seconds=alone, on_top=True)


def as_alone(selection: Selection, name: str, baseline: Baseline) -> dict[str, float]:
    """The seconds of one that was chosen as if it gained alone what it gains on top of those before it."""
    before = baseline.seconds
    for step in selection.steps:
        if step.id == name:
            ratios = {each: step.seconds[each] / before[each] for each in before if before[each] > 0}
            return {each: baseline.seconds[each] * ratio for each, ratio in ratios.items() if ratio != 1}
        before = step.seconds
    return {}


def look_beside(copy: TrialCopy, baseline: Baseline, candidate: Candidate, found: Searched) -> None:
    """Set what one changed little alone beside the workload as it is now, without it."""
    tried = found.tried.get(candidate.id)
    if tried is None or tried.refused:
        return
    touched = [each for each in baseline.statements if each.name in tried.seconds]
    seconds = set_beside(copy, touched, {}, current=baseline.seconds, seconds=tried.seconds)
    found.tried[candidate.id] = replace(tried, seconds=seconds)


def look_closer(
    copy: TrialCopy,
    baseline: Baseline,
    by_id: Mapping[str, Candidate],
    clock: Clock,
    found: Searched,
    gain_min: float,
) -> None:
    """Time in turn what seemed to gain too little once, and may gain something: the most promising first.

    On a busy machine one timing may be wrong by a factor of two and more. Half of the time that is left may
    go there. What is little beside a slow statement is much once that is fast: so the gain is that of the
    workload with each other statement at the best that anything came to.
    """
    now = time.monotonic()
    half = replace(clock, ends_at=now + (clock.ends_at - now) / 2)
    best = found.best(baseline.seconds)
    doubtful = []
    for name, tried in found.tried.items():
        others = best | {each: baseline.seconds[each] for each in tried.seconds}
        if not tried.refused and MAY_GAIN_MIN <= gain_of(baseline.weights, others, tried.seconds) < gain_min:
            doubtful.append(name)
    for name in sorted(doubtful, key=lambda each: min(by_id[each].predicted.values(), default=1.0)):
        tried = found.tried[name]
        if not half.has_rounds(tried):
            continue
        rounds = seconds_in_turn(copy, baseline, [], [by_id[name]], tried.seconds)
        if rounds is None or not all(math.isfinite(each) for one in rounds[0] for each in one.values()):
            continue
        seconds = {}
        for each in tried.seconds:
            ratio = statistics.median(
                after[each] / before[each] for before, after in zip(*rounds, strict=True)
            )
            seconds[each] = baseline.seconds[each] * ratio
        without_s, with_s = (totals(baseline, baseline.seconds, each) for each in rounds)
        found.tried[name] = replace(tried, seconds=seconds, without_s=without_s, with_s=with_s)


def look_again(
    copy: TrialCopy,
    baseline: Baseline,
    by_id: Mapping[str, Candidate],
    clock: Clock,
    found: Searched,
) -> None:
    """Time those that looked slower once more, with and without in turn, as far as there is time.

    The workload as it is was timed minutes before them, and the machine may have been faster then.
    """
    for name, tried in found.tried.items():
        if tried.refused or gain_of(baseline.weights, baseline.seconds, tried.seconds) >= WORSE_MAX:
            continue
        if tried.with_s or not clock.has_rounds(tried):
            continue
        rounds = in_turn(copy, baseline, [], [by_id[name]], tried.seconds, baseline.seconds)
        if rounds is not None:  # else what was seen before stands, and tells nothing
            found.tried[name] = replace(tried, without_s=rounds[0], with_s=rounds[1])


def best_so_far(baseline: Baseline, candidates: Sequence[Candidate], found: Searched) -> str:
    """The set that is chosen, or until one is the best candidate that was tried, in a sentence."""
    tried = f"{len(found.tried) + len(found.screened)} of {len(candidates)} candidates tried"
    titles = {each.id: each.title for each in candidates}
    if found.selection.steps:
        gain = total_s(baseline.weights, baseline.seconds) / found.selection.steps[-1].total_s
        members = [titles[name] for name in found.selection.ids]
        together = f" ({len(members)} together)" if len(members) > 1 else ""
        named = "; ".join(members)
        return f"{tried}; best so far, {gain:.2f} × as fast on the copy{together}, not proven: {named}"
    gains = {
        name: each.gain(baseline.weights, baseline.seconds)
        for name, each in found.tried.items()
        if not each.refused
    }
    best = max(gains, key=lambda name: gains[name], default=None)
    if best is None or gains[best] <= 1:
        return f"{tried}, none gains anything so far"
    return f"{tried}; best so far, {gains[best]:.2f} × as fast on the copy, not proven: {titles[best]}"


def as_now(copy: TrialCopy, baseline: Baseline) -> Baseline:
    """The baseline with the estimates of this moment, where statements write.

    What they wrote was rolled back and left dead rows: the tables have more pages, and the planner's costs
    are others with nothing applied.
    """
    if not any(each.of.writes for each in baseline.statements):
        return baseline
    return replace(baseline, estimates=estimates(copy, baseline.statements, {}))


def _try(
    copy: TrialCopy,
    baseline: Baseline,
    candidate: Candidate,
    found: Searched,
    gain_min: float,
    waits: Callable[[], str | None],
) -> None:
    """Apply it and time what it touches. `waits`: the setting that would make the planner use it."""
    began = time.monotonic()
    limits = longest_s(baseline.weights, baseline.seconds, found.best(baseline.seconds), gain_min)
    baseline = as_now(copy, baseline)
    before_bytes, before_wal = copy.bytes(), copy.wal_bytes()
    try:
        build_s = copy.push(candidate)
        wal_bytes = copy.wal_bytes() - before_wal if candidate.sql else None
    except (UsageError, MeasurementError) as error:
        found.tried[candidate.id] = Tried(candidate.id, refused=str(error))
        return
    try:
        touched, is_used = touched_by(copy, baseline, candidate)
        if not is_used:
            found.screened[candidate.id] = UNUSED
            setting = waits() if candidate.sql else None
            if setting is not None:
                found.waiting[candidate.id] = setting
            return
        texts = {each.statement: each.sql for each in candidate.rewrites}
        seconds = timed(copy, touched, texts, baseline.seconds, limits)
        stopped = tuple(name for name, each in seconds.items() if name in limits and math.isinf(each))
        if not candidate.rewrites:
            _compare_rows(copy, baseline, candidate, touched, found)
        found.tried[candidate.id] = Tried(
            candidate.id,
            {name: each for name, each in seconds.items() if name not in stopped},
            round(build_s, 3),
            copy.bytes() - before_bytes,
            wal_bytes=wal_bytes,
            took_s=round(time.monotonic() - began, 3),
            stopped=stopped,
        )
    except (UsageError, MeasurementError) as error:
        found.tried[candidate.id] = Tried(candidate.id, refused=str(error))
    except psycopg.Error as error:
        found.tried[candidate.id] = Tried(
            candidate.id, refused=f"the copy's server failed: {first_line(error)}"
        )
    finally:
        copy.pop()


def _compare_rows(
    copy: TrialCopy,
    baseline: Baseline,
    candidate: Candidate,
    touched: Sequence[MeasuredStatement],
    found: Searched,
) -> None:
    """Whether the quick ones of the touched statements still return the same rows, as other plans may not."""
    compared, unlike = 0, []
    for statement in touched:
        before = baseline.rows.get(statement.name)
        if before is None:
            continue
        try:
            after = copy.rows(statement.sql)
        except psycopg.Error:
            continue
        compared += 1
        if before.types != after.types or before.buckets_unlike(after):
            unlike.append(statement.name)
    if unlike:
        found.checks[candidate.id] = "different"
        found.notes[candidate.id] = (
            f"{', '.join(unlike)} returned other rows than before: that is right only where it takes some of "
            "its rows without a total order, or a sum of floats differs in its last digits"
        )
    elif compared:
        found.checks[candidate.id] = "equal on 1 instance"
