"""Two plans compared: what became of each node, what moved, where the time went.

One execution each: the times are an example. Whether a difference is one is for an experiment to say.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgassay.model.plans.explained_plan import ExplainedPlan, PlanMatch, PlanNode, PlansBeside
from pgassay.plans.explain_versions import notes, same_setting, setting_words
from pgassay.plans.findings import misestimates, plural_figure
from pgassay.plans.node_matching import matched
from pgassay.plans.node_wording import milliseconds, rows_words, size_kb, target, title
from pgassay.words import join, percent_fixed, plural

_SAME = "Both plans have the same nodes."
_SHARE_MIN = 0.1
# Shares that add up to a little more than all are as exact as the times are.
_ALL_MAX = 1.05
_FEWER_MIN = 2.0
_OTHER_BLOCKS_MIN = 1.1
_MANY = 8
_LARGE = 1000
Pair = tuple[PlanNode, PlanNode]


@dataclass(frozen=True)
class _Matched:
    """Nodes that both plans have, those that the first alone has, those that the second alone has."""

    pairs: list[Pair]
    gone: list[PlanNode]
    new: list[PlanNode]


def _matched(first: ExplainedPlan, second: ExplainedPlan) -> _Matched:
    found = matched(first.nodes, second.nodes)
    taken = set(found.values())
    return _Matched(
        pairs=[(first.nodes[mine], second.nodes[theirs]) for mine, theirs in sorted(found.items())],
        gone=[node for node in first.nodes if node.id not in found],
        new=[node for node in second.nodes if node.id not in taken],
    )


def beside(first: ExplainedPlan, second: ExplainedPlan) -> PlansBeside:
    """The sentences of two plans, and their nodes matched."""
    both = _matched(first, second)
    sentences = [
        *(_shape(both) or [_SAME]),
        *_work(both.pairs),
        *_estimates(first, second, both.pairs),
        *_statement(first, second),
        *_times(first, second, both.pairs),
    ]
    if first.executed and second.executed:
        sentences.append(
            "One execution of each plan is an example, not a measurement: caches, other work and chance "
            "differ. pgassay compare measures."
        )
    elif first.executed or second.executed:
        sentences.append("One of the two plans was not executed: it has only estimates.")
    matches = [PlanMatch(first=a.id, second=b.id, changed=_differs(a, b)) for a, b in both.pairs]
    matches += [PlanMatch(first=node.id, second=None, changed=True) for node in both.gone]
    matches += [PlanMatch(first=None, second=node.id, changed=True) for node in both.new]
    return PlansBeside(sentences=tuple(sentences), notes=tuple(notes(first, second)), matches=tuple(matches))


def what_changed(first: ExplainedPlan, second: ExplainedPlan) -> tuple[str, ...]:
    """What the second plan does otherwise than the first, without any time; () where nothing differs."""
    both = _matched(first, second)
    return (*_shape(both), *_work(both.pairs), *_estimates(first, second, both.pairs))


def blocks_in_all(first: ExplainedPlan, second: ExplainedPlan, *, even_little: bool) -> tuple[str, ...]:
    """The blocks of both plans as a sentence; () where they are the same, or a little difference is no news.

    Two executions of one plan differ by a few blocks, of the catalogue or of pages that were cleaned up.
    """
    tops = [plan.nodes[0] for plan in (first, second) if plan.nodes]
    if len(tops) < 2 or any(top.buffers_hit is None for top in tops):
        return ()
    low, high = sorted((top.buffers_hit or 0) + (top.buffers_read or 0) for top in tops)
    if not even_little and high < _OTHER_BLOCKS_MIN * low:
        return ()
    return tuple(_blocks_sentence(*tops))


def _differs(first: PlanNode, second: PlanNode) -> bool:
    return (first.type, first.index, first.join_type) != (second.type, second.index, second.join_type)


# --- The shape.


def _shape(both: _Matched) -> list[str]:
    changed = [(a, b) for a, b in both.pairs if _differs(a, b)]
    if not changed and not both.gone and not both.new:
        return []
    return list(_moved(both, changed))


def _moved(both: _Matched, changed: Sequence[Pair]) -> Iterator[str]:
    pairs, gone, new = both.pairs, both.gone, both.new
    scans_gone = [node for node in gone if _is_scan(node) and not node.never_executed]
    scans_new = [node for node in new if _is_scan(node) and not node.never_executed]
    joins = _joins([a for a, _ in pairs], gone) - _joins([b for _, b in pairs], new)
    if scans_gone and not scans_new:
        what = f" and {plural(joins, 'join')}" if joins > 0 else ""
        yield f"B drops {plural(len(scans_gone), 'scan')}{what}: {_named(scans_gone)}."
    elif scans_new and not scans_gone:
        what = f" and {plural(-joins, 'join')}" if joins < 0 else ""
        yield f"B has {plural(len(scans_new), 'scan')}{what} more: {_named(scans_new)}."
    elif scans_gone:
        yield f"A reads {_named(scans_gone)}; B reads {_named(scans_new)}."
    for side, nodes in (("A", gone), ("B", new)):
        if idle := [node for node in nodes if _is_scan(node) and node.never_executed]:
            yield f"{plural(len(idle), 'scan')} only in {side} never ran: {_named(idle, 2)}."
    for a, b in changed[:_MANY]:
        if a.relation is not None and b.relation is not None:
            yield f"{b.relation} is read differently: {_method(a)} → {_method(b)}."
        else:
            yield f"The {title(a)} (A, node {a.id}) is a {title(b)} in B (node {b.id})."
    rest_gone = [node for node in gone if not _is_scan(node)]
    rest_new = [node for node in new if not _is_scan(node)]
    if rest_gone:
        yield f"Only in A: {_named(rest_gone)}."
    if rest_new:
        yield f"Only in B: {_named(rest_new)}."


def _is_scan(node: PlanNode) -> bool:
    return node.relation is not None and node.type not in (
        "CTE Scan",
        "WorkTable Scan",
        "Subquery Scan",
        "ModifyTable",
    )


def _joins(kept: Sequence[PlanNode], others: Sequence[PlanNode]) -> int:
    return sum(node.join_type is not None for node in (*kept, *others))


def _method(node: PlanNode) -> str:
    return f"{node.name} using {node.index}" if node.index else node.name


def _named(nodes: Sequence[PlanNode], most: int = _MANY) -> str:
    shown = [f"{node.name}{target(node)}" for node in nodes[:most]]
    if len(nodes) > most:
        shown.append(f"{len(nodes) - most} more")
    return join(shown)


# --- The work of nodes that both have.


def _work(pairs: Sequence[Pair]) -> Iterator[str]:
    for kind in (_sorted, _hashed, _stored, _removed, _fetched, _searched, _pruned, _launched):
        told = 0
        for a, b in pairs:
            if a.never_executed and b.never_executed:
                continue
            sentence = kind(a, b)
            if sentence and told < _MANY:
                told += 1
                yield sentence


def _by(node: PlanNode) -> str:
    key = node.conditions.get("Sort Key") or node.conditions.get("Group Key")
    return f" by {key[:60]}" if key else f"{target(node)}"


def _sorted(a: PlanNode, b: PlanNode) -> str:
    if not a.sort_method or not b.sort_method or a.sort_method == b.sort_method:
        return ""
    change = f"{a.sort_method} {size_kb(a.sort_kb)} → {b.sort_method} {size_kb(b.sort_kb)}"
    if a.disk and not b.disk:
        return f"The sort{_by(a)} fits in memory in B: {change}."
    if b.disk and not a.disk:
        return f"The sort{_by(a)} goes to temporary files in B: {change}."
    return f"The sort{_by(a)} differs: {change}."


def _hashed(a: PlanNode, b: PlanNode) -> str:
    if not a.batches or not b.batches or (a.batches > 1) == (b.batches > 1):
        return ""
    change = f"{plural(a.batches, 'batch')} → {plural(b.batches, 'batch')}".replace("batchs", "batches")
    place = "fits in memory in B" if b.batches == 1 else "no longer fits in memory in B"
    return (
        f"The {a.name} (A, node {a.id}) {place}: {change}, {size_kb(a.memory_kb)} → {size_kb(b.memory_kb)}."
    )


def _stored(a: PlanNode, b: PlanNode) -> str:
    if a.sort_method or a.batches or a.disk is None or b.disk is None or a.disk == b.disk:
        return ""
    place = "in temporary files" if b.disk else "in memory"
    return f"The {title(a)} keeps its rows {place} in B: {size_kb(b.disk_kb or b.memory_kb)}."


def _total(value: float | None, node: PlanNode) -> float:
    return (value or 0.0) * (node.loops or 0.0)


def _much_other(a: float, b: float) -> bool:
    low, high = sorted((a, b))
    return high >= _LARGE and high >= _FEWER_MIN * max(low, 1.0)


def _removed(a: PlanNode, b: PlanNode) -> str:
    mine, theirs = _total(a.rows_removed, a), _total(b.rows_removed, b)
    if a.loops is None or b.loops is None or not _much_other(mine, theirs):
        return ""
    if (a.type, a.index) != (b.type, b.index):
        return f"The {title(b)} discards {rows_words(theirs)} in B, the {title(a)} {rows_words(mine)} in A."
    return f"The {title(b)} discards {rows_words(theirs)} in B, {rows_words(mine)} in A."


def _fetched(a: PlanNode, b: PlanNode) -> str:
    if a.heap_fetches is None or b.heap_fetches is None or not _much_other(a.heap_fetches, b.heap_fetches):
        return ""
    return f"Heap fetches of the {title(b)}: {a.heap_fetches:,} → {b.heap_fetches:,}."


def _searched(a: PlanNode, b: PlanNode) -> str:
    if b.index_searches is None or a.index_searches == b.index_searches:
        return ""
    if a.index_searches is None:
        blocks = "" if a.buffers_hit is None or b.buffers_hit is None else _blocks_change(a, b)
        loops = b.loops or 1.0
        if b.index_searches < 2 * loops:
            return ""
        return (
            f"The {title(b)} descends its index {plural_figure(b.index_searches, 'time')} in B "
            f"(a skip scan, or a list of values){blocks}."
        )
    low, high = sorted((a.index_searches, b.index_searches))
    if high < _FEWER_MIN * max(1, low):
        return ""
    return f"Index searches of the {title(b)}: {a.index_searches:,} → {b.index_searches:,}."


def _blocks_change(a: PlanNode, b: PlanNode) -> str:
    mine, theirs = ((node.buffers_hit or 0) + (node.buffers_read or 0) for node in (a, b))
    return f": {mine:,} → {theirs:,} blocks" if mine != theirs else ""


def _pruned(a: PlanNode, b: PlanNode) -> str:
    if (a.subplans_removed or 0) == (b.subplans_removed or 0):
        return ""
    return (
        f"The {b.name} leaves out {plural(b.subplans_removed or 0, 'partition')} at the start in B, "
        f"{a.subplans_removed or 0} in A."
    )


def _launched(a: PlanNode, b: PlanNode) -> str:
    if a.workers_launched is None or b.workers_launched is None or a.workers_launched == b.workers_launched:
        return ""
    return f"The {b.name} has {plural(b.workers_launched, 'worker')} in B, {a.workers_launched} in A."


def _estimates(first: ExplainedPlan, second: ExplainedPlan, pairs: Sequence[Pair]) -> list[str]:
    wrong_in_a, wrong_in_b = misestimates(first), misestimates(second)
    said = []
    for a, b in pairs:
        mine, theirs = wrong_in_a.get(a.id), wrong_in_b.get(b.id)
        if (mine is None) == (theirs is None) or max(_total(a.rows, a), _total(b.rows, b)) < _LARGE:
            continue
        if theirs is None:
            said.append(f"The estimate of the {title(b)} is right in B; in A it is {mine:,.0f} times off.")
        else:
            said.append(f"The estimate of the {title(b)} is {theirs:,.0f} times off in B; in A it is right.")
    return said[:_MANY]


# --- The statement.


def _statement(first: ExplainedPlan, second: ExplainedPlan) -> Iterator[str]:
    mine, theirs = (plan.nodes[0] if plan.nodes else None for plan in (first, second))
    if mine and theirs and mine.buffers_hit is not None and theirs.buffers_hit is not None:
        yield from _blocks_sentence(mine, theirs)
    names = sorted(first.settings.keys() | second.settings.keys())
    for name in [name for name in names if not same_setting(name, first, second)][:_MANY]:
        values = [setting_words(name, plan) for plan in (first, second)]
        yield f"{name} is {values[0]} in A and {values[1]} in B."
    slow = max(first.planning_ms or 0.0, second.planning_ms or 0.0)
    executions = [plan.execution_ms or 0.0 for plan in (first, second)]
    if first.planning_ms and second.planning_ms and slow > _SHARE_MIN * max(executions) and slow > 1.0:
        times = [milliseconds(plan.planning_ms) for plan in (first, second)]
        yield f"Planning took {times[0]} in A, {times[1]} in B."


def _blocks_sentence(mine: PlanNode, theirs: PlanNode) -> Iterator[str]:
    change = _blocks_change(mine, theirs)
    read = (mine.buffers_read or 0, theirs.buffers_read or 0)
    if change:
        shown = f", {read[0]:,} → {read[1]:,} of them read" if any(read) else ""
        yield f"Total{change}{shown}."


def _times(first: ExplainedPlan, second: ExplainedPlan, pairs: Sequence[Pair]) -> Iterator[str]:
    """Where the time went: of the change, what each node or pair of nodes has."""
    if first.nodes_ms is None or second.nodes_ms is None:
        return
    change = second.nodes_ms - first.nodes_ms
    if first.execution_ms is not None and second.execution_ms is not None:
        times = [milliseconds(plan.execution_ms) for plan in (first, second)]
        yield f"Executed in {times[0]} (A) and {times[1]} (B)."
    if not change or abs(change) < _SHARE_MIN * max(first.nodes_ms, second.nodes_ms):
        return
    firsts, seconds = {a.id for a, _ in pairs}, {b.id for _, b in pairs}
    moved = [((b.own_ms or 0.0) - (a.own_ms or 0.0), title(b)) for a, b in pairs]
    for sign, plan, taken, side in ((-1, first, firsts, "A"), (1, second, seconds, "B")):
        alone = [node for node in plan.nodes if node.id not in taken]
        moved += [(sign * (node.own_ms or 0.0), f"{title(node)}, only in {side}") for node in alone]
    moved = [each for each in moved if abs(each[0]) >= _SHARE_MIN * abs(change)]
    moved.sort(key=lambda each: -abs(each[0]))
    same = [each for each in moved if each[0] * change > 0][:3]
    against = [each for each in moved if each[0] * change < 0][:2]
    word, other = ("less", "more") if change < 0 else ("more", "less")
    if against and same:
        # Shares of what is left of both would come to more than all of it.
        words = join([f"{milliseconds(abs(ms))} {word} at the {name}" for ms, name in same])
        back = join([f"{milliseconds(abs(ms))} {other} at the {name}" for ms, name in against])
        yield f"In all {milliseconds(abs(change))} {word} in B: {words}; but {back}."
    elif same and sum(ms for ms, _ in same) / change > _ALL_MAX:
        # What went the other way is in many nodes, none of which is worth a name.
        words = join([f"{milliseconds(abs(ms))} {word} at the {name}" for ms, name in same])
        rest = milliseconds(abs(sum(ms for ms, _ in same) - change))
        yield f"In all {milliseconds(abs(change))} {word} in B: {words}; but {rest} {other} at other nodes."
    elif same:
        told = [f"{milliseconds(abs(ms))} ({percent_fixed(ms / change)}) at the {name}" for ms, name in same]
        yield f"In all {milliseconds(abs(change))} {word} in B: {join(told)}."
