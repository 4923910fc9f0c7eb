"""What the ends' own experiment says: whether they differ, and by how much."""

from pgassay.analysis.bisection.search import Search, Sized, size_of
from pgassay.model.result import ArmResult, CompareResult


def ends_verdict(ends: CompareResult | None) -> str:
    """The word on the bad end; a verdict that is withheld, since equal servers differed, is none."""
    found = _bad_end(ends)
    return "inconclusive" if found is None or found.withheld else found.verdict


def whole_size(search: Search, ends: CompareResult | None) -> Sized | None:
    """Speed of the bad end over that of the good one, by all blocks; None without any.

    Where these leave the direction open, and the ends' own experiment does not, by that: its analysis knows
    more of its trials than the search does of all blocks.
    """
    sized, bad = size_of(search.blocks, search.last, 0), _bad_end(ends)
    if ends_verdict(ends) not in ("slower", "faster") or bad is None or (sized and _has_direction(sized[1])):
        return sized
    low, high = bad.interval or (None, None)
    if bad.ratio is None or low is None or high is None or not _has_direction((low, high)):
        return sized
    return bad.ratio, (low, high)


def _bad_end(ends: CompareResult | None) -> ArmResult | None:
    return next((arm for arm in (ends.arms if ends else ()) if arm.verdict != "control"), None)


def _has_direction(interval: tuple[float, float] | None) -> bool:
    return interval is not None and not interval[0] <= 1 <= interval[1]
