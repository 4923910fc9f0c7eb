"""From what was found to the answer: the decision, what is in the way, the statements, slower ones first."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pgassay.model.result import ArmResult, CompareResult
from pgassay.model.upgrades.answer import (
    Decision,
    StatementVerdict,
    UpgradedStatement,
    UpgradeFinding,
    UpgradeResult,
)
from pgassay.model.workload import Statement
from pgassay.upgrade.both import ComparedStatement
from pgassay.upgrade.fixes import Mended
from pgassay.upgrade.scratch import Refused
from pgassay.words import plural

_ORDER: Sequence[StatementVerdict] = (
    "fails", "other rows", "slower", "not decided", "faster", "as fast", "fails on both", "not run",
)  # fmt: skip
_MOVED_MAX = 3
_SEVERITIES = ("in the way", "work", "changed")
_VERDICTS: Mapping[str, StatementVerdict] = {"slower": "slower", "faster": "faster", "equivalent": "as fast"}


def finding_of_refused(refused: Refused) -> UpgradeFinding:
    """An object that the new version can't have."""
    return UpgradeFinding(
        id=f"refused:{refused.kind} {refused.name}",
        severity="in the way",
        sentence=f"the {refused.kind} {refused.name} can't be made in the new version: {refused.words}",
        where=f"{refused.kind} {refused.name}",
        remedy="drop it before the upgrade, and make it again as the new version has it",
    )


def answer_of(
    *,
    source: tuple[str, str],
    versions: tuple[str, str],
    folder: Path,
    findings: Sequence[UpgradeFinding],
    chosen: Sequence[Statement],
    share: Mapping[str, float],
    left_out: Sequence[tuple[str, str, str]],
    found: Mapping[str, ComparedStatement],
    mended: Mapping[str, Mended],
    result: CompareResult | None,
    experiment: str,
    margin: float,
    warnings: tuple[str, ...],
) -> UpgradeResult:
    """All of it in one document; `source`: its name and version, `left_out`: name, SQL and reason."""
    timed = _timed(result)
    statements = [_statement(each, share, found.get(each.name), timed) for each in chosen]
    statements = [_with_fix(each, mended.get(each.name)) for each in statements]
    statements += [
        UpgradedStatement(name=name, sql=sql, verdict="not run", share=share.get(name), reason=reason)
        for name, sql, reason in left_out
    ]
    statements.sort(key=lambda each: (_ORDER.index(each.verdict), each.ratio or 1.0))
    ordered = sorted(findings, key=lambda each: _SEVERITIES.index(each.severity))
    decision = _decision(ordered, statements)
    return UpgradeResult(
        schema=1,
        folder=str(folder),
        source=source[0],
        source_version=source[1],
        from_version=versions[0],
        to_version=versions[1],
        decision=decision,
        headline=_headline(decision, versions, ordered, statements),
        findings=tuple(ordered),
        statements=tuple(statements),
        experiment=experiment,
        why=_why(result),
        blocks=result.blocks if result is not None else 0,
        margin=margin,
        warnings=(*warnings, *(result.warning_sentences if result is not None else ())),
    )


def slower_of(result: CompareResult, names: Sequence[str]) -> list[str]:
    """The statements that are proven to be slower on the new version; `names`: those that were timed."""
    pairs = _timed(result)
    return [
        name
        for name in names
        if (pair := pairs.get(name) or (pairs.get("") if len(names) == 1 else None)) is not None
        and pair[1].verdict == "slower"
        and not pair[1].withheld
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


def _timed(result: CompareResult | None) -> dict[str, tuple[ArmResult, ArmResult]]:
    """By statement its arms: the old version's, the new one's. One statement alone is the experiment."""
    if result is None:
        return {}
    families = {each.name: each.arms for each in result.statements}
    pairs = {}
    for name, arms in families.items() or {"": result.arms}.items():
        control = next((arm for arm in arms if arm.verdict == "control"), None)
        other = next((arm for arm in arms if arm.verdict != "control"), None)
        if control is not None and other is not None:
            pairs[name] = (control, other)
    return pairs


def _statement(
    statement: Statement,
    share: Mapping[str, float],
    seen: ComparedStatement | None,
    timed: Mapping[str, tuple[ArmResult, ArmResult]],
) -> UpgradedStatement:
    made = UpgradedStatement(
        name=statement.name, sql=statement.sql, verdict="not run", share=share.get(statement.name)
    )
    if seen is None:
        return made.model_copy(update={"reason": "the schema can't be made in the new version"})
    made = made.model_copy(update={"plan": seen.plan})
    if seen.before_error and seen.after_error:
        return made.model_copy(update={"verdict": "fails on both", "reason": seen.after_error})
    if seen.after_error or seen.before_error:
        where = "" if seen.after_error else "on the old version alone: "
        verdict = "fails" if seen.after_error else "fails on both"
        return made.model_copy(
            update={"verdict": verdict, "reason": where + (seen.after_error or seen.before_error)}
        )
    if not seen.same_rows and not seen.varies:
        reason = f"{seen.rows[0]:,} rows before, {seen.rows[1]:,} after"
        if seen.rows[0] == seen.rows[1]:
            reason = (
                f"{plural(seen.rows[0], 'row')} in both, with other values (or an order that LIMIT cuts, "
                "a volatile function, a type that is another)"
            )
        return made.model_copy(update={"verdict": "other rows", "reason": reason})
    pair = timed.get(statement.name) or (timed.get("") if len(timed) == 1 else None)
    if pair is None:
        return made.model_copy(update={"verdict": "not decided", "reason": "it was not timed"})
    before, after = pair
    ends = after.interval
    reasons = ["the plan is the same in both"] if not seen.plan else []
    reasons += ["its rows are others each time that it runs, and were not compared"] if seen.varies else []
    return made.model_copy(
        update={
            "verdict": _VERDICTS.get(after.verdict, "not decided") if not after.withheld else "not decided",
            "reason": "; ".join(reasons),
            "ratio": after.ratio,
            "interval": ends if ends is not None and None not in ends else None,
            "before_ms": None if before.median is None else 1000 * before.median,
            "after_ms": None if after.median is None else 1000 * after.median,
        }
    )


def _decision(findings: Sequence[UpgradeFinding], statements: Sequence[UpgradedStatement]) -> Decision:
    if any(each.severity == "in the way" for each in findings):
        return "in the way"
    if any(each.verdict in ("fails", "other rows", "slower") for each in statements):
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
    blocking = sum(each.severity == "in the way" for each in findings)
    work = sum(each.severity == "work" for each in findings)
    said = {
        "in the way": f"not yet: {plural(blocking, 'thing')} in the way",
        "look": "look at the statements below first",
        "go after work": f"go, with {plural(work, 'thing')} to do",
        "go": "go: nothing is in the way",
    }[decision]
    counts = [
        f"{sum(each.verdict == verdict for each in statements)} {verdict}"
        for verdict in _ORDER
        if any(each.verdict == verdict for each in statements)
    ]
    told = f" Of {plural(len(statements), 'statement')}: {', '.join(counts)}." if statements else ""
    return f"From {versions[0]} to {versions[1]}: {said}.{told}"
