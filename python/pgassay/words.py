"""Figures as words: how every sentence, table and page writes a time, a size, a percentage, a ratio.

A small difference is told as a percentage ("21 % faster"), from 1.5 × on as a multiple, in both directions
("2.4 × as fast", "3.5 × as slow"): "140 % faster" is often read as 1.4 times, and "71 % slower" hides that it
takes 3.5 times as long. The ends of an interval on one side of 1 are told alike. No figure has an exponent.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Ends = tuple[float | None, float | None]
INFINITY = "∞"
TIMES_MIN = 1.5
# More digits than a double tells apart.
_DECIMALS_MAX = 12
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Comparative:
    """The words of a comparison: above 1, below 1, and after '×' where it is large.

    times_less: '' where what is much less stays a percentage: '70 % less CPU' can't be misread.
    """

    more: str
    less: str
    times: str
    times_less: str = ""


SPEED = Comparative("faster", "slower", "as fast", "as slow")
AMOUNT = Comparative("more", "less", "as much")


def _digits(value: float, significant: int) -> str:
    """A positive or negative number to `significant` digits, never in exponent form."""
    if value == 0:
        return "0"
    decimals = max(0, significant - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, _DECIMALS_MAX)}f}"


def figure(value: float, significant: int = 3) -> str:
    """A number as people write it: '0.25', '24', '1,270', '0.0000015', without zeros after its point."""
    if not math.isfinite(value):
        return INFINITY if value > 0 else f"−{INFINITY}" if value < 0 else "?"
    shown = _digits(value, significant)
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def quantity(value: float | None, unit: str) -> str:
    """A figure with its unit: seconds below one second as ms or µs; '' when there is none."""
    if value is None or not math.isfinite(value):
        return ""
    if unit == "s":
        return seconds(value)
    return f"{_digits(value, 4)} {unit}".strip()


def bare_quantity(value: float | None, unit: str) -> str:
    """As `quantity` for a column whose heading gives the unit; a time keeps its own."""
    shown = quantity(value, unit)
    return shown if unit == "s" else shown.removesuffix(f" {unit}")


def seconds(value: float) -> str:
    """A measured time, to three digits or more: '1.893 s', '42.1 ms', '310 µs'."""
    if value == 0:
        return "0 s"
    if abs(value) < 0.001:
        return f"{_digits(value * 1e6, 3)} µs"
    if abs(value) < 1:
        return f"{_digits(value * 1e3, 3)} ms"
    return f"{_digits(value, 4)} s"


def duration(value_s: float) -> str:
    """A span of time for a person waiting: '45 s', '12 min 05 s', '2 h 03 min'."""
    total = max(0, round(value_s))
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02d} s"
    return f"{total // 3600} h {total % 3600 // 60:02d} min"


def size(value: float | None) -> str:
    """Bytes in powers of 1024, as PostgreSQL's kB, MB, GB; '' when there is none."""
    return "" if value is None else _in_bytes(float(value), 1024)


def byte_rate(value: float | None) -> str:
    """Bytes a second in powers of 1000, as every rate is told: '12.3 MB/s'; '' when there is none."""
    return "" if value is None else f"{_in_bytes(float(value), 1000)}/s"


def _in_bytes(amount: float, step: int) -> str:
    for unit in _BYTE_UNITS:
        if abs(amount) < step or unit == _BYTE_UNITS[-1]:
            break
        amount /= step
    return f"{amount:.0f} {unit}" if unit == "B" else f"{_digits(amount, 3)} {unit}"


def duration_rounded(value_s: float) -> str:
    """A span of time as a person estimates it: '45 seconds', '12 minutes', '3 hours'."""
    if value_s < 90:
        return f"{value_s:.0f} {'second' if round(value_s) == 1 else 'seconds'}"
    if value_s < 7200:
        return f"{value_s / 60:.0f} minutes"
    return f"{value_s / 3600:.1f}".removesuffix(".0") + " hours"


def percent(fraction: float) -> str:
    """A fraction as a percentage with the digits it needs, three at most: 0.03 → '3 %', 0.9975 → '99.8 %'."""
    return f"{figure(fraction * 100)} %"


def percent_fixed(fraction: float, decimals: int = 0, *, signed: bool = False) -> str:
    """A share or a change as a percentage with so many decimals: '73 %', '0.4 %', '+37 %'."""
    sign = "+" if signed else ""
    return f"{100 * fraction:{sign}.{decimals}f} %"


def percent_rounded(fraction: float) -> str:
    """An effect or a spread as a percentage, one decimal below 10 % and none above: '3.2 %', '21 %'.

    What is less than all is never told as 100 %: '99.6 %'.
    """
    value = 100 * fraction
    if 99.5 <= abs(value) < 100:
        return f"{value:.{-math.floor(math.log10(100 - abs(value)))}f} %"
    if abs(value) >= 9.95:
        return f"{value:.0f} %"
    shown = f"{value:.1f}" if abs(value) >= 0.095 else figure(value, 2)
    return f"{shown.removesuffix('.0')} %"


def share(fraction: float) -> str:
    """A part of a whole: '82 %', '2.6 %', and 'under 0.1 %' of what is too little to matter."""
    return "under 0.1 %" if 0 < fraction < 0.001 else percent_rounded(fraction)


def ratio(value: float | None) -> str:
    """A speed ratio, '1.213×'; '' when there is none."""
    if value is None or not math.isfinite(value):
        return ""
    return f"{_ratio_digits(value)}×"


def _ratio_digits(value: float) -> str:
    return f"{value:.3f}" if 0.1 <= value < 10 else _digits(value, 3)


def interval(ends: Ends | None) -> str:
    """An interval of a ratio, '1.170 – 1.253'; an end that the data do not bound is 0 or ∞."""
    if ends is None:
        return ""
    low, high = bounds(ends)
    if low == 0 and math.isinf(high):
        return "unbounded"
    low_text = "0" if low == 0 else _ratio_digits(low)
    high_text = INFINITY if math.isinf(high) else _ratio_digits(high)
    return f"{low_text} – {high_text}"


def interval_or_why(ends: Ends | None, ratio: float | None) -> str:
    """As `interval`; without one, why: no block yet, or (it has a ratio) none that fits all blocks."""
    if ends is None:
        return "none yet" if ratio is None else "none fits"
    return interval(ends)


def bounds(ends: Ends) -> tuple[float, float]:
    """The ends as numbers: an unbounded lower end is 0, an unbounded upper end infinite."""
    low, high = ends
    low = 0.0 if low is None or not math.isfinite(low) else max(low, 0.0)
    high = math.inf if high is None or not math.isfinite(high) else high
    return low, high


def is_multiple(value: float, words: Comparative = SPEED) -> bool:
    """Whether a ratio is told as so many times rather than as a percentage."""
    return value >= TIMES_MIN or bool(words.times_less and 0 < value <= 1 / TIMES_MIN)


def amount(value: float, words: Comparative = SPEED) -> str:
    """A ratio as a difference: '21 % faster', '20 % slower', '2.4 × as fast', '3.5 × as slow'."""
    if value >= 1:
        if value >= TIMES_MIN:
            return f"{figure(value)} × {words.times}"
        return f"{percent_rounded(value - 1)} {words.more}"
    if is_multiple(value, words):
        return f"{figure(1 / value)} × {words.times_less}"
    return f"{percent_rounded(1 - value)} {words.less}"


def comparison(value: float, words: Comparative = SPEED, of: str = "") -> str:
    """What stands before the other's name: '21 % faster than', '2.4 × as fast as'.

    `of` is what there is more or less of: '21 % more CPU than'.
    """
    noun = f" {of}" if of else ""
    return f"{amount(value, words)}{noun} {'as' if is_multiple(value, words) else 'than'}"


def span(ends: Ends, words: Comparative = SPEED) -> str:
    """An interval of ratios as differences; the direction is left out where both ends share it."""
    low = ends[0] if ends[0] is not None and ends[0] > 0 else None
    high = ends[1] if ends[1] is not None and math.isfinite(ends[1]) else None
    if low is None and high is None:
        return "nothing is bounded"
    if low is None:
        word = "at most" if high is None or high >= 1 else "at least"
        return f"{word} {amount(1.0 if high is None else high, words)}"
    if high is None:
        return f"at least {amount(low, words)}" if low >= 1 else f"at most {amount(low, words)}"
    if low >= 1:
        if is_multiple(high, words):
            return f"between {figure(low)} and {figure(high)} × {words.times}"
        return f"between {percent_rounded(low - 1)} and {percent_rounded(high - 1)}"
    if high <= 1:
        if is_multiple(low, words):
            return f"between {figure(1 / high)} and {figure(1 / low)} × {words.times_less}"
        return f"between {percent_rounded(1 - high)} and {percent_rounded(1 - low)}"
    return f"between {amount(low, words)} and {amount(high, words)}"


def amount_within(value: float, ends: Ends | None) -> str:
    """A ratio as a difference, with its interval where that has an end."""
    return f"{amount(value)} ({span(ends)})" if ends and any(ends) else amount(value)


def plural(count: int, word: str) -> str:
    """'1 block', '2 blocks'."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def lost_connections(lost: int, refused: Mapping[str, int]) -> tuple[str, str]:
    """How many connections a load lost; and, to stand after that, what attempts to open one met, or ''."""
    states = ", ".join(f"{state} {count:,}" for state, count in sorted(refused.items()))
    told = f"; attempts to open one that failed, by SQLSTATE: {states}" if states else ""
    return f"{plural(lost, 'connection')} {'was' if lost == 1 else 'were'} lost", told


def join(words: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
