"""From a measured cell to the time of a piece of work, also for an executor that costs more or less.

A pipeline is as fast as its slowest stage. Per page a consumer spends serial time on its core (system call
and copy, checksum, hand-over, execution) and waits for what is not there yet. More executor cost first fills
the wait and only then lengthens the page's time; less shortens it as far as the device or the workers keep
up. All cores together bound what many consumers get. The measured split gives the parts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pgassay.model.base import PAGE_BYTES
from pgassay.model.probe import (
    BITMAP_FRACTION,
    LOOKUPS,
    PAGES_PER_LOOKUP,
    SCAN_BYTES,
    WORKS,
    CellSpec,
    ExecutorCost,
    MeasuredCell,
    Prediction,
    ProbeRecord,
    Work,
)
from pgassay.model.result import Interval
from pgassay.probe.analysis.cell_figures import CORE_PARTS
from pgassay.probe.analysis.estimates import Estimate, Estimates
from pgassay.probe.analysis.probe_plan import CONNECTIONS, FURTHER_WORKS, Facilities, work_cell

# Waiting below this share of a page's time is the hand-over of a pipeline that is full.
_FULL_PIPELINE = 0.05
_WAITS = ("device_wait", "worker_wait")
PAGES: dict[Work, float] = {
    "cold-scan": SCAN_BYTES / PAGE_BYTES,
    "cached-scan": SCAN_BYTES / PAGE_BYTES,
    "bitmap-scan": SCAN_BYTES / PAGE_BYTES * BITMAP_FRACTION,
    "index-lookups": LOOKUPS * PAGES_PER_LOOKUP,
    **dict.fromkeys(FURTHER_WORKS, SCAN_BYTES / PAGE_BYTES),
}


@dataclass(frozen=True)
class PageTimes:
    """Seconds per page: of one consumer from page to page, of which it waits; CPU of all threads together."""

    elapsed: float
    wait: float
    core: float
    cpu: float
    consumers: int
    cores: int
    overlaps: bool

    def with_more_executor(self, seconds: float) -> float:
        """The time from page to page when the executor takes `seconds` more (or, negative, less)."""
        if seconds >= 0:
            filled = min(self.wait, seconds) if self.overlaps else 0.0
            alone = self.elapsed + seconds - filled
        else:
            is_full = self.wait < _FULL_PIPELINE * self.elapsed
            alone = self.elapsed + seconds if is_full or not self.overlaps else self.elapsed
        shared = (self.cpu + seconds) * self.consumers / self.cores
        return max(alone, shared, self.core + min(seconds, 0.0), 1e-12)


def page_times(cell: MeasuredCell, cores: int) -> PageTimes | None:
    """The parts of a cell's page time over all its runs; None where it read nothing."""
    pages = sum(run.bytes for run in cell.runs) / PAGE_BYTES
    if pages <= 0:
        return None
    elapsed = sum(run.elapsed_s for run in cell.runs) * cell.spec.consumers / pages
    spent = {part: sum(run.time_s.get(part, 0.0) for run in cell.runs) for part in (*CORE_PARTS, *_WAITS)}
    return PageTimes(
        elapsed=elapsed,
        wait=min(elapsed, sum(spent[part] for part in _WAITS) / pages),
        core=sum(spent[part] for part in CORE_PARTS) / pages,
        cpu=sum(sum(run.cpu_s.values()) for run in cell.runs) / pages,
        consumers=cell.spec.consumers,
        cores=cores,
        overlaps=overlaps(cell.spec),
    )


def overlaps(spec: CellSpec) -> bool:
    """Whether reads go on while the consumer executes: by the method's own look-ahead or the kernel's."""
    if spec.pattern == "dependent" or spec.depth <= 1:
        return False
    return spec.engine != "sync" or spec.cache != "direct"


def work_time(
    cell: MeasuredCell, made: Estimate, pages: float, executor: ExecutorCost, cores: int
) -> tuple[float, Interval]:
    """Seconds for so many pages at a cell's rate, with an interval.

    The interval holds the rate's own uncertainty and the executor's: its ends are those of the executor's
    cost through the model, combined with the rate's interval as independent errors on the logarithmic scale.
    """
    seconds = pages * PAGE_BYTES / (made.rate * 1e6)
    times = page_times(cell, cores)
    faster = slower = 0.0
    if times is not None and cell.spec.execute_ns_per_page:
        low, high = (end - cell.spec.execute_ns_per_page for end in executor.interval)
        now = times.with_more_executor(0.0)
        faster = max(0.0, math.log(now / times.with_more_executor(min(low, 0.0) * 1e-9)))
        slower = max(0.0, math.log(times.with_more_executor(max(high, 0.0) * 1e-9) / now))
    reach = made.half_width
    return seconds, (
        seconds * math.exp(-math.hypot(reach, faster)),
        seconds * math.exp(math.hypot(reach, slower)),
    )


def predictions(record: ProbeRecord, have: Facilities, estimates: Estimates) -> tuple[Prediction, ...]:
    """A prediction for each work, number of connections and method whose cell was run.

    Several connections share the work. Index lookups are read by the backend whatever the method, so that all
    methods have one figure.
    """
    cells: Mapping[CellSpec, MeasuredCell] = {cell.spec: cell for cell in record.cells}
    made = []
    for work in WORKS:
        for connections in CONNECTIONS[:1] if work in FURTHER_WORKS else CONNECTIONS:
            for method in have.methods:
                spec = work_cell(work, method, connections, have)
                if spec not in estimates:
                    continue
                seconds, interval = work_time(
                    cells[spec], estimates[spec], PAGES[work], record.executor, record.cores
                )
                made.append(
                    Prediction(
                        work=work,
                        method=method,
                        connections=connections,
                        time_s=seconds,
                        interval=interval,
                    )
                )
    return tuple(made)
