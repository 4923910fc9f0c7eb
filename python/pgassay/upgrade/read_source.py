"""What is read before anything is measured: the source's catalogs, and what of its schema can be made."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from pgassay.environment.remote.read_only import unreadable
from pgassay.model.build import Build
from pgassay.model.upgrades.upgrade_answer import UpgradeFinding
from pgassay.progress import Progress
from pgassay.tune.source.source_server import SourceServer
from pgassay.upgrade.catalogs import catalog_findings, others_unread, settings_of_server
from pgassay.upgrade.chosen_statements import StatementChoice, Wanted, statements_to_run
from pgassay.upgrade.copied_source import LeftOut, schema_of
from pgassay.upgrade.empty_server import (
    Refused,
    functions_refused,
    read_version,
    refused_objects,
    scratch_server,
)
from pgassay.upgrade.physical_copy import extensions_of_copies
from pgassay.upgrade.refused_views import VIEWS, goes_along
from pgassay.upgrade.upgrade_answer import finding_of_function
from pgassay.upgrade.version_states import Held, held_settings

_EXCLUDES_EXTENSIONS_SINCE = 17


@dataclass(frozen=True)
class SourceRead:
    """What the catalogs and an empty server of the new version tell, and the statements to run."""

    findings: tuple[UpgradeFinding, ...]
    refused: Sequence[Refused]
    chosen: Wanted
    held: Held
    others: str


def read_source(
    asked: StatementChoice,
    given: tuple[str, str],
    source: SourceServer,
    builds: tuple[Build, Build, Build],
    folder: Path,
    progress: Progress,
) -> SourceRead:
    """Ask the source and an empty server of the new version.

    given: what stands behind --copy and --storage. builds: the old version's, the new one's, and one whose
    pg_dump and pg_restore are used. Raises UsageError and MeasurementError.
    """
    old, new, program = builds
    progress.stage("reading the catalogs")
    with _told(source):
        settings = settings_of_server(source)
        with source.reading() as session:
            others = others_unread(session)
            chosen = statements_to_run(asked, source, session, progress)
    progress.stage(f"asking an empty server of {new.version}")
    with scratch_server(new) as server:
        known = read_version(server, frozenset(settings))
        with _told(source), source.reading() as session:
            findings = tuple(catalog_findings(session, settings, known, source.major))
        with schema_of(given, source, (old, program), folder, progress) as schema:
            progress.stage(f"making the schema in {new.version}")
            missing = {*_missing(findings), *extensions_of_copies(given[0], source)}
            refused = [
                each
                for each in refused_objects(server, schema)
                if each.kind != "extension" or each.name.strip('"') not in missing
            ]
        # Only now: to copy the data may take longer than the source keeps a session that does nothing.
        unparsed = functions_refused(server, source)
    findings = (*findings, *map(finding_of_function, unparsed))
    return SourceRead(findings, refused, chosen, held_settings(settings, known.settings), others)


@contextmanager
def _told(source: SourceServer) -> Iterator[None]:
    """What the source refuses, or that it went away, as a UsageError."""
    try:
        yield
    except psycopg.Error as error:
        raise unreadable(source.resolved, error) from None


def _missing(findings: Sequence[UpgradeFinding]) -> list[str]:
    """The extensions that the new version's build comes without."""
    return [each.id.partition(":")[2] for each in findings if each.id.startswith("extension-missing:")]


def left_out_of(read: SourceRead, program: Build, *, is_physical: bool) -> LeftOut:
    """What the new version refuses that a copy can do without; whether it refuses more than that."""
    missing = _missing(read.findings)
    views = {each.name: each.kind for each in read.refused if each.kind in VIEWS}
    along = [each for each in read.refused if goes_along(each, views)]
    others = [each for each in read.refused if each.kind not in VIEWS and each.name not in views]
    others = [each for each in others if each not in along]
    can_exclude = is_physical or program.major >= _EXCLUDES_EXTENSIONS_SINCE
    stops = bool(others) or bool(missing and not can_exclude)
    indexes = tuple(each.name for each in along if each.kind.endswith("index"))
    return LeftOut(tuple((views[name], name) for name in sorted(views)), tuple(missing), stops, indexes)
