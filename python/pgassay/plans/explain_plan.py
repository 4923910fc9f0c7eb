"""A plan as `explain` shows it: nodes with their own time, the statement's account, findings."""

from collections.abc import Mapping, Sequence

from pgassay.errors import UsageError
from pgassay.model.plans.explained_plan import ExplainedPlan, PlanBlocks, PlanNode, PlanTrigger
from pgassay.plans.advice import advice_of
from pgassay.plans.explain_output.find_plans import FoundPlan, find_plans
from pgassay.plans.explain_versions import majors_of
from pgassay.plans.findings import findings_of
from pgassay.plans.nodes import Draft, count, drafts_of, figure
from pgassay.plans.own_time import ROUNDING_MS, Shares, blocks_within, shares_of
from pgassay.plans.redacted_plans import redacted_plan

Keys = Mapping[str, object]
_DIGITS = 6
# What EXPLAIN prints with that of the nodes below, besides the blocks of tables.
_WITH_THOSE_BELOW = ("temp_read", "temp_written", "wal_records", "io_read_ms", "io_write_ms")


def read_plans(text: str, source: str, *, redact: bool = False) -> list[ExplainedPlan]:
    """All plans of a text with their work; `source` names it in messages, `redact` leaves out literals.

    Raises UsageError where there is none, with what the text is instead.
    """
    plans = find_plans(text, source)
    return [
        explained(redacted_plan(found) if redact else found, number, source)
        for number, found in enumerate(plans, start=1)
    ]


def explained(found: FoundPlan, number: int, source: str) -> ExplainedPlan:
    """A plan's nodes and its statement's account; raises UsageError for more nodes than are read."""
    try:
        drafts = drafts_of(found.document)
    except ValueError as error:
        raise UsageError(f"{source}: {error}: analyse a part of it") from None
    executed = any(draft.values["loops"] is not None for draft in drafts)
    timed = any(draft.values["loop_ms"] is not None for draft in drafts)
    shares = shares_of(drafts)
    nodes = tuple(_node(draft, shares, timed=timed) for draft in _with_own_blocks(drafts, shares))
    account = _account(found, nodes) if executed else {}
    made = ExplainedPlan(
        number=number,
        format="json" if found.format == "json" else "text",
        logged=found.logged,
        statement=found.statement,
        executed=executed,
        nodes=nodes,
        **_summary(found.document),
        **account,
    )
    oldest, newest = majors_of(made, found.document)
    made = made.model_copy(update={"major_min": oldest, "major_max": newest})
    made = made.model_copy(update={"findings": tuple(findings_of(made))})
    return made.model_copy(update={"advice": tuple(advice_of(made))})


def _with_own_blocks(drafts: list[Draft], shares: Shares) -> list[Draft]:
    for name in ("buffers_hit", "buffers_read", *_WITH_THOSE_BELOW):
        is_there = any(name in draft.values for draft in drafts)
        if is_there and (name.startswith("buffers") or any(draft.number(name) for draft in drafts)):
            own = blocks_within(shares, [draft.number(name) for draft in drafts])
            for draft in drafts:
                value = own[draft.id]
                draft.values[f"own_{name}"] = round(value, _DIGITS) if name.endswith("_ms") else round(value)
    return drafts


def _node(draft: Draft, shares: Shares, *, timed: bool) -> PlanNode:
    values = dict(draft.values)
    at = draft.id
    if timed and (values["loops"] is not None or shares.own[at]):
        values |= {
            "own_ms": round(shares.own[at], _DIGITS),
            "total_ms": round(shares.total[at], _DIGITS),
            "processes_ms": round(draft.number("loop_ms") * draft.number("loops"), _DIGITS),
            "rounding_ms": round(shares.rounding[at], _DIGITS),
        }
    values["processes"] = round(shares.processes[draft.id], _DIGITS)
    return PlanNode(
        id=draft.id,
        parent=draft.parent,
        depth=draft.depth,
        **values,
    )


# --- The statement's account.


def _account(found: FoundPlan, nodes: Sequence[PlanNode]) -> dict[str, object]:
    """The time of the nodes, the triggers and the serialization, and what is left of the statement's.

    `Execution Time` begins before the executor is set up and ends when it is shut down (ExplainOnePlan of
    explain.c): what is left is that, JIT's generation of code there, and sending rows away.
    """
    execution = figure(found.document.get("Execution Time"))
    execution = found.duration_ms if execution is None else execution
    triggers = _triggers(found.document)
    part = found.document.get("Serialization")
    serialization = figure(part.get("Time")) if isinstance(part, Mapping) else None
    timed = any(node.own_ms is not None for node in nodes)
    if not timed:
        return {"execution_ms": execution, "triggers": triggers, "serialization_ms": serialization}
    own = sum(node.own_ms or 0.0 for node in nodes)
    loops = sum((node.loops or 0.0) / node.processes for node in nodes)
    rest = None if execution is None else execution - own - (serialization or 0.0)
    placed, after = _placed(triggers, rest)
    return {
        "execution_ms": execution,
        "nodes_ms": round(own, _DIGITS),
        "rounding_ms": round(ROUNDING_MS * loops, _DIGITS),
        "triggers": placed,
        "triggers_ms": round(after, _DIGITS) if triggers else None,
        "serialization_ms": serialization,
        "unattributed_ms": None if rest is None else round(rest - after, _DIGITS),
    }


def _triggers(document: Keys) -> tuple[PlanTrigger, ...]:
    listed = document.get("Triggers")
    return tuple(
        PlanTrigger(
            name=str(each.get("Trigger Name") or each.get("Constraint Name") or "?"),
            constraint=_text(each.get("Constraint Name")),
            relation=_text(each.get("Relation")),
            ms=figure(each.get("Time")),
            calls=figure(each.get("Calls")),
        )
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, Mapping)
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _placed(triggers: Sequence[PlanTrigger], rest: float | None) -> tuple[tuple[PlanTrigger, ...], float]:
    """Where each trigger ran, and the time of those that ran after the plan.

    A constraint's trigger runs after it (AfterTriggerEndQuery in trigger.c). Any other may be a BEFORE
    trigger, whose time is within its ModifyTable; one whose time is more than what the plan left is.
    """
    after = sum(trigger.ms or 0.0 for trigger in triggers if trigger.constraint)
    made: list[PlanTrigger] = []
    for trigger in triggers:
        too_long = rest is not None and (trigger.ms or 0.0) > rest - after + ROUNDING_MS
        ran = "after" if trigger.constraint else "within" if too_long else None
        made.append(trigger.model_copy(update={"ran": ran}))
    return tuple(made), after


# --- What stands beside the plan.


def _summary(document: Keys) -> dict[str, object]:
    planning, serialization = document.get("Planning"), document.get("Serialization")
    settings = document.get("Settings")
    query_id = document.get("Query Identifier")
    made: dict[str, object] = {
        "planning_ms": figure(document.get("Planning Time")),
        "query_id": None if query_id is None else str(query_id),
        "settings": {str(name): str(value) for name, value in settings.items()}
        if isinstance(settings, Mapping)
        else {},
    }
    if isinstance(planning, Mapping):
        made |= {
            "planning_blocks": _blocks(planning),
            "planning_memory_used_kb": count(planning.get("Memory Used")),
            "planning_memory_allocated_kb": count(planning.get("Memory Allocated")),
        }
    if isinstance(serialization, Mapping):
        made |= {
            "serialization_kb": count(serialization.get("Output Volume")),
            "serialization_format": _format(serialization.get("Format")),
        }
    return made | _jit(document.get("JIT"))


def _format(value: object) -> str | None:
    return value.lower() if isinstance(value, str) else None


def _blocks(planning: Keys) -> PlanBlocks | None:
    """The blocks that planning touched; None where it touched none, which the text does not print."""
    counts = {
        f"buffers_{key}": count(planning.get(f"Shared {key.title()} Blocks")) or 0
        for key in ("hit", "read", "dirtied", "written")
    }
    return PlanBlocks(**counts) if any(counts.values()) else None


def _jit(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        return {}
    options, timing = value.get("Options"), value.get("Timing")
    return {
        "jit_functions": count(value.get("Functions")),
        "jit_ms": figure(timing.get("Total")) if isinstance(timing, Mapping) else None,
        "jit_options": tuple(str(name) for name, on in options.items() if on is True)
        if isinstance(options, Mapping)
        else (),
    }
