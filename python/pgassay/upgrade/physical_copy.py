"""The source's data as a physical copy: a data folder, which pg_upgrade brings to the new version."""

import shutil
from pathlib import Path

from pgassay.environment.datasets import OBSERVING_EXTENSIONS, parse_dataset, snapshots
from pgassay.environment.datasets.folder import major_of_folder
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.programs import run_program
from pgassay.environment.server.server_folder import PORT, SUPERUSER
from pgassay.environment.server.validation import with_data_format
from pgassay.environment.upgraded.cluster import PgUpgradeError
from pgassay.errors import UsageError
from pgassay.model.build import Build
from pgassay.model.upgrades.upgrade_answer import PgUpgrade, UpgradeFinding
from pgassay.progress import Progress
from pgassay.storage.parse import parse_storage
from pgassay.storage.registry import provide
from pgassay.tune.copy import WORKING_ROOM_BYTES
from pgassay.tune.source.dump import PLAIN_FORMAT, PROGRAM
from pgassay.tune.source.source_server import SourceServer

LOG_FOLDER = "pg_upgrade"
_PHYSICAL = "folder:"
# As a dump of the source is made; who may do what is of the cluster.
_OPTIONS = (
    *(*PLAIN_FORMAT, "--schema-only", "--no-publications", "--no-subscriptions", "--no-security-labels"),
    "--no-password",
)
_SETTINGS = {"shared_buffers": "16MB", "max_connections": "20"}


def is_physical(given: str) -> bool:
    """Whether what stands behind --copy is a data folder."""
    return given.startswith(_PHYSICAL)


def physical_dataset(given: str, source: SourceServer, before: Path | None = None) -> str:
    """The data folder as `--dataset` has it; `before`: SQL that is run on the copy before pg_upgrade."""
    upgrade = "on" if before is None else before
    return f"{given},database={source.resolved.server.dbname},upgrade={upgrade}"


def check_physical(given: str, source: SourceServer, builds: tuple[Build, Build]) -> None:
    """Raise UsageError for a data folder that is not of the source's version, or that can't be upgraded.

    builds: those that are to read it.
    """
    major = major_of_folder(Path(given.removeprefix(_PHYSICAL)))
    if major != str(source.major):
        raise UsageError(
            f"--copy {given} is of PostgreSQL {major}, and {source.name} runs {source.major}: name a base "
            "backup of this server"
        )
    for build in builds:
        parse_dataset(physical_dataset(given, source), build, 1)


def run_pg_upgrade(
    build: Build, data: str, folder: Path, progress: Progress
) -> tuple[PgUpgrade | None, UpgradeFinding | None]:
    """What pg_upgrade did for the build, or why it refuses; its log is then in the folder of results.

    data: the data folder as `--dataset` has it.
    """
    known = with_data_format(build)
    try:
        snapshot = snapshots.ensure(known, parse_dataset(data, known, 1), (), progress.stage)
    except PgUpgradeError as error:
        place = folder / LOG_FOLDER
        shutil.move(error.log, place)
        return None, UpgradeFinding(
            id="pg-upgrade",
            severity="in the way",
            sentence=f"pg_upgrade refuses: {error.words}",
            where=f"its log: {place}",
            remedy="fix that before the upgrade",
        )
    return PgUpgrade.model_validate(dict(snapshot.facts["upgrade"])), None


def read_schema(
    given: str,
    storage: str,
    source: SourceServer,
    builds: tuple[Build, Build],
    file: Path,
    progress: Progress,
) -> None:
    """Write the schema of the data folder into the file, in plain SQL.

    It is read from the working copy that the old version's statements are run on later, and not from the
    source, whose role may not read all tables, and which may have changed since. storage: as typed. builds:
    the old version's, and one with pg_dump. Raises MeasurementError with pg_dump's words.
    """
    build, program = builds
    known = with_data_format(build)
    dataset = parse_dataset(physical_dataset(given, source), known, 1)
    snapshot = snapshots.ensure(known, dataset, (), progress.stage)
    volume = provide(parse_storage(storage), 2 * snapshot.bytes + WORKING_ROOM_BYTES)
    try:
        progress.stage("copying the data")
        working = volume.clone(snapshot.path, snapshot.key, 0)
        if not volume.is_clean(working):
            volume.reset(working, snapshot.path)
        volume.activate()
        volume.mark(working, clean=False)
        with Server(build, working, _SETTINGS) as server:
            progress.stage("reading the schema of the copy")
            address = ["--host", str(server.socket_directory), "--port", str(PORT), "--username", SUPERUSER]
            command = [f"{program.bin_directory}/{PROGRAM}", *_OPTIONS, *address]
            text = run_program([*command, "--dbname", snapshot.database], "reading the schema of the copy")
    finally:
        volume.remove()
    file.write_text(text, encoding="utf-8", errors="surrogateescape")


def extensions_of_copies(given: str, source: SourceServer) -> set[str]:
    """Those that a copied data folder has and the source has not: pgassay reads caches by them."""
    return set(OBSERVING_EXTENSIONS) - set(source.facts.extensions) if is_physical(given) else set()
