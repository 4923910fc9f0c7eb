"""The shape of a plan: what it does, without what varies from one EXPLAIN to the next."""

import json
from collections.abc import Mapping

from pgassay.model.experiment import Experiment
from pgassay.record.experiment import StoredTrial

# A node as EXPLAIN (FORMAT JSON) gives it; which properties it has depends on its kind and the version.
PlanNode = Mapping[str, object]
_DIFFERS = "differs between arms"
# Keys of EXPLAIN (FORMAT JSON) that say what a node does (src/backend/commands/explain.c). Costs, row
# estimates, measured figures and numbers of workers are left out.
SHAPE_KEYS = (
    "Node Type",
    "Strategy",
    "Partial Mode",
    "Parent Relationship",
    "Subplan Name",
    "Parallel Aware",
    "Async Capable",
    "Join Type",
    "Inner Unique",
    "Operation",
    "Command",
    "Schema",
    "Relation Name",
    "Alias",
    "Index Name",
    "Function Name",
    "CTE Name",
    "Scan Direction",
    "Sort Key",
    "Presorted Key",
    "Group Key",
    "Index Cond",
    "Recheck Cond",
    "TID Cond",
    "Hash Cond",
    "Merge Cond",
    "Join Filter",
    "Filter",
    "One-Time Filter",
    "Cache Key",
    "Cache Mode",
    "Conflict Resolution",
)


def shape(plan: object) -> str:
    """A plan's shape as text: equal for plans that do the same; '' for what is no plan.

    Takes what EXPLAIN (FORMAT JSON) gives: the list of one document, the document, its top node, or any of
    them as a string.
    """
    if isinstance(plan, str):
        try:
            plan = json.loads(plan)
        except ValueError:
            return ""
    if isinstance(plan, list):
        plan = plan[0] if plan else None
    if isinstance(plan, dict) and "Plan" in plan:
        plan = plan["Plan"]
    if not isinstance(plan, dict) or "Node Type" not in plan:
        return ""
    return json.dumps(_node(plan), sort_keys=True)


def children_of(node: PlanNode) -> list[PlanNode]:
    """The nodes just below a node; [] when it reads a table or an index itself."""
    children = node.get("Plans")
    return [child for child in children if isinstance(child, Mapping)] if isinstance(children, list) else []


def number(node: PlanNode, key: str) -> float:
    """A figure of a node; 0 when it has none."""
    value = node.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def _node(node: PlanNode) -> dict[str, object]:
    kept: dict[str, object] = {key: node[key] for key in SHAPE_KEYS if key in node}
    children = [_node(child) for child in children_of(node)]
    if children:
        kept["Plans"] = children
    return kept


def outline(plan_shape: str) -> str:
    """The nodes of a shape from the top down, for a sentence: 'Aggregate > Gather > Seq Scan on t'."""

    def words(node: PlanNode) -> str:
        text = str(node["Node Type"])
        if node.get("Parallel Aware"):
            text = f"Parallel {text}"
        target = node.get("Index Name") or node.get("Relation Name")
        if target:
            text += f" on {target}"
        children = [words(child) for child in children_of(node)]
        if len(children) > 1:
            return f"{text} > ({', '.join(children)})"
        return f"{text} > {children[0]}" if children else text

    return words(json.loads(plan_shape))


def plan_findings(experiment: Experiment, trials: tuple[StoredTrial, ...]) -> tuple[bool, list[str]]:
    """Whether plans differ between the arms of a stratum, and a sentence for each such statement.

    A statement whose plan changed between the trials of one arm gets a sentence as well. Only trials that
    ended well are looked at.
    """
    shapes: dict[str, dict[str, list[str]]] = {}
    texts: dict[str, str] = {}
    for trial in trials:
        if trial.record.status != "ok":
            continue
        for statement, plan in trial.plans.items():
            # The same plan comes back in nearly every trial: its shape is worked out once.
            key = json.dumps(plan, sort_keys=True)
            found = texts.setdefault(key, shape(plan))
            if found:
                seen = shapes.setdefault(statement, {}).setdefault(trial.record.arm_id, [])
                if found not in seen:
                    seen.append(found)
    differ = False
    sentences: list[str] = []
    for statement, by_arm in shapes.items():
        for stratum in dict.fromkeys(arm.stratum for arm in experiment.arms):
            arms = [arm for arm in experiment.arms if arm.stratum == stratum and arm.id in by_arm]
            groups: dict[str, list[str]] = {}
            for arm in arms:
                label = "the twin" if arm.role == "twin" else arm.name
                groups.setdefault(" or ".join(outline(found) for found in by_arm[arm.id]), []).append(label)
                if len(by_arm[arm.id]) > 1:
                    sentences.append(
                        f"The plan of statement {statement} changed between the trials of {label}."
                    )
            if len({tuple(sorted(by_arm[arm.id])) for arm in arms}) > 1:
                differ = True
                plans = "; ".join(f"{' and '.join(names)}: {text}" for text, names in groups.items())
                sentences.append(f"The plan of statement {statement} {_DIFFERS}: {plans}.")
    return differ, sentences


def tells_of_arms(sentence: str) -> bool:
    """Whether a sentence of `plan_findings` is about arms with different plans."""
    return sentence.startswith("The plan of statement ") and f" {_DIFFERS}: " in sentence
