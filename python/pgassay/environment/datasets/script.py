"""`--dataset script:FILE`: SQL that builds the data, run statement by statement on an empty cluster.

One with commands of psql is run by psql. What a script leaves is kept: dead row versions, the visibility map
and statistics are its own.
"""

from pathlib import Path

from pgassay.environment.datasets.base import (
    MEGABYTE,
    DatasetKind,
    Made,
    OnStage,
    existing_source,
    overhead_bytes,
    refuse_changed,
    size_bytes,
)
from pgassay.environment.datasets.final_steps import LEFT_AS_MADE, settle
from pgassay.environment.datasets.loading import make_by_loading
from pgassay.environment.datasets.psql_script import (
    SqlPart,
    files_read,
    psql_for,
    run_by_psql,
    script_parts,
    script_sha256,
)
from pgassay.environment.datasets.run_sql_text import run_text
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import control
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build

BYTES_MAX = 256 * MEGABYTE
NOTES = (
    "tables that the script left without statistics were analysed",
    "every table was read once, which sets hint bits and prunes pages as any first read does; "
    "dead row versions and the visibility map are the script's own",
)


def specify(text: str, _build: Build, spec: DatasetSpec) -> DatasetSpec:
    """`script:FILE`; raises UsageError for a file that can't be read as SQL."""
    path = existing_source(text, "script", "a file of SQL statements")
    files = files_read(path, read_text)
    parts = script_parts(read_text(path), str(path))
    if not files and not any(isinstance(part, SqlPart) for part in parts):
        raise UsageError(f"{path} has no SQL statement: write those that build the data")
    update = {"kind": "script", "source": str(path), "source_sha256": _sha256(path)}
    return spec.model_copy(update=update)


def _sha256(path: Path) -> str:
    """The hash of all that decides the data: of the files that the script names as well."""
    return script_sha256(path, read_text)


def read_text(path: Path) -> str:
    """The text of a script or plain dump; raises UsageError naming the file and the remedy."""
    try:
        if path.stat().st_size > BYTES_MAX:
            raise UsageError(
                f"{path} is larger than {BYTES_MAX // MEGABYTE} MB, too large to run statement "
                "by statement: load large data from a dump, --dataset dump:FILE, with a build that has psql"
            )
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise UsageError(f"can't read {path} ({error.strerror}): name a readable file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8") from error


def check(build: Build, spec: DatasetSpec) -> None:
    """Raise UsageError for commands of psql where there is none; the server judges the statements."""
    path = Path(spec.source)
    # A snapshot may have been made of one that is gone; making one says that it is.
    if path.exists() and files_read(path, read_text):
        psql_for(build)


def needed_bytes(spec: DatasetSpec) -> int:
    """Return what can be known beforehand: the text's own data, an empty cluster and its WAL."""
    path = Path(spec.source)
    files = (files_read(path, read_text) or (path,)) if path.exists() else ()
    return overhead_bytes(spec) + 2 * sum(size_bytes(file) for file in files)


def make(build: Build, folder: Path, spec: DatasetSpec, on_progress: OnStage) -> Made:
    """Make the cluster and run the script; see DatasetKind."""
    path = refuse_changed(spec, _sha256)
    return make_by_loading(
        build,
        folder,
        spec,
        on_progress,
        purpose=f"running {path}",
        load=lambda server: _run(server, path, on_progress),
        finish=lambda server: settle(server, on_progress, analyse=True, reads=spec.settled),
        notes=NOTES if spec.settled else (LEFT_AS_MADE,),
    )


def _run(server: Server, path: Path, on_progress: OnStage) -> None:
    if files_read(path, read_text):
        on_progress(f"running {path}", None)
        run_by_psql(server, psql_for(server.build), path)
    else:
        run_file(server, path, on_progress)


def run_file(server: Server, path: Path, on_progress: OnStage) -> None:
    """Run a file statement by statement in one session; raises UsageError, see `run_sql_text.run_text`."""
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
