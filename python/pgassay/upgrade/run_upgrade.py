"""`pgassay upgrade DSN --to 18`: read the source, copy it into both versions, compare what they do.

The source is asked with SELECTs of its catalogs and dumped, nothing else. What is in the way comes from its
catalogs and from an empty server of the new version, into which the schema is put; then every statement runs
on copies in both versions, and those that run alike are timed in interleaved blocks.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgassay.analysis.verdicts.compare import analyse
from pgassay.environment.builds.base import Origin
from pgassay.environment.builds.registry import ORIGINS, resolve
from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.environment.server.validation import build_settings
from pgassay.errors import InterruptionError
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
from pgassay.record.experiment import StoredExperiment
from pgassay.tune.source.copied import settings_of
from pgassay.tune.source.dump import (
    PROGRAM,
    refuse_small_disk,
    refuse_unreadable_tables,
    refuse_without_program,
)
from pgassay.tune.source.source_server import SourceServer, open_source
from pgassay.tune.source.statement_files import STATEMENTS_FILE
from pgassay.tune.tuned_statements import statements_of
from pgassay.upgrade.both_versions import ComparedStatement, run_on_both
from pgassay.upgrade.builds_of_both import OLDEST, BuildsOfBoth, builds_of_both
from pgassay.upgrade.chosen_statements import StatementChoice, Wanted, slower_statements, timed_text
from pgassay.upgrade.copied_source import (
    OPTION,
    PG_RESTORE,
    LeftOut,
    can_leave_out,
    check_copy,
    copied,
    has_own_schema,
    is_given_dump,
)
from pgassay.upgrade.empty_server import Refused
from pgassay.upgrade.fixes import INTERRUPTED, Mended, proven_fixes
from pgassay.upgrade.physical_copy import check_physical, is_physical, run_pg_upgrade
from pgassay.upgrade.read_source import SourceRead, left_out_of, read_source
from pgassay.upgrade.traffic import check_capture, play_on_both
from pgassay.upgrade.upgrade_answer import NOT_MADE, answer_of, findings_of_refused, single_statements
from pgassay.upgrade.version_states import StatesToMeasure, measured_states
from pgassay.upgrade.version_times import MeasuredTimes, stored_so_far
from pgassay.workloads.registry import parse_workload

EXPERIMENT_FOLDER = "experiment"
STATEMENTS_DEFAULT = 50
# No longer maintained, which is why it is upgraded.
_SOURCE_MIN = 13
_TIME_MIN_S = 30.0
_STOPPED = "no statement was compared, since the schema can't be made in the new version"
_REFUSED = "pg_upgrade refuses the copy"
_INTERRUPTED = "it was interrupted before"
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
            answer = _look(_Run(wanted, source, builds, folder, progress, time.monotonic()), warnings)
    except BaseException:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    (folder / "upgrade.json").write_text(answer.model_dump_json(by_alias=True, indent=1) + "\n")
    return answer


@dataclass(frozen=True)
class _Run:
    """What a run has from its beginning; `began_at`: when, by the monotonic clock."""

    wanted: UpgradeRequest
    source: SourceServer
    builds: BuildsOfBoth
    folder: Path
    progress: Progress
    began_at: float

    @property
    def left_s(self) -> float:
        """What is left of the time that was given."""
        return self.wanted.compare.max_time_s - (time.monotonic() - self.began_at)


@dataclass
class _Known:
    """What the copies have told so far, which stands where somebody stops the rest."""

    measured: MeasuredTimes
    mended: dict[str, Mended] = field(default_factory=dict)
    states: tuple[UpgradeState, ...] = ()
    brought: PgUpgrade | None = None
    refusal: UpgradeFinding | None = None
    is_interrupted: bool = False


def _look(run: _Run, warnings: list[str]) -> UpgradeResult:
    """The answer. The caller holds the host's lock."""
    wanted, source, builds, folder = run.wanted, run.source, run.builds, run.folder
    program = _program(wanted)
    asked = StatementChoice(wanted.capture, wanted.workload, wanted.statements)
    of_all = builds.old, builds.new, program
    read = read_source(asked, _given(wanted), source, of_all, folder, run.progress)
    chosen, left_out = read.chosen, left_out_of(read, program, is_physical=is_physical(wanted.copy))
    findings = (*read.findings, *findings_of_refused(read.refused))
    is_stuck = left_out != LeftOut() and not can_leave_out(wanted.copy)
    stops = left_out.stops or is_stuck
    _write_statements(folder, chosen.statements)
    known = _Known(_not_run(chosen))
    if not stops and (chosen.statements or is_physical(wanted.copy)):
        known.measured = _not_run(chosen, _INTERRUPTED)
        try:
            with copied(_given(wanted), source, program, left_out, folder, run.progress) as data:
                _on_copies(run, read, data, known, warnings)
        except (KeyboardInterrupt, InterruptionError):
            # What is known is told: the catalogs' findings most of all.
            known.is_interrupted = True
    if known.refusal is not None:
        findings = (*findings, known.refusal)
    if stops:
        warnings.append(_PLAIN_DUMP if is_stuck and not left_out.stops else _STOPPED)
    warnings += [read.others] if read.others else []
    measured = known.measured
    answer = answer_of(
        source=(source.name, source.resolved.server.version),
        versions=(builds.old.version, builds.new.version),
        folder=folder,
        findings=findings,
        measured=measured.statements,
        mended=known.mended,
        result=measured.result,
        experiment=str(folder / EXPERIMENT_FOLDER) if measured.result is not None else "",
        margin=wanted.compare.margin,
        warnings=tuple(warnings),
        traffic=measured.traffic,
        is_interrupted=known.is_interrupted,
    )
    return answer.model_copy(update={"pg_upgrade": known.brought, "states": known.states})


def _not_run(chosen: Wanted, why: str = NOT_MADE) -> MeasuredTimes:
    return MeasuredTimes(single_statements(chosen.statements, chosen.share, chosen.left_out, {}, None, why))


def _on_copies(run: _Run, read: SourceRead, data: str, known: _Known, warnings: list[str]) -> None:
    """Measure what there is to measure on the data, as `--dataset` has them, and note it in `known`.

    Raises KeyboardInterrupt and InterruptionError where somebody stops it.
    """
    wanted, chosen, new = run.wanted, read.chosen, run.builds.new
    if is_physical(wanted.copy):
        known.brought, known.refusal = run_pg_upgrade(new, data, run.folder, run.progress)
    if known.refusal is not None:
        known.measured = _not_run(chosen, _REFUSED)
        warnings.append("no statement was compared, since pg_upgrade refuses")
        return
    if not chosen.statements:
        return
    request = _request(run, data)
    known.measured = _measure(request, chosen, read.refused, run.folder, run.progress)
    if known.measured.is_interrupted:
        raise KeyboardInterrupt
    asked = _states_of(request, read, known.measured, new, _checksums(wanted, run.source))
    known.states = measured_states(asked, run.folder, _STATES_SHARE * run.left_s, run.progress)
    if slower := slower_statements(chosen, known.measured):
        known.mended, why = proven_fixes(request, new, slower, run.folder, run.left_s, run.progress)
        known.is_interrupted = why == INTERRUPTED
        warnings += [why] if why else []


def _given(wanted: UpgradeRequest) -> tuple[str, str]:
    """What the data are, and where their copies lie, as typed."""
    return wanted.copy, wanted.compare.storage


def _states_of(
    request: CompareRequest, read: SourceRead, measured: MeasuredTimes, build: Build, checksums: str
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
    found, result, is_interrupted = _compare(request, chosen.statements, folder, progress)
    statements = single_statements(
        chosen.statements, chosen.share, chosen.left_out, found, result, refused=refused
    )
    return MeasuredTimes(statements, result, is_interrupted=is_interrupted)


def _program(wanted: UpgradeRequest, origins: Sequence[Origin] = ORIGINS) -> Build:
    """A build whose pg_dump reads the source, or whose pg_restore reads the dump that was given.

    Of the new version, by whichever builder has it. Raises UsageError where none has pg_dump.
    """
    usual = resolve(wanted.to, origins)
    of_major = (each for origin in origins for each in origin.builds() if each.major == usual.major)
    program = PG_RESTORE if is_given_dump(wanted.copy) else PROGRAM
    having = (each for each in (usual, *of_major) if (Path(each.bin_directory) / program).exists())
    build = next(having, usual)
    if program == PROGRAM:
        refuse_without_program(build, OPTION, "pgassay builds install apt:{major}")
    return build


def _write_statements(folder: Path, statements: Sequence[Statement]) -> None:
    (folder / STATEMENTS_FILE).write_text(timed_text(statements))


def _request(run: _Run, data: str) -> CompareRequest:
    compare, source, builds = run.wanted.compare, run.source, run.builds
    known = frozenset(name.lower() for name in build_settings(builds.old))
    given = parse_settings(compare.settings)
    settings = settings_of(source, given, builds.old, usable_memory_bytes(), known)
    asked = {name: value for name, value in settings.items() if _is_given(source, name)}
    checksums = _checksums(run.wanted, source)
    patch = f"+checksums={checksums}" if checksums else ""
    return replace(
        compare,
        factors=(f"config={','.join(f'{each}{patch}' for each in builds.levels)}",),
        workload=f"sql:{run.folder / STATEMENTS_FILE}",
        dataset=data,
        cache=compare.cache or "warm-pages",
        settings=(*compare.settings, *(f"{name}={value}" for name, value in asked.items())),
        baseline="shipped",
        max_time_s=max(_TIME_MIN_S, run.left_s),
        out=run.folder / EXPERIMENT_FOLDER,
    )


def _is_given(source: SourceServer, name: str) -> bool:
    return any(key.lower() == name and each.given for key, each in source.settings.items())


def _compare(
    request: CompareRequest, statements: Sequence[Statement], folder: Path, progress: Progress
) -> tuple[dict[str, ComparedStatement], CompareResult | None, bool]:
    """Every statement on both versions, and the comparison of those that run and return the same on both.

    And whether it was interrupted: the comparison is then of the trials until that.
    """
    parsed = parse_request(request, progress.stage)
    experiment = plan(parsed, progress.stage)
    old, new = _arms(experiment.arms)
    began = time.monotonic()
    found = run_on_both(
        (old.spec, new.spec), experiment.protocol.cache, statements, request.max_time_s, progress.stage
    )
    alike = [each for each in statements if not _why_not(found[each.name])]
    if not alike:
        return found, None, False
    _write_statements(folder, alike)
    left_s = max(_TIME_MIN_S, _COMPARED_SHARE * (request.max_time_s - (time.monotonic() - began)))
    stored: StoredExperiment | None
    is_interrupted = False
    try:
        # Of all statements each is to be decided, and not the sum of them alone.
        stored = run_parsed(
            parse_request(replace(request, max_time_s=left_s), progress.stage), progress, until_decided=False
        )
    except InterruptionError:
        stored, is_interrupted = stored_so_far(folder / EXPERIMENT_FOLDER), True
    _write_statements(folder, statements)
    return found, None if stored is None else analyse(stored), is_interrupted


def _arms(arms: Sequence[Arm]) -> Iterator[Arm]:
    yield next(arm for arm in arms if arm.role == "control")
    yield next(arm for arm in arms if arm.role not in ("control", "twin"))


def _why_not(each: ComparedStatement) -> bool:
    failed = each.before_error or each.after_error or each.unended is not None
    return bool(failed) or not (each.same_rows or each.varies)
