"""How long known pieces of work will take by each method, from the cells that stand for them."""

from collections.abc import Mapping

from pgassay.model.probe import (
    BITMAP_FRACTION,
    LOOKUPS,
    PAGE_BYTES,
    PAGES_PER_LOOKUP,
    SCAN_BYTES,
    WORKS,
    CellSpec,
    MeasuredCell,
    Prediction,
    ProbeRecord,
    Work,
)
from pgassay.probe.analysis.estimates import Estimates
from pgassay.probe.analysis.model import work_time
from pgassay.probe.analysis.plan import CONNECTIONS, Facilities, work_cell

PAGES: dict[Work, float] = {
    "cold-scan": SCAN_BYTES / PAGE_BYTES,
    "cached-scan": SCAN_BYTES / PAGE_BYTES,
    "bitmap-scan": SCAN_BYTES / PAGE_BYTES * BITMAP_FRACTION,
    "index-lookups": LOOKUPS * PAGES_PER_LOOKUP,
}


def predictions(record: ProbeRecord, have: Facilities, estimates: Estimates) -> tuple[Prediction, ...]:
    """A prediction for each work, number of connections and method whose cell was run.

    Several connections share the work. Index lookups are read by the backend whatever the method, so that all
    methods have one figure.
    """
    cells: Mapping[CellSpec, MeasuredCell] = {cell.spec: cell for cell in record.cells}
    made = []
    for work in WORKS:
        for connections in CONNECTIONS:
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
