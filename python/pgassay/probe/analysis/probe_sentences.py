"""What a probe's figures mean, in sentences: who wins from which speed of the device on, and what limits."""

from collections.abc import Mapping, Sequence

from pgassay.model import aio
from pgassay.model.base import PAGE_BYTES
from pgassay.model.probe import (
    PARALLEL_WORKERS,
    Ceilings,
    CellResult,
    CellSpec,
    Method,
    ProbeRecord,
    Recommendation,
)
from pgassay.probe.analysis.estimates import Estimate, Estimates
from pgassay.probe.analysis.probe_plan import (
    CEILING_DEPTHS,
    DEFAULT_SHARED_BLOCKS,
    Facilities,
    pinned_cell,
    work_cell,
)
from pgassay.probe.analysis.regret import JudgedLevels, difference
from pgassay.words import figure, percent_fixed

# From this share of the device's speed on a method counts as bound by it.
NEAR_FRACTION = 0.95
_NOTICEABLE = 0.05
_NAMES = {
    "device_wait": "waiting for the device",
    "worker_wait": "waiting for a worker",
    "harness": "the probe's own bookkeeping",
    "kernel": "system call and copy",
    "checksum": "checksum",
    "hand_over": "hand-over",
    "runnable": "waiting for a core",
    "execute": "executor",
}


def sentences(
    record: ProbeRecord,
    have: Facilities,
    estimates: Estimates,
    cells: Sequence[CellResult],
    made: Ceilings,
    judged: Mapping[str, JudgedLevels],
    recommend: Mapping[str, Recommendation],
) -> tuple[str, ...]:
    """All sentences, the most useful first; each rests on cells that were run."""
    by_spec = {cell.spec: cell for cell in cells}
    found = [
        *_first(recommend),
        *_crossovers(have, estimates, made),
        *_limits(have, by_spec),
        *_depth(made),
        *_competition(have, estimates),
        *_read_ahead(have, estimates, judged),
        *_parallel(have, estimates),
        *_pins(have, estimates),
        *_index_lookups(have, estimates),
        *_hybrid(have, estimates),
    ]
    if record.executor.source.startswith("assumed"):
        found.append(
            "The executor's cost of a page is assumed and not measured, so predictions of scans have wide "
            "intervals: have a PostgreSQL build at hand, or name one with --pg."
        )
    return tuple(found)


def _first(recommend: Mapping[str, Recommendation]) -> list[str]:
    """The recommended method and what the others cost, in one sentence."""
    if "io_method" not in recommend:
        return []
    chosen = recommend["io_method"]
    others = [each for each in chosen.alternatives if each.value != chosen.value]
    if chosen.value != chosen.default:
        return [f"Recommended: io_method = {chosen.value}; {chosen.reason}."]
    if not any(each.interval[0] > 0 for each in chosen.alternatives):
        width = max(each.interval[1] for each in others)
        return [
            "The methods can't be distinguished over cold, cached and bitmap scans (a difference of up to "
            f"{percent_fixed(width)} may be hidden): keep io_method = {chosen.value}."
        ]
    worst = max(each.regret for each in chosen.alternatives)
    if worst <= _NOTICEABLE:
        return [
            f"The methods differ by at most {percent_fixed(worst, 1)} over cold, cached and bitmap scans: "
            f"keep io_method = {chosen.value}."
        ]
    return [f"Recommended: io_method = {chosen.value}; {chosen.reason}."]


def _crossovers(have: Facilities, estimates: Estimates, made: Ceilings) -> list[str]:
    """From which device speed on which method wins: one core's capacity is the rate with all data cached."""
    capacities = {
        method: estimates[spec]
        for method in have.methods
        if (spec := work_cell("cached-scan", method, 1, have)) in estimates
    }
    device_mb_s = made.sequential_read_mb_s
    if len(capacities) < 2 or device_mb_s is None:
        return []
    ordered = sorted(capacities, key=lambda method: capacities[method].log_rate)
    found = []
    for lower in ordered[:-1]:
        found += _crossover(lower, ordered[-1], capacities, have)
    slowest, fastest = capacities[ordered[0]], capacities[ordered[-1]]
    if device_mb_s < NEAR_FRACTION * slowest.interval[0]:
        found.append(
            f"This device delivers at most {device_mb_s:,.0f} MB/s, less than the {slowest.rate:,.0f} MB/s "
            f"that one core can process with {ordered[0]}: on cold scans the methods can only differ by how "
            "far ahead they read."
        )
    elif device_mb_s > fastest.interval[1]:
        found.append(
            f"This device delivers {device_mb_s:,.0f} MB/s, more than one scan can process with any method "
            f"({fastest.rate:,.0f} MB/s by {ordered[-1]}): a single cold scan is limited by its core."
        )
    return found


def _crossover(
    lower: Method, higher: Method, capacities: Mapping[Method, Estimate], have: Facilities
) -> list[str]:
    low, high = capacities[lower], capacities[higher]
    if difference(high, low)[0] <= 0:
        return [
            f"From memory {lower} and {higher} can't be distinguished ({low.rate:,.0f} and {high.rate:,.0f} "
            "MB/s)."
        ]
    spec = work_cell("cached-scan", "worker", 1, have)
    workers = f"{'up to ' if spec.workers_min is not None else ''}{spec.workers} workers"
    winner = f"worker with {workers}" if higher == "worker" else higher
    return [
        f"One core is saturated by {lower} at {_speed(low.rate)}: on a device faster than that {winner} "
        f"wins, up to {_speed(high.rate)}; on a slower one the two are equal where both read far enough "
        "ahead."
    ]


def _speed(mb_s: float) -> str:
    return f"{figure(mb_s / 1000, 2)} GB/s" if mb_s >= 1000 else f"{mb_s:.0f} MB/s"


def _limits(have: Facilities, by_spec: Mapping[CellSpec, CellResult]) -> list[str]:
    """What a cold scan's time goes to, by method: what is not waiting could be moved."""
    found = []
    for method in have.methods:
        cell = by_spec.get(work_cell("cold-scan", method, 1, have))
        if cell is None or not cell.split:
            continue
        parts = sorted(cell.split.items(), key=lambda item: item[1], reverse=True)
        listed = [f"{_NAMES[part]} {percent_fixed(share)}" for part, share in parts if share >= _NOTICEABLE]
        found.append(
            f"A cold scan by {method} ({_speed(cell.mb_s)}) spends its time on: {', '.join(listed)}."
        )
    return found


def _depth(made: Ceilings) -> list[str]:
    measured = {depth: made.random_read_iops.get(str(depth)) for depth in CEILING_DEPTHS}
    known = {depth: value for depth, value in measured.items() if value}
    if len(known) < 2 or 1 not in known:
        return []
    deepest = max(known, key=lambda depth: known[depth])
    most = known[deepest]
    enough = next(depth for depth, value in known.items() if value >= 0.9 * most)
    near = "" if enough == deepest else f", {percent_fixed(known[enough] / most)} of that with {enough}"
    return [
        f"Random reads of 8 kB: {known[1]:,.0f} a second one at a time, at most {most:,.0f} with {deepest} "
        f"in flight{near}."
    ]


def _competition(have: Facilities, estimates: Estimates) -> list[str]:
    listed = []
    for method in have.methods:
        alone = work_cell("cold-scan", method, 1, have)
        busy = alone.model_copy(update={"competing_cpus": have.cores})
        if alone not in estimates or busy not in estimates:
            continue
        if difference(estimates[alone], estimates[busy])[0] > 0:
            listed.append(f"{method} loses {percent_fixed(1 - estimates[busy].rate / estimates[alone].rate)}")
    if not listed:
        return []
    return [f"With every core busy with other work, a cold scan's speed changes: {', '.join(listed)}."]


def _read_ahead(have: Facilities, estimates: Estimates, judged: Mapping[str, JudgedLevels]) -> list[str]:
    """What the device's read-ahead is worth to sync, which has no other look-ahead on a sequential scan."""
    name = next((name for name in ("read_ahead_kb, sync", "read_ahead_kb") if name in judged), None)
    if name is None or have.read_ahead_kb is None:
        return []
    decision = judged[name].decision
    rates = {
        value: estimates[specs[0]].rate
        for value, specs in decision.candidates.items()
        if specs[0] in estimates
    }
    if not any(each.interval[0] > 0 for each in judged[name].alternatives):
        return []
    listed = ", ".join(f"{rate:,.0f} MB/s at {value} kB" for value, rate in rates.items())
    method = next(iter(decision.candidates.values()))[0].engine
    return [
        f"The device's read-ahead ({have.read_ahead_kb} kB now) decides a cold scan by {method}: {listed}."
    ]


def _parallel(have: Facilities, estimates: Estimates) -> list[str]:
    """What the workers of a parallel scan, which are the default, make of the methods' difference."""
    alone, together = (
        {
            method: estimates[spec]
            for method in have.methods
            if (spec := work_cell(work, method, 1, have)) in estimates
        }
        for work in ("cold-scan", "parallel-cold-scan")
    )
    # A scan of one process may have been left out, as when another process had its file in memory.
    together = {method: made for method, made in together.items() if method in alone}
    if len(together) < 2 or "sync" not in together:
        return []
    listed = ", ".join(f"{_speed(made.rate)} by {method}" for method, made in together.items())
    best = max((each for each in together if each != "sync"), key=lambda method: together[method].log_rate)
    gap = difference(together[best], together["sync"])
    behind = together["sync"].rate / together[best].rate
    before = alone["sync"].rate / alone[best].rate
    if gap[0] > 0:
        words = f"sync reads at {percent_fixed(behind)} of the rate of {best}"
    elif gap[1] < 0:
        words = f"sync reads faster than {best}"
    else:
        words = f"sync and {best} can't be distinguished"
    return [
        f"A parallel scan, with PostgreSQL's default of {PARALLEL_WORKERS} workers, reads cold at {listed}: "
        f"{words} (in a scan of one process {percent_fixed(before)}). Each process reads ahead for itself."
    ]


def _pins(have: Facilities, estimates: Estimates) -> list[str]:
    """What shared buffers of the default size take from the look-ahead."""
    listed = []
    for method in have.methods:
        whole, cut = work_cell("cold-scan", method, 1, have), pinned_cell(method, have)
        if method == "sync" or whole not in estimates or cut not in estimates:
            continue
        if difference(estimates[whole], estimates[cut])[0] > 0:
            loss = 1 - estimates[cut].rate / estimates[whole].rate
            listed.append(f"{percent_fixed(loss)} of its speed by {method}")
    if not listed:
        return []
    size_mb = DEFAULT_SHARED_BLOCKS * PAGE_BYTES >> 20
    whole = work_cell("cold-scan", have.methods[0], 1, have)
    pages = aio.look_ahead_blocks(whole.depth, whole.request_bytes // PAGE_BYTES, pins=2**31)
    enough_mb = pages * aio.processes({}) * PAGE_BYTES >> 20
    return [
        f"All figures are those of a server whose processes may pin their whole look-ahead: {enough_mb} MB "
        f"of shared_buffers at 100 connections. With {size_mb} MB, PostgreSQL's default, a cold scan loses "
        f"{', '.join(listed)}."
    ]


def _index_lookups(have: Facilities, estimates: Estimates) -> list[str]:
    if work_cell("index-lookups", "sync", 1, have) not in estimates:
        return []
    return [
        "Index lookups take the same time by every method: PostgreSQL 18 and 19 read the pages of index "
        "scans one at a time in the backend."
    ]


def _hybrid(have: Facilities, estimates: Estimates) -> list[str]:
    """What moving the checksum and the hand-over to other cores would be worth."""
    listed = []
    for work in ("cold-scan", "cached-scan"):
        hybrid = estimates.get(work_cell(work, "hybrid", 1, have))
        others = [estimates.get(work_cell(work, method, 1, have)) for method in have.methods]
        best = max(
            (each for each in others if each is not None), key=lambda each: each.log_rate, default=None
        )
        if hybrid is None or best is None:
            continue
        low, high = difference(hybrid, best)
        change = hybrid.rate / best.rate - 1
        word = "faster" if low > 0 else "slower" if high < 0 else "not distinguishable"
        listed.append(f"{work.replace('-', ' ')} {percent_fixed(change, signed=True)} ({word})")
    if not listed:
        return []
    return [
        "The hybrid engine (io_uring with helpers for the checksum, not in PostgreSQL) against the best "
        f"method: {', '.join(listed)}."
    ]
