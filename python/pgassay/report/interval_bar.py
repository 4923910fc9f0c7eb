"""An interval drawn in text against the margin band, on a logarithmic scale."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pgassay.report.text import bounds, figure

Ends = tuple[float | None, float | None]

# The ends of a wide interval lie beyond, and must not flatten all others; an estimate never does.
_SPAN_MAX = math.log(64)


@dataclass(frozen=True)
class Glyphs:
    """The characters of a bar: band, line at 1, inside of the interval, its ends, the estimate."""

    band: str
    one: str
    inside: str
    low: str
    high: str
    estimate: str
    beyond_low: str
    beyond_high: str


UNICODE = Glyphs("░", "│", "━", "┣", "┫", "●", "◀", "▶")
ASCII = Glyphs(":", "|", "-", "[", "]", "o", "<", ">")


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis of `width` characters from exp(-span) to exp(span), 1 in the middle."""

    span: float
    margin: float
    width: int

    def column(self, value: float) -> int:
        """The column of a ratio, cut to the axis."""
        if value <= 0 or math.isinf(value):
            return 0 if value <= 0 else self.width - 1
        position = (math.log(value) + self.span) / (2 * self.span)
        return min(self.width - 1, max(0, round(position * (self.width - 1))))

    def holds(self, value: float) -> bool:
        """Whether the ratio lies on the axis."""
        return value > 0 and math.isfinite(value) and abs(math.log(value)) <= self.span + 1e-12


def scale_for(
    intervals: Iterable[Ends | None], ratios: Iterable[float | None], margin: float, width: int
) -> Scale:
    """An axis that shows every finite end and the margin band; its odd width puts 1 in the middle."""
    logs = [2.5 * math.log1p(margin), 0.02]
    for ends in intervals:
        if ends is not None:
            logs += [abs(math.log(end)) for end in bounds(ends) if 0 < end < math.inf]
    estimates = [abs(math.log(value)) for value in ratios if value is not None and 0 < value < math.inf]
    span_max = max(_SPAN_MAX, 1.05 * max(estimates, default=0.0))
    odd_width = width if width % 2 else width - 1
    return Scale(span=min(max(logs + estimates) * 1.05, span_max), margin=margin, width=max(11, odd_width))


def draw(scale: Scale, ends: Ends | None, ratio: float | None, glyphs: Glyphs) -> str:
    """The bar as `scale.width` characters; without an interval only the band and the line at 1."""
    cells = [" "] * scale.width
    for column in range(scale.column(1 / (1 + scale.margin)), scale.column(1 + scale.margin) + 1):
        cells[column] = glyphs.band
    cells[scale.column(1.0)] = glyphs.one
    if ends is not None:
        low, high = bounds(ends)
        first, last = scale.column(low), scale.column(high)
        for column in range(first, last + 1):
            cells[column] = glyphs.inside
        cells[first] = glyphs.low if scale.holds(low) else glyphs.beyond_low
        cells[last] = glyphs.high if scale.holds(high) else glyphs.beyond_high
        if first == last:
            cells[first] = glyphs.estimate
    if ratio is not None and scale.holds(ratio):
        cells[scale.column(ratio)] = glyphs.estimate
    return "".join(cells)


def axis(scale: Scale) -> str:
    """The labels below the bars: both ends of the axis and 1."""
    left, right = (_end(math.exp(sign * scale.span)) for sign in (-1, 1))
    cells = list(left + " " * (scale.width - len(left) - len(right)) + right)
    cells[scale.column(1.0)] = "1"
    return "".join(cells)


def _end(value: float) -> str:
    return f"{value:.2f}" if 0.05 <= value < 20 else figure(value, 2)
