"""Plans as text trees, grouped by what they do, with the nodes that can read asynchronously marked."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

from pgassay.model.aio import can_read_asynchronously
from pgassay.model.arm import Arm
from pgassay.plans.plan_shape import PlanNode, children_of, shape
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare.material import Material
from pgassay.report.compare.trials import in_run_order
from pgassay.report.labels import arm_name, described
from pgassay.report.section import (
    EVERYWHERE,
    HTML,
    QUIET,
    Beside,
    Block,
    Code,
    Fold,
    Paragraph,
    Section,
    Tree,
    TreeLine,
    bullets,
)
from pgassay.report.text import clean, join, plural

# Conditions and figures shown below a node, in this order, when the plan holds them.
_DETAIL_KEYS = (
    "Index Cond",
    "Recheck Cond",
    "Hash Cond",
    "Merge Cond",
    "Join Filter",
    "Filter",
    "Group Key",
    "Sort Key",
    "Sort Method",
    "Workers Planned",
    "Workers Launched",
    "Heap Fetches",
    "Rows Removed by Filter",
)
_ARMS_NAMED_MAX = 8
_JSON_CHARACTERS_MAX = 50_000
# Of these only the presence is compared between plans.
_FIGURE_KEYS = ("Sort Method:", "Workers Launched:", "Heap Fetches:", "Rows Removed by Filter:")


@dataclass(frozen=True)
class PlanLine:
    """One line of a plan's tree; `aio`: this node can use asynchronous reads.

    `differs`: the plan it is compared with has no such line in this place.
    """

    depth: int
    text: str
    aio: bool
    is_detail: bool
    differs: bool = False


@dataclass(frozen=True)
class PlanVariant:
    """A plan, the arms that used it with the number of attempts of each, and its scans in words.

    `used_by`: the same arms by the levels that they alone share.
    """

    trials_by_arm: tuple[tuple[str, int], ...]
    used_by: str
    scans: str
    lines: tuple[PlanLine, ...]
    json_text: str


@dataclass(frozen=True)
class StatementPlans:
    """All plans of one statement; more than one variant means that the arms did not do the same."""

    statement: str
    variants: tuple[PlanVariant, ...]

    @property
    def differ(self) -> bool:
        """Whether more than one plan was used."""
        return len(self.variants) > 1


@dataclass(frozen=True)
class _Found:
    """A plan while the trials are read: the first example and who used it."""

    plan: object
    major: int
    trials_by_arm: Counter[str] = field(default_factory=Counter)
    arms: dict[str, Arm] = field(default_factory=dict)

    def finish(self, everyone: Sequence[Arm]) -> PlanVariant:
        return PlanVariant(
            trials_by_arm=tuple(sorted(self.trials_by_arm.items())),
            used_by=described(tuple(self.arms.values()), everyone),
            scans=scans(self.plan),
            lines=tuple(plan_lines(self.plan, self.major)),
            json_text=json.dumps(self.plan, indent=2, ensure_ascii=False),
        )


def root(plan: object) -> PlanNode | None:
    """The top node of EXPLAIN (FORMAT JSON)'s answer, None when it holds no plan."""
    if isinstance(plan, list) and plan:
        plan = plan[0]
    if isinstance(plan, dict) and isinstance(plan.get("Plan"), dict):
        return dict(plan["Plan"])
    return plan if isinstance(plan, dict) and "Node Type" in plan else None


def nodes(node: PlanNode, depth: int = 0) -> Iterator[tuple[int, PlanNode]]:
    """Every node of a plan with its depth, parents first."""
    yield depth, node
    for child in children_of(node):
        yield from nodes(child, depth + 1)


def statement_plans(stored: StoredExperiment) -> list[StatementPlans]:
    """Per statement, in the order first seen, the different plans and the arms that used them."""
    arms = {arm.id: arm for arm in stored.experiment.arms}
    found: dict[str, dict[str, _Found]] = {}
    shapes: dict[str, str] = {}
    for trial in in_run_order(stored):
        arm = arms.get(trial.record.arm_id)
        if arm is None or trial.record.status != "ok":
            continue
        for statement, plan in trial.plans.items():
            # The same plan comes back in nearly every trial: its shape is worked out once.
            key = json.dumps(plan)
            shapes[key] = plan_shape = shapes.get(key) or shape(plan)
            variants = found.setdefault(statement, {})
            variant = variants.setdefault(plan_shape, _Found(plan, arm.spec.build.major))
            variant.trials_by_arm[arm_name(arm)] += 1
            variant.arms[arm.id] = arm
    return [StatementPlans(statement, _variants(variants)) for statement, variants in found.items()]


def _variants(found: dict[str, _Found]) -> tuple[PlanVariant, ...]:
    everyone = tuple({key: arm for each in found.values() for key, arm in each.arms.items()}.values())
    return mark_differences([each.finish(everyone) for each in found.values()])


def mark_differences(variants: Sequence[PlanVariant]) -> tuple[PlanVariant, ...]:
    """The variants with the lines marked that set each apart from the first, and the first from the next."""
    if len(variants) < 2:
        return tuple(variants)
    first = variants[0]
    return tuple(
        replace(variant, lines=_marked(variant.lines, (variants[1] if variant is first else first).lines))
        for variant in variants
    )


def _marked(lines: tuple[PlanLine, ...], others: tuple[PlanLine, ...]) -> tuple[PlanLine, ...]:
    mine, theirs = ([_meaning(line) for line in side] for side in (lines, others))
    kept: set[int] = set()
    for block in SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks():
        kept.update(range(block.a, block.a + block.size))
    return tuple(line if place in kept else replace(line, differs=True) for place, line in enumerate(lines))


def _meaning(line: PlanLine) -> str:
    """What a line says without its figures: estimates and times vary between equal plans.

    Nor its depth: a node that moved below another one is still there.
    """
    words = line.text.split("  (", 1)[0]
    return "figure" if words.startswith(_FIGURE_KEYS) else words


def plan_lines(plan: object, major: int) -> Iterator[PlanLine]:
    """The tree as lines: each node, then its conditions."""
    top = root(plan)
    if top is None:
        yield PlanLine(0, "no plan recorded", aio=False, is_detail=True)
        return
    for depth, node in nodes(top):
        yield PlanLine(depth, clean(_node_text(node)), aio=can_read_ahead(node, major), is_detail=False)
        for key in _DETAIL_KEYS:
            if key in node:
                value = node[key]
                shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
                yield PlanLine(depth, clean(f"{key}: {shown}"), aio=False, is_detail=True)


def can_read_ahead(node: PlanNode, major: int) -> bool:
    """Whether this node can use asynchronous reads on this major version."""
    return can_read_asynchronously(str(node.get("Node Type")), major)


def scans(plan: object) -> str:
    """What the plan reads: its leaves, e.g. 'Parallel Seq Scan on pgbench_accounts'."""
    top = root(plan)
    if top is None:
        return "no plan recorded"
    leaves = [_target(node) for _, node in nodes(top) if not node.get("Plans")]
    return clean(", ".join(dict.fromkeys(leaves)))


def _node_text(node: PlanNode) -> str:
    """The node as EXPLAIN's text format names it, with rows and time where they were measured."""
    text = _target(node)
    figures = [
        f"{label}={node[key]}{unit}"
        for key, label, unit in (
            ("Actual Rows", "rows", ""),
            ("Actual Loops", "loops", ""),
            ("Actual Total Time", "time", " ms"),
        )
        if key in node
    ]
    if not figures and "Plan Rows" in node:
        figures = [f"estimated rows={node['Plan Rows']}"]
    return f"{text}  ({' '.join(figures)})" if figures else text


def _target(node: PlanNode) -> str:
    """The operation and what it works on."""
    text = _operation(node)
    if "Index Name" in node:
        text += f" using {node['Index Name']}"
    if "Relation Name" in node:
        text += f" on {node['Relation Name']}"
    if node.get("Alias") not in (None, node.get("Relation Name")):
        text += f" {node['Alias']}"
    return text


def _operation(node: PlanNode) -> str:
    """The name of the operation (ExplainNode in src/backend/commands/explain.c)."""
    kind = str(node.get("Node Type", "?"))
    if kind == "Aggregate":
        strategies = {"Hashed": "HashAggregate", "Sorted": "GroupAggregate", "Mixed": "MixedAggregate"}
        kind = strategies.get(str(node.get("Strategy")), kind)
    if kind == "ModifyTable":
        kind = str(node.get("Operation", kind))
    join_type = node.get("Join Type", "Inner")
    if join_type != "Inner":
        kind = f"{kind.removesuffix(' Join')} {join_type} Join"
    if node.get("Partial Mode") in ("Partial", "Finalize"):
        kind = f"{node['Partial Mode']} {kind}"
    return f"Parallel {kind}" if node.get("Parallel Aware") else kind


def section(material: Material) -> Section:
    """Which plans were used, where they differ; on a page every plan with its tree."""
    found = statement_plans(material.stored)
    sql = {
        statement.name: statement.sql
        for arm in material.stored.experiment.arms
        for statement in arm.spec.workload.statements
    }
    blocks: list[Block] = []
    if material.result.plans_differ:
        blocks.append(
            Paragraph(
                "The plans differ between arms: the difference in plan is itself a finding, "
                "and the ratio of such a statement compares two plans."
            )
        )
    differing = [f"{plans.statement}: {plan_uses(plans)}" for plans in found if plans.differ]
    if differing:
        blocks.append(bullets(differing, where=EVERYWHERE - HTML))
    if found:
        blocks.append(
            Paragraph(
                "Nodes marked AIO can use asynchronous reads on the version that ran them. Shading "
                "separates the plans of each statement.",
                QUIET,
                where=HTML,
            )
        )
    blocks += [_folded(plans, sql.get(plans.statement, "")) for plans in found]
    return Section("Plans", "plans", tuple(blocks), link="Plans" if found else "")


def plan_uses(plans: StatementPlans) -> str:
    """Which arms read a statement's data in which way, with the number of trials of each."""
    return "; ".join(f"{variant.scans} in {_used_by(variant)}" for variant in plans.variants)


def _used_by(variant: PlanVariant) -> str:
    return join([f"{clean(name)} ({plural(count, 'trial')})" for name, count in variant.trials_by_arm])


def _folded(plans: StatementPlans, sql: str) -> Fold:
    variants = tuple(_variant(variant) for variant in plans.variants)
    return Fold(
        plans.statement,
        ((Code(sql),) if sql else ()) + (Beside(variants),),
        is_open=plans.differ,
        marks=(f"{len(plans.variants)} different plans",) if plans.differ else (),
        where=HTML,
    )


def _variant(variant: PlanVariant) -> tuple[Block, ...]:
    is_long = len(variant.trials_by_arm) > _ARMS_NAMED_MAX
    lines = tuple(
        TreeLine(
            line.depth,
            line.text,
            tone="aio" if line.aio else "detail" if line.is_detail else "node",
            mark=("    " if line.is_detail else "-> " if line.depth else "") + ("[AIO] " if line.aio else ""),
            differs=line.differs,
        )
        for line in variant.lines
    )
    return (
        Paragraph(variant.used_by if is_long else _used_by(variant), QUIET),
        Tree(lines),
        Fold("JSON", (Code(variant.json_text, characters_max=_JSON_CHARACTERS_MAX),), is_raw=True),
    )
