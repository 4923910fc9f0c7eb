"""The source's data as a physical copy: a data folder, which pg_upgrade brings to the new version."""

import shutil
from pathlib import Path

from pgassay.environment.datasets import parse_dataset, snapshots
from pgassay.environment.datasets.folder import major_of_folder
from pgassay.environment.server.validation import with_data_format
from pgassay.environment.upgraded.cluster import PgUpgradeError
from pgassay.errors import UsageError
from pgassay.model.build import Build
from pgassay.model.upgrades.upgrade_answer import PgUpgrade, UpgradeFinding
from pgassay.progress import Progress
from pgassay.tune.source.source_server import SourceServer

LOG_FOLDER = "pg_upgrade"
_PHYSICAL = "folder:"


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
