"""From the record of a probe to what it says; pure, so that a stored record can be judged anew."""

from collections.abc import Sequence
from statistics import median

from pgassay.model.probe import CellResult, CellSpec, ProbeRecord, ProbeResult
from pgassay.probe.analysis.ceilings import ceilings, memory_sentences
from pgassay.probe.analysis.cell_figures import cell_results, facilities
from pgassay.probe.analysis.estimates import estimate
from pgassay.probe.analysis.probe_sentences import sentences
from pgassay.probe.analysis.rate_stability import fall_over, fall_within
from pgassay.probe.analysis.recommend import judged_decisions, recommendations
from pgassay.probe.analysis.work_model import predictions
from pgassay.words import percent_fixed

_CROWDED_SHARE = 0.15


def analyse_probe(record: ProbeRecord) -> ProbeResult:
    """The result of a probe; what could not be measured is left out of it, never made up."""
    estimates = estimate(record.cells)
    have = facilities(record)
    cells = cell_results(record.cells, estimates)
    made = ceilings(have, cells, estimates)
    recommend = recommendations(have, estimates)
    judged = judged_decisions(have, estimates)
    return ProbeResult(
        path=record.path,
        device=record.device,
        ceilings=made,
        checksum_gb_s=None if record.checksum is None else record.checksum.simd_gb_s,
        cells=cells,
        predictions=predictions(record, have, estimates),
        recommend=recommend,
        warnings=(
            *memory_sentences(made, record.checksum, record.device, direct=have.direct),
            *_crowded(cells),
            *_falls(record),
            *record.warnings,
        ),
        sentences=sentences(record, have, estimates, cells, made, judged, recommend),
        missing=record.missing,
        executor=record.executor,
        measured_at=record.measured_at,
        pgassay_version=record.pgassay_version,
        major=record.major,
    )


def _crowded(cells: Sequence[CellResult]) -> list[str]:
    """One consumer alone should hardly ever wait for a core: if it does, others use them."""
    waits = [
        cell.split.get("runnable", 0.0)
        for cell in cells
        if cell.split and cell.spec.consumers == 1 and not cell.spec.competing_cpus
    ]
    share = median(waits) if waits else 0.0
    if share < _CROWDED_SHARE:
        return []
    return [
        f"Other processes kept the cores busy: a single consumer waited {percent_fixed(share)} of its "
        "time for one. The figures are for this machine under that load; probe again when it is quiet."
    ]


def _falls(record: ProbeRecord) -> list[str]:
    """A rate that fell is told with its time: what follows it is not what was measured before."""
    found = []
    whole = fall_over(record.cells)
    if whole is not None:
        found.append(
            f"NOT STEADY: {whole.at_s:.0f} s after the start of the probe the device's rate fell to "
            f"{percent_fixed(whole.fraction)} of what it was and stayed there (burst credits, a "
            "full cache, another user): it can't sustain the ceilings; run a longer probe."
        )
    for cell in record.cells:
        fall = None if whole is not None else fall_within(cell)
        if fall is not None:
            found.append(
                f"NOT STEADY: the rate of '{cell_name(cell.spec)}' fell to {percent_fixed(fall.fraction)} "
                f"after {fall.at_s:.1f} s of the probe."
            )
    return found


def cell_name(spec: CellSpec) -> str:
    """A cell in words: 'worker cold sequential 128 kB, depth 16, 3 workers'."""
    if spec.engine == "write":
        return "WAL appends with fdatasync" if spec.pattern == "wal" else "page writes of a checkpoint"
    words = f"{spec.engine} {spec.cache} {spec.pattern} {spec.request_bytes // 1024} kB, depth {spec.depth}"
    if spec.engine == "worker":
        words += (
            f", {spec.workers} workers" if spec.workers_min is None else f", up to {spec.workers} workers"
        )
    if spec.consumers > 1:
        words += f", {spec.consumers} connections"
    if spec.pins is not None:
        words += f", {spec.pins} pins"
    if spec.found:
        words += f", {percent_fixed(spec.found)} in shared buffers"
    if spec.competing_cpus:
        words += ", busy cores"
    if spec.read_ahead_kb is not None:
        words += f", read-ahead {spec.read_ahead_kb} kB"
    return words
