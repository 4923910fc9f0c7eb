"""A block device's counters in iostat's columns: between two readings, and of each arm's trials.

Source of the columns: sysstat's iostat(1) and its rd_stats.c and iostat.c; the counters are those of the
kernel's Documentation/block/stat.rst, as `environment.linux.device.statistics` names them. %iowait is that of
the processors, as iostat prints it above the devices.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from statistics import fmean

from pgassay.errors import UsageError
from pgassay.model.arm import Arm
from pgassay.model.server_statement import ArmIostat
from pgassay.record import observations
from pgassay.record.experiment import StoredExperiment
from pgassay.record.observations import PROCESSOR_FREE, PROCESSOR_STOLEN, PROCESSOR_USED, floats

Counters = Mapping[str, float]

IOSTAT_COLUMNS = (
    *("r/s", "rkB/s", "rrqm/s", "%rrqm", "r_await", "rareq-sz"),
    *("w/s", "wkB/s", "wrqm/s", "%wrqm", "w_await", "wareq-sz"),
    *("d/s", "dkB/s", "drqm/s", "%drqm", "d_await", "dareq-sz"),
    *("f/s", "f_await", "aqu-sz", "%util"),
)
# iostat's letter and the counters' word.
_KINDS = (("r", "read"), ("w", "write"), ("d", "discard"))
IOWAIT = "%iowait"
_COUNTERS = (
    *(f"{word}s{more}" for _, word in _KINDS for more in ("", "_merged")),
    *(f"{word}_{unit}" for _, word in _KINDS for unit in ("bytes", "ms")),
    *("flushes", "flush_ms", "weighted_ms", "in_flight_ms"),
)


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


def arm_iostat(stored: StoredExperiment) -> tuple[ArmIostat, ...]:
    """One for each arm or control whose trials sampled a device: each column's mean over the valid trials."""
    found = (_of_arm(arm, stored) for arm in stored.experiment.arms if arm.role != "twin")
    return tuple(each for each in found if each is not None)


def _of_arm(arm: Arm, stored: StoredExperiment) -> ArmIostat | None:
    trials = [
        columns
        for trial in stored.trials
        if trial.record.arm_id == arm.id and trial.record.status == "ok" and trial.record.clock_ns
        if (columns := _of_trial(trial.folder, trial.record.clock_ns))
    ]
    if not trials:
        return None
    names = [name for name in (*IOSTAT_COLUMNS, IOWAIT) if all(name in columns for columns in trials)]
    means = {name: fmean(columns[name] for columns in trials) for name in names}
    return ArmIostat(arm=arm.name, stratum=arm.stratum, trials=len(trials), columns=means)


# An experiment is analysed after every block, and a trial's folder never changes once it is written.
@lru_cache(maxsize=4096)
def _of_trial(folder: Path, clock_ns: tuple[int, int]) -> Mapping[str, float]:
    """The columns over the measured part; {} where no device was sampled."""
    seconds = (clock_ns[1] - clock_ns[0]) / 1e9
    readings = _readings(folder, "device", _COUNTERS, clock_ns)
    if readings is None:
        return {}
    found = iostat(*readings, seconds)
    processors = _readings(folder, "host_cpu", (*PROCESSOR_USED, *PROCESSOR_FREE, PROCESSOR_STOLEN), clock_ns)
    if found and processors is not None:
        before, after = processors
        total = sum(after.values()) - sum(before.values())
        found[IOWAIT] = _per(100 * max(0.0, after["iowait"] - before["iowait"]), total)
    return found


def _readings(
    folder: Path, sampler: str, names: tuple[str, ...], clock_ns: tuple[int, int]
) -> tuple[Counters, Counters] | None:
    """The counters at both ends of the measured part, between samples by interpolation; None without them."""
    import numpy as np

    try:
        columns = observations.columns(folder, sampler) or {}
    except UsageError:
        # The page names the damaged file.
        return None
    if not columns.get("clock_ns") or not {*names} <= columns.keys():
        return None
    clock = floats(columns, "clock_ns")
    ends = {name: np.interp(clock_ns, clock, floats(columns, name)) for name in names}
    before, after = ({name: float(values[place]) for name, values in ends.items()} for place in (0, 1))
    return before, after
