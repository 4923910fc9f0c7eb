"""Which cells a probe measures, and which decisions rest on them; pure.

The base cells are those every probe has; the curves follow for the method that leads after them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pgassay.model import aio
from pgassay.model.base import PAGE_BYTES
from pgassay.model.probe import (
    FIRST_MAJOR,
    FOUND_FRACTION,
    METHODS,
    PARALLEL_WORKERS,
    CellSpec,
    Method,
    Work,
)

KB = 1024
MB = 1024 * KB
DEPTHS = (1, 4, 16, 64, 128, 256)
CEILING_DEPTHS = (1, 8, 32, 128)
COMBINE_BYTES = (16 * KB, 32 * KB, 64 * KB, 128 * KB, 256 * KB, 512 * KB, MB)
READ_AHEADS_KB = (128, 512, 2048, 8192)
CONNECTIONS = (1, 10, 50)
SCAN_WORKS: tuple[Work, ...] = ("cold-scan", "cached-scan", "bitmap-scan")
# Measured at one connection alone, after all that a choice rests on.
FURTHER_WORKS: tuple[Work, ...] = ("parallel-cold-scan", "parallel-cached-scan", "buffered-scan")
_CACHED: tuple[Work, ...] = ("cached-scan", "parallel-cached-scan")
_PARALLEL: tuple[Work, ...] = ("parallel-cold-scan", "parallel-cached-scan")
# PostgreSQL 18's defaults: effective_io_concurrency, io_combine_limit, io_workers.
DEFAULT_DEPTH = 16
DEFAULT_COMBINE_BYTES = 128 * KB
DEFAULT_WORKERS = 3
DEFAULT_METHOD: Method = "worker"
# From 19 on a pool that grows: io_min_workers, io_max_workers.
GROWING_SINCE = 19
DEFAULT_MIN_WORKERS, DEFAULT_MAX_WORKERS = 2, 8
# A server as initdb leaves it: 128 MB for 100 connections.
DEFAULT_SHARED_BLOCKS = 128 * MB // PAGE_BYTES
# io_max_concurrency=-1 there; larger shared buffers don't make it more.
DEFAULT_HANDLES = aio.default_io_max_concurrency(DEFAULT_SHARED_BLOCKS, aio.processes({}))


@dataclass(frozen=True)
class Facilities:
    """What can be varied here: engines, direct I/O, page cache, the device's read-ahead, durable writes."""

    engines: tuple[str, ...]
    cores: int
    direct: bool
    cold: bool
    read_ahead_kb: int | None
    can_set_read_ahead: bool
    can_write: bool
    execute_ns_per_page: int
    # The version of PostgreSQL by whose rules is read.
    major: int = FIRST_MAJOR

    @property
    def grows_workers(self) -> bool:
        """Whether the server starts I/O workers as they are wanted."""
        return self.major >= GROWING_SINCE

    @property
    def methods(self) -> tuple[Method, ...]:
        """The methods of PostgreSQL whose engine works here, the default first."""
        return tuple(method for method in METHODS if method in self.engines)

    @property
    def deep_engine(self) -> Method:
        """The engine that keeps most requests in flight at the least cost, for the ceilings."""
        return "io_uring" if "io_uring" in self.engines else "worker"


@dataclass(frozen=True)
class Decision:
    """A choice between values: each value's cells are geometric-averaged, the higher rate is the better one.

    `default` is PostgreSQL's value (for the read-ahead: the present one); `ordered` values stand in their
    order, and neighbours are alike.
    """

    name: str
    default: str
    candidates: Mapping[str, tuple[CellSpec, ...]]
    ordered: bool = True


def work_cell(work: Work, engine: str, connections: int, have: Facilities) -> CellSpec:
    """The cell that stands for a work by a method, with the executor's cost in it."""
    base = CellSpec(
        engine=engine,
        cache="cached" if work in _CACHED else "cold" if have.cold else "direct",
        pattern="sequential",
        consumers=connections,
        execute_ns_per_page=have.execute_ns_per_page,
    )
    if engine == "worker" and have.grows_workers:
        base = with_workers(base, DEFAULT_MAX_WORKERS, have)
    if work in _PARALLEL:
        # Each process of the scan has its own read stream, and takes chunks of the table in turn.
        return base.model_copy(update={"pattern": "parallel", "consumers": 1 + PARALLEL_WORKERS})
    if work == "buffered-scan":
        return base.model_copy(update={"found": FOUND_FRACTION})
    if work == "bitmap-scan":
        return base.model_copy(update={"pattern": "gaps", "advise": engine == "sync"})
    if work == "index-lookups":
        # Index scans read page by page in the backend whatever the method (PostgreSQL 18 and 19).
        alone = {"engine": "sync", "pattern": "dependent", "request_bytes": 8 * KB, "depth": 1}
        return base.model_copy(update=alone)
    return base


def with_workers(spec: CellSpec, workers: int, have: Facilities) -> CellSpec:
    """The same cell with so many I/O workers; from 19 on so many at most, and two at the start."""
    least = min(DEFAULT_MIN_WORKERS, workers) if have.grows_workers else None
    return spec.model_copy(update={"workers": workers, "workers_min": least})


def pinned_cell(method: Method, have: Facilities) -> CellSpec:
    """The cold scan by a process that may pin no more than a server as initdb leaves it allows."""
    pins = aio.pin_limit(DEFAULT_SHARED_BLOCKS, aio.processes({}))
    return work_cell("cold-scan", method, 1, have).model_copy(update={"pins": pins})


def with_look_ahead(
    spec: CellSpec, *, depth: int | None = None, request_bytes: int | None = None
) -> CellSpec:
    """The same cell at another depth or request size."""
    changes = {"depth": depth or spec.depth, "request_bytes": request_bytes or spec.request_bytes}
    return spec.model_copy(update=changes)


def sequential_ceiling(have: Facilities) -> CellSpec:
    """Large direct reads, many in flight."""
    return CellSpec(
        engine=have.deep_engine,
        cache="direct" if have.direct else "cold",
        pattern="sequential",
        request_bytes=MB,
        depth=32,
        workers=ceiling_workers(have, 32),
        verify=False,
    )


def random_ceiling(have: Facilities, depth: int) -> CellSpec:
    """Random reads of a page, so many in flight."""
    return CellSpec(
        engine=have.deep_engine if depth > 1 else "sync",
        cache="direct" if have.direct else "cold",
        pattern="random",
        request_bytes=8 * KB,
        depth=depth,
        workers=ceiling_workers(have, depth),
        verify=False,
    )


def ceiling_workers(have: Facilities, depth: int) -> int:
    """A worker holds one request: without io_uring the depth needs as many of them (32 at most)."""
    return DEFAULT_WORKERS if have.deep_engine == "io_uring" else max(1, min(32, depth))


def fdatasync_cell() -> CellSpec:
    """Appends to a preallocated segment of WAL, each made durable."""
    return CellSpec(
        engine="write", cache="direct", pattern="wal", request_bytes=8 * KB, depth=1, verify=False
    )


def page_write_cell() -> CellSpec:
    """Page writes as a checkpoint makes them."""
    return CellSpec(
        engine="write", cache="cold", pattern="pages", request_bytes=8 * KB, depth=1, verify=False
    )


def ceiling_cells(have: Facilities) -> list[CellSpec]:
    """The device's limits, and the harness's own: it must be far above what it measures."""
    cells = [sequential_ceiling(have), *(random_ceiling(have, depth) for depth in CEILING_DEPTHS)]
    if have.can_write:
        cells += [fdatasync_cell(), page_write_cell()]
    if "null" in have.engines:
        cells.append(CellSpec(engine="null", cache="direct", pattern="sequential"))
    return cells


def work_cells(have: Facilities, connections: int) -> list[CellSpec]:
    """Every work by every method (and by the hybrid engine, alone), at so many connections."""
    engines = [*have.methods, *(["hybrid"] if "hybrid" in have.engines and connections == 1 else [])]
    cells = [work_cell(work, engine, connections, have) for work in SCAN_WORKS for engine in engines]
    return [*cells, work_cell("index-lookups", "sync", connections, have)]


def further_cells(have: Facilities) -> list[CellSpec]:
    """Parallel scans, a scan mostly from shared buffers, and one with the pins of a small server."""
    cells = [work_cell(work, method, 1, have) for work in FURTHER_WORKS for method in have.methods]
    return [*cells, *(pinned_cell(method, have) for method in have.methods if method != "sync")]


def load_cells(have: Facilities) -> list[CellSpec]:
    """The cold scan by every method on all cores at once, and beside as many busy processes."""
    made = []
    for engine in have.methods:
        scan = work_cell("cold-scan", engine, 1, have)
        made.append(scan.model_copy(update={"competing_cpus": have.cores}))
        if have.cores > 1:
            made.append(scan.model_copy(update={"consumers": have.cores}))
    return made


def worker_counts(have: Facilities) -> list[int]:
    """1 to twice the cores (8 values at most), the default among them, never more than PostgreSQL's 32."""
    default = default_workers(have)
    most = min(32, max(2 * have.cores, default + 1))
    step = max(1, -(-most // 7))
    return sorted({1, 2, default, most, *range(step, most + 1, step)})


def default_workers(have: Facilities) -> int:
    """io_workers, or io_max_workers of a pool that grows."""
    return DEFAULT_MAX_WORKERS if have.grows_workers else DEFAULT_WORKERS


def decisions(have: Facilities, leader: Method | None) -> list[Decision]:
    """All choices; those of the look-ahead and the read-ahead are made for `leader` once it is known."""
    made: list[Decision] = []
    if have.methods:
        works: dict[str, tuple[CellSpec, ...]] = {
            method: tuple(work_cell(work, method, 1, have) for work in SCAN_WORKS) for method in have.methods
        }
        made.append(Decision("io_method", DEFAULT_METHOD, works, ordered=False))
    if leader is None:
        return made
    if "worker" in have.methods:
        made += [_workers(have, 1), _workers(have, max(2, have.cores))]
    return [
        *made,
        _concurrency(have, leader),
        *_handles(have, leader),
        _combine(have, leader),
        *_read_ahead(have, leader),
    ]


def _workers(have: Facilities, connections: int) -> Decision:
    scan = work_cell("cold-scan", "worker", connections, have)
    counts = {str(count): (with_workers(scan, count, have),) for count in worker_counts(have)}
    name = "io_workers" if connections == 1 else "io_workers, several scans"
    return Decision(name, str(default_workers(have)), counts)


def _concurrency(have: Facilities, leader: Method) -> Decision:
    """Bitmap scans live on it, and from 18 on sequential scans look ahead so far."""
    works: tuple[Work, ...] = ("bitmap-scan",) if leader == "sync" else ("bitmap-scan", "cold-scan")
    cells = {
        str(depth): tuple(with_look_ahead(work_cell(work, leader, 1, have), depth=depth) for work in works)
        for depth in DEPTHS
    }
    return Decision("effective_io_concurrency", str(DEFAULT_DEPTH), cells)


def _handles(have: Facilities, leader: Method) -> list[Decision]:
    """How many reads a process has handles for; those of sync are never in flight.

    With effective_io_concurrency as high, so that these are the cells of that setting's values: a process has
    as many in flight as the smaller of the two allows (src/backend/storage/aio/aio.c, pgaio_io_acquire).
    """
    if leader == "sync":
        return []
    cells = _concurrency(have, leader).candidates
    values = {depth: specs for depth, specs in cells.items() if int(depth) >= DEFAULT_HANDLES}
    return [Decision("io_max_concurrency", str(DEFAULT_HANDLES), values)]


def _combine(have: Facilities, leader: Method) -> Decision:
    scans = [work_cell(work, leader, 1, have) for work in ("cold-scan", "cached-scan")]
    cells = {
        f"{size // KB}kB": tuple(with_look_ahead(scan, request_bytes=size) for scan in scans)
        for size in COMBINE_BYTES
    }
    return Decision("io_combine_limit", f"{DEFAULT_COMBINE_BYTES // KB}kB", cells)


def _read_ahead(have: Facilities, leader: Method) -> list[Decision]:
    if not (have.can_set_read_ahead and have.cold and have.read_ahead_kb is not None):
        return []
    made = []
    for method in dict.fromkeys((leader, "sync")):
        if method not in have.methods:
            continue
        scan = work_cell("cold-scan", method, 1, have)
        values = sorted({*READ_AHEADS_KB, have.read_ahead_kb})
        cells = {str(kb): (scan.model_copy(update={"read_ahead_kb": kb}),) for kb in values}
        name = "read_ahead_kb" if method == leader else f"read_ahead_kb, {method}"
        made.append(Decision(name, str(have.read_ahead_kb), cells))
    return made


def tiers(have: Facilities, leader: Method | None) -> list[list[CellSpec]]:
    """All cells in the order of their weight: a short probe measures the first tiers alone."""
    made = [ceiling_cells(have), work_cells(have, 1)]
    if leader is not None:
        curves = [
            spec
            for decision in decisions(have, leader)
            for cells in decision.candidates.values()
            for spec in cells
        ]
        several = (work_cells(have, count) for count in CONNECTIONS[1:])
        made += [curves, further_cells(have), *several, load_cells(have)]
    seen: set[CellSpec] = set()
    return [unique(tier, seen) for tier in made]


def unique(cells: Iterable[CellSpec], seen: set[CellSpec]) -> list[CellSpec]:
    """The cells that are not in `seen` yet, each once; they are added to it."""
    kept = []
    for spec in cells:
        if spec not in seen:
            seen.add(spec)
            kept.append(spec)
    return kept
