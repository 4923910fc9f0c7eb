"""The device's limits from the cells that measured them, and whether memory answered in its place."""

from collections.abc import Mapping, Sequence

from pgassay.model.probe import Ceilings, CellResult, CellSpec, ChecksumSpeed
from pgassay.probe.analysis.estimates import Estimates
from pgassay.probe.analysis.probe_plan import CEILING_DEPTHS, Facilities, fdatasync_cell, random_ceiling
from pgassay.words import figure, percent_fixed

# One random read of 8 kB takes flash 50 µs and more, behind PCIe 4 and with its own cache; only persistent
# memory and Optane come near 10 µs.
MEMORY_LATENCY_US = 15.0
# A device this near to what one core reads from memory is memory.
_MEMORY_FRACTION = 0.7
# Comparing probes finds the warnings by it.
FROM_MEMORY = "reads come from memory"


def is_device_read(spec: CellSpec) -> bool:
    """Whether a cell reads the device, sequentially or with much in flight, without work in the consumer."""
    is_read = spec.engine not in ("null", "write") and spec.cache != "cached" and not spec.found
    return is_read and not spec.competing_cpus


def ceilings(have: Facilities, cells: Sequence[CellResult], estimates: Estimates) -> Ceilings:
    """What was measured of the limits; the sequential one is the best that any cell read from the device."""
    by_spec = {cell.spec: cell for cell in cells}
    sequential = [
        cell.mb_s
        for cell in cells
        if cell.spec.pattern == "sequential" and is_device_read(cell.spec) and cell.spec.read_ahead_kb is None
    ]
    alone = by_spec.get(random_ceiling(have, 1))
    random_reads = {str(depth): by_spec.get(random_ceiling(have, depth)) for depth in CEILING_DEPTHS}
    durable = estimates.get(fdatasync_cell())
    return Ceilings(
        sequential_read_mb_s=max(sequential, default=None),
        random_read_iops={depth: cell.iops for depth, cell in random_reads.items() if cell is not None},
        latency_us_depth_1={
            name: alone.latency_us[name] for name in ("p50", "p99") if name in alone.latency_us
        }
        if alone is not None
        else {},
        fdatasync_per_s=None if durable is None else durable.rate,
    )


def memory_sentences(
    made: Ceilings, checksum: ChecksumSpeed | None, device: Mapping[str, object], *, direct: bool
) -> list[str]:
    """Warnings that what was measured is memory and not a device; with the figure that gives it away."""
    kind = str(device.get("file_system") or "")
    found = []
    if kind in ("tmpfs", "ramfs"):
        found.append(f"The file system is {kind}: {FROM_MEMORY}, and there is no device to measure.")
    elif kind == "overlay":
        found.append(
            "The folder lies on an overlay, which hides the device below: its read-ahead and its name are "
            "unknown, and one of its layers may answer from memory."
        )
    latency_us = made.latency_us_depth_1.get("p50")
    if direct and latency_us is not None and latency_us < MEMORY_LATENCY_US:
        found.append(
            f"Single random reads of 8 kB are answered in {figure(latency_us)} µs, faster than any flash: "
            f"{FROM_MEMORY} (a host cache, a RAM disk), so the ceilings are not those of a disk."
        )
    rate = made.sequential_read_mb_s
    if direct and checksum is not None and rate is not None:
        memory_mb_s = checksum.memory_read_gb_s * 1000
        if rate > _MEMORY_FRACTION * memory_mb_s:
            found.append(
                f"Sequential reads reach {rate:,.0f} MB/s, {percent_fixed(rate / memory_mb_s)} of what a "
                f"core reads from memory: {FROM_MEMORY}, so the ceilings are not those of a disk."
            )
    return found
