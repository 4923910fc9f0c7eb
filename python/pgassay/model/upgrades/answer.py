"""The answer of `pgassay upgrade`: what is in the way, what changes, and every statement on both versions."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.result import Interval

UPGRADE_SCHEMA = 1
# In the way: the new server does not start, or something is missing on it. Work: to be done before, or right
# after. Changed: it works, and does something else.
Severity = Literal["in the way", "work", "changed"]
StatementVerdict = Literal[
    "fails", "other rows", "slower", "not decided", "as fast", "faster", "fails on both", "not run"
]
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


class UpgradeResult(Frozen):
    """The contract for scripts; schema in schemas/upgrade.schema.json.

    from_version, to_version: of the builds that were measured; `source_version`: of the server itself.
    experiment: the folder of the comparison, '' where nothing was timed. headline: the decision in sentences.
    why: where the time of all statements together went otherwise, in sentences.
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
