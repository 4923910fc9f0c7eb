"""`pgassay upgrade DSN --to 18`: read the source, copy it into both versions, compare what they do.

The source is asked with SELECTs of its catalogs and dumped, nothing else. What is in the way comes from its
catalogs and from an empty server of the new version, into which the schema is put; then every statement runs
on copies in both versions, and those that run alike are timed in interleaved blocks.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgassay.analysis.verdicts.compare import analyse
from pgassay.environment.builds.registry import resolve
from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.environment.server.validation import build_settings
from pgassay.experiment.planning.experiment_plan import parse_request, plan
from pgassay.experiment.planning.request import CompareRequest, parse_settings
from pgassay.experiment.running.results_folder import check_folder, new_folder
from pgassay.experiment.running.run_experiment import host_lock, run_parsed
from pgassay.model.arm import Arm
from pgassay.model.build import Build
from pgassay.model.result import CompareResult
from pgassay.model.upgrades.upgrade_answer import PgUpgrade, UpgradeFinding, UpgradeResult, UpgradeState
from pgassay.model.workload import Statement
from pgassay.progress import Progress
from pgassay.tune.source.copied import settings_of
from pgassay.tune.source.dump import refuse_small_disk, refuse_unreadable_tables, refuse_without_program
from pgassay.tune.source.source_server import SourceServer, open_source
from pgassay.tune.source.statement_files import STATEMENTS_FILE
from pgassay.tune.tuned_statements import statements_of
from pgassay.upgrade.both_versions import ComparedStatement, run_on_both
from pgassay.upgrade.builds_of_both import OLDEST, BuildsOfBoth, builds_of_both
from pgassay.upgrade.catalogs import catalog_findings, others_unread, settings_of_server
from pgassay.upgrade.chosen_statements import (
    StatementChoice,
    Wanted,
    slower_statements,
    statements_to_run,
    timed_text,
)
from pgassay.upgrade.copied_source import (
    OPTION,
    LeftOut,
    can_leave_out,
    check_copy,
    copied,
    has_own_schema,
    is_given_dump,
    schema_of,
)
from pgassay.upgrade.empty_server import (
    Refused,
    functions_refused,
    read_version,
    refused_objects,
    scratch_server,
)
from pgassay.upgrade.fixes import Mended, proven_fixes
from pgassay.upgrade.physical_copy import check_physical, extensions_of_copies, is_physical, run_pg_upgrade
from pgassay.upgrade.refused_views import VIEWS, goes_along
from pgassay.upgrade.traffic import check_capture, play_on_both
from pgassay.upgrade.upgrade_answer import (
    answer_of,
    finding_of_function,
    findings_of_refused,
    single_statements,
)
from pgassay.upgrade.version_states import Held, StatesToMeasure, held_settings, measured_states
from pgassay.upgrade.version_times import MeasuredTimes
from pgassay.workloads.registry import parse_workload

EXPERIMENT_FOLDER = "experiment"
STATEMENTS_DEFAULT = 50
# No longer maintained, which is why it is upgraded.
_SOURCE_MIN = 13
_TIME_MIN_S = 30.0
_EXCLUDES_EXTENSIONS_SINCE = 17
_STOPPED = "no statement was compared, since the schema can't be made in the new version"
_REFUSED = "pg_upgrade refuses the copy"
_PLAIN_DUMP = (
    "no statement was compared, since the dump is plain SQL and holds what the new version refuses: give one "
    "made by pg_dump --format=custom, from which that can be left out"
)
# Of what is left after the copies; of the rest half goes to the two states of the new version, before fixes.
_COMPARED_SHARE = 0.6
_STATES_SHARE = 0.5


@dataclass(frozen=True)
class UpgradeRequest:
    """What a user asks for. `workload`: statements of a file, '' for those that the server counted.

    `compare`: what the comparison is asked for as well (time, margin, storage, caps, settings). `capture`:
    captured traffic to be played in place of statements, as `DIR,speed=2`; `copy`: a dump of the moment
    when it began, as `dump:FILE`, or a data folder for pg_upgrade, as `folder:DATADIR`; '' or `dump` for a
    dump that is made now.
    """

    connection_string: str
    to: str
    compare: CompareRequest
    statements: int = STATEMENTS_DEFAULT
    workload: str = ""
    out: Path | None = None
    capture: str = ""
    copy: str = ""


def run_upgrade(wanted: UpgradeRequest, progress: Progress, *, wait: bool) -> UpgradeResult:
    """Find out what the upgrade does; raises UsageError, without any secret, and MeasurementError."""
    check_folder(wanted.out)
    if wanted.workload:
        statements_of(parse_workload(wanted.workload))
    if wanted.capture:
        check_capture(wanted.capture)
    if wanted.copy:
        check_copy(wanted.copy)
    progress.stage("asking the server")
    source = open_source(wanted.connection_string, _SOURCE_MIN)
    builds = builds_of_both(wanted.to, source)
    if is_physical(wanted.copy):
        check_physical(wanted.copy, source, (builds.old, builds.new))
    _program(wanted)
    refuse_small_disk(source)
    if not has_own_schema(wanted.copy, source):
        refuse_unreadable_tables(source, OPTION)
    folder = new_folder(wanted.out, f"upgrade {source.resolved.server.dbname} to {wanted.to}")
    warnings = []
    if source.major < OLDEST:
        warnings.append(
            f"the source runs {source.resolved.server.version}, and is measured as {OLDEST}, "
            "the oldest version that pgassay runs"
        )
    try:
        with host_lock(progress, wait=wait):
            answer = _look(wanted, source, builds, folder, warnings, progress)
    except BaseException:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    (folder / "upgrade.json").write_text(answer.model_dump_json(by_alias=True, indent=1) + "\n")
    return answer


def _look(
    wanted: UpgradeRequest,
    source: SourceServer,
    builds: BuildsOfBoth,
    folder: Path,
    warnings: list[str],
    progress: Progress,
) -> UpgradeResult:
    """The answer. The caller holds the host's lock."""
    began_at = time.monotonic()
    old, new = builds.old, builds.new
    program = _program(wanted)
    read = _read(wanted, source, builds, program, folder, progress)
    chosen, left_out = read.chosen, _left_out(read, program, is_physical=is_physical(wanted.copy))
    findings = (*read.findings, *findings_of_refused(read.refused))
    is_stuck = left_out != LeftOut() and not can_leave_out(wanted.copy)
    stops = left_out.stops or is_stuck
    _write_statements(folder, chosen.statements)
    measured = MeasuredTimes(single_statements(chosen.statements, chosen.share, chosen.left_out, {}, None))
    mended: dict[str, Mended] = {}
    states: tuple[UpgradeState, ...] = ()
    brought: PgUpgrade | None = None
    refusal: UpgradeFinding | None = None
    if not stops and (chosen.statements or is_physical(wanted.copy)):
        with copied(_given(wanted), source, program, left_out, folder, progress) as data:
            if is_physical(wanted.copy):
                brought, refusal = run_pg_upgrade(new, data, folder, progress)
            if chosen.statements and refusal is None:
                request = _request(wanted, source, folder, data, builds, began_at)
                measured = _measure(request, chosen, read.refused, folder, progress)
                asked = _states_of(request, read, measured, new, _checksums(wanted, source))
                left_s = _STATES_SHARE * _left_s(wanted, began_at)
                states = measured_states(asked, folder, left_s, progress)
                if slower := slower_statements(chosen, measured):
                    left_s = _left_s(wanted, began_at)
                    mended, why = proven_fixes(request, new, slower, folder, left_s, progress)
                    warnings += [why] if why else []
    if refusal is not None:
        measured = MeasuredTimes(
            single_statements(chosen.statements, chosen.share, chosen.left_out, {}, None, _REFUSED)
        )
        findings = (*findings, refusal)
        warnings.append("no statement was compared, since pg_upgrade refuses")
    if stops:
        warnings.append(_PLAIN_DUMP if is_stuck and not left_out.stops else _STOPPED)
    warnings += [read.others] if read.others else []
    answer = answer_of(
        source=(source.name, source.resolved.server.version),
        versions=(old.version, new.version),
        folder=folder,
        findings=findings,
        measured=measured.statements,
        mended=mended,
        result=measured.result,
        experiment=str(folder / EXPERIMENT_FOLDER) if measured.result is not None else "",
        margin=wanted.compare.margin,
        warnings=tuple(warnings),
        traffic=measured.traffic,
    )
    return answer.model_copy(update={"pg_upgrade": brought, "states": states})


def _given(wanted: UpgradeRequest) -> tuple[str, str]:
    """What the data are, and where their copies lie, as typed."""
    return wanted.copy, wanted.compare.storage


def _left_s(wanted: UpgradeRequest, began_at: float) -> float:
    return wanted.compare.max_time_s - (time.monotonic() - began_at)


def _states_of(
    request: CompareRequest, read: "_Read", measured: MeasuredTimes, build: Build, checksums: str
) -> StatesToMeasure:
    """The states of those statements that have a time on both versions."""
    names = {each.name for each in measured.statements if each.ratio is not None}
    timed = tuple(each for each in read.chosen.statements if each.name in names)
    shares = {each.name: each.share for each in measured.statements if each.share is not None}
    kept = {name: each for name, each in read.held.items() if _is_set(request, name)}
    return StatesToMeasure(request, read.chosen.traffic, timed, shares, kept, build, checksums)


def _is_set(request: CompareRequest, name: str) -> bool:
    return any(each.partition("=")[0].lower() == name for each in request.settings)


def _checksums(wanted: UpgradeRequest, source: SourceServer) -> str:
    """As pg_upgrade needs them, of the new version as the source has them; '' where a data folder says it."""
    return "" if is_physical(wanted.copy) else source.settings["data_checksums"].value


def _measure(
    request: CompareRequest, chosen: Wanted, refused: Sequence[Refused], folder: Path, progress: Progress
) -> MeasuredTimes:
    """The traffic, or the statements one by one, on both versions."""
    if chosen.traffic is not None:
        return play_on_both(request, chosen.traffic, refused, progress)
    found, result = _compare(request, chosen.statements, folder, progress)
    statements = single_statements(
        chosen.statements, chosen.share, chosen.left_out, found, result, refused=refused
    )
    return MeasuredTimes(statements, result)


def _program(wanted: UpgradeRequest) -> Build:
    """A build whose pg_dump reads the source, or whose pg_restore reads the dump that was given.

    Of the new version, by whichever builder has it.
    """
    build = resolve(wanted.to)
    if not is_given_dump(wanted.copy):
        refuse_without_program(build, OPTION, "pgassay builds install apt:{major}")
    return build


@dataclass(frozen=True)
class _Read:
    """What the catalogs and an empty server of the new version tell, and the statements to run."""

    findings: tuple[UpgradeFinding, ...]
    refused: Sequence[Refused]
    chosen: Wanted
    held: Held
    others: str


def _read(
    wanted: UpgradeRequest,
    source: SourceServer,
    builds: BuildsOfBoth,
    program: Build,
    folder: Path,
    progress: Progress,
) -> _Read:
    new = builds.new
    progress.stage("reading the catalogs")
    settings = settings_of_server(source)
    with source.reading() as session:
        others = others_unread(session)
        asked = StatementChoice(wanted.capture, wanted.workload, wanted.statements)
        chosen = statements_to_run(asked, source, session, progress)
    progress.stage(f"asking an empty server of {new.version}")
    with scratch_server(new) as server:
        known = read_version(server, frozenset(settings))
        with source.reading() as session:
            findings = tuple(catalog_findings(session, settings, known, source.major))
        with schema_of(_given(wanted), source, (builds.old, program), folder, progress) as schema:
            progress.stage(f"making the schema in {new.version}")
            missing = {*_missing(findings), *extensions_of_copies(wanted.copy, source)}
            refused = [
                each
                for each in refused_objects(server, schema)
                if each.kind != "extension" or each.name.strip('"') not in missing
            ]
        # Only now: to copy the data may take longer than the source keeps a session that does nothing.
        unparsed = functions_refused(server, source)
    findings = (*findings, *map(finding_of_function, unparsed))
    return _Read(findings, refused, chosen, held_settings(settings, known.settings), others)


def _missing(findings: Sequence[UpgradeFinding]) -> list[str]:
    """The extensions that the new version's build comes without."""
    return [each.id.partition(":")[2] for each in findings if each.id.startswith("extension-missing:")]


def _left_out(read: _Read, program: Build, *, is_physical: bool) -> LeftOut:
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


def _write_statements(folder: Path, statements: Sequence[Statement]) -> None:
    (folder / STATEMENTS_FILE).write_text(timed_text(statements))


def _request(
    wanted: UpgradeRequest,
    source: SourceServer,
    folder: Path,
    data: str,
    builds: BuildsOfBoth,
    began_at: float,
) -> CompareRequest:
    compare = wanted.compare
    known = frozenset(name.lower() for name in build_settings(builds.old))
    given = parse_settings(compare.settings)
    settings = settings_of(source, given, builds.old, usable_memory_bytes(), known)
    asked = {name: value for name, value in settings.items() if _is_given(source, name)}
    checksums = _checksums(wanted, source)
    patch = f"+checksums={checksums}" if checksums else ""
    left_s = _left_s(wanted, began_at)
    return replace(
        compare,
        factors=(f"config={','.join(f'{each}{patch}' for each in builds.levels)}",),
        workload=f"sql:{folder / STATEMENTS_FILE}",
        dataset=data,
        cache=compare.cache or "warm-pages",
        settings=(*compare.settings, *(f"{name}={value}" for name, value in asked.items())),
        baseline="shipped",
        max_time_s=max(_TIME_MIN_S, left_s),
        out=folder / EXPERIMENT_FOLDER,
    )


def _is_given(source: SourceServer, name: str) -> bool:
    return any(key.lower() == name and each.given for key, each in source.settings.items())


def _compare(
    request: CompareRequest, statements: Sequence[Statement], folder: Path, progress: Progress
) -> tuple[dict[str, ComparedStatement], CompareResult | None]:
    """Every statement on both versions, and the comparison of those that run and return the same on both."""
    parsed = parse_request(request, progress.stage)
    experiment = plan(parsed, progress.stage)
    old, new = _arms(experiment.arms)
    began = time.monotonic()
    found = run_on_both(
        (old.spec, new.spec), experiment.protocol.cache, statements, request.max_time_s, progress.stage
    )
    alike = [each for each in statements if not _why_not(found[each.name])]
    if not alike:
        return found, None
    _write_statements(folder, alike)
    left_s = max(_TIME_MIN_S, _COMPARED_SHARE * (request.max_time_s - (time.monotonic() - began)))
    # Of all statements each is to be decided, and not the sum of them alone.
    stored = run_parsed(
        parse_request(replace(request, max_time_s=left_s), progress.stage), progress, until_decided=False
    )
    _write_statements(folder, statements)
    return found, analyse(stored)


def _arms(arms: Sequence[Arm]) -> Iterator[Arm]:
    yield next(arm for arm in arms if arm.role == "control")
    yield next(arm for arm in arms if arm.role not in ("control", "twin"))


def _why_not(each: ComparedStatement) -> bool:
    failed = each.before_error or each.after_error or each.unended is not None
    return bool(failed) or not (each.same_rows or each.varies)
