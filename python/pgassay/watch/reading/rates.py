"""From two readings of counters to what happened between them."""

from collections.abc import Mapping

Counters = Mapping[str, float]


def increase(before: Counters, after: Counters, name: str) -> float | None:
    """How much a counter rose; None when it is missing, or fell because somebody set it back."""
    if name not in before or name not in after:
        return None
    rise = after[name] - before[name]
    return rise if rise >= 0 else None


def rate(before: Counters, after: Counters, names: tuple[str, ...], seconds: float) -> float | None:
    """The sum of these counters' rises per second; None when one of them can't be told."""
    rises = [increase(before, after, name) for name in names]
    if seconds <= 0 or any(rise is None for rise in rises):
        return None
    return sum(rise for rise in rises if rise is not None) / seconds


def shares(before: Counters, after: Counters) -> dict[str, float]:
    """The part that each counter has in the rise of all of them; {} when none rose.

    A counter that fell counts as unchanged: the kernel's iowait may (proc(5)).
    """
    rises = {name: max(0.0, after[name] - before[name]) for name in after if name in before}
    total = sum(rises.values())
    return {name: rise / total for name, rise in rises.items()} if total > 0 else {}
