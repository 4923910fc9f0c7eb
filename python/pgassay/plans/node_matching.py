"""Which node of one plan is which of another: by what it does, then by what it reads, then by its kind."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from difflib import SequenceMatcher

from pgassay.model.plans.explained_plan import PlanNode

# Aligning takes time by the product of the lengths; longer plans are matched by equal nodes in their order.
_ALIGNED_MAX = 1500


def matched(first: Sequence[PlanNode], second: Sequence[PlanNode]) -> dict[int, int]:
    """The ids of the first plan's nodes → those of the second's, as far as there are any."""
    found: dict[int, int] = {}
    if max(len(first), len(second)) <= _ALIGNED_MAX:
        sides = [[_whole(node) for node in nodes] for nodes in (first, second)]
        for block in SequenceMatcher(None, sides[0], sides[1], autojunk=False).get_matching_blocks():
            found.update((block.a + step, block.b + step) for step in range(block.size))
    for key in (_whole, _scanned, _read, _kind):
        _add(found, first, second, key)
    return found


def _add(
    found: dict[int, int],
    first: Sequence[PlanNode],
    second: Sequence[PlanNode],
    key: Callable[[PlanNode], Hashable],
) -> None:
    """Match what is left with its like, in the order of the plans."""
    taken = set(found.values())
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for node in reversed(second):
        if node.id not in taken:
            waiting[key(node)].append(node.id)
    for node in first:
        if node.id in found:
            continue
        name = key(node)
        if name is not None and waiting.get(name):
            found[node.id] = waiting[name].pop()


def _whole(node: PlanNode) -> Hashable:
    return (node.type, node.relation, node.alias, node.index, node.join_type, _subplan(node))


def _scanned(node: PlanNode) -> Hashable | None:
    """What a scan reads: an index of a bitmap has no table of its own."""
    return (node.relation, node.alias) if node.relation is not None else None


def _read(node: PlanNode) -> Hashable | None:
    """A table whatever its alias: one partition that is left has that of the whole table."""
    return (node.relation, node.relation_schema) if node.relation is not None else None


def _kind(node: PlanNode) -> Hashable | None:
    """A node without a table: joins are of one kind, whatever their method."""
    if node.relation is not None or node.index is not None:
        return None
    kind = "join" if node.join_type is not None else node.type
    return (kind, _subplan(node))


def _subplan(node: PlanNode) -> str | None:
    """The versions number InitPlans and SubPlans alike, and name parameters or not."""
    return node.subplan.partition(" (")[0] if node.subplan else None
