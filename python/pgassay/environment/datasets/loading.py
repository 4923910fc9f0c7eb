"""The way of every dataset that is loaded into a cluster of its own: make, load, finish, stop."""

from collections.abc import Callable
from pathlib import Path

from pgassay.environment.datasets.base import DATABASE, Made, OnStage, bulk_settings
from pgassay.environment.datasets.final_steps import install_extensions, relation_facts
from pgassay.environment.datasets.load_failure import translated_errors
from pgassay.environment.server.initdb import make_cluster
from pgassay.environment.server.private_server import Server
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build


def make_by_loading(
    build: Build,
    folder: Path,
    spec: DatasetSpec,
    on_progress: OnStage,
    *,
    purpose: str,
    load: Callable[[Server], None],
    finish: Callable[[Server], None],
    notes: tuple[str, ...] = (),
) -> Made:
    """Make a cluster in `folder` (missing or empty), fill it by `load`, and leave it stopped.

    `finish` freezes or settles what was loaded; `purpose` names the load in messages. Raises
    MeasurementError when the server fails, and what `load` raises.
    """
    on_progress("making a cluster", None)
    make_cluster(build, folder, spec)
    with Server(build, folder, bulk_settings(build, spec.wal_segment_mb)) as server:
        with translated_errors(server, purpose):
            load(server)
        install_extensions(server, build)
        finish(server)
        return Made(DATABASE, relation_facts(server), notes)
