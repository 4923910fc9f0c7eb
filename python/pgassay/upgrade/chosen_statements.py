"""Which statements are run on both versions: those of a file, those that the server counted, or traffic."""

from collections.abc import Sequence
from dataclasses import dataclass

from pgassay.environment.server.sessions import ControlSession
from pgassay.experiment.running.same_results import returns_rows
from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.progress import Progress
from pgassay.tune.inputs.capture import executed
from pgassay.tune.source.counted import read_counted
from pgassay.tune.source.gather import gather
from pgassay.tune.source.source_server import SourceServer
from pgassay.tune.source.statement_files import plain_text
from pgassay.tune.tuned_statements import measured, statements_of
from pgassay.upgrade.traffic import traffic_workload
from pgassay.upgrade.version_times import MeasuredTimes
from pgassay.workloads.registry import parse_workload
from pgassay.workloads.statements import changes_data


@dataclass(frozen=True)
class StatementChoice:
    """What to run as typed: a capture with its options, or a file, or ''; at most so many statements."""

    capture: str
    workload: str
    statements: int


@dataclass(frozen=True)
class Wanted:
    """The statements to run, with their share of the source's time, and what was left out with its reason.

    `traffic`: the capture that they are of.
    """

    statements: tuple[Statement, ...]
    share: dict[str, float]
    left_out: tuple[tuple[str, str, str], ...]
    traffic: WorkloadSpec | None = None


def statements_to_run(
    asked: StatementChoice, source: SourceServer, session: ControlSession, progress: Progress
) -> Wanted:
    """Those of the capture, of the file, or of the server; raises UsageError where there are none."""
    if asked.capture:
        progress.stage("reading the capture")
        traffic = traffic_workload(asked.capture, source.resolved.server.dbname, asked.statements)
        return Wanted(traffic.statements, {}, (), traffic)
    if asked.workload:
        tuned = statements_of(parse_workload(asked.workload))
        share: dict[str, float] = {}
        left: list[tuple[str, str, str]] = []
    else:
        progress.stage("reading the statements of the server")
        counted = read_counted(source, session, asked.statements)
        gathered = gather(source, session, counted.chosen, {}, iter(()))
        tuned = gathered.statements
        share = {each.name: each.share for each in counted.chosen}
        left = [(each.name, each.sql, each.reason) for each in gathered.left_out]
    kept = []
    for each in measured(tuned):
        statement = Statement(name=each.name, sql=each.sql)
        if not each.of.writes and not returns_rows(statement):
            left.append((each.name, each.sql, "it neither returns rows nor changes any"))
        elif each.set_index == 0:
            kept.append(Statement(name=each.of.name, sql=each.sql))
    return Wanted(tuple(kept), share, tuple(left))


def timed_text(statements: Sequence[Statement]) -> str:
    """The statements for --workload: each that writes in a transaction of its own, which is rolled back."""
    parts = []
    for each in statements:
        if changes_data(each.sql):
            ended = each.sql.rstrip().removesuffix(";")
            parts.append(f"-- name: {each.name}\nBEGIN;\n{ended}\n;\nROLLBACK;\n")
        else:
            parts.append(plain_text([each]))
    return "\n".join(parts)


def slower_statements(chosen: Wanted, measured: MeasuredTimes) -> list[Statement]:
    """What is slower on the new version, with values: of traffic those that came most often."""
    names = {each.name for each in measured.statements if each.verdict == "slower"}
    slower = [each for each in chosen.statements if each.name in names]
    if chosen.traffic is None or not slower:
        return slower
    return executed(chosen.traffic, slower)
