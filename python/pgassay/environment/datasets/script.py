"""`--dataset script:FILE`: SQL that builds the data, run statement by statement on an empty cluster.

What it leaves is kept: dead row versions, the visibility map and statistics are the script's own.
"""

from pathlib import Path

from pgassay.environment.datasets.base import (
    MEGABYTE,
    DatasetKind,
    Made,
    OnStage,
    content_sha256,
    existing_source,
    overhead_bytes,
    refuse_changed,
    size_bytes,
)
from pgassay.environment.datasets.finish import LEFT_AS_MADE, settle
from pgassay.environment.datasets.loading import make_by_loading
from pgassay.environment.datasets.statements import run_text
from pgassay.environment.server.server import Server
from pgassay.environment.server.sessions import control
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.sql_text import split_statements

BYTES_MAX = 256 * MEGABYTE
NOTES = (
    "tables that the script left without statistics were analysed",
    "every table was read once, which sets hint bits and prunes pages as any first read does; "
    "dead row versions and the visibility map are the script's own",
)


def specify(text: str, _build: Build, spec: DatasetSpec) -> DatasetSpec:
    """`script:FILE`; raises UsageError for a file that can't be read as SQL."""
    path = existing_source(text, "script", "a file of SQL statements")
    if not split_statements(read_text(path), str(path)):
        raise UsageError(f"{path} holds no SQL statement: write those that build the data")
    update = {"kind": "script", "source": str(path), "source_sha256": content_sha256(path)}
    return spec.model_copy(update=update)


def read_text(path: Path) -> str:
    """The text of a script or plain dump; raises UsageError naming the file and the remedy."""
    try:
        if path.stat().st_size > BYTES_MAX:
            raise UsageError(
                f"{path} is larger than {BYTES_MAX // MEGABYTE} MB, which is too long to run statement by "
                "statement: load large data from a dump, --dataset dump:FILE, with a build that has psql"
            )
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise UsageError(f"can't read {path} ({error.strerror}): name a readable file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8") from error


def check(_build: Build, _spec: DatasetSpec) -> None:
    """Every build can be given a script; the server judges its statements."""


def needed_bytes(spec: DatasetSpec) -> int:
    """Return what can be known beforehand: the text's own data, an empty cluster and its WAL."""
    path = Path(spec.source)
    return overhead_bytes(spec) + (2 * size_bytes(path) if path.exists() else 0)


def make(build: Build, folder: Path, spec: DatasetSpec, on_progress: OnStage) -> Made:
    """Make the cluster and run the script; see DatasetKind."""
    path = refuse_changed(spec, content_sha256)
    return make_by_loading(
        build,
        folder,
        spec,
        on_progress,
        purpose=f"running {path}",
        load=lambda server: run_file(server, path, on_progress),
        finish=lambda server: settle(server, on_progress, analyse=True, reads=spec.settled),
        notes=NOTES if spec.settled else (LEFT_AS_MADE,),
    )


def run_file(server: Server, path: Path, on_progress: OnStage) -> None:
    """Run a file statement by statement in one session; raises UsageError, see `statements.run_text`."""
    with control(server) as session:
        run_text(server, session, read_text(path), str(path), on_progress)


KIND = DatasetKind(
    specify=specify,
    check=check,
    needed_bytes=needed_bytes,
    make=make,
    decided_by=(*DatasetKind.decided_by, "settled"),
    usage="script:FILE",
)
