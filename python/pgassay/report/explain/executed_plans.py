"""The section of plans that were executed: what they found in brief, what differs; on a page their trees."""

from collections.abc import Iterator, Mapping

from pgassay.model.arm import Arm
from pgassay.model.plans.executed_plan import PlanChanged
from pgassay.plans.experiment_plans import ArmPlan, arm_plans
from pgassay.plans.node_wording import milliseconds
from pgassay.report.compare.material import Material
from pgassay.report.explain.plan_lines import heading, tree_lines
from pgassay.report.section import (
    EVERYWHERE,
    HTML,
    QUIET,
    Block,
    Bullets,
    Code,
    Fold,
    Item,
    Paragraph,
    Section,
    Subheading,
    Table,
    Tree,
    bullets,
    plain_table,
)
from pgassay.report.text import clean, figure, join, percent_rounded, plural, seconds
from pgassay.words import is_multiple

HEADING = "Plans with their work"
# In the short outputs: the page and --json have all of them.
_LINES_MAX = 8
_CHANGES_MAX = 4
_COSTS_HEADING = "What EXPLAIN ANALYZE adds to a statement's time"
_COSTS_MAX = 24
# Caches in which a trial's statement and its plan afterwards find much the same.
_ALIKE = ("warm-buffers", "warm-pages", "as-is")


def section(material: Material) -> Section:
    """What executing the plans found; nothing where the experiment executes none."""
    plans = arm_plans(material.stored)
    if not plans:
        return Section(HEADING, "executed-plans", ())
    changes = material.result.plan_changes
    blocks: list[Block] = [Paragraph(_cost(material, plans), QUIET)]
    costs = _costs(material, plans)
    if costs is not None:
        blocks += [Subheading(_COSTS_HEADING), costs]
    if changes:
        arms = {arm.name: arm for arm in material.stored.experiment.arms}
        lines = [_changed(material, change, arms) for change in changes]
        blocks.append(_listed(lines, "Differences from the control's plans"))
        printed = list(dict.fromkeys(note for change in changes for note in change.notes))
        if printed:
            blocks.append(_listed(printed, "What the versions print differently"))
    findings = list(_findings(material, plans))
    if findings:
        listed = _listed(findings, "Findings in the plans")
        blocks.append(Bullets(listed.items, listed.title, where=EVERYWHERE - HTML))
    refused = list(_refusals(material, plans))
    if refused:
        blocks.append(bullets(refused[:_LINES_MAX], title="Not executed", where=EVERYWHERE - HTML))
    statements = dict.fromkeys(plan.statement for plan in plans)
    differing = {change.statement for change in changes}
    blocks += [
        _folded(material, [plan for plan in plans if plan.statement == name], is_open=name in differing)
        for name in statements
    ]
    return Section(HEADING, "executed-plans", tuple(blocks), link="Plans with their work")


def _listed(lines: list[str], title: str) -> Bullets:
    shown = [Item(line) for line in lines[:_LINES_MAX]]
    if len(lines) > _LINES_MAX:
        shown.append(Item(f"{len(lines) - _LINES_MAX} more: the page and --json have them", QUIET))
    return Bullets(tuple(shown), title)


def _cost(material: Material, plans: list[ArmPlan]) -> str:
    """What was executed, in which caches, and what that took of the experiment's time."""
    stored = material.stored
    executed = sum(plan.work.executed for plan in plans)
    spent_s = sum(trial.record.plans_s or 0.0 for trial in stored.trials)
    if not executed:
        return "No plan was executed."
    used_s = stored.seconds_used
    share = f", {percent_rounded(spent_s / used_s)} of the experiment's time" if used_s > 0 else ""
    return (
        f"{plural(executed, 'plan')} {'was' if executed == 1 else 'were'} executed once each with EXPLAIN "
        f"(ANALYZE), outside of all timing, {_where(material, plans)}. One execution is an example, "
        f"not a measurement. It took {seconds(spent_s)} in all{share}."
    )


def _where(material: Material, plans: list[ArmPlan]) -> str:
    """In which caches plans were executed, and what was done about those that could write."""
    works = [plan.work for plan in plans if plan.work.executed]
    cache = material.stored.experiment.protocol.cache
    caches = {
        "as-left": f"in the caches as the trial left them (--cache {cache} holds for the trials)",
        "restarted": "on restored data after a start of the server",
    }
    told = " or ".join(words for name, words in caches.items() if any(work.cache == name for work in works))
    if any(work.rolled_back for work in works):
        told += (
            ", and statements that could write were rolled back: their COMMIT is only in the untraced time"
        )
    return told


def _costs(material: Material, plans: list[ArmPlan]) -> Table | None:
    """Each executed plan's time beside the statement's own; what it adds is told in the same caches alone."""
    heads = ("statement", "arm", "under ANALYZE", "untraced", "more by")
    rows = []
    for plan in plans:
        traced_ms, untraced_s = plan.plan.execution_ms if plan.plan else None, plan.untraced_s
        if not plan.work.executed or traced_ms is None or untraced_s is None:
            continue
        is_alike = plan.work.cache == "as-left" and material.stored.experiment.protocol.cache in _ALIKE
        more = added(traced_ms / 1000 / untraced_s) if is_alike and untraced_s > 0 else "other caches"
        times = milliseconds(traced_ms), seconds(untraced_s)
        rows.append((clean(plan.statement), _arm(material, plan), *times, more))
    return plain_table(heads, rows[:_COSTS_MAX], names=2) if rows else None


def added(times: float) -> str:
    """How much longer a statement took under ANALYZE; one that took less was disturbed before, or not now."""
    if times < 1:
        return "nothing seen"
    return f"{figure(times)} × as long" if is_multiple(times) else percent_rounded(times - 1)


def _arm(material: Material, plan: ArmPlan) -> str:
    return material.label_at(plan.arm)


def _changed(material: Material, change: PlanChanged, arms: Mapping[str, Arm]) -> str:
    control, arm = arms[change.control], arms[change.arm]
    names = f"A is {material.label_at(control)}, B {material.label_at(arm)}"
    told = list(change.sentences[:_CHANGES_MAX])
    if len(change.sentences) > _CHANGES_MAX:
        told.append(f"({len(change.sentences) - _CHANGES_MAX} more.)")
    return clean(f"{change.statement} ({names}): {' '.join(told)}")


def _findings(material: Material, plans: list[ArmPlan]) -> Iterator[str]:
    """What is worth a look; once where several arms have it, without their names where all have."""
    found: dict[tuple[str, str], list[str]] = {}
    executed: dict[str, set[str]] = {}
    for plan in plans:
        if not plan.work.executed or plan.plan is None:
            continue
        name = _arm(material, plan)
        executed.setdefault(plan.statement, set()).add(name)
        for finding in plan.plan.findings:
            found.setdefault((plan.statement, finding.sentence), []).append(name)
    for (statement, sentence), names in found.items():
        is_all = len(names) > 1 and {*names} == executed[statement]
        where = "" if is_all else f", {join(list(dict.fromkeys(names)))}"
        yield clean(f"{statement}{where}: {sentence}")


def _refusals(material: Material, plans: list[ArmPlan]) -> Iterator[str]:
    """Why statements were not executed; once where the reason is that of several arms."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for plan in plans:
        if not plan.work.executed:
            reasons.setdefault((plan.statement, plan.work.reason), []).append(_arm(material, plan))
    for (statement, reason), names in reasons.items():
        where = f", {names[0]}" if len(names) == 1 else ""
        yield clean(f"{statement}{where}: {reason}.")


def _folded(material: Material, plans: list[ArmPlan], *, is_open: bool) -> Fold:
    name = plans[0].statement
    sql = {each.name: each.sql for each in plans[0].arm.spec.workload.statements}.get(name, "")
    parts = tuple(block for plan in plans for block in _one(material, plan))
    return Fold(name, ((Code(sql),) if sql else ()) + parts, is_open=is_open, where=HTML)


def _one(material: Material, plan: ArmPlan) -> Iterator[Block]:
    """An arm's plan: how long it took traced and untraced, what is worth a look, the tree."""
    name, work = _arm(material, plan), plan.work
    if plan.plan is None:
        reason = work.reason or "its plan can't be read"
        yield Paragraph(f"{name}: {reason}.")
        return
    if not work.executed:
        yield Paragraph(f"{name}: not executed: {work.reason}.")
        return
    untraced = "" if plan.untraced_s is None else f"; {seconds(plan.untraced_s)} untraced in the trial before"
    found = [finding.sentence for finding in plan.plan.findings]
    kind = f"{work.kind} plan, " if work.kind else ""
    rolled = ", rolled back" if work.rolled_back else ""
    after = ", after a start of the server" if work.cache == "restarted" else ""
    yield Fold(
        f"{name}: {kind}{milliseconds(plan.plan.execution_ms)} under ANALYZE{rolled}{after}{untraced}",
        (
            *((bullets(found),) if found else ()),
            Tree((heading(), *tree_lines(plan.plan))),
        ),
        is_open=False,
    )
