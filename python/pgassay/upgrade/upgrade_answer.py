"""From what was found to the answer: the decision, what is in the way, the statements, slower ones first."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pgassay.model.result import CompareResult
from pgassay.model.upgrades.upgrade_answer import (
    Decision,
    StatementVerdict,
    UpgradedStatement,
    UpgradeFinding,
    UpgradeResult,
    UpgradeTraffic,
)
from pgassay.model.workload import Statement
from pgassay.upgrade.both_versions import CALLS_WHAT_WRITES, ComparedStatement
from pgassay.upgrade.empty_server import Refused
from pgassay.upgrade.fixes import Mended
from pgassay.upgrade.refused_views import VIEWS, bare, goes_along, lacking, why_it_fails
from pgassay.upgrade.version_texts import TELLS_VERSION, tells_version
from pgassay.upgrade.version_times import Pair, pairs_of, with_times
from pgassay.words import percent, plural

NOT_MADE = "the schema can't be made in the new version"
_ORDER: Sequence[StatementVerdict] = (
    "fails", "other rows", "slower", "not decided", "faster", "as fast", "fails on both", "not run",
)  # fmt: skip
_BAD: Sequence[StatementVerdict] = ("fails", "other rows", "slower")
_TOLD_OF_TRAFFIC: Sequence[StatementVerdict] = (*_BAD, "faster", "not decided", "fails on both", "not run")
_MOVED_MAX, _NAMED_MAX = 3, 3
_REMEDY_OF_VIEWS = "drop it before the upgrade, and make it again as the new version has it"
_REMEDY_OF_OTHERS = "change its definition before the upgrade to one that both versions take"
_INTERRUPTED = "Interrupted: this is what was known until then. "
_SEVERITIES = ("in the way", "work", "changed")


def findings_of_refused(refused: Sequence[Refused]) -> list[UpgradeFinding]:
    """Objects that the new version can't have; what fails for want of a refused table is told with that.

    So is what goes with a refused view. Other views that read it have a line each: they are dropped as well.
    """
    tables = {bare(each.name) for each in refused if each.kind.endswith("table")}
    views = {bare(each.name): each.name for each in refused if each.kind in VIEWS}
    first: list[Refused] = []
    behind: dict[str, list[str]] = {name: [] for name in (*tables, *views)}
    for each in refused:
        name = lacking(each.words)
        if name in tables or goes_along(each, views.values()):
            behind[name] += [f"{each.kind} {each.name}"] if bare(each.name) != name else []
        else:
            first.append(each)
    return [_finding_of_refused(each, behind.get(bare(each.name), ())) for each in first]


def _finding_of_refused(refused: Refused, behind: Sequence[str]) -> UpgradeFinding:
    sentence = f"the {refused.kind} {refused.name} can't be made in the new version: {refused.words}"
    if behind:
        named = ", ".join(behind[:_NAMED_MAX]) + (" …" if len(behind) > _NAMED_MAX else "")
        sentence += f"; nor can {plural(len(behind), 'object')} that need it ({named})"
    return UpgradeFinding(
        id=f"refused:{refused.kind} {refused.name}",
        severity="in the way",
        sentence=sentence,
        where=f"{refused.kind} {refused.name}",
        remedy=_REMEDY_OF_VIEWS if refused.kind in VIEWS else _REMEDY_OF_OTHERS,
    )


def finding_of_function(refused: Refused) -> UpgradeFinding:
    """A function that is made, and fails when it is called."""
    return UpgradeFinding(
        id=f"function:{refused.name}",
        severity="work",
        sentence=f"the function {refused.name} does not parse in the new version: {refused.words}",
        where=f"function {refused.name}",
        remedy="write it as both versions understand it, or change it right after the upgrade",
    )


def answer_of(
    *,
    source: tuple[str, str],
    versions: tuple[str, str],
    folder: Path,
    findings: Sequence[UpgradeFinding],
    measured: Sequence[UpgradedStatement],
    mended: Mapping[str, Mended],
    result: CompareResult | None,
    experiment: str,
    margin: float,
    warnings: tuple[str, ...],
    traffic: UpgradeTraffic | None = None,
    is_interrupted: bool = False,
) -> UpgradeResult:
    """All of it in one document; `source`: its name and version. `is_interrupted`: what was known then."""
    statements = [_with_fix(each, mended.get(each.name)) for each in measured]
    statements.sort(key=lambda each: (_ORDER.index(each.verdict), each.ratio or 1.0))
    ordered = sorted(findings, key=lambda each: _SEVERITIES.index(each.severity))
    decision = _decision(ordered, statements)
    if is_interrupted and decision != "in the way":
        decision = "look"
    headline = (
        _headline(decision, versions, ordered, statements)
        if traffic is None
        else _headline_of_traffic(versions, ordered, statements, margin)
    )
    return UpgradeResult(
        schema=1,
        folder=str(folder),
        source=source[0],
        source_version=source[1],
        from_version=versions[0],
        to_version=versions[1],
        decision=decision,
        headline=f"{_INTERRUPTED}{headline}" if is_interrupted else headline,
        findings=tuple(ordered),
        statements=tuple(statements),
        experiment=experiment,
        why=_why(result),
        blocks=result.blocks if result is not None else 0,
        margin=margin,
        warnings=(*warnings, *(result.warning_sentences if result is not None else ())),
        traffic=traffic,
        interrupted=is_interrupted,
    )


def single_statements(
    chosen: Sequence[Statement],
    share: Mapping[str, float],
    left_out: Sequence[tuple[str, str, str]],
    found: Mapping[str, ComparedStatement],
    result: CompareResult | None,
    why_not: str = NOT_MADE,
    refused: Sequence[Refused] = (),
) -> list[UpgradedStatement]:
    """Statements that ran one by one on both versions; `left_out`: name, SQL and reason of the others.

    `why_not`: why those did not run that are not in `found`. `refused`: what both copies are without.
    """
    timed = pairs_of(result)
    return [
        *(
            _statement(each, share, found[each.name], timed, refused)
            if each.name in found
            else UpgradedStatement(
                name=each.name, sql=each.sql, verdict="not run", share=share.get(each.name), reason=why_not
            )
            for each in chosen
        ),
        *(
            UpgradedStatement(name=name, sql=sql, verdict="not run", share=share.get(name), reason=reason)
            for name, sql, reason in left_out
        ),
    ]


def _with_fix(statement: UpgradedStatement, mended: Mended | None) -> UpgradedStatement:
    if mended is None:
        return statement
    return statement.model_copy(update={"fix": mended.words, "fix_sql": mended.sql})


def _why(result: CompareResult | None) -> tuple[str, ...]:
    """What moved between the versions, the greatest first."""
    found = result.explanations if result is not None else ()
    return tuple(
        f"{each.process}, {each.item}: {1000 * each.seconds:+,.1f} ms for all statements once"
        for explanation in found
        for each in explanation.moved[:_MOVED_MAX]
    )


def _statement(
    statement: Statement,
    share: Mapping[str, float],
    seen: ComparedStatement,
    timed: Mapping[str, Pair],
    refused: Sequence[Refused],
) -> UpgradedStatement:
    made = UpgradedStatement(
        name=statement.name, sql=statement.sql, verdict="not run", share=share.get(statement.name)
    )
    made = made.model_copy(update={"plan": seen.plan or ()})
    if seen.unended is not None:
        return made.model_copy(update={"verdict": seen.unended[0], "reason": seen.unended[1]})
    if CALLS_WHAT_WRITES in (seen.before_error, seen.after_error):
        return made.model_copy(update={"reason": CALLS_WHAT_WRITES})
    if lacking(seen.after_error) and (reason := why_it_fails(statement.sql, refused)):
        return made.model_copy(update={"verdict": "fails", "reason": reason})
    if seen.before_error and seen.after_error:
        return made.model_copy(update={"verdict": "fails on both", "reason": seen.after_error})
    if seen.after_error or seen.before_error:
        where = "" if seen.after_error else "on the old version alone: "
        verdict = "fails" if seen.after_error else "fails on both"
        return made.model_copy(
            update={"verdict": verdict, "reason": where + (seen.after_error or seen.before_error)}
        )
    is_version = seen.rows[0] == seen.rows[1] and not seen.same_rows and tells_version(statement.sql)
    if not seen.same_rows and not seen.varies and not is_version:
        reason = f"{seen.rows[0]:,} rows before, {seen.rows[1]:,} after"
        if seen.rows[0] == seen.rows[1]:
            reason = (
                f"{plural(seen.rows[0], 'row')} in both, with different values (or LIMIT without "
                "a unique order, a volatile function, a changed type)"
            )
        return made.model_copy(update={"verdict": "other rows", "reason": reason})
    pair = timed.get(statement.name) or (timed.get("") if len(timed) == 1 else None)
    reasons = ["the plan is the same in both"] if seen.plan == () else []
    reasons += ["its rows differ in each run, and were not compared"] if seen.varies else []
    reasons += [TELLS_VERSION] if is_version else []
    return with_times(made, pair, reasons)


def _decision(findings: Sequence[UpgradeFinding], statements: Sequence[UpgradedStatement]) -> Decision:
    if any(each.severity == "in the way" for each in findings):
        return "in the way"
    if any(each.verdict in _BAD for each in statements):
        return "look"
    if any(each.severity == "work" for each in findings):
        return "go after work"
    return "go"


def _headline(
    decision: Decision,
    versions: tuple[str, str],
    findings: Sequence[UpgradeFinding],
    statements: Sequence[UpgradedStatement],
) -> str:
    work = sum(each.severity == "work" for each in findings)
    said = {
        "in the way": f"not yet: {_in_the_way(findings)}",
        "look": "check the statements below first",
        "go after work": f"go, with {plural(work, 'thing')} to do",
        "go": "go: nothing is in the way",
    }[decision]
    number = _numbers(statements)
    counts = [_counted(number[verdict], verdict) for verdict in _ORDER if number[verdict]]
    told = f" Of {plural(len(statements), 'statement')}: {', '.join(counts)}." if statements else ""
    return f"From {versions[0]} to {versions[1]}: {said}.{told}"


def _numbers(statements: Sequence[UpgradedStatement]) -> dict[StatementVerdict, int]:
    return {verdict: sum(each.verdict == verdict for each in statements) for verdict in _ORDER}


def _counted(number: int, verdict: StatementVerdict) -> str:
    """'1 fails', '2 fail on both', '2 slower'."""
    return f"{number} {verdict if number == 1 else verdict.replace('fails', 'fail')}"


def _blocking(findings: Sequence[UpgradeFinding]) -> list[str]:
    """The names of what is in the way: of a setting, an extension, a view."""
    return [each.id.partition(":")[2] or each.id for each in findings if each.severity == "in the way"]


def _in_the_way(findings: Sequence[UpgradeFinding]) -> str:
    """'2 things in the way (old_snapshot_threshold, adminpack)'."""
    names = _blocking(findings)
    listed = ", ".join(names[:_NAMED_MAX]) + (", …" if len(names) > _NAMED_MAX else "")
    return f"{plural(len(names), 'thing')} in the way ({listed})"


def _headline_of_traffic(
    versions: tuple[str, str],
    findings: Sequence[UpgradeFinding],
    statements: Sequence[UpgradedStatement],
    margin: float,
) -> str:
    """Whether the new version is safe for the traffic, and how many families are what."""
    number = _numbers(statements)
    judged = len(statements) - number["not run"]
    same = f"{number['as fast']} of {judged} statement families the same within {percent(margin)}"
    others = [_counted(number[verdict], verdict) for verdict in _TOLD_OF_TRAFFIC if number[verdict]]
    major = versions[1].partition(".")[0]
    if any(number[verdict] for verdict in _BAD):
        said = f"{major} is not safe for this traffic yet"
    elif number["not decided"]:
        said = f"{major} is safe for this traffic as far as decided"
    else:
        said = f"{major} is safe for this traffic"
    before = f"not yet: {_in_the_way(findings)}. " if _blocking(findings) else ""
    return f"From {versions[0]} to {versions[1]}: {before}{said}: {', '.join([same, *others])}."
