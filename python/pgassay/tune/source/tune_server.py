"""`pgassay tune DSN`: read the server, make a copy of it, and tune the statements there.

All that needs the network comes first: the server is read and dumped, and only then does the command leave
the network for good and start a server on the copy.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from pgassay.environment.builds.registry import MAJOR_MIN, resolve
from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.environment.linux import machine
from pgassay.environment.server.server_caps import parse_memory
from pgassay.environment.server.validation import build_settings
from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.experiment.planning.request import CompareRequest, parse_settings
from pgassay.experiment.running.results_folder import check_folder
from pgassay.experiment.running.run_experiment import host_lock
from pgassay.model.build import Build
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.model.tuning.source import TuneSource
from pgassay.model.tuning.tune_answer import TuneResult
from pgassay.plans.explain_output.find_plans import FoundPlan
from pgassay.plans.explain_plan import explained
from pgassay.progress import Progress
from pgassay.trial.snapshots.vacuum_state import TransactionRate, read_holders, with_ages
from pgassay.tune.inputs.base import Start, workload_named
from pgassay.tune.run_tune import run_held
from pgassay.tune.source.copied import differences, missing_extensions, settings_of
from pgassay.tune.source.counted import SourceCounts, read_counted
from pgassay.tune.source.dump import (
    Dumped,
    dumped,
    refuse_small_disk,
    refuse_unreadable_tables,
    refuse_without_program,
)
from pgassay.tune.source.gather import Given, ServerStatements, explained_on, gather, given_values, unmatched
from pgassay.tune.source.locales import Collation, installed_locales, locale_of
from pgassay.tune.source.log import LoggedValues, read_log
from pgassay.tune.source.origin import CopyOrigin, dead_rows_kept, holder_of
from pgassay.tune.source.sessions import AtWork, read_at_work
from pgassay.tune.source.source_server import SourceServer, open_source
from pgassay.tune.source.statement_files import write_files
from pgassay.tune.stored_search import write_result
from pgassay.tune.tools import TuneTools
from pgassay.tune.tune_plan import TuneRequest, plan_tune
from pgassay.tune.tuned_statements import measured
from pgassay.words import share

STATEMENTS_DEFAULT = 20
KEPT = "the dump of {name} stays in {folder} for a day, so that you can continue; pgassay clean removes it"
# Any data do where the words of a request are read before the copy is there.
_ANY_DATA = "pgbench"
_DATABASE_OF_FOLDER = ",database="


@dataclass(frozen=True)
class ServerRequest:
    """What a user asks for. `request.compare` has its dataset as typed, '' where the copy is to be dumped.

    `statements`: how many of those that took most; `values`, `log`: files that tell values of parameters.
    `only`: the numbers of statements (queryid); () for any.
    """

    connection_string: str
    request: TuneRequest
    statements: int = STATEMENTS_DEFAULT
    values: Path | None = None
    log: Path | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Read:
    """What was read of the source before its copy is made."""

    source: SourceServer
    counted: SourceCounts
    at_work: AtWork
    gathered: ServerStatements
    plans: dict[str, ExplainedPlan | str]
    held_by: str


def tune_server(
    wanted: ServerRequest, tools: TuneTools, progress: Progress, *, wait: bool, isolates: bool = True
) -> TuneResult:
    """Tune the statements that took most of a server's time; see `pgassay.tune.run_tune.run_tune`.

    Raises UsageError, in one sentence without any secret, for what can't be read, dumped or copied.
    """
    began_at = time.monotonic()
    check_folder(wanted.request.out)
    given = given_values(wanted.values) if wanted.values is not None else {}
    log: Iterator[LoggedValues] = read_log(wanted.log) if wanted.log is not None else iter(())
    progress.stage("asking the server")
    source = open_source(wanted.connection_string)
    compare = _command_without_secrets(wanted, source)
    build = resolve(compare.build or _version_of(source))
    compare = replace(compare, build=compare.build or build.bin_directory)
    # A slip of the fingers is answered before anything is read or dumped.
    typed = compare.dataset
    plan_tune(TuneRequest(replace(compare, workload="full-scan", dataset=typed or _ANY_DATA)), progress.stage)
    if not typed:
        refuse_without_program(build)
        if build.major < source.major:
            raise UsageError(
                f"--pg {compare.build}: pg_dump {build.version} can't read {source.name}, which runs "
                f"{source.resolved.server.version}: use --pg {source.major}, or give --dataset"
            )
        _refuse_missing_extensions(source, build)
        refuse_small_disk(source)
    try:
        read = _read(wanted, source, given, log, progress)
    except psycopg.Error as error:
        raise MeasurementError(
            f"{source.name} ended the session while its statements were read ({first_line(error)}): try again"
        ) from None
    if not typed:
        refuse_unreadable_tables(source)
    with host_lock(progress, wait=wait), _data(typed, source, build, progress) as (dataset, dump):
        request = _request(wanted, read, replace(compare, dataset=dataset), build, began_at)
        planned = plan_tune(request, progress.stage)
        result = run_held(planned, request, tools, progress, isolates=isolates)
        if dump is not None and result.go_on:
            dump.is_kept = True
            said = KEPT.format(name=source.name, folder=dump.file.parent)
            result = result.model_copy(update={"warnings": (*result.warnings, said)})
            write_result(Path(result.folder), result)
    write_files(Path(result.folder), read.gathered.statements, read.gathered.left_out, source.name)
    return result


def _version_of(source: SourceServer) -> str:
    if source.major < MAJOR_MIN:
        raise UsageError(
            f"{source.name} runs PostgreSQL {source.resolved.server.version}, and copies are made with "
            f"{MAJOR_MIN} and newer: name one with --pg {MAJOR_MIN}, whose planner may decide differently"
        )
    return str(source.major)


def _refuse_missing_extensions(source: SourceServer, build: Build) -> None:
    missing = missing_extensions(source, build)
    if missing:
        raise UsageError(
            f"{source.name} has the extension {missing[0]}, which PostgreSQL {build.version} of "
            f"{build.origin} comes without, so no copy can be created: name a build that has it, "
            "--pg /path/to/bin"
        )


def _command_without_secrets(wanted: ServerRequest, source: SourceServer) -> CompareRequest:
    compare = wanted.request.compare
    shown = source.resolved.server.connection
    words = tuple(shown if word == wanted.connection_string else word for word in compare.command)
    return replace(compare, command=words)


@contextlib.contextmanager
def _data(
    typed: str, source: SourceServer, build: Build, progress: Progress
) -> Iterator[tuple[str, Dumped | None]]:
    """What follows `--dataset`: as it was typed, or the dump that is made of the source, and that dump."""
    if not typed:
        with dumped(source, build, progress) as dump:
            yield f"dump:{dump.file}", dump
    elif typed.startswith("folder:") and _DATABASE_OF_FOLDER not in typed:
        yield f"{typed}{_DATABASE_OF_FOLDER}{source.resolved.server.dbname}", None
    else:
        yield typed, None


# --- Reading.


def _read(
    wanted: ServerRequest, source: SourceServer, given: Given, log: Iterator[LoggedValues], progress: Progress
) -> _Read:
    """The statements with their values, and their plans on the source.

    given, log: what the user's files tell of values.
    """
    progress.stage("reading the statements of the server")
    with source.reading() as session:
        rate = TransactionRate(session)
        counted = read_counted(source, session, wanted.statements, wanted.only)
        at_work = read_at_work(session, counted)
        gathered = gather(source, session, counted.chosen, given, log)
        held_by = holder_of(with_ages(read_holders(session), rate.per_second()))
        for text in unmatched(given, counted.chosen):
            progress.message(f"--values: no statement that took most of the time is like this one: {text}")
        for each in gathered.left_out:
            progress.message(f"{each.name} ({share(each.share)} of the time) is left out: {each.reason}")
        if not gathered.statements:
            raise UsageError(
                f"{source.name}: no value is known for the parameters of any statement "
                f"({gathered.left_out[0].name}: {gathered.left_out[0].reason}): give some with --values "
                "FILE, or the server's log with --log FILE"
            )
        plans: dict[str, ExplainedPlan | str] = {}
        for one in measured(gathered.statements):
            document, why = explained_on(session, one.sql)
            plans[one.sql] = (
                why or explained(FoundPlan(document, "json"), 1, f"the plan of {one.name}")  # type: ignore[arg-type]
            )
    return _Read(source, counted, at_work, gathered, plans, held_by)


# --- What is tuned.


def _request(
    wanted: ServerRequest, read: _Read, compare: CompareRequest, build: Build, began_at: float
) -> TuneRequest:
    """The request with all that the copy takes over from the source."""
    source = read.source
    given = parse_settings(compare.settings)
    capped = parse_memory(compare.memory, "--memory") if compare.memory else None
    memory = capped or usable_memory_bytes()
    known = frozenset(name.lower() for name in build_settings(build))
    settings = settings_of(source, given, build, memory, known)
    locale, note = wanted.request.locale, ""
    if locale is None and not compare.dataset.startswith("folder:"):
        collation = Collation(source.provider, source.collation, source.locale, rules=source.icu_rules)
        locale, note = locale_of(collation, installed_locales(), build)
    held = dead_rows_kept(read.held_by, source.facts.tables)
    notes = [
        *([held] if held else []),
        *([note] if note else []),
        *differences(source, settings, build),
        *read.gathered.notes,
    ]
    if wanted.request.clients is None:
        alone = read.at_work.note(machine.cores_usable())
        notes += [alone] if alone else []
    if wanted.request.compare.dataset:
        notes.append("the data were given and may be older than the source's")
    name = f"server:{source.name}"
    return replace(
        wanted.request,
        compare=replace(
            compare,
            workload=name,
            settings=(*compare.settings, *(f"{name}={value}" for name, value in settings.items())),
        ),
        locale=locale,
        encoding=source.encoding,
        start=Start(workload_named(name, read.gathered.statements), read.gathered.statements),
        origin=_origin(read, settings, tuple(notes)),
        began_at=began_at,
    )


def _origin(read: _Read, settings: dict[str, str], notes: tuple[str, ...]) -> CopyOrigin:
    source, counted = read.source, read.counted
    taken = {each.name for each in read.gathered.statements}
    told = TuneSource(
        name=source.name,
        version=source.resolved.server.version,
        since=counted.since,
        seconds=counted.total_ms / 1000,
        statements=counted.statements,
        share=sum(each.share for each in counted.chosen if each.name in taken),
        left_out=read.gathered.left_out,
        ignored=counted.ignored,
        settings=settings,
        sessions=read.at_work.sessions,
    )
    return CopyOrigin(
        told=told,
        plans=read.plans,
        mean_ms={each.name: each.mean_ms for each in counted.chosen},
        share={each.name: each.share for each in counted.chosen},
        is_here=source.is_here,
        notes=notes,
        # A standby counts its own scans: what it never reads the primary may.
        counted=None if source.is_standby else source.facts,
        held_by=read.held_by,
    )
