"""The tables sbtest1, sbtest2, … of sysbench, with fresh statistics and all rows frozen.

Which tables, and of which size, the workload says: `oltp_read_only:tables=4,table_size=10000`.
"""

from pathlib import Path

from pgassay.environment.datasets import sysbench_data
from pgassay.environment.datasets.base import DatasetKind, Made, OnStage, overhead_bytes
from pgassay.environment.datasets.final_steps import freeze
from pgassay.environment.datasets.loading import make_by_loading
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import ControlSession, control
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.base import PAGE_BYTES
from pgassay.model.build import Build

# Measured: a row with its place in both indexes takes 264 bytes; the rest is room for sorting them.
BYTES_PER_ROW = 300
# A table and its indexes are whole pages: at least one each, the maps and the sequence included.
BYTES_PER_TABLE = 12 * PAGE_BYTES


def specify(text: str, _build: Build, spec: DatasetSpec) -> DatasetSpec:
    """`sysbench`, whose tables the workload says."""
    if text:
        raise UsageError(
            f"--dataset sysbench:{text} is not known: "
            "write --workload oltp_read_only:tables=4,table_size=10000"
        )
    return spec


def check(_build: Build, spec: DatasetSpec) -> None:
    """Raise UsageError for tables that cannot be made."""
    if not 1 <= spec.tables <= sysbench_data.TABLES_MAX:
        raise UsageError(
            f"{spec.tables} sysbench tables are not possible: choose from 1 to {sysbench_data.TABLES_MAX}"
        )
    if not 1 <= spec.table_size <= sysbench_data.TABLE_SIZE_MAX:
        raise UsageError(
            f"sysbench tables of {spec.table_size} rows are not possible: "
            f"choose from 1 to {sysbench_data.TABLE_SIZE_MAX}"
        )


def needed_bytes(spec: DatasetSpec) -> int:
    """Return the disk space in bytes that making the dataset takes, its cluster and WAL included."""
    return spec.tables * (spec.table_size * BYTES_PER_ROW + BYTES_PER_TABLE) + overhead_bytes(spec)


def make(build: Build, folder: Path, spec: DatasetSpec, on_progress: OnStage) -> Made:
    """Make the cluster with the tables, frozen; see DatasetKind."""
    return make_by_loading(
        build,
        folder,
        spec,
        on_progress,
        purpose=f"loading {spec.tables} sysbench tables of {spec.table_size} rows",
        load=lambda server: _load_all(server, spec, on_progress),
        finish=lambda server: freeze(server, on_progress),
    )


def _load_all(server: Server, spec: DatasetSpec, on_progress: OnStage) -> None:
    with control(server) as session:
        for table in range(1, spec.tables + 1):
            _load(session, table, spec)
            on_progress("loading the sysbench tables", table / spec.tables)


def _load(session: ControlSession, table: int, spec: DatasetSpec) -> None:
    # COPY FREEZE needs a table made in its own transaction.
    with session.transaction():
        session.execute(sysbench_data.create_statement(table).encode())
        with session.cursor() as cursor, cursor.copy(sysbench_data.copy_statement(table).encode()) as copy:
            copy.write(sysbench_data.COPY_HEADER)
            for rows in sysbench_data.row_blocks(table, spec.table_size, spec.distribution):
                copy.write(rows.tobytes())
            copy.write(sysbench_data.COPY_TRAILER)
    for statement in sysbench_data.finishing_statements(table, spec.table_size):
        session.execute(statement.encode())


def describe(spec: DatasetSpec) -> str:
    """`4 sysbench tables of 10000 rows`."""
    return f"{spec.tables} sysbench {'table' if spec.tables == 1 else 'tables'} of {spec.table_size} rows"


KIND = DatasetKind(
    specify=specify,
    check=check,
    needed_bytes=needed_bytes,
    make=make,
    decided_by=("tables", "table_size", "distribution"),
    describe=describe,
)
