"""From two readings of counters to what happened between them; of a block device's in iostat's columns.

Source of iostat's columns: sysstat's iostat(1) and its rd_stats.c and iostat.c; the counters are those of the
kernel's Documentation/block/stat.rst, as `environment.linux.device.statistics` names them.
"""

from collections.abc import Mapping

Counters = Mapping[str, float]

IOSTAT_COLUMNS = (
    *("r/s", "rkB/s", "rrqm/s", "%rrqm", "r_await", "rareq-sz"),
    *("w/s", "wkB/s", "wrqm/s", "%wrqm", "w_await", "wareq-sz"),
    *("d/s", "dkB/s", "drqm/s", "%drqm", "d_await", "dareq-sz"),
    *("f/s", "f_await", "aqu-sz", "%util"),
)
# iostat's letter and the counters' word.
_KINDS = (("r", "read"), ("w", "write"), ("d", "discard"))


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


def iostat(before: Counters, after: Counters, seconds: float) -> dict[str, float]:
    """A block device's columns by iostat's names, in its units.

    kB are 1024 bytes, waits ms, `%util` and merges percent. Counters never fall while the device is there;
    {} when they did, or no time has passed.
    """
    if seconds <= 0 or after["in_flight_ms"] < before["in_flight_ms"] or after["reads"] < before["reads"]:
        return {}
    moved = {name: after[name] - before[name] for name in after}
    found: dict[str, float] = {}
    for letter, word in _KINDS:
        requests, merged = moved[f"{word}s"], moved[f"{word}s_merged"]
        kilobytes = moved[f"{word}_bytes"] / 1024
        found[f"{letter}/s"] = requests / seconds
        found[f"{letter}kB/s"] = kilobytes / seconds
        found[f"{letter}rqm/s"] = merged / seconds
        found[f"%{letter}rqm"] = _per(100 * merged, merged + requests)
        found[f"{letter}_await"] = _per(moved[f"{word}_ms"], requests)
        found[f"{letter}areq-sz"] = _per(kilobytes, requests)
    found["f/s"] = moved["flushes"] / seconds
    found["f_await"] = _per(moved["flush_ms"], moved["flushes"])
    found["aqu-sz"] = moved["weighted_ms"] / (1000 * seconds)
    found["%util"] = min(100.0, moved["in_flight_ms"] / (10 * seconds))
    return {name: found[name] for name in IOSTAT_COLUMNS}


def _per(amount: float, count: float) -> float:
    """iostat writes 0 where there was nothing."""
    return amount / count if count > 0 else 0.0
