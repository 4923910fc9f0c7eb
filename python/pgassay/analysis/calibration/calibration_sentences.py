"""What a calibration says in sentences. Pure."""

from collections.abc import Sequence

from pgassay.model.calibration import CopyEffect, DriftResult, Level, LevelResult, ModesResult, NoiseResult
from pgassay.words import duration_rounded, join, percent_fixed, percent_rounded, ratio, seconds

MOSTLY = 0.5
# A bound of the copies' spread above this says nothing that anybody would doubt.
NOTHING_SAID = 1.0
# A covariate by what it is a reading of.
READ = {
    "canary": "the processor's speed",
    "memory": "the speed of fresh memory",
    "disk": "the disk's speed",
}
_UNITS: dict[Level, tuple[str, str]] = {
    "copy": ("load of the data", "loads of the data"),
    "restart": ("start of the server", "starts of the server"),
    "measurement": ("measurement", "measurements"),
}


def sentences(
    made: NoiseResult | None,
    drift: DriftResult | None,
    for_margin: float | None,
    margin: float,
) -> tuple[str, ...]:
    """How long a difference as large as the margin takes, where the noise comes from, and the drift."""
    if made is None or for_margin is None:
        return ("At least two complete blocks are needed to measure the noise: give it more time.",)
    found = [
        f"A difference of {percent_rounded(margin)} takes about {duration_rounded(for_margin * 60)} with "
        f"this workload here: trials of one block spread by {percent_rounded(made.trial)}."
    ]
    found += _where_it_comes_from(made)
    if drift is not None and drift.seen:
        word = "slower" if drift.change < 0 else "faster"
        found.append(
            f"The machine became {word} by {percent_rounded(abs(drift.change))} in "
            f"{duration_rounded(drift.hours * 3600)}; blocks keep that out of the verdicts."
        )
    return tuple(found)


def _where_it_comes_from(made: NoiseResult) -> list[str]:
    within = made.within_trial
    if within is None or made.trial == 0:
        return []
    if within**2 > MOSTLY * made.trial**2:
        return ["Most of it is fluctuation within trials: a longer duration makes each trial steadier."]
    return ["Most of it lies between trials: a longer duration helps little, more blocks do."]


def copy_sentences(effect: CopyEffect | None) -> list[str]:
    """Whether copies of the data differ here, and by how much."""
    if effect is None:
        return []
    low, high = effect.interval
    where = f"here (storage {effect.storage}, {effect.copies} copies)"
    if not effect.differ and high > NOTHING_SAID:
        return [f"Whether copies of the data differ is not decided yet {where}: it takes more blocks."]
    if not effect.differ:
        return [f"No difference between copies of the data was found {where}: below {percent_rounded(high)}."]
    return [
        f"Copies of the data differ by {percent_rounded(effect.spread)} "
        f"[{percent_rounded(low)}, {percent_rounded(high)}] {where}: arms that share a copy are not "
        "affected; arms that need their own data need several copies each."
    ]


def level_sentences(levels: Sequence[LevelResult], margin: float, *, is_load: bool) -> list[str]:
    """How many of each level to take; and which could not be told."""
    if not levels:
        return []
    found = []
    known = [each for each in levels if each.repetitions is not None]
    if known:
        parts = [_so_many(each, place, is_load=is_load) for place, each in enumerate(known)]
        found.append(
            f"For an interval of ±{percent_rounded(margin)} in the shortest time, take for each arm "
            f"{', '.join(parts)}{_how_sure(known)}."
        )
    lacking = {each.level for each in levels if each.spread is None}
    if {"restart", "measurement"} <= lacking:
        found.append("The effect of a server start is not known: nothing was measured twice within one.")
    elif "restart" in lacking:
        found.append("The effect of a server start is not known: the trials shared their starts.")
    if "copy" in lacking:
        found.append("The effect of a copy of the data is not known: there was one copy.")
    return found


def _how_sure(known: Sequence[LevelResult]) -> str:
    """What is said of counts that rest on a level which may as well add nothing."""
    unsure = [each for each in known if each.spread and each.interval is not None and each.interval[0] == 0]
    if not unsure:
        return ""
    names = join([_UNITS[each.level][1] for each in unsure])
    return f" (a first guess: whether {names} differ at all is not settled)"


def _so_many(level: LevelResult, place: int, *, is_load: bool) -> str:
    count = level.repetitions or 1
    if level.level == "measurement" and is_load and level.cost_s is not None:
        words = f"a load of {seconds(count * level.cost_s)}"
    else:
        words = f"{count} {_UNITS[level.level][count != 1]}"
    return f"{words} {'in' if level.level == 'measurement' else 'on'} each" if place else words


def mode_sentences(modes: ModesResult | None, paired: float | None) -> list[str]:
    """Whether trials have two speeds, and which covariate to declare."""
    if modes is None or paired is None:
        return []
    found = []
    if modes.found and modes.slow_share is not None:
        found.append(
            f"Trials run at two speeds here, {ratio(modes.ratio)} apart: {percent_fixed(modes.slow_share)} "
            "of them were slow."
        )
    best = next((fit for fit in modes.covariates if fit.name == modes.declare), None)
    if best is not None:
        found.append(
            f"{READ[best.name].capitalize()} before a trial explains {percent_fixed(best.explained)} of the "
            f"variance: with --covariate {best.name} the spread of trials of one block falls from "
            f"{percent_rounded(paired)} to {percent_rounded(best.spread)}."
        )
    elif modes.found:
        tried = join([READ[fit.name] for fit in modes.covariates])
        found.append(
            f"No reading before a trial predicts which ({tried})."
            if tried
            else "No reading before a trial could predict which."
        )
    return found
