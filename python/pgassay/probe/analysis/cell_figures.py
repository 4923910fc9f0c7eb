"""The cells of a probe's record as figures: rates, latencies and where the time went."""

from collections.abc import Sequence
from statistics import median

from pgassay.model.probe import CellResult, CellRun, CellSpec, MeasuredCell, ProbeRecord
from pgassay.probe.analysis.estimates import Estimates, rate_of
from pgassay.probe.analysis.probe_plan import Facilities
from pgassay.probe.analysis.rate_stability import fall_within

# What a consumer's time is spent on; hand-over and kernel are its core's, as checksum and execution.
PARTS = (
    "execute",
    "checksum",
    "kernel",
    "hand_over",
    "harness",
    "runnable",
    "worker_wait",
    "device_wait",
)
CORE_PARTS = ("kernel", "checksum", "hand_over", "execute")


def cell_results(cells: Sequence[MeasuredCell], estimates: Estimates) -> tuple[CellResult, ...]:
    """A result for every cell that delivered anything, in the order of their first runs."""
    return tuple(_result(cell, estimates) for cell in cells if cell.spec in estimates)


def _result(cell: MeasuredCell, estimates: Estimates) -> CellResult:
    made = estimates[cell.spec]
    # The estimate is that of the runs in which anything went through while they were judged.
    counted = [run for run in cell.runs if rate_of(cell.spec, run) > 0]
    per_second = median(run.iops for run in counted)
    typical = median(rate_of(cell.spec, run) for run in counted)
    # A durable write is judged by its operations; its MB/s follow in proportion.
    to_mb_s = median(run.mb_s for run in counted) / typical
    low, high = made.interval
    fall = fall_within(cell)
    costs = [run.cpu_s_per_gb for run in cell.runs if run.cpu_s_per_gb is not None]
    return CellResult(
        spec=cell.spec,
        runs=len(cell.runs),
        mb_s=made.rate * to_mb_s,
        interval=(low * to_mb_s, high * to_mb_s),
        iops=per_second * made.rate / typical,
        latency_us=_medians([run.latency_us for run in cell.runs]),
        cpu_s_per_gb=median(costs) if costs else None,
        split=split(cell.runs),
        steady=fall is None,
        fell_after_s=None if fall is None else fall.at_s,
    )


def _medians(documents: Sequence[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for document in documents for name in document)
    return {name: median(document[name] for document in documents if name in document) for name in names}


def split(runs: Sequence[CellRun]) -> dict[str, float]:
    """The shares of the consumers' time over all runs, summing to 1; empty where there is none."""
    seconds = {part: sum(run.time_s.get(part, 0.0) for run in runs) for part in PARTS}
    total = sum(seconds.values())
    return {part: value / total for part, value in seconds.items()} if total > 0 else {}


def facilities(record: ProbeRecord) -> Facilities:
    """What could be varied when the record was made, as far as the analysis needs it."""
    engines = {cell.spec.engine for cell in record.cells} - {"write"}
    caches = {cell.spec.cache for cell in record.cells if cell.spec.engine not in ("null", "write")}
    kb = record.device.get("read_ahead_kb")
    return Facilities(
        engines=tuple(sorted(engines)),
        cores=record.cores,
        direct="direct" in caches,
        cold="cold" in caches,
        read_ahead_kb=kb if isinstance(kb, int) else None,
        can_set_read_ahead=any(cell.spec.read_ahead_kb is not None for cell in record.cells),
        can_write=any(cell.spec.engine == "write" for cell in record.cells),
        execute_ns_per_page=round(record.executor.ns_per_page),
        major=record.major,
    )


def measured(record: ProbeRecord, spec: CellSpec) -> MeasuredCell | None:
    """The cell with this specification, if it was run."""
    return next((cell for cell in record.cells if cell.spec == spec), None)
