"""What PostgreSQL's executor takes for a page: measured on a short scan of a real server, else assumed."""

import time
from statistics import median

import psycopg

from pgassay.environment.atomic_folder import locked
from pgassay.environment.builds.registry import resolve
from pgassay.environment.home import home
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import control
from pgassay.environment.server.validation import small_cluster
from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.model.base import PAGE_BYTES
from pgassay.model.build import Build
from pgassay.model.probe import FIRST_MAJOR, ExecutorCost

# Of an aggregate over rows like pgbench's, about 61 to a page: processors and queries differ so much.
ASSUMED = ExecutorCost(ns_per_page=3000.0, interval=(1000.0, 9000.0), source="assumed")
_ROWS = 150_000
_SCANS = 9
# Another query than the one measured does more or less with a row.
_QUERY_SPREAD = 1.25
_TABLE = "pgassay_probe"
_SETTINGS = {
    "shared_buffers": "64MB",
    "max_connections": "10",
    "max_parallel_workers_per_gather": "0",
    "autovacuum": "off",
    "jit": "off",
}


def executor_cost(named: Build | None) -> tuple[ExecutorCost, int]:
    """The CPU time of a page in a sequential scan whose pages are all in shared buffers; the build's major.

    `named` is the build that the user named. Without one any build at hand will do, and where there is none,
    or it doesn't start, the cost is assumed, with a wide interval, for the first version with asynchronous
    reads.
    """
    if named is not None:
        return _measured(named), named.major
    try:
        build = resolve()
        return _measured(build), build.major
    except (UsageError, MeasurementError):
        return ASSUMED, FIRST_MAJOR


def _measured(build: Build) -> ExecutorCost:
    """As `_measure`; raises MeasurementError where the server fails meanwhile."""
    try:
        return _measure(build)
    except psycopg.Error as error:
        raise MeasurementError(
            f"The executor's time could not be measured on PostgreSQL {build.version}: {first_line(error)}: "
            f"free space or memory for its server in {home()}, or name another build with --pg"
        ) from error


def _measure(build: Build) -> ExecutorCost:
    folder = small_cluster(build)
    with (
        locked(folder.with_suffix(".lock")),
        Server(build, folder, _SETTINGS) as server,
        control(server) as session,
    ):
        session.execute(f"DROP TABLE IF EXISTS {_TABLE}")
        session.execute(f"CREATE UNLOGGED TABLE {_TABLE} (aid int, bid int, abalance int, filler char(84))")
        try:
            session.execute(f"INSERT INTO {_TABLE} SELECT n, 1, 0, '' FROM generate_series(1, {_ROWS}) n")
            session.execute(f"VACUUM (FREEZE) {_TABLE}")
            row = session.execute(f"SELECT pg_relation_size('{_TABLE}')").fetchone()
            assert row is not None
            # Of the probe's size, whatever the build's own.
            pages = int(row[0]) / PAGE_BYTES
            seconds = []
            for _ in range(_SCANS):
                start = time.perf_counter()
                session.execute(f"SELECT count(filler) FROM {_TABLE}")
                seconds.append(time.perf_counter() - start)
        finally:
            session.execute(f"DROP TABLE {_TABLE}")
    # The first scan finds its pages in shared buffers but warms the processor's caches and the plan's path.
    costs = sorted(each / pages * 1e9 for each in seconds[1:])
    # Other processes only ever make a scan slower.
    typical = costs[len(costs) // 4]
    low, high = costs[0] / _QUERY_SPREAD, max(median(costs), typical) * _QUERY_SPREAD
    return ExecutorCost(
        ns_per_page=typical,
        interval=(low, high),
        source=f"PostgreSQL {build.version}, count(filler) over rows of pgbench_accounts in shared buffers",
    )
