"""The profile of a stored experiment, from its trials to sentences."""

import math
from collections.abc import Collection, Sequence

from pgassay.analysis.profile.judge_functions import gather, judged, total_us
from pgassay.analysis.profile.off_cpu import waiting, why_not_recorded
from pgassay.analysis.profile.processor_counts import counted_events, counters_note
from pgassay.analysis.profile.waits import wait_times
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.model.profile.result import (
    FunctionArm,
    FunctionTimes,
    ProfiledArm,
    ProfileFacts,
    ProfileResult,
    ServerFunction,
)
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.record.renames import Renames, renames_of
from pgassay.words import AMOUNT, amount, bounds, figure, is_multiple, percent_rounded, plural, seconds, span

SENTENCES_MAX = 8
CPU_CLOCK_NOTE = (
    "samples are taken by the kernel's timer (cpu-clock) and not by hardware counters: time in the kernel "
    "with interrupts off is attributed to where they are enabled again (finish_task_switch, "
    "_raw_spin_unlock_irqrestore)"
)
STACK_WORDS = {
    "frame pointers": "callers by frame pointers",
    "unwound": "callers by unwinding a copy of the stack, as this build has no frame pointers",
    "none": "no callers",
}


def profile_result(stored: StoredExperiment) -> ProfileResult | None:
    """What the further trials of an experiment found; None where there are none that count.

    Raises UsageError for a damaged file.
    """
    if stored.profile is None:
        return None
    study = gather_study(stored.profile)
    renamed = renames_of(stored.profile.folder)
    profiled = gather(study, stored.profile.trials, renamed) if study.blocks else None
    if profiled is None:
        return None
    functions = judged(study, profiled, own=True)
    callers = judged(study, profiled, own=False)
    waits = waiting(study, stored.profile.trials, renamed)
    valid = [trial for trial in stored.profile.trials if trial.record.status == "ok"]
    is_load = any(arm.spec.workload.kind == "load" for arm in study.experiment.arms)
    is_replay = any(arm.spec.workload.is_replay for arm in study.experiment.arms)
    unit = "statement" if is_replay else "transaction" if is_load else "pass over all statements"
    facts = valid[0].record.facts.profile
    arms = _arms(study, valid, total_us(study, profiled))
    return ProfileResult(
        unit=unit,
        rounds=study.blocks,
        rate_hz=profiled.rate_hz,
        event=facts.event or "",
        stacks=_stacks(study, valid),
        lost=sum(trial.record.facts.profile.lost or 0 for trial in valid),
        arms=arms,
        functions=functions,
        callers=callers,
        waits=wait_times(stored, arms),
        sentences=sentences(functions, unit, waits),
        notes=(
            *_too_few(study, functions),
            *_renamed(study, renamed, {each.name for each in (*functions, *callers)}),
            *limits([trial.record.facts.profile for trial in valid], [each.name for each in functions]),
            *filter(None, [why_not_recorded([trial.record.facts.profile for trial in valid])]),
        ),
        counted=counted_events(study),
        waiting=waits,
    )


def _stacks(study: Study, trials: Sequence[StoredTrial]) -> tuple[str, ...]:
    """How callers were found, once where all arms are alike."""
    arms = study.arms
    found: dict[str, list[str]] = {}
    for trial in trials:
        words = STACK_WORDS.get(trial.record.facts.profile.stacks or "", "")
        arm = arms.get(trial.record.arm_id)
        if arm is not None and arm.role != "twin" and arm.name not in found.setdefault(words, []):
            found[words].append(arm.name)
    if len(found) == 1:
        return tuple(found)
    return tuple(f"{', '.join(names)}: {words}" for words, names in found.items())


def _arms(
    study: Study, trials: Sequence[StoredTrial], us: dict[str, float | None]
) -> tuple[ProfiledArm, ...]:
    found = []
    for arm in study.experiment.arms:
        mine = [trial.record.facts.profile for trial in trials if trial.record.arm_id == arm.id]
        if arm.role != "twin":
            found.append(
                ProfiledArm(
                    name=arm.name,
                    stratum=arm.stratum,
                    trials=len(mine),
                    samples=sum(facts.samples or 0 for facts in mine),
                    us=us[arm.id],
                )
            )
    return tuple(found)


def _too_few(study: Study, functions: Sequence[FunctionTimes]) -> tuple[str, ...]:
    """Where so few rounds can't tell one function apart, whatever it does.

    A round counts at most as many times as it has members that could change places.
    """
    size = max(1, len(functions) * len(study.experiment.contrasts))
    most = max((len(rows.blocks) * math.log(len(rows.arm_ids)) for rows in study.rows), default=0.0)
    if most >= math.log(size / study.experiment.contract.alpha):
        return ()
    verb = "is" if study.blocks == 1 else "are"
    return (
        f"{plural(study.blocks, 'round')} {verb} too few to find a difference in any function: use "
        "more with --profile-rounds",
    )


def _renamed(study: Study, renamed: Renames, shown: Collection[str]) -> list[str]:
    """Which functions are shown under the name that they have in the control."""
    arms = study.arms
    return [
        f"{new} in {arms[arm_id].name} is compared as {old}, since their lines are the same but for a few"
        for arm_id, names in renamed.items()
        if arm_id in arms
        for new, old in sorted(names.items())
        if old in shown
    ]


def limits(facts: Sequence[ProfileFacts], names: Sequence[str]) -> tuple[str, ...]:
    """What limits figures that were sampled so, of functions of these names."""
    notes = []
    if any((each.event or "").startswith("cpu-clock") for each in facts):
        notes.append(CPU_CLOCK_NOTE)
    if any((each.event or "").endswith(":u") for each in facts):
        notes.append("the kernel's part is left out: this account may not sample it")
    samples, lost = sum(each.samples or 0 for each in facts), sum(each.lost or 0 for each in facts)
    if lost > samples / 100:
        notes.append(f"perf lost {lost} samples in addition to {samples}: times are too low by that share")
    if counters := counters_note(facts):
        notes.append(counters)
    files = [name for name in names if name.startswith("[")]
    if files:
        notes.append(
            f"{', '.join(files)}: functions of this file have no names, since its debug symbols "
            "are not installed"
        )
    return tuple(notes)


def sentences(
    functions: Sequence[FunctionTimes], unit: str, waiting: Sequence[FunctionTimes] = ()
) -> tuple[str, ...]:
    """One for each function that differs, on a processor or off it, the largest difference in time first."""
    found = []
    for verb, function in (*(("takes", each) for each in functions), *(("waits", each) for each in waiting)):
        controls = {arm.stratum: arm for arm in function.arms if arm.verdict == "control"}
        for arm in function.arms:
            control = controls.get(arm.stratum)
            if arm.verdict in ("less", "more") and control is not None:
                moved = abs((arm.us or 0.0) - (control.us or 0.0))
                found.append((moved, _sentence(function, arm, control, unit, verb)))
    found.sort(key=lambda pair: -pair[0])
    return tuple(sentence for _, sentence in found[:SENTENCES_MAX])


def function_name(function: FunctionTimes | ServerFunction) -> str:
    """A function's name, with a word for the kernel's."""
    return f"{function.name} (kernel)" if function.in_kernel else function.name


def time_words(us: float | None) -> str:
    """A time per transaction: '1.84 µs', '70.6 ms', '0 µs'."""
    if us is None:
        return ""
    return seconds(us / 1e6) if us >= 1 else f"{figure(us)} µs"


def _sentence(function: FunctionTimes, arm: FunctionArm, control: FunctionArm, unit: str, verb: str) -> str:
    where = f" at {arm.stratum}" if arm.stratum else ""
    for one, other in ((arm, control), (control, arm)):
        if not other.us:
            # A ratio to nothing would be one to the half sample that stands for it.
            name = function_name(function)
            return f"{name} {verb} {time_words(one.us)} per {unit} in {one.name}{where}, none in {other.name}"
    change = amount(arm.ratio or 1.0, AMOUNT)
    if is_multiple(arm.ratio or 1.0, AMOUNT):
        change = f"{change} time".replace("as much time", "the time")
    return (
        f"{function_name(function)} {verb} {change} {interval_words(arm)} per {unit} in {arm.name}{where}: "
        f"{time_words(arm.us)}, {time_words(control.us)} in {control.name}"
    )


def interval_words(arm: FunctionArm) -> str:
    """The interval of a ratio of times: '[9 %, 19 %]' where all of it is on the ratio's side of 1."""
    if arm.interval is None:
        return "[no interval fits]"
    low, high = bounds(arm.interval)
    if arm.verdict == "less":
        return f"[{percent_rounded(1 - high)}, {percent_rounded(1 - low)}]"
    if arm.verdict == "more" and not is_multiple(arm.ratio or 1.0, AMOUNT):
        return f"[{percent_rounded(low - 1)}, {percent_rounded(high - 1)}]" if high < 1e6 else "[unbounded]"
    if arm.verdict == "more":
        return f"[{figure(low)}, {figure(high)}]"
    return f"({span(arm.interval, AMOUNT)})"
