"""Settings that a plan calls for: memory for what went to disk, no compilation where it takes too long."""

from collections.abc import Iterator, Sequence

from pgassay.model.plans.explained_plan import ExplainedPlan, PlanAdvice, PlanNode
from pgassay.plans.node_wording import Order, label, size_kb
from pgassay.plans.plan_cost import matters

# A sort in memory takes about so many times what its file does, whose tuples have no pointers.
_MEMORY_OF_FILE = 2.5
_WORK_MEM_MAX_KB = 1024**2
# A bitmap takes about 64 bytes for each page: of so many kB it has 8 GB of a table.
_LOSSY_KB = 64 * 1024


def memory(plan: ExplainedPlan) -> Iterator[PlanAdvice]:
    """A size of work_mem in which what went to disk would stay, and a bitmap would have every row."""
    wanted = 0.0
    lossy = [node for node in plan.nodes if node.heap_blocks_lossy and matters(plan, node)]
    for node in plan.nodes:
        if node.disk and matters(plan, node):
            file_kb = _largest_file_kb(node)
            batched = (node.memory_kb or 0) * (node.batches or 1) if node.batches else 0
            wanted = max(wanted, file_kb * _MEMORY_OF_FILE, batched)
    if not wanted:
        yield from _of_bitmaps(lossy)
        return
    wanted = max(wanted, _LOSSY_KB) if lossy else wanted
    value = next((kb for kb in (8192 * 2**power for power in range(8)) if kb >= wanted), _WORK_MEM_MAX_KB)
    shown = f"{value // 1024}MB" if value < 1024**2 else "1GB"
    yield PlanAdvice(
        kind="setting",
        sentence=f"The temporary files would fit into about {size_kb(round(wanted))} of work_mem; every "
        "sort and hash of every session may take as much, so set it for this statement only.",
        sql=f"SET work_mem = '{shown}';",
    )


def _of_bitmaps(lossy: Sequence[PlanNode]) -> Iterator[PlanAdvice]:
    for node in lossy[:1]:
        yield PlanAdvice(
            kind="setting",
            node=node.id,
            sentence=f"The bitmap of {label(node, Order.LOWER)} did not fit in work_mem, so that all rows of "
            "some pages were checked: try more; every sort and hash of every session may take as much, so "
            "set it for this statement only.",
            sql=f"SET work_mem = '{_LOSSY_KB // 1024}MB';",
        )


def _largest_file_kb(node: PlanNode) -> int:
    """The temporary files of one process: each of a parallel sort has work_mem of its own."""
    sizes = [[getattr(worker, name) or 0 for worker in node.workers] for name in ("sort_kb", "disk_kb")]
    wholes = [node.sort_kb or 0, node.disk_kb or 0]
    # A node's figure is that of all its processes: what the workers do not have is the leader's.
    return max(max(0, whole - sum(of), *of) for whole, of in zip(wholes, sizes, strict=True))


def jit(plan: ExplainedPlan) -> Iterator[PlanAdvice]:
    """Compilation that takes longer than it spares."""
    if any(finding.kind == "jit" for finding in plan.findings):
        yield PlanAdvice(
            kind="setting",
            sentence="JIT compilation takes a large part of this statement: try it without.",
            sql="SET jit = off;",
        )
