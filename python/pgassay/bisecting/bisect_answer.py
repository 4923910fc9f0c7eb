"""What a search found, in sentences and figures, at any moment of it. Pure: no clock, no machine."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from pgassay.analysis.bisection.search import LinePart, Search, Sized, size_of
from pgassay.analysis.profile.result import profile_result
from pgassay.bisecting.change_kinds import what_changed
from pgassay.bisecting.ends import ends_verdict, whole_size
from pgassay.model.further_results.bisection import (
    BisectionResult,
    BisectionState,
    BisectionVerdict,
    Culprit,
    FoundStep,
    MeasuredPlace,
    Reverted,
)
from pgassay.model.result import CompareResult
from pgassay.record.experiment import StoredExperiment
from pgassay.words import duration_rounded, join, percent, percent_fixed, plural, size

CULPRITS_TOLD_MAX = 5
# Around the peak of the posterior, at the end of the search.
_LAST_BLOCKS = 3
# By what the ends differ in, and on which side of the step others lie beyond the end.
_BEYOND = {
    ("slow-down", "after"): "slower than both: a part of it was fixed before the bad end.",
    ("slow-down", "before"): "faster than both: a speed-up before the step hides a part of it.",
    ("speed-up", "after"): "faster than both: a part of it was lost again before the bad end.",
    ("speed-up", "before"): "slower than both: a slow-down before the step hides a part of it.",
}
_CONTINUES = "The same command continues; --max-time applies to each run."
_ENDS_USED_UP = (
    "The ends were compared in {blocks}, the most that are run, so the same command adds none: longer trials "
    "(duration=60s), or another --margin with a new --out, may tell more."
)
_REPAIRED = (
    "A slow-down that was fixed between the ends, or two changes that cancel out, would not be seen: "
    "name an earlier bad end to look for one."
)


@dataclass(frozen=True)
class Answered:
    """What an answer is made from. ends: the verdict on both ends, None before it was measured.

    building_s: what each build of this run took. profiled: both sides of the step, None for no profile.
    """

    state: BisectionState
    search: Search
    ends: CompareResult | None
    stored: tuple[StoredExperiment, ...]
    folder: str
    margin: float
    aside: int
    building_s: tuple[float, ...]
    command: str
    profiled: StoredExperiment | None = None


def answer(found: Answered) -> BisectionResult:
    """The answer as it stands."""
    state, search = found.state, found.search
    of_search = {each.folder for each in state.rounds}  # neither of the revert nor with perf
    whole = _inverse(whole_size(search, found.ends))
    steps = tuple(_step(found, part) for part in search.told_parts) if whole is not None else ()
    verdict = _verdict(found)
    left_s = _seconds_left(found) if verdict == "undecided" else None
    return BisectionResult(
        folder=found.folder,
        kind=state.kind,
        good=state.places[0].name,
        bad=state.places[-1].name,
        verdict=verdict,
        headline=_headline(found, verdict, whole, steps, left_s),
        ratio=None if whole is None else whole[0],
        interval=None if whole is None else whole[1],
        steps=steps if verdict in ("found", "two steps", "undecided") and _differs(found) else (),
        reverted=state.reverted if verdict == "found" else None,
        measured=_measured(found),
        candidates=search.last,
        aside=found.aside,
        untestable=tuple(state.places[place].name for place in sorted(state.untestable)),
        margin=found.margin,
        trials=sum(len(each.trials) for each in found.stored if each.folder.name in of_search),
        blocks=len(search.blocks),
        rounds=max(0, len(state.rounds) - 1),
        seconds_used=state.seconds_used,
        seconds_left=left_s,
        notes=_notes(found, verdict, steps),
        profile=None if found.profiled is None else profile_result(found.profiled),
        machine=_machine(found),
        built_with=_built_with(found),
        command=found.command,
    )


def step_name(ratio: float | None) -> str:
    """What a ratio of good over bad speeds is called."""
    return "speed-up" if ratio is not None and ratio < 1 else "slow-down"


def times(sized: Sized | None) -> str:
    """'1.31 × [1.27, 1.36]', how many times as fast the faster one is."""
    if sized is None:
        return "an unknown size"
    value, ends = sized if sized[0] >= 1 else _inverse(sized) or sized
    return f"{value:.2f} ×" + (f" [{ends[0]:.2f}, {ends[1]:.2f}]" if ends else "")


def told(culprit: Culprit) -> str:
    """A commit as it is listed: its hash, subject, author and date."""
    subject = f" '{culprit.subject}'" if culprit.subject else ""
    where = ", ".join(part for part in (culprit.author, culprit.date) if part)
    fails = "" if culprit.builds else ", which does not build or run"
    return f"{culprit.name}{subject}{f' ({where})' if where else ''}{fails}"


def _verdict(found: Answered) -> BisectionVerdict:
    search = found.search
    if _ends_alike(found) or ends_verdict(found.ends) == "equivalent":
        return "no difference"
    if not _differs(found):
        return "undecided"
    if search.is_gradual:
        return "gradual"
    parts = search.told_parts
    if not all(search.is_found(part) for part in parts):
        return "undecided"
    return "two steps" if len(parts) > 1 else "found"


def _ends_alike(found: Answered) -> bool:
    return (0, found.search.last) in found.state.alike


def _differs(found: Answered) -> bool:
    return ends_verdict(found.ends) in ("slower", "faster")


def _headline(
    found: Answered,
    verdict: BisectionVerdict,
    whole: Sized | None,
    steps: Sequence[FoundStep],
    left_s: float | None,
) -> str:
    if verdict == "no difference" and _ends_alike(found):
        return "Both ends build the same server: nothing to find."
    if verdict == "no difference":
        return f"The ends do not differ beyond {percent(found.margin)}: nothing to find."
    of = f"The {step_name(whole and whole[0])} of {times(whole)}"
    if verdict == "found":
        return f"{of} came with {_culprits(found, steps[0])}."
    if verdict == "two steps":
        parts = join([f"{_size(s, whole)} with {_culprits(found, s)}" for s in steps])
        return f"{of} came in two steps: {parts}."
    if verdict == "gradual":
        return (
            f"{of} is not explained by one or two {_word(found)}s: the measurements between the ends are "
            "below."
        )
    if not _differs(found):
        seen = "" if whole is None else f" (seen so far: {times(whole)})"
        return f"undecided: it is not known yet whether the ends differ beyond {percent(found.margin)}{seen}."
    return _undecided(found, of, steps, left_s)


def _undecided(found: Answered, of: str, steps: Sequence[FoundStep], left_s: float | None) -> str:
    """What is left of a search whose ends differ; of: the whole difference, in words."""
    left = [culprit for step in steps for culprit in step.culprits]
    more = f", about {duration_rounded(left_s)} more" if left_s is not None else ""
    begin = f"undecided: {plural(len(left), _word(found))} left{more}."
    if len(steps) > 1:
        return f"{begin} {of} came in two steps, with two of them (95 %)."
    if len(left) == 1:
        return f"{begin} {of} came with it (95 %), or a part of it with others: {told(left[0])}."
    return f"{begin} {of} came with one of them (95 %)."


def _size(step: FoundStep, whole: Sized | None) -> str:
    """How large one of two steps is, and its direction where that is not the whole's."""
    size_told, own = times((step.ratio or 1.0, step.interval)), step_name(step.ratio)
    return size_told if own == step_name(whole and whole[0]) else f"a {own} of {size_told}"


def _word(found: Answered) -> str:
    return "commit" if found.state.kind == "commits" else "build"


def _culprits(found: Answered, step: FoundStep) -> str:
    count, word = len(step.culprits), _word(found)
    names = [told(each) for each in step.culprits[:CULPRITS_TOLD_MAX]]
    if count > CULPRITS_TOLD_MAX:
        names.append(f"and {count - CULPRITS_TOLD_MAX} more")
    which = f"this {word}" if count == 1 else f"one of these {plural(count, word)}"
    return f"{which} ({percent_fixed(step.confidence)}): {'; '.join(names)}"


def _step(found: Answered, part: LinePart) -> FoundStep:
    search, places = found.search, found.state.places
    is_whole = (part.low, part.high) == (0, search.last)
    known = whole_size(search, found.ends) if is_whole else size_of(search.blocks, part.high, part.low)
    sized = _inverse(known)
    culprits = tuple(
        Culprit(
            name=places[place].name,
            subject=places[place].subject,
            author=places[place].author,
            date=places[place].date,
            builds=place not in search.untestable,
        )
        for place in part.left()
    )
    return FoundStep(
        ratio=None if sized is None else sized[0],
        interval=None if sized is None else sized[1],
        culprits=culprits,
        # Parts share the error rate, so what is said of all of them together holds at 95 %.
        confidence=1 - search.alpha,
        is_found=search.is_found(part),
    )


def _measured(found: Answered) -> tuple[MeasuredPlace, ...]:
    """Every measured place against the good end, in the order of the line."""
    search, places = found.search, found.state.places
    rows = []
    for place in sorted({where for block in search.blocks for where in block.places} - {0}):
        sized = size_of(search.blocks, place, 0) or _through(search, place)
        if sized is not None:
            rows.append(
                MeasuredPlace(
                    name=places[place].name,
                    subject=places[place].subject,
                    ratio=sized[0],
                    interval=sized[1],
                    blocks=sum(place in block.places for block in search.blocks),
                )
            )
    return tuple(rows)


def _through(search: Search, place: int) -> Sized | None:
    """Against the good end by way of the low end of its part, in whose blocks it was; without an interval."""
    low = next((part.low for part in search.parts if part.low < place <= part.high), 0)
    first, second = size_of(search.blocks, place, low), size_of(search.blocks, low, 0)
    return None if first is None or second is None else (first[0] * second[0], None)


def _notes(found: Answered, verdict: BisectionVerdict, steps: Sequence[FoundStep]) -> tuple[str, ...]:
    if verdict == "no difference":
        # Also where both ends build the same: a commit and its revert between them leave no trace.
        return (_REPAIRED,)
    notes = [_reverted(found, found.state.reverted)] if found.state.reverted and verdict == "found" else []
    notes += [note for part in found.search.parts if (note := _own_part(found, part))]
    notes += [each for part in found.search.told_parts for each in _changed(found, part)]
    notes += filter(None, [_beyond(found)])
    if verdict == "two steps":
        single = f"no single {_word(found)} explains all of it"
        notes.append(f"Two steps fit the data: {single}; each of these has a part.")
    if any(not culprit.builds for step in steps for culprit in step.culprits) and verdict != "gradual":
        notes.append(
            f"A {_word(found)} that does not build or run can't be distinguished from the next one that does."
        )
    if verdict in ("found", "two steps"):
        notes += [note for part in found.search.told_parts if (note := _passed_over(found, part))]
    if verdict == "undecided":
        notes.append(_further(found))
    return tuple(notes)


def _further(found: Answered) -> str:
    """Whether the same command adds something to what is undecided."""
    ends = found.stored[0] if found.stored and found.state.rounds else None
    if _differs(found) or ends is None or ends.stopped != "blocks":
        return _CONTINUES
    return _ENDS_USED_UP.format(blocks=plural(len(found.search.blocks), "block"))


def _beyond(found: Answered) -> str:
    """That something between the ends lies beyond one of them, so that the step is more than the whole."""
    part, *others = found.search.parts
    side = "" if others else found.search.overshot(part)
    whole = "slow-down" if part.line.bet().step < 0 else "speed-up"
    return f"Some {_word(found)}s between the ends are {_BEYOND[whole, side]}" if side else ""


def _passed_over(found: Answered, part: LinePart) -> str:
    """That the step may have come with a commit that `--path` left out, or a release that is not here."""
    places, left, reverted = found.state.places, part.left(), found.state.reverted
    count = sum(places[place].passed_over for place in left)
    if not count or (reverted is not None and reverted.is_confirmed):
        return ""
    before, last = places[left[0] - 1], places[left[-1]]
    others = f"{plural(count, _word(found))} between {before.name} and {last.name}"
    its = "and the step may be its" if count == 1 else "and the step may be theirs"
    if found.state.kind == "builds":
        fetch = f"pgassay builds install npm:{before.name}..{last.name}"
        return f"Not installed: {others}, {its}: '{fetch}' fetches them; then search with a new --out."
    ends = shlex.join([before.build, last.build])
    return (
        f"--path left out {others}, {its}: to tell, run pgassay bisect {ends} with the same options and "
        "without --path."
    )


def _reverted(found: Answered, reverted: Reverted) -> str:
    """Whether the bad end without the commit is as the good end is."""
    bad, name = found.state.places[-1].name, reverted.name
    if reverted.why:
        return f"{name} was not reverted on {bad}: {reverted.why}."
    if reverted.ratio is None:
        return f"{name} reverted on {bad}: not measured yet."
    sized = times((reverted.ratio, reverted.interval))
    change = "faster" if reverted.ratio >= 1 else "slower"
    said = {True: "confirmed", False: "not confirmed", None: "not decided yet"}[reverted.is_confirmed]
    return f"{name} reverted on the bad end: {change} by {sized}, {said}."


def _changed(found: Answered, part: LinePart) -> list[str]:
    """What else changed with the step of a part, as far as both of its sides were measured."""
    search, places = found.search, found.state.places
    if not search.is_found(part):
        return []
    before, after = (
        {places[part.low + each].build for each in part.line.same_as(place - part.low)}
        for place in search.sides(part)
    )
    return what_changed(found.stored, before, after)


def _own_part(found: Answered, part: LinePart) -> str:
    """What the commit makes of the whole, where that is less: the rest came with others."""
    search = found.search
    if not search.is_found(part):
        return ""
    below, above = search.sides(part)
    own, whole = size_of(search.blocks, above, below), size_of(search.blocks, part.high, part.low)
    if own is None or whole is None or own[1] is None or whole[1] is None:
        return ""
    if own[1][0] <= whole[1][1] and whole[1][0] <= own[1][1]:
        return ""
    names = [found.state.places[place].name for place in part.left()]
    which = f"{names[0]} alone makes" if len(names) == 1 else f"These {len(names)} {_word(found)}s make"
    alone = f"{which} {times(_inverse(own))}"
    if abs(math.log(own[0])) > abs(math.log(whole[0])):
        return f"{alone}; others take a part of it back."
    return f"{alone} of it; the rest came with others."


def _inverse(sized: Sized | None) -> Sized | None:
    if sized is None:
        return None
    value, ends = sized
    return 1 / value, (None if ends is None else (1 / ends[1], 1 / ends[0]))


def _machine(found: Answered) -> str:
    """The machine that measured, as a mail has it; '' before anything was."""
    if not found.stored:
        return ""
    machine = found.stored[0].experiment.environment.machine
    cores = f"{machine.cores_online} cores" if machine.cores_online else ""
    kernel = f"kernel {machine.kernel}" if machine.kernel else ""
    facts = (machine.cpu_model, cores, size(machine.memory_bytes), machine.virtualisation)
    return ", ".join(fact for fact in (*facts, machine.distribution, kernel) if fact)


def _built_with(found: Answered) -> str:
    """Compiler and flags, the same for all trees; '' for packages, and before anything was built."""
    builds = [arm.spec.build for each in found.stored[:1] for arm in each.experiment.arms]
    build = next((build for build in builds if build.source is not None), None)
    if build is None or build.source is None:
        return ""
    # Warnings make no code.
    flags = " ".join(flag for flag in build.cflags.split() if not flag.startswith("-W"))
    return ", ".join(part for part in (build.source.compiler, flags) if part)


def _seconds_left(found: Answered) -> float | None:
    """What is likely to be lacking once the ends differ: rounds that quarter what is left, last blocks."""
    rounds = [each for each in found.stored if each.seconds_used]
    blocks = len(found.search.blocks)
    if not _differs(found) or not rounds or not blocks:
        return None
    block_s = sum(each.seconds_used for each in rounds) / blocks * 5 / 3
    building_s = sum(found.building_s) / len(found.building_s) if found.building_s else 0.0
    total = 0.0
    for part in found.search.told_parts:
        if found.search.is_found(part):
            continue
        left = max(1, len(part.left()))
        quarters = math.ceil(math.log(left, 4))
        total += (quarters + _LAST_BLOCKS) * block_s + (3 * quarters + 2) * building_s
    return total
