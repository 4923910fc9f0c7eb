"""What the effects of factors are, in words: the largest first, and where they depend on another factor."""

import math
from collections.abc import Sequence

from pgassay.model.further_results.effects import FactorSize, Interaction, LevelEffect
from pgassay.words import TIMES_MIN, comparison, figure, join, percent_rounded

Interval = tuple[float | None, float | None]
# So much further must one factor's least effect reach than another's greatest to be told as a multiple.
_TIMES_TOLD = 2.0


def ranked(factors: Sequence[str], main: Sequence[LevelEffect]) -> tuple[FactorSize, ...]:
    """The factors by the size of their effect: proven ones first, then by what they are at most."""
    sizes = [size_of(name, [each for each in main if each.factor == name]) for name in factors]

    def order(size: FactorSize) -> tuple[bool, float]:
        if size.ratio is not None:
            return False, -size.ratio
        return True, -(size.at_most or math.inf)

    return tuple(sorted(sizes, key=order))


def size_of(factor: str, effects: Sequence[LevelEffect]) -> FactorSize:
    """What one factor does at most, and its largest effect that is proven."""
    # What withholds a verdict is in the interval as well.
    limits = [None if each.withheld else reach(each.interval) for each in effects]
    bounded = [limit for limit in limits if limit is not None]
    at_most = max(bounded) if bounded and len(bounded) == len(limits) else None
    proven = [each for each in effects if is_proven(each)]
    if not proven:
        return FactorSize(factor=factor, at_most=at_most)
    largest = max(proven, key=lambda each: abs(math.log(each.ratio or 1)))
    is_faster = (largest.ratio or 1) > 1
    pair = (largest.level, largest.reference) if is_faster else (largest.reference, largest.level)
    ratio = (largest.ratio or 1) if is_faster else 1 / (largest.ratio or 1)
    interval = largest.interval if is_faster else inverse(largest.interval)
    return FactorSize(
        factor=factor, faster=pair[0], slower=pair[1], ratio=ratio, interval=interval, at_most=at_most
    )


def is_proven(effect: LevelEffect) -> bool:
    """Whether it has a direction, be it within the margin or beyond."""
    if effect.withheld or effect.interval is None or effect.ratio is None:
        return False
    low, high = effect.interval
    return effect.verdict in ("faster", "slower") or (
        effect.verdict == "equivalent" and ((low or 0) > 1 or (high is not None and high < 1))
    )


def reach(interval: Interval | None) -> float | None:
    """The largest ratio, either way, that an interval allows; None where it does not bound it."""
    if interval is None or not interval[0] or interval[1] is None or not math.isfinite(interval[1]):
        return None
    return max(1 / interval[0], interval[1])


def inverse(interval: Interval | None) -> Interval | None:
    """The interval of the inverse ratio."""
    if interval is None:
        return None
    low, high = interval
    return (1 / high if high else None, 1 / low if low else None)


def times(ratio: float) -> str:
    """A ratio as '2.0 ×', '1.02 ×', '45 ×'."""
    digits = 0 if ratio >= 10 else 1 if ratio >= TIMES_MIN else 3 if ratio < 1.005 else 2
    return f"{ratio:,.{digits}f} ×"


def ends(interval: Interval | None) -> str:
    """'[1.9, 2.2]', as precise as `times`; '' without one."""
    if interval is None:
        return ""
    low, high = (end if end and math.isfinite(end) else None for end in interval)
    shown = [times(end).removesuffix(" ×") if end else "?" for end in (low, high)]
    if shown[0] == shown[1] and low and high:
        shown = [figure(end) for end in (low, high)]
    return f"[{shown[0]}, {shown[1]}]"


def size_words(size: FactorSize) -> str:
    """'storage: 2.0 × [1.9, 2.2], gp3 over gp2', or 'io_method: at most 1.02 ×'."""
    if size.ratio is not None:
        return f"{size.factor}: {times(size.ratio)} {ends(size.interval)}, {size.faster} over {size.slower}"
    if size.at_most is not None:
        return f"{size.factor}: at most {times(_up(size.at_most))}"
    return f"{size.factor}: not known yet"


def _up(ratio: float) -> float:
    """Rounded so that 'at most' stays true."""
    step = 0.001 if ratio < 1.005 else 0.01 if ratio < TIMES_MIN else 0.1 if ratio < 10 else 1
    return math.ceil(ratio / step - 1e-9) * step


def sentences_of(
    ranking: Sequence[FactorSize],
    main: Sequence[LevelEffect],
    at: Sequence[LevelEffect],
    interactions: Sequence[Interaction],
    margin: float,
) -> tuple[str, ...]:
    """The ranking in a sentence, how much further the first reaches, and what depends on what."""
    if not any(each.rounds for each in main):
        return ()
    said = ["; ".join(size_words(size) for size in ranking) + "."]
    further = _further(ranking)
    said += [further] if further else []
    said += _depending(at, interactions, margin)
    return tuple(said)


def _further(ranking: Sequence[FactorSize]) -> str:
    """That one factor does more than all others, where their intervals prove it."""
    first, others = ranking[0], ranking[1:]
    if first.interval is None or not first.interval[0]:
        return ""
    limits = [other.at_most for other in others if other.at_most is not None]
    if not limits or len(limits) < len(others) or max(limits) >= first.interval[0]:
        return ""
    least, most = math.log(first.interval[0]), math.log(max(limits))
    names = join([other.factor for other in others])
    more = f", {figure(least / most, 2)} times as much" if least / most >= _TIMES_TOLD else ""
    return f"{first.factor} changes more than {names}{more} at least (on logarithms of speed)."


def _depending(at: Sequence[LevelEffect], interactions: Sequence[Interaction], margin: float) -> list[str]:
    said = []
    seen = set()
    for each in interactions:
        if each.verdict not in ("larger", "smaller") or each.withheld or each.ratio is None:
            continue
        words = _only_there(each, at, margin)
        if words and words not in seen:
            seen.add(words)
            said.append(words)
        if words:
            continue
        said.append(
            f"{each.factor} depends on {each.by}: {each.level} over {each.reference} gains "
            f"{times(each.ratio if each.ratio > 1 else 1 / each.ratio)} as much at "
            f"{_named(each.by, each.by_level if each.ratio > 1 else each.by_reference)} as at "
            f"{_named(each.by, each.by_reference if each.ratio > 1 else each.by_level)} "
            f"({ends(each.interval if each.ratio > 1 else inverse(each.interval))})."
        )
    return said


def _only_there(each: Interaction, at: Sequence[LevelEffect], margin: float) -> str:
    """That an effect is there at some levels of another factor, and within the margin at all others."""
    effects = [
        effect
        for effect in at
        if effect.factor == each.factor and effect.level == each.level and each.by in effect.at
    ]
    there = [effect for effect in effects if effect.verdict in ("faster", "slower") and not effect.withheld]
    alike = [effect for effect in effects if effect.verdict == "equivalent"]
    if not there or not alike or len(there) + len(alike) < len(effects):
        return ""
    shown = join(
        [
            f"{_named(each.by, effect.at[each.by])} ({comparison(effect.ratio or 1)} {each.reference}, "
            f"{ends(effect.interval)})"
            for effect in there
        ]
    )
    rest = join([effect.at[each.by] for effect in alike])
    return (
        f"{each.factor}={each.level} matters only at {shown}; at {_named(each.by, rest)} it is within "
        f"{percent_rounded(margin)}."
    )


def _named(factor: str, level: str) -> str:
    return f"{factor}={level}"
