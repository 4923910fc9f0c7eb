"""`--dataset toy`: a table of coloured toys, a hundred for each unit of `--scale`."""

from pathlib import Path

from pgassay.environment.datasets.base import DatasetKind, Made, OnStage, overhead_bytes
from pgassay.environment.datasets.final_steps import freeze
from pgassay.environment.datasets.loading import make_by_loading
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import control
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build

_TOYS_PER_SCALE = 100
_BYTES_PER_SCALE = 64 * 1024


def specify(text: str, _build: Build, spec: DatasetSpec) -> DatasetSpec:
    """`toy`, whose size `--scale` says."""
    if text:
        raise UsageError(f"--dataset toy:{text} is not known: write --dataset toy --scale N")
    return spec


def check(_build: Build, _spec: DatasetSpec) -> None:
    """Every build can have toys."""


def needed_bytes(spec: DatasetSpec) -> int:
    """The disk space that making the data takes, its cluster and WAL included."""
    return spec.scale * _BYTES_PER_SCALE + overhead_bytes(spec)


def make(build: Build, folder: Path, spec: DatasetSpec, on_progress: OnStage) -> Made:
    """Make the cluster with the table; see DatasetKind."""
    return make_by_loading(
        build,
        folder,
        spec,
        on_progress,
        purpose=f"making toys, scale {spec.scale}",
        load=lambda server: _load(server, spec.scale * _TOYS_PER_SCALE),
        finish=lambda server: freeze(server, on_progress),
    )


def _load(server: Server, toys: int) -> None:
    with control(server) as session:
        session.execute("CREATE TABLE toy (id int PRIMARY KEY, colour int NOT NULL)")
        session.execute("INSERT INTO toy SELECT id, mod(id, 7) FROM generate_series(1, %s) AS id", (toys,))


KIND = DatasetKind(
    specify=specify,
    check=check,
    needed_bytes=needed_bytes,
    make=make,
    decided_by=("scale",),
    describe=lambda spec: f"{spec.scale * _TOYS_PER_SCALE} toys",
    usage="toy",
)
