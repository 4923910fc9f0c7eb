"""iostat's columns from two readings of a block device's counters.

Source: sysstat's iostat(1) and its rd_stats.c and iostat.c; the counters are those of the kernel's
Documentation/block/stat.rst, as `environment.device.statistics` names them.
"""

from pgassay.live.watch.rates import Counters

COLUMNS = (
    *("r/s", "rkB/s", "rrqm/s", "%rrqm", "r_await", "rareq-sz"),
    *("w/s", "wkB/s", "wrqm/s", "%wrqm", "w_await", "wareq-sz"),
    *("d/s", "dkB/s", "drqm/s", "%drqm", "d_await", "dareq-sz"),
    *("f/s", "f_await", "aqu-sz", "%util"),
)
# iostat's letter and the counters' word.
_KINDS = (("r", "read"), ("w", "write"), ("d", "discard"))


def columns(before: Counters, after: Counters, seconds: float) -> dict[str, float]:
    """The columns by iostat's names, in its units: kB are 1024 bytes, waits ms, `%util` and merges percent.

    Counters never fall while the device is there; {} when they did, or no time has passed.
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
    return {name: found[name] for name in COLUMNS}


def _per(amount: float, count: float) -> float:
    """iostat writes 0 where there was nothing."""
    return amount / count if count > 0 else 0.0
