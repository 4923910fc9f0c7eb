"""Figures and names as words: how every report writes a ratio, an interval, a duration, a size."""

import math
import unicodedata
from collections.abc import Sequence

from pgassay.model.result import ArmResult, TwinResult

INFINITY = "∞"
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")


def clean(text: str) -> str:
    """A text from a server or a user without characters that could steer a terminal or hide text.

    Line breaks, tabs and unusual spaces become spaces; every other character that can't be printed
    is shown as its escape sequence (`\\x1b`).
    """
    if text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    if character.isspace() or unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")


def clean_lines(content: str) -> str:
    """As `clean`, for SQL or JSON whose line breaks must stay."""
    return "\n".join(clean(line) for line in content.splitlines())


def excerpt(content: str, characters_max: int) -> str:
    """The beginning of a text that is longer than a page should hold, with the length of the whole."""
    if len(content) <= characters_max:
        return content
    return f"{content[:characters_max]} … (cut: {len(content):,} characters in all)"


def ascii_only(text: str) -> str:
    """The text for an output that can show ASCII alone; signs pgassay uses get their plain form."""
    plain = (
        text.replace("–", "-")
        .replace("×", "x")
        .replace(INFINITY, "inf")
        .replace("±", "+/-")
        .replace("·", "-")
        .replace("…", "...")
        .replace("µ", "u")
        .replace("→", "->")
    )
    return plain.encode("ascii", "backslashreplace").decode("ascii")


def _digits(value: float, significant: int) -> str:
    """A positive or negative number to `significant` digits, never in exponent form below 1e9."""
    if value == 0:
        return "0"
    if abs(value) >= 1e9 or abs(value) < 1e-6:
        return f"{value:.{significant - 1}e}"
    decimals = max(0, significant - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


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
    if value is None:
        return ""
    amount = float(value)
    for unit in _BYTE_UNITS:
        if abs(amount) < 1024 or unit == _BYTE_UNITS[-1]:
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{_digits(amount, 3)} {unit}"


def percent(fraction: float) -> str:
    """A fraction as a percentage with as many digits as it needs: 0.03 → '3 %'."""
    return f"{fraction * 100:.3g} %"


def ratio(value: float | None) -> str:
    """A speed ratio, '1.213×'; '' when there is none."""
    if value is None or not math.isfinite(value):
        return ""
    return f"{_ratio_digits(value)}×"


def _ratio_digits(value: float) -> str:
    return f"{value:.3f}" if 0.1 <= value < 10 else _digits(value, 3)


def interval(ends: tuple[float | None, float | None] | None) -> str:
    """An interval of a ratio, '1.170 – 1.253'; an end that the data do not bound is 0 or ∞."""
    if ends is None:
        return ""
    low, high = bounds(ends)
    if low == 0 and math.isinf(high):
        return "unbounded"
    low_text = "0" if low == 0 else _ratio_digits(low)
    high_text = INFINITY if math.isinf(high) else _ratio_digits(high)
    return f"{low_text} – {high_text}"


def bounds(ends: tuple[float | None, float | None]) -> tuple[float, float]:
    """The ends as numbers: an unbounded lower end is 0, an unbounded upper end infinite."""
    low, high = ends
    low = 0.0 if low is None or not math.isfinite(low) else max(low, 0.0)
    high = math.inf if high is None or not math.isfinite(high) else high
    return low, high


def verdict_word(arm: ArmResult, margin: float) -> str:
    """The verdict of an arm with what qualifies it: a difference may still lie inside the margin."""
    if arm.withheld:
        return "withheld"
    if arm.verdict not in ("equivalent", "inconclusive", "control") and not arm.meaningful:
        return f"{arm.verdict}, maybe < {percent(margin)}"
    return arm.verdict


def twin_sentence(twin: TwinResult) -> str:
    """What the hidden duplicate of the control says about this experiment."""
    where = f" in {clean(twin.stratum)}" if twin.stratum else ""
    if twin.ratio is None:
        return f"Twin{where}: no block to compare yet."
    figures = (
        f"{ratio(twin.ratio)} of the control's speed (interval: {interval(twin.interval) or 'none yet'})"
    )
    if twin.ok is None:
        return f"Twin{where}: not yet tested, too few blocks for its check; so far {figures}."
    if twin.ok:
        return f"Twin{where}: no difference from the control found, {figures}."
    return (
        f"Twin{where}: it DIFFERS from the control, {figures}, though both have the same settings: "
        "the measurement is biased, and verdicts inside that range are withheld."
    )


def plural(count: int, word: str) -> str:
    """'1 block', '2 blocks'."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def join(words: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def aligned(rows: list[list[str]]) -> list[str]:
    """Rows of a plain table as indented lines: the first column to the left, the others to the right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
