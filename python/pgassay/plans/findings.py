"""What is worth a look in one plan, each in a sentence with its figures. Nothing here judges a cause."""

from collections.abc import Iterator, Sequence

from pgassay.model.plans.explained_plan import ExplainedPlan, PlanFinding, PlanNode, PlanTrigger
from pgassay.plans.node_wording import Order, label, milliseconds, read_words, rows_words, size_kb
from pgassay.plans.plan_cost import evaluations, offset_rows, reads_whole, rows_estimated
from pgassay.words import join, percent_fixed, plural, quantity

# An estimate that is wrong by less seldom changes a plan.
MISESTIMATE_MIN = 10.0
# Of the statement's time or rows: what takes less is not worth a sentence.
_SHARE_MIN = 0.05
_ROWS_MIN = 1000.0
_LOOPS_MIN = 10_000.0
_UNEVEN_MIN = 3.0
_UNATTRIBUTED_MIN = 0.1
_TRIGGER_MS_MIN = 0.5
_MANY = 12
# They count no rows, and EXPLAIN prints 0 for them (src/backend/executor/nodeBitmapAnd.c, nodeBitmapOr.c).
_UNCOUNTED = ("BitmapAnd", "BitmapOr")


def misestimates(plan: ExplainedPlan) -> dict[int, float]:
    """How many times too many or too few rows were estimated of each node of which it was tenfold or more.

    A node that something above stopped early (a LIMIT, a merge join whose other side ended) tells nothing of
    its estimate when fewer rows came. And the inner side of a merge join goes back for each outer row of the
    same key, which EXPLAIN counts as further rows (src/backend/executor/nodeMergejoin.c).
    """
    stopped, again = stopped_early(plan.nodes), gone_back(plan.nodes)
    found: dict[int, float] = {}
    for node in plan.nodes:
        ratio = _misestimate(node)
        is_fewer = (node.rows or 0.0) < (node.rows_estimated or 0.0)
        if ratio is not None and node.id not in (stopped if is_fewer else again):
            found[node.id] = ratio
    return found


def gone_back(nodes: Sequence[PlanNode]) -> set[int]:
    """The inner sides of merge joins."""
    below: dict[int, list[int]] = {}
    for node in nodes:
        if node.parent is not None and node.subplan is None and nodes[node.parent].type == "Merge Join":
            below.setdefault(node.parent, []).append(node.id)
    return {sides[1] for sides in below.values() if len(sides) > 1}


def _misestimate(node: PlanNode) -> float | None:
    """How many times too many or too few rows were estimated, above 1; None for less than tenfold or no rows.

    Both are for one loop (of a process, where there are several), of which the mean is rounded to a whole
    number until version 18: what that may explain is none. An estimate is never below one row, and a node
    that was not run, or counts no rows, tells nothing of its estimate.
    """
    if node.rows is None or node.rows_estimated is None or not node.loops or node.type in _UNCOUNTED:
        return None
    rounded = 0.5 if node.loops > 1 and node.rows.is_integer() else 0.0
    estimated = max(node.rows_estimated, 1.0)
    least, most = max(node.rows - rounded, 1.0), max(node.rows + rounded, 1.0)
    ratio = max(estimated / most, least / estimated)
    return ratio if ratio >= MISESTIMATE_MIN else None


def findings_of(plan: ExplainedPlan) -> list[PlanFinding]:
    """The findings of a plan, the costliest nodes first within each kind."""
    found: list[PlanFinding] = []
    for kind in _KINDS:
        found += list(kind(plan))[:_MANY]
    return found + list(_statement(plan))


def _costliest(plan: ExplainedPlan) -> Sequence[PlanNode]:
    return sorted(plan.nodes, key=lambda node: -(node.own_ms or 0.0))


def _matters(plan: ExplainedPlan, node: PlanNode) -> bool:
    """Whether a node's own time is a share of the nodes' that is worth a sentence; without times all are."""
    if node.own_ms is None or not plan.nodes_ms:
        return True
    return node.own_ms >= _SHARE_MIN * plan.nodes_ms


def _repeated(plan: ExplainedPlan) -> Iterator[PlanFinding]:
    for node in plan.nodes:
        times = evaluations(plan, node)
        if times is None or node.parent is None:
            continue
        outer = plan.nodes[node.parent]
        if plan.executed:
            took = f"{times:,.0f} times, {milliseconds(node.total_ms)} in all"
        else:
            took = f"about {times:,.0f} times by the estimate, for a cost of {outer.cost_total or 0:,.0f}"
        yield PlanFinding(
            kind="subplan",
            node=outer.id,
            sentence=f"{label(outer)} runs {node.subplan} again for each row: {took}.",
        )


def _offsets(plan: ExplainedPlan) -> Iterator[PlanFinding]:
    for node in plan.nodes:
        skipped = offset_rows(plan, node)
        if skipped is not None:
            about = "" if plan.executed else "about "
            kept = rows_words(node.rows if plan.executed else node.rows_estimated)
            yield PlanFinding(
                kind="offset",
                node=node.id,
                sentence=f"{label(node)} skips {about}{rows_words(skipped)} (OFFSET) and returns {kept}.",
            )


def _whole(plan: ExplainedPlan) -> Iterator[PlanFinding]:
    for node in plan.nodes:
        if reads_whole(plan, node):
            yield PlanFinding(
                kind="whole-table",
                node=node.id,
                sentence=f"{label(node)} reads the whole table for an estimated "
                f"{rows_words(round(rows_estimated(plan, node)))}, at a cost of {node.cost_total or 0:,.0f}.",
            )


def _spills(plan: ExplainedPlan) -> Iterator[PlanFinding]:
    for node in _costliest(plan):
        if node.disk is not True:
            continue
        if node.sort_method:
            size = (
                f": {node.sort_method}, {size_kb(node.sort_kb)}" if node.sort_kb else f": {node.sort_method}"
            )
            what = f"sorted in temporary files{size}"
        elif node.batches and node.batches > 1:
            size = f", {size_kb(node.disk_kb)} of temporary files" if node.disk_kb else ""
            planned = node.batches_planned
            more = f" where {planned} were planned" if planned and planned != node.batches else ""
            what = f"did not fit in memory: {node.batches} batches{more}{size}"
        else:
            what = f"kept its rows in temporary files: {size_kb(node.disk_kb)}"
        yield PlanFinding(kind="spill", node=node.id, sentence=f"{label(node)} {what}.")


def _misestimates(plan: ExplainedPlan) -> Iterator[PlanFinding]:
    wrong = misestimates(plan)
    for node in _costliest(plan):
        ratio = wrong.get(node.id)
        if ratio is None:
            continue
        if max(node.rows or 0.0, node.rows_estimated or 0.0) * (node.loops or 0.0) < _ROWS_MIN:
            continue
        word = "few" if (node.rows or 0.0) > (node.rows_estimated or 0.0) else "many"
        yield PlanFinding(
            kind="misestimate",
            node=node.id,
            sentence=f"{label(node)}: {rows_words(node.rows_estimated)} estimated, {rows_words(node.rows)} "
            f"found{' in each loop' if (node.loops or 0) > 1 else ''}: {ratio:,.0f} times too {word}.",
        )


def stopped_early(nodes: Sequence[PlanNode]) -> set[int]:
    """The nodes that something above may have stopped early: a LIMIT, a join that needs one match, EXISTS.

    An InitPlan may be that of an EXISTS, which takes one row (ExecSetParamPlan in nodeSubplan.c).
    """
    found: set[int] = set()
    unread = _unread(nodes)
    for node in nodes:
        if node.parent is None:
            continue
        parent = nodes[node.parent]
        stops = parent.type in ("Limit", "Merge Join") or parent.join_type in ("Semi", "Anti")
        passes = node.parent in found and not _takes_all(parent)
        asks = node.subplan is not None and node.subplan.startswith(("SubPlan", "InitPlan"))
        if stops or passes or asks or node.id in unread:
            found.add(node.id)
    return found


def _takes_all(node: PlanNode) -> bool:
    """Whether a node reads all below it before its first row; groups of sorted rows come one by one."""
    return node.type in ("Sort", "Hash") or (node.type == "Aggregate" and "GroupAggregate" not in node.name)


def _unread(nodes: Sequence[PlanNode]) -> set[int]:
    """The outer sides of hash joins whose hash table was empty: their first row may be all that was read."""
    outer: dict[int, int] = {}
    found: set[int] = set()
    for node in nodes:
        if node.parent is None or node.subplan is not None or nodes[node.parent].type != "Hash Join":
            continue
        first = outer.setdefault(node.parent, node.id)
        keeps_outer = nodes[node.parent].join_type in ("Left", "Full", "Anti")
        if node.type == "Hash" and not node.rows and not keeps_outer:
            found.add(first)
    return found


def _removed(plan: ExplainedPlan) -> Iterator[PlanFinding]:
    for node in _costliest(plan):
        removed, rows, loops = node.rows_removed or 0.0, node.rows or 0.0, node.loops or 0.0
        if removed * loops < _ROWS_MIN or removed < 9 * rows or not _matters(plan, node):
            continue
        share = removed / (removed + rows)
        yield PlanFinding(
            kind="rows-removed",
            node=node.id,
            sentence=f"{label(node)} read {read_words(node)[0]} and discarded "
            f"{percent_fixed(share, 3 if share > 0.999 else 1)} of them.",
        )


def _loops(plan: ExplainedPlan) -> Iterator[PlanFinding]:
    for node in _costliest(plan):
        loops = (node.loops or 0.0) / node.processes
        if loops < _LOOPS_MIN or plan.nodes_ms is None or (node.total_ms or 0.0) < 0.2 * plan.nodes_ms:
            continue
        yield PlanFinding(
            kind="loops",
            node=node.id,
            sentence=f"{label(node)} ran {node.loops:,.0f} times, {milliseconds(node.total_ms)} in all.",
        )


def _fetches(plan: ExplainedPlan) -> Iterator[PlanFinding]:
    for node in _costliest(plan):
        fetches = node.heap_fetches or 0
        rows = (node.rows or 0.0) * (node.loops or 0.0)
        if fetches >= _ROWS_MIN and fetches > _SHARE_MIN * rows:
            yield PlanFinding(
                kind="heap-fetches",
                node=node.id,
                sentence=f"{label(node)} visited the table for {plural_figure(fetches, 'row')}, though the "
                "index has all columns: their pages are not marked all-visible (VACUUM marks them).",
            )


def plural_figure(number: float, word: str) -> str:
    """'1 row', '12,345 rows'."""
    return f"{number:,.0f} {word}{'' if number == 1 else 's'}"


def _lossy(plan: ExplainedPlan) -> Iterator[PlanFinding]:
    for node in _costliest(plan):
        if node.heap_blocks_lossy:
            yield PlanFinding(
                kind="lossy",
                node=node.id,
                sentence=f"{label(node)}: the bitmap did not fit in work_mem; of "
                f"{plural_figure(node.heap_blocks_lossy, 'page')} every row was checked again.",
            )


def _searches(plan: ExplainedPlan) -> Iterator[PlanFinding]:
    for node in _costliest(plan):
        loops = node.loops or 0.0
        if node.index_searches and loops and node.index_searches >= 10 * loops:
            yield PlanFinding(
                kind="index-searches",
                node=node.id,
                sentence=f"{label(node)} descended its index {plural_figure(node.index_searches, 'time')} in "
                f"{plural_figure(loops, 'loop')}: a skip scan, or a list of values.",
            )


def _workers(plan: ExplainedPlan) -> Iterator[PlanFinding]:
    for node in plan.nodes:
        planned, launched = node.workers_planned, node.workers_launched
        if planned and launched is not None and launched < planned and not node.never_executed:
            yield PlanFinding(
                kind="workers",
                node=node.id,
                sentence=f"{label(node)}: {plural(planned, 'worker')} planned, {launched} launched: "
                "max_parallel_workers or max_worker_processes left no more.",
            )


def _uneven(plan: ExplainedPlan) -> Iterator[PlanFinding]:
    """Processes below a Gather of which one worked much longer than the mean: only VERBOSE tells."""
    for node in plan.nodes:
        parent = plan.nodes[node.parent] if node.parent is not None else None
        if parent is None or parent.type not in ("Gather", "Gather Merge") or node.subplan is not None:
            continue
        times = [(worker.loop_ms or 0.0) * (worker.loops or 0.0) for worker in node.workers if worker.loop_ms]
        if not times or node.processes_ms is None:
            continue
        if node.processes > len(times):
            times.append(node.processes_ms - sum(times))
        mean = node.processes_ms / node.processes
        if len(times) > 1 and mean > 0 and max(times) >= _UNEVEN_MIN * min(times) and _matters(plan, parent):
            yield PlanFinding(
                kind="uneven-workers",
                node=node.id,
                sentence=f"{label(node)}: the work was uneven, {milliseconds(min(times))} to "
                f"{milliseconds(max(times))} in {len(times)} processes; the others' waiting is part of "
                f"{label(parent, Order.LOWER)}.",
            )


def slow_constraints(plan: ExplainedPlan) -> list[PlanTrigger]:
    """The constraints whose triggers took a tenth of the statement's time or more, the slowest first."""
    whole = plan.execution_ms or 0.0
    found = [
        each
        for each in plan.triggers
        if each.constraint and (each.ms or 0.0) >= max(_UNATTRIBUTED_MIN * whole, _TRIGGER_MS_MIN)
    ]
    return sorted(found, key=lambda each: -(each.ms or 0.0))


def _statement(plan: ExplainedPlan) -> Iterator[PlanFinding]:
    for trigger in slow_constraints(plan):
        calls = f", {plural_figure(trigger.calls, 'call')}" if trigger.calls else ""
        yield PlanFinding(
            kind="trigger",
            node=None,
            sentence=f"The trigger of the constraint {trigger.constraint} took {milliseconds(trigger.ms)} of "
            f"{milliseconds(plan.execution_ms)}{calls}.",
        )
    if plan.jit_ms and plan.execution_ms and plan.jit_ms > _UNATTRIBUTED_MIN * plan.execution_ms:
        functions = f" of {plan.jit_functions} functions" if plan.jit_functions else ""
        yield PlanFinding(
            kind="jit",
            node=None,
            sentence=f"JIT compilation{functions} took {milliseconds(plan.jit_ms)} of "
            f"{milliseconds(plan.execution_ms)}, most of it within the nodes' times.",
        )
    rest = plan.unattributed_ms
    if rest is not None and plan.execution_ms and rest > _UNATTRIBUTED_MIN * plan.execution_ms and rest > 0.5:
        open_triggers = [trigger.name for trigger in plan.triggers if trigger.ran is None]
        causes = ["starting and ending the executor", "sending the rows"]
        if open_triggers:
            causes.append(f"the triggers {join(open_triggers)}, if they are AFTER triggers")
        if plan.jit_ms:
            causes.append("JIT")
        yield PlanFinding(
            kind="unattributed",
            node=None,
            sentence=f"{quantity(rest / 1000, 's')} are outside all nodes: {join(causes)}.",
        )


_KINDS = (
    _repeated,
    _offsets,
    _whole,
    _spills,
    _misestimates,
    _removed,
    _loops,
    _fetches,
    _lossy,
    _searches,
    _workers,
    _uneven,
)
