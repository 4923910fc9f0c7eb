"""The tables that a workload reads must be in a remote database already: nothing is loaded there."""

from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import UsageError
from pgassay.model.arm import RemoteServer
from pgassay.model.workload import WorkloadSpec, typed_script

PGBENCH_TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_tellers", "pgbench_history")
_PGBENCH_FAMILIES = ("full-scan", "select-only", "tpcb", "simple-update")


def scale_of(connection: ControlSession, workload: WorkloadSpec, server: RemoteServer) -> int:
    """The scale of the pgbench tables, 1 for a workload that has none of them.

    Raises UsageError that says how to load what is missing.
    """
    if workload.load is not None and workload.load.of_sysbench is not None:
        _check_sysbench(connection, workload, server)
        return 1
    if workload.family not in _PGBENCH_FAMILIES:
        return 1
    for table in PGBENCH_TABLES:
        if not _exists(connection, table):
            raise UsageError(
                f"{server.name} has no table {table}, which {workload.family} needs: load it first, as "
                f"'pgbench -i -s 10 -h {server.host} -p {server.port} -U {server.user} {server.dbname}'"
            )
    row = connection.execute("SELECT count(*) FROM pgbench_branches").fetchone()
    scale = int(row[0]) if row else 0
    if scale < 1:
        raise UsageError(f"{server.name}: pgbench_branches is empty: reload the tables with 'pgbench -i'")
    return scale


def _exists(connection: ControlSession, table: str) -> bool:
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (table,)).fetchone()
    return bool(row and row[0])


def _check_sysbench(connection: ControlSession, workload: WorkloadSpec, server: RemoteServer) -> None:
    options = workload.load.of_sysbench if workload.load else None
    if options is None:
        return
    for number in range(1, options.tables + 1):
        table = f"sbtest{number}"
        if not _exists(connection, table):
            raise UsageError(
                f"{server.name} has no table {table}, which {workload.family} needs: load it first with "
                f"sysbench's prepare, --tables={options.tables} --table_size={options.table_size}"
            )
    row = connection.execute("SELECT coalesce(max(id), 0) FROM sbtest1").fetchone()
    rows = int(row[0]) if row else 0
    if rows != options.table_size:
        raise UsageError(
            f"{server.name}: sbtest1 holds {rows} rows and table_size is {options.table_size}: write "
            f"--workload {typed_script(workload)}table_size={rows}"
        )
