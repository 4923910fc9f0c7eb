"""Which tables were scanned from end to end, and what that took: pages and rows as shares of all work.

The time that goes by pages that are read (waiting for them, copying them) is shared by the pages that were
not in shared buffers, all other CPU time by pages looked at and rows examined.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgassay.analysis.causes.ceilings import is_full
from pgassay.analysis.causes.evidence import Evidence
from pgassay.model.trial import CounterRow, figure
from pgassay.model.vacuum_state import TableState
from pgassay.plans.plan_shape import PlanNode, children_of

# The cost of looking at a page in shared buffers, and at a dead row that VACUUM may not remove, in rows that
# are examined and counted: with rows of 28 to 120 bytes 7 to 20, and 0.3 to 0.9. A dead row that was removed
# has left a pointer, which costs next to nothing.
PAGE_ROWS = 11.0
DEAD_ROWS = 0.5
# Below so many pages a scan is as good as any other way.
_PAGES_MIN = 64
_CHANGES = ("n_tup_ins", "n_tup_upd", "n_tup_del")
_HELPERS = ("io worker", "io_uring worker")


@dataclass(frozen=True)
class Scan:
    """The sequential scans of one table, all together.

    `times`: how often it was scanned from end to end; `pages`: looked at; `pages_read`: of these not in
    shared buffers; `rows`: live rows examined.
    """

    table: TableState
    times: float
    pages: float
    pages_read: float
    rows: float

    @property
    def live_rows(self) -> float:
        """Those of the table as the scans met them, which is no estimate."""
        return self.rows / self.times

    @property
    def dead_share(self) -> float:
        """Dead rows as a share of all; 0 where they are not known."""
        dead = self.table.dead_rows or 0.0
        return dead / (self.live_rows + dead) if dead else 0.0


@dataclass(frozen=True)
class Saving:
    """What would not have to be done: pages, of these from outside shared buffers, live and dead rows."""

    pages: float = 0.0
    pages_read: float = 0.0
    rows: float = 0.0
    dead_rows: float = 0.0

    def __add__(self, other: "Saving") -> "Saving":
        return Saving(
            self.pages + other.pages,
            self.pages_read + other.pages_read,
            self.rows + other.rows,
            self.dead_rows + other.dead_rows,
        )


def scans(evidence: Evidence) -> list[Scan] | None:
    """The tables that were read by sequential scans rather than by indexes; None when that is not known."""
    if (
        evidence.is_unobserved
        or evidence.server.vacuum_state is None
        or not evidence.server.counters.rows("pg_stat_database")
    ):
        return None
    reads = {_key(row): row for row in evidence.server.counters.rows("pg_statio_user_tables")}
    uses = {_key(row): row for row in evidence.server.counters.rows("pg_stat_user_tables")}
    found = []
    for table in evidence.server.vacuum_state.tables:
        key = (table.schema_name, table.name)
        scan = _scan(table, uses.get(key, {}), reads.get(key, {}))
        found += [scan] if scan is not None else []
    return found


def _key(row: CounterRow) -> tuple[str, str]:
    return str(row.get("schemaname", "")), str(row.get("relname", ""))


def _scan(table: TableState, uses: CounterRow, reads: CounterRow) -> Scan | None:
    read, hit = figure(reads, "heap_blks_read"), figure(reads, "heap_blks_hit")
    asked = read + hit
    # A row by an index looks at a page of its own, a change at up to two. Each participant of a parallel scan
    # counts as a scan, and so does one that ends early: pages tell how often the whole was read.
    others = figure(uses, "idx_tup_fetch") + 2 * sum(figure(uses, name) for name in _CHANGES)
    pages = min(asked - others, figure(uses, "seq_scan") * table.pages)
    if table.pages < _PAGES_MIN or asked <= 0 or pages <= asked / 2:
        return None
    rows = figure(uses, "seq_tup_read")
    return Scan(table, pages / table.pages, pages, pages * read / asked, rows)


def saved_seconds(evidence: Evidence, saving: Saving) -> tuple[float, float]:
    """The seconds that these pages and rows took, and what they took of processors: I/O workers' as well."""
    times = evidence.times
    read_pages = evidence.work.bytes_read / evidence.server.block_bytes
    all_pages = read_pages + evidence.work.bytes_hit / evidence.server.block_bytes
    share_read = min(1.0, saving.pages_read / read_pages) if read_pages > 0 else 0.0
    rows = evidence.server.counters.total("pg_stat_database", "tup_returned") or 0.0
    work = PAGE_ROWS * max(all_pages, saving.pages) + max(rows, saving.rows) + DEAD_ROWS * saving.dead_rows
    saved = PAGE_ROWS * saving.pages + saving.rows + DEAD_ROWS * saving.dead_rows
    share = saved / work if work > 0 else 0.0
    computing_s = times.cpu_s - times.cpu_in_reads_s
    cpu_s = share_read * times.cpu_in_reads_s + share * computing_s
    # Whoever needs a processor for less long queues for it less long.
    queue_s = times.runnable_s * cpu_s / times.cpu_s if times.cpu_s > 0 else 0.0
    return _reading_seconds(evidence, share_read) + cpu_s + queue_s, cpu_s + share_read * _helpers_s(evidence)


def _helpers_s(evidence: Evidence) -> float:
    """What those took of processors who read for the connections; it goes with pages that are not read."""
    helpers = (evidence.server.accounts.get(name) for name in _HELPERS)
    return sum(item.seconds for account in helpers if account for item in account.items if item.kind == "cpu")


def _reading_seconds(evidence: Evidence, share: float) -> float:
    """What fewer pages read spare of the wait for them.

    A full device needs its time for each byte, also for those that came while the work went on, so that all
    of the time while it is read goes by bytes (the utilisation law); no more than the wait can be spared.
    """
    times, flow = evidence.times, evidence.machine.device
    if flow is None or not is_full(evidence):
        return share * times.read_s
    reading = min(1.0, flow.seconds / evidence.server.elapsed_s)
    return min(times.read_s, max(share * times.read_s, share * times.total_s * reading))


def nodes(plan: object) -> Iterator[PlanNode]:
    """The nodes of a plan as EXPLAIN (FORMAT JSON) gives it, from the top down."""
    if isinstance(plan, Mapping):
        top = plan.get("Plan", plan)
        if isinstance(top, Mapping):
            yield top
            for child in children_of(top):
                yield from nodes(child)
