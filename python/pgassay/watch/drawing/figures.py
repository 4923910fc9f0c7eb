"""How `pgassay watch` writes figures: short, in columns that don't jump."""

from pgassay import words
from pgassay.report import text
from pgassay.words import percent_fixed

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_EIGHTHS = " ▏▎▍▌▋▊▉"


def count(value: float | None) -> str:
    """A number of things, or of things per second, in at most six characters; '-' where it can't be told."""
    if value is None:
        return "-"
    for step, letter in _STEPS:
        if abs(value) >= 10 * step:
            return f"{_three(value / step)}{letter}"
    return _three(value)


def _three(value: float) -> str:
    """With one digit behind the point below a hundred."""
    return f"{value:.0f}" if abs(value) >= 99.95 or value == 0 else f"{value:.1f}"


def size(value: float | None) -> str:
    """Bytes in powers of 1024; '-' where it can't be told."""
    return "-" if value is None else text.size(value)


def byte_rate(value: float | None) -> str:
    """Bytes a second in powers of 1000, as all rates; '-' where it can't be told."""
    return "-" if value is None else words.byte_rate(value)


def percent(fraction: float | None) -> str:
    """A share as '12 %'; '-' where it can't be told."""
    return "-" if fraction is None else f"{percent_fixed(fraction)}"


def fixed(value: float | None, digits: int) -> str:
    """A number with so many digits behind the point; '-' where it can't be told."""
    return "-" if value is None else f"{value:.{digits}f}"


def bar(value: float, full: float, width: int, *, unicode: bool) -> str:
    """`value` as a bar, `width` characters long for `full`, to an eighth of a character."""
    if full <= 0 or value <= 0:
        return ""
    eighths = min(8 * width, max(1, round(8 * width * value / full)))
    if not unicode:
        return "#" * max(1, round(eighths / 8))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def clock(time: str) -> str:
    """'20:31:07' of '2026-11-21T20:31:07.123Z'."""
    return time.partition("T")[2][:8]
