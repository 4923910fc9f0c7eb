"""The answer of `pgassay upgrade`: what is in the way, what changes, and every statement on both versions."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.result import Interval, Verdict

UPGRADE_SCHEMA = 1
# In the way: the new server does not start, or something is missing on it. Work: to be done before, or right
# after. Changed: it works, and does something else.
Severity = Literal["in the way", "work", "changed"]
StatementVerdict = Literal[
    "fails", "other rows", "slower", "not decided", "as fast", "faster", "fails on both", "not run"
]
StateOfServer = Literal["before ANALYZE", "new defaults"]
Decision = Literal["go", "go after work", "look", "in the way"]


class UpgradeFinding(Frozen):
    """Something that the upgrade changes by itself. `where`: the file and line, or the object."""

    id: str
    severity: Severity
    sentence: str
    where: str = ""
    remedy: str = ""


class UpgradedStatement(Frozen):
    """A statement on both versions.

    ratio: how many times as fast it is on the new one, with its 95 % interval; None where it was not timed.
    before_ms, after_ms: medians of its trials. share: of the source's time, None where nobody counted.
    plan: what changed in the executed plan, in sentences. reason: why it is not timed, or the server's words.
    calls: of captured traffic how often the family is executed in it.
    fix, fix_sql: what was proven on the new version to make a slower one faster, in words and to be run.
    """

    name: str
    sql: str
    verdict: StatementVerdict
    ratio: float | None = None
    interval: Interval | None = None
    before_ms: float | None = None
    after_ms: float | None = None
    share: float | None = None
    plan: tuple[str, ...] = ()
    reason: str = ""
    fix: str = ""
    fix_sql: str = ""
    calls: int | None = Field(default=None, exclude_if=lambda calls: calls is None)


class PgUpgrade(Frozen):
    """What pg_upgrade did to a physical copy, and how long it took on this machine.

    programs: from which version to which, of whose builds; mode: how it moved the files. statistics,
    extended_statistics: so many of so many columns' and of CREATE STATISTICS' came along.
    """

    programs: str
    mode: str
    seconds: float
    statistics: tuple[int, int]
    extended_statistics: tuple[int, int]


class UpgradeState(Frozen):
    """The new version in another state, against itself with ANALYZE and the source's own settings.

    id: `before ANALYZE`, or `new defaults`. settings: of those that differ the source's value and the new
    version's. sentence: what was found, or why it was not measured. statements: above 1 is faster than with
    ANALYZE and the source's settings.
    """

    id: StateOfServer
    sentence: str
    settings: dict[str, tuple[str, str]] = Field(default_factory=dict)
    statements: tuple[UpgradedStatement, ...] = ()


class UpgradeTraffic(Frozen):
    """Captured traffic that was played on copies in both versions.

    speed: None for as fast as the order of the statements allows. plays: on the old version and on the new
    one. otherwise: of the captured time, what came out otherwise than in the capture on either, medians of
    the plays. untimed: families without a line, which took `untimed_share` of the captured time; whether they
    fail or return other rows was looked at. verdict, ratio, interval: of the whole by `metric`, above 1 for
    faster; note: why there is no verdict.
    """

    folder: str
    speed: float | None
    sessions: int
    statements: int
    seconds_captured: float
    plays: tuple[int, int]
    otherwise: tuple[float, float]
    untimed: int
    untimed_share: float
    metric: str
    verdict: Verdict
    ratio: float | None
    interval: Interval | None
    note: str


class UpgradeResult(Frozen):
    """The contract for scripts; schema in schemas/upgrade.schema.json.

    from_version, to_version: of the builds that were measured; `source_version`: of the server itself.
    experiment: the folder of the comparison, '' where nothing was timed. headline: the decision in sentences.
    why: where the time of all statements together went otherwise, in sentences. traffic: where --capture
    was given. pg_upgrade: where --copy was a data folder. states: the new version without ANALYZE, and
    without the source's own settings. interrupted: it was stopped, and is what was known then.
    """

    schema_: int = Field(default=UPGRADE_SCHEMA, alias="schema")
    folder: str
    source: str
    source_version: str
    from_version: str
    to_version: str
    decision: Decision
    headline: str
    findings: tuple[UpgradeFinding, ...]
    statements: tuple[UpgradedStatement, ...]
    why: tuple[str, ...] = ()
    experiment: str = ""
    blocks: int = 0
    margin: float
    warnings: tuple[str, ...] = ()
    traffic: UpgradeTraffic | None = Field(default=None, exclude_if=lambda traffic: traffic is None)
    pg_upgrade: PgUpgrade | None = Field(default=None, exclude_if=lambda found: found is None)
    states: tuple[UpgradeState, ...] = Field(default=(), exclude_if=lambda states: not states)
    interrupted: bool = Field(default=False, exclude_if=lambda interrupted: not interrupted)
