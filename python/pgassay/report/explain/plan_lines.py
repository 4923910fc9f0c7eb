"""A plan's nodes as lines: their own time and its share before them, what matters of their work below."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.plans.findings import misestimates
from pgassay.plans.node_wording import milliseconds, rows_words, size_kb, title
from pgassay.report.section import ALARM, QUIET, WARNING, Tone, TreeLine
from pgassay.words import percent_fixed, plural

# A share of the statement's time that is hot, and one that is warm.
_HOT, _WARM = 0.3, 0.1
_BAR = 5
_LEAD_WIDTH = 24
# Without its bar, for a narrow screen.
_NARROW_LEAD_WIDTH = 18
_BLANK, _BLANK_SHORT = " " * _LEAD_WIDTH, " " * _NARROW_LEAD_WIDTH
# More lines than anybody reads; --json has them all.
NODES_SHOWN_MAX = 1000
# Deeper nodes are not moved in further: their depth is said instead.
_INDENTED_MAX = 30
# Browsers keep about 500 levels of a page's elements.
_FOLDED_MAX = 100
_CONDITION_MAX = 300
_IO_MIN_MS = 0.01
_CONDITIONS = (
    "Index Cond", "Hash Cond", "Merge Cond", "Join Filter", "Filter", "One-Time Filter", "TID Cond",
    "Order By", "Sort Key", "Group Key", "Cache Key", "Recheck Cond", "Run Condition", "Window",
)  # fmt: skip


def tree_lines(plan: ExplainedPlan, changed: Mapping[int, str] | None = None) -> Iterator[TreeLine]:
    """A plan's tree; `changed` marks nodes that another plan has otherwise, with a word each."""
    nodes, wrong = plan.nodes[:NODES_SHOWN_MAX], misestimates(plan)
    for node, following in zip(nodes, [*nodes[1:], None], strict=True):
        lines = list(_node_lines(plan, node, (changed or {}).get(node.id, ""), wrong.get(node.id)))
        level, below = min(node.depth, _FOLDED_MAX), min(following.depth, _FOLDED_MAX) if following else 0
        # Deeper nodes stand beside each other in the fold of the last level.
        opens = level < _FOLDED_MAX and (len(lines) > 1 or below > level)
        lines[0] = replace(lines[0], opens=opens)
        lines[-1] = replace(lines[-1], closes=level - below + opens if below <= level else 0)
        yield from lines
    left = len(plan.nodes) - NODES_SHOWN_MAX
    if left > 0:
        text = f"… {left:,} further nodes: --json has all of them"
        yield TreeLine(0, text, QUIET, lead=_BLANK, lead_short=_BLANK_SHORT)


def _node_lines(
    plan: ExplainedPlan, node: PlanNode, mark: str, misestimate: float | None
) -> Iterator[TreeLine]:
    depth = min(node.depth, _INDENTED_MAX)
    deep = f"[{node.depth}] " if node.depth > _INDENTED_MAX else ""
    label = f"{node.subplan}: " if node.subplan else ""
    words = f"{deep}{label}{title(node)}  #{node.id}{_rows(node)}"
    yield TreeLine(
        depth,
        f"{words}  [{mark}]" if mark else words,
        _heat(plan, node),
        mark="-> " if node.depth else "",
        differs=bool(mark),
        lead=_lead(plan, node),
        lead_short=_lead(plan, node)[:_NARROW_LEAD_WIDTH].ljust(_NARROW_LEAD_WIDTH),
    )
    for text, tone in _details(node, misestimate):
        yield TreeLine(depth, text, tone, mark="     ", lead=_BLANK, lead_short=_BLANK_SHORT)


def _share(plan: ExplainedPlan, node: PlanNode) -> float | None:
    if node.own_ms is None or not plan.nodes_ms or plan.nodes_ms <= 0:
        return None
    return node.own_ms / plan.nodes_ms


def _heat(plan: ExplainedPlan, node: PlanNode) -> Tone:
    share = _share(plan, node)
    if node.never_executed:
        return QUIET
    if share is None or share < _WARM:
        return ""
    return ALARM if share >= _HOT else WARNING


def _lead(plan: ExplainedPlan, node: PlanNode) -> str:
    """The own time, its share of the statement's in figures and as a bar."""
    share = _share(plan, node)
    if node.never_executed:
        return "never run".rjust(_LEAD_WIDTH - 2).ljust(_LEAD_WIDTH)
    if share is None:
        cost = "" if node.cost_total is None else f"cost {node.cost_total:,.0f}"
        return cost[: _LEAD_WIDTH - 2].rjust(_LEAD_WIDTH - 2).ljust(_LEAD_WIDTH)
    bar = "#" * round(_BAR * min(1.0, max(0.0, share)))
    figures = f"{milliseconds(node.own_ms):>10} {percent_fixed(share):>5}"
    return f"{figures} {bar:<{_BAR}}".ljust(_LEAD_WIDTH)


def _rows(node: PlanNode) -> str:
    if node.rows is None or node.never_executed:
        return "" if node.rows_estimated is None else f"  estimated {rows_words(node.rows_estimated)}"
    loops = f" × {node.loops:,.0f}" if node.loops not in (None, 1) else ""
    estimated = "" if node.rows_estimated is None else f" (estimated {_number(node.rows_estimated)})"
    return f"  {rows_words(node.rows)}{loops}{estimated}"


def _number(rows: float) -> str:
    return rows_words(rows).split()[0]


def _details(node: PlanNode, misestimate: float | None) -> Iterator[tuple[str, Tone]]:
    if misestimate is not None:
        word = "few" if (node.rows or 0.0) > (node.rows_estimated or 0.0) else "many"
        yield f"{misestimate:,.0f} × too {word} rows estimated", WARNING
    if node.disk:
        yield _spill(node), ALARM
    for key in _CONDITIONS:
        value = node.conditions.get(key)
        if value and not (key == "Recheck Cond" and node.type == "Bitmap Heap Scan"):
            shown = value if len(value) <= _CONDITION_MAX else f"{value[:_CONDITION_MAX]} …"
            yield f"{key}: {shown}", QUIET
    figures = list(_figures(node))
    if figures:
        yield ", ".join(figures), QUIET


def _spill(node: PlanNode) -> str:
    if node.sort_method:
        return f"on disk: {node.sort_method} {size_kb(node.sort_kb)}"
    if node.batches and node.batches > 1:
        size = f", {size_kb(node.disk_kb)}" if node.disk_kb else ""
        return f"on disk: {node.batches} batches{size}"
    return f"on disk: {size_kb(node.disk_kb)}"


def _figures(node: PlanNode) -> Iterator[str]:
    if node.rows_removed:
        yield f"{rows_words(node.rows_removed)} removed{' in each loop' if (node.loops or 0) > 1 else ''}"
    if node.heap_fetches:
        yield f"{node.heap_fetches:,} heap fetches"
    if node.index_searches is not None and node.index_searches > (node.loops or 0):
        yield f"{node.index_searches:,} index searches"
    if node.sort_method and not node.disk:
        yield f"{node.sort_method} {size_kb(node.sort_kb)}"
    elif node.memory_kb and not node.disk:
        yield f"{size_kb(node.memory_kb)} of memory"
    if node.heap_blocks_lossy:
        yield f"{node.heap_blocks_lossy:,} lossy heap blocks"
    if node.cache_misses:
        yield f"{node.cache_hits or 0:,} cache hits, {node.cache_misses:,} misses"
    if node.workers_planned is not None:
        launched = "" if node.workers_launched is None else f", {node.workers_launched} launched"
        yield f"{plural(node.workers_planned, 'worker')} planned{launched}"
    if node.subplans_removed:
        yield f"{node.subplans_removed} partitions left out at the start"
    if node.own_buffers_hit or node.own_buffers_read:
        yield f"blocks of its own: {node.own_buffers_hit or 0:,} hit, {node.own_buffers_read or 0:,} read"
    if node.own_temp_read or node.own_temp_written:
        yield f"temporary blocks: {node.own_temp_read or 0:,} read, {node.own_temp_written or 0:,} written"
    # Rounded to a microsecond at each of the nodes that are subtracted.
    if (node.own_io_read_ms or 0.0) >= _IO_MIN_MS:
        yield f"{milliseconds(node.own_io_read_ms)} of reading"
    if node.own_wal_records:
        yield f"{node.own_wal_records:,} WAL records"


def heading() -> TreeLine:
    """What stands above the lines."""
    lead = f"{'own time':>10} {'share':>5}"
    return TreeLine(
        0,
        "node  rows × loops (estimated)",
        QUIET,
        lead=lead.ljust(_LEAD_WIDTH),
        lead_short=lead.ljust(_NARROW_LEAD_WIDTH),
    )


def narrowed(lines: Iterable[TreeLine]) -> Iterator[TreeLine]:
    """The lines for half a page."""
    for line in lines:
        yield replace(line, lead=line.lead_short)


def text_lines(lines: Sequence[TreeLine]) -> str:
    """The same lines as one text, for an output without a tree."""
    return "\n".join(f"{line.lead}{'  ' * line.depth}{line.mark}{line.text}".rstrip() for line in lines)
