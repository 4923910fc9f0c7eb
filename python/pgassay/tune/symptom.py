"""The symptom and its cause, as the answer tells them. Pure."""

from collections.abc import Mapping, Sequence

from pgassay.environment.linux import machine
from pgassay.model.cause import UNKNOWN
from pgassay.model.experiment import CacheState
from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.model.result import CompareResult
from pgassay.model.storage import StorageSpec
from pgassay.model.tuning.tune_answer import Fix, FixLayer, SymptomStatement, TuneCause, TuneSymptom
from pgassay.plans.repeated_reads import repeated_read
from pgassay.tune.proof.proof_arms import AS_IT_IS, FACTOR
from pgassay.tune.search.selection import Baseline, total_s
from pgassay.tune.source.origin import CopyOrigin
from pgassay.tune.tune_plan import PlannedTune
from pgassay.tune.tuned_statements import MeasuredStatement
from pgassay.words import figure, size
from pgassay.words import seconds as in_words

# States of the caches in which statements find their data in memory.
_IN_MEMORY = ("warm-buffers", "warm-pages", "as-is")
# Limits of processors, which the work that a plan shows uses up.
_BUSY = ("backend-core", "all-cores", "cpu-quota")
ENDLESS = "did-not-end"
# What a finding of a plan says about where the time is lost.
_LAYER_OF_FINDING: dict[str, FixLayer] = {
    "misestimate": "operations",
    "heap-fetches": "operations",
    "spill": "infrastructure",
    "workers": "infrastructure",
    "jit": "infrastructure",
    "lossy": "infrastructure",
    "rows-removed": "design",
    "loops": "design",
    "subplan": "design",
    "offset": "design",
    "whole-table": "design",
    "index-searches": "design",
}
_CAUSES_SHOWN_MAX = 3
# A statement that is not proven to be faster, and was so many times, was slow by what the fix mends.
_MENDED_MIN = 2.0
Plans = Mapping[str, tuple[ExplainedPlan, ...]]


def symptom_of(
    planned: PlannedTune,
    baseline: Baseline,
    plans: Plans,
    notes: Sequence[str],
    origin: CopyOrigin | None = None,
    unlike: Mapping[str, str] | None = None,
) -> TuneSymptom:
    """The workload as it was measured; of statements of a server with what is known of them there."""
    unlike = unlike or {}
    calls = baseline.calls
    whole = total_s(calls, baseline.seconds)
    if origin is not None:
        said = (f"{name} behaves differently on the source: {reason}" for name, reason in unlike.items())
        notes = (*notes, *origin.notes, *said)
    notes = (*notes, *storage_notes(planned.spec.storage, planned.base.protocol.cache))
    return TuneSymptom(
        workload=planned.request.workload,
        data=planned.data,
        version=planned.spec.build.version,
        cache=planned.base.protocol.cache,
        seconds=whole,
        at_least=bool(baseline.endless),
        statements=tuple(
            SymptomStatement(
                name=each.name,
                sql=each.sql,
                seconds=baseline.seconds[each.name],
                weight=calls[each.name],
                share=calls[each.name] * baseline.seconds[each.name] / whole if whole else 0.0,
                writes=each.of.writes,
                plan=_line_of(each, baseline, plans),
                at_least=each.name in baseline.endless,
                source_ms=origin.mean_ms.get(each.of.name) if origin else None,
                source_share=origin.share.get(each.of.name) if origin else None,
                unlike_source=unlike.get(each.name, ""),
            )
            for each in baseline.statements
        ),
        copy_notes=tuple(notes),
        source=origin.told if origin else None,
        clients=planned.spec.workload.connections,
        measured_on="" if origin is not None else _machine_words(planned),
    )


def _machine_words(planned: PlannedTune) -> str:
    """The machine that stands for a server of which nothing is known."""
    memory = size(planned.spec.memory_bytes or machine.memory_bytes())
    processors = planned.spec.cpus or machine.cores_usable()
    in_memory = planned.base.protocol.cache in _IN_MEMORY
    where = "its data in memory" if in_memory else f"its data on {planned.spec.storage.kind}, read cold"
    return f"{memory} of memory, {figure(processors)} processors, {where}"


def storage_notes(storage: StorageSpec, cache: CacheState) -> tuple[str, ...]:
    """Where nothing is read from an imitated volume, it can't matter to queries."""
    if storage.kind != "volume" or cache not in _IN_MEMORY:
        return ()
    return (
        f"the data are in memory when they are measured (--cache {cache}), so the volume is not read and "
        "can't matter to read-only statements: --cache cold measures it",
    )


def _line_of(statement: MeasuredStatement, baseline: Baseline, plans: Plans) -> str:
    line = plan_line(plans[statement.of.name][statement.set_index])
    return f"by the planner's estimate: {line}" if statement.name in baseline.endless else line


def plan_line(plan: ExplainedPlan) -> str:
    """The node that took most of a plan's time, with its figures."""
    node = hottest(plan)
    if node is None:
        return ""
    again = repeated_read(plan, node)
    if again:
        return again
    where = f" on {node.relation}" if node.relation else ""
    by = f" by {node.index}" if node.index else ""
    share = ""
    if node.own_ms and plan.execution_ms:
        share = f"{_milliseconds(node.own_ms)} of {_milliseconds(plan.execution_ms)} ms"
    rows = "" if node.rows is None else f"{_about(node, node.rows)}{_rows(node.rows * (node.loops or 1))}"
    removed = ""
    if node.rows_removed:
        removed = f"{_about(node, node.rows_removed)}{node.rows_removed * (node.loops or 1):,.0f} discarded"
    details = ", ".join(part for part in (share, rows, removed) if part)
    return f"{node.type}{where}{by}: {details}"


def _about(node: PlanNode, of_a_loop: float) -> str:
    """The word before a count that follows from a mean of loops or processes, which EXPLAIN rounds."""
    return "about " if (node.loops or 1) > 1 and of_a_loop > 0 and float(of_a_loop).is_integer() else ""


def _milliseconds(value: float) -> str:
    return figure(value)


def _rows(count: float) -> str:
    return f"{count:,.0f} {'row' if round(count) == 1 else 'rows'}"


def hottest(plan: ExplainedPlan) -> PlanNode | None:
    """The node with the most time of its own."""
    timed = [node for node in plan.nodes if node.own_ms is not None]
    return max(timed, key=lambda node: node.own_ms or 0.0, default=None)


def cause_of_trials(result: CompareResult) -> TuneCause | None:
    """Where the time is lost by the trials of the workload as it is; None where they don't tell."""
    for cause in result.causes:
        if cause.arm == f"{FACTOR}={AS_IT_IS}" and cause.cause != UNKNOWN and cause.layer != "measurement":
            share = "" if cause.share is None else f"{cause.share:.0%} of the time"
            figures = ", ".join(f"{name} {_figure(value)}" for name, value in cause.evidence.items())
            sentence = f"{cause.cause}: {'; '.join(part for part in (share, figures) if part)}"
            return TuneCause(layer=cause.layer, cause=cause.cause, sentence=sentence)
    return None


def told_cause(of_trials: TuneCause | None, of_plans: TuneCause, fixes: Sequence[Fix] = ()) -> TuneCause:
    """What the fixes mend that were proven, or else that were seen to help, in the words of their statements.

    Else of both others the one that says more: that a processor was busy with the work tells less than with
    which.
    """
    mended = [fix for fix in fixes if fix.verdict == "recommended" and fix.reason and fix.statements]
    mended = mended or [fix for fix in fixes if _has_mended(fix)]
    if mended and of_plans.cause != ENDLESS:
        said = [f"{_most_of(fix)}: {fix.reason.partition(';')[0]}" for fix in mended[:_CAUSES_SHOWN_MAX]]
        more = [f"and {len(mended) - len(said)} more below"] if len(mended) > len(said) else []
        return TuneCause(layer=mended[0].layer, cause=mended[0].kind, sentence="; ".join([*said, *more]))
    if of_trials is None:
        return of_plans
    says_more = of_plans.cause in _LAYER_OF_FINDING or of_plans.cause == ENDLESS
    return of_plans if of_trials.cause in _BUSY and says_more else of_trials


def _has_mended(fix: Fix) -> bool:
    """Whether what is not proven was seen to mend a statement."""
    return bool(fix.verdict == "not decided" and fix.reason and fix.statements) and (
        max(each.ratio for each in fix.statements) >= _MENDED_MIN
    )


def _most_of(fix: Fix) -> str:
    """The statement that the reason is of, else the one that a fix gains most by."""
    return fix.reason_of or max(fix.statements, key=lambda each: each.ratio).name


def cause_of_plans(baseline: Baseline, plans: Plans) -> TuneCause:
    """Where the time is lost by the executed plan of the statement that takes longest."""
    worst = max(baseline.statements, key=lambda each: baseline.seconds[each.name])
    plan = plans[worst.of.name][worst.set_index]
    if worst.name in baseline.endless:
        waited = f"{worst.name} did not finish in {in_words(baseline.seconds[worst.name])}"
        sentence = f"{waited}; {_line_of(worst, baseline, plans)}"
        return TuneCause(layer="design", cause=ENDLESS, sentence=sentence)
    node = hottest(plan)
    findings = [each for each in plan.findings if node is not None and each.node == node.id] or plan.findings
    repeated = repeated_read(plan, node) if node is not None else ""
    for finding in findings:
        if finding.kind in _LAYER_OF_FINDING:
            return TuneCause(
                layer=_LAYER_OF_FINDING[finding.kind],
                cause=finding.kind,
                sentence=f"{worst.name}: {repeated or finding.sentence}",
            )
    return TuneCause(layer="design", cause="work", sentence=f"{worst.name}: {plan_line(plan)}")


def _figure(value: float | str) -> str:
    return value if isinstance(value, str) else figure(value)
