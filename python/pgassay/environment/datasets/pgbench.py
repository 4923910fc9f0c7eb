"""`--dataset pgbench`: the four tables of pgbench at a scale, with fresh statistics and all rows frozen."""

from pathlib import Path

from pgassay.environment.datasets import pgbench_data
from pgassay.environment.datasets.base import MEGABYTE, DatasetKind, Made, OnStage, overhead_bytes
from pgassay.environment.datasets.final_steps import freeze
from pgassay.environment.datasets.loading import make_by_loading
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import ControlSession, control
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build

# Measured: accounts with their index take 14.96 MB a scale unit; the rest is room for sorting it.
BYTES_PER_SCALE = round(15.6 * MEGABYTE)


def specify(text: str, _build: Build, spec: DatasetSpec) -> DatasetSpec:
    """`pgbench`, whose size `--scale` says."""
    if text:
        raise UsageError(f"--dataset pgbench:{text} is not known: write --dataset pgbench --scale N")
    return spec


def check(_build: Build, dataset: DatasetSpec) -> None:
    """Raise UsageError for a scale that cannot be made."""
    if not 1 <= dataset.scale <= pgbench_data.SCALE_MAX:
        raise UsageError(
            f"The scale {dataset.scale} is not possible: choose one from 1 to {pgbench_data.SCALE_MAX}."
        )


def needed_bytes(dataset: DatasetSpec) -> int:
    """Return the disk space in bytes that making the dataset takes, its cluster and WAL included."""
    return dataset.scale * BYTES_PER_SCALE + overhead_bytes(dataset)


def make(build: Build, folder: Path, dataset: DatasetSpec, on_progress: OnStage) -> Made:
    """Make the cluster with the tables, frozen; see DatasetKind."""
    return make_by_loading(
        build,
        folder,
        dataset,
        on_progress,
        purpose=f"loading the pgbench data, scale {dataset.scale}",
        load=lambda server: load(server, dataset, on_progress),
        finish=lambda server: freeze(server, on_progress),
    )


def load(server: Server, dataset: DatasetSpec, on_progress: OnStage) -> None:
    """Load the tables into the database `postgres` of an empty cluster."""
    with control(server) as session:
        _load(session, dataset.scale, on_progress)


def _load(session: ControlSession, scale: int, on_progress: OnStage) -> None:
    # COPY FREEZE needs a table made in its own transaction.
    with session.transaction():
        for statement in pgbench_data.create_statements(scale) + pgbench_data.small_table_statements(scale):
            session.execute(statement.encode())
        with session.cursor() as cursor, cursor.copy(pgbench_data.COPY_ACCOUNTS) as copy:
            copy.write(pgbench_data.COPY_HEADER)
            for branch, rows in enumerate(pgbench_data.account_blocks(scale), start=1):
                copy.write(rows.tobytes())
                on_progress("loading accounts", branch / scale)
            copy.write(pgbench_data.COPY_TRAILER)
    for statement in pgbench_data.primary_key_statements(scale):
        on_progress("building primary keys", None)
        session.execute(statement.encode())


KIND = DatasetKind(
    specify=specify,
    check=check,
    needed_bytes=needed_bytes,
    make=make,
    decided_by=("scale",),
    describe=lambda spec: f"scale {spec.scale}",
    usage="pgbench",
)
