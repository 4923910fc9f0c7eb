"""Which part of a workload's reads can be asynchronous, by its plans.

In 18 and 19 only read streams read asynchronously (`model/aio.py` has the sources): plain and index-only
scans, and the index part of a bitmap scan, read page by page whatever the method.
"""

from collections.abc import Callable, Iterator, Mapping

from pgassay.analysis.causes.evidence import Evidence
from pgassay.model.aio import AIO_NODES, can_read_asynchronously
from pgassay.plans.plan_shape import PlanNode, children_of, number

_BY_INDEX = frozenset({"Index Scan", "Index Only Scan", "Bitmap Index Scan"})
_BITMAP_HEAP = "Bitmap Heap Scan"
_BLOCKS = "Shared Read Blocks"


def synchronous_share(evidence: Evidence) -> float | None:
    """The share of reads that can't be asynchronous, between 0 and 1; None without plans that scan.

    A plan that was executed tells the blocks that each node read. Of one that was not, the planner's costs of
    the scans stand for them: a sequential scan of one page beside an index scan of thousands weighs next to
    nothing. Statements count by what the device delivered for them, where that is known, else alike.
    """
    major = evidence.server.major or 0
    return _share(evidence, lambda kind: not can_read_asynchronously(kind, major))


def index_share(evidence: Evidence) -> float | None:
    """The share of reads that index scans do, whatever the version, weighed as in `synchronous_share`."""
    return _share(evidence, lambda kind: kind in _BY_INDEX)


def prefetched_share(evidence: Evidence) -> float | None:
    """The share of reads that effective_io_concurrency prefetches before 18, by bitmap heap scans alone
    (src/backend/executor/nodeBitmapHeapscan.c of 16 and 17, BitmapPrefetch); weighed as the others."""
    return _share(evidence, lambda kind: kind == _BITMAP_HEAP)


def _share(evidence: Evidence, is_counted: Callable[[str], bool]) -> float | None:
    delivered = {item.name: float(item.delivered_bytes or 0) for item in evidence.work.statements}
    counted = total = 0.0
    for name, plan in evidence.work.plans.items():
        scans = list(_scans(plan))
        all_read = sum(weight for _, weight in scans)
        importance = delivered.get(name, 0.0) if any(delivered.values()) else 1.0
        if all_read <= 0 or importance <= 0:
            continue
        counted += importance * sum(weight for kind, weight in scans if is_counted(kind)) / all_read
        total += importance
    return counted / total if total > 0 else None


def _scans(plan: object) -> Iterator[tuple[str, float]]:
    """Each scan's kind and how much it reads: blocks where the plan tells them, else its cost."""
    top = plan.get("Plan", plan) if isinstance(plan, Mapping) else None
    if isinstance(top, Mapping):
        yield from _weighed(top, 1.0, has_blocks=number(top, _BLOCKS) > 0)


def _weighed(node: PlanNode, times: float, *, has_blocks: bool) -> Iterator[tuple[str, float]]:
    kind, children = str(node.get("Node Type", "")), list(children_of(node))
    if kind in AIO_NODES or kind in _BY_INDEX:
        key = _BLOCKS if has_blocks else "Total Cost"
        # Of both a node's figure holds its children's; a cost is that of one of its executions.
        own = number(node, key) - sum(number(child, key) for child in children)
        yield kind, max(0.0, own) * (1.0 if has_blocks else times)
    for place, child in enumerate(children):
        repeats = _repeats(children) if kind == "Nested Loop" and place == 1 else 1.0
        yield from _weighed(child, times * repeats, has_blocks=has_blocks)


def _repeats(children: list[PlanNode]) -> float:
    """How often the inner side of a nested loop is run, by the planner: once for each row of the outer."""
    return max(1.0, number(children[0], "Plan Rows"))
