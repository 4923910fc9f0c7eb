"""work_mem and hash_mem_multiplier where nodes went to disk; shared_buffers where pages are read again.

Evidence: a sort, hash, aggregate or stored result on disk in an executed plan, with what it took there; pages
read from the system though the statements' tables and indexes would fit into a larger shared_buffers.
Threshold: what is needed times the statement's such nodes, processes and clients must fit into a quarter of
the machine's memory, or into 1 GB where that is not known, since work_mem is taken by each of them;
shared_buffers at most 40 % of memory (PostgreSQL's manual, "Resource Consumption": more is unlikely to help).
Also: a bitmap that kept whole pages instead of rows, and a subplan of IN whose rows were too many to be
hashed. Prediction: for sorts by how often their runs were written; for hashes only the I/O that the plan
timed, since many small ones fit the processor's caches and a large one does not; a page as copied
from the page cache. With more memory the planner may take another plan altogether: what it may save at most
is most of the node's time, and decides whether it is tried.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.plans.findings import stopped_early
from pgassay.plans.plan_cost import is_hashed
from pgassay.tune.candidate import Candidate, TunedStatement
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, TableScan
from pgassay.tune.finders.evidence.work import size_in_words

_MEMORY_SHARE, _MEMORY_UNKNOWN_KB = 0.25, 1 << 20
_BUFFERS_SHARE, _READ_MIN = 0.4, 0.2
_HASH_MULTIPLIER_MAX = 8.0
_READ_BLOCK_MS = 0.0012
# Measured on PostgreSQL 18 with temporary files in the page cache: what a sort of 200,000 texts, and groups
# in more than 32 batches, gained by memory. A hash join in 8 batches lost by it.
_SORT_SHARE, _AGGREGATE_SHARE, _MANY_BATCHES = 0.09, 0.12, 32
_WAIT_SHARE_MIN = 0.25
# The work itself stays: a fifth of a node's time at least.
_SAVED_MAX = 0.8
# tidbitmap.c: an entry of a page, with the room that its hash table leaves free.
_BITMAP_PAGE_BYTES = 100
# The hash table of a subplan is estimated at its rows; some room is left for an estimate that is a little
# low.
_HASHED_TIMES = 1.5
# In memory a row of a sort or hash has a header, padding and its place in an array (tuplesort.c, nodeHash.c).
_ROW_OVERHEAD_BYTES = 56
# A group of a hash aggregate has its key and its states, each about as wide as its column, and its place in
# the table. Before 18 each part was allocated by itself. Measured on 16 to 19 for one to four columns.
_GROUP_WIDTHS, _GROUP_OVERHEAD_BYTES, _GROUP_OVERHEAD_BYTES_BEFORE_18 = 2, 120, 160
_FIRST_WITH_SMALL_GROUPS = 180000
_KB = 1024
UNTRIED = (
    "shared buffers are empty before each statement in this cache state, so no trial shows "
    "what larger ones save: it is reported, not tested; --cache as-is tests it"
)


def _needed_kb(plan: ExplainedPlan, node: PlanNode, version: int) -> float:
    """The memory with which the node would not have gone to disk, for one process.

    version: of the server, as in server_version_num.
    """
    if node.type == "Aggregate":
        return _groups_kb(plan, node, version)
    rows = (node.rows or 0.0) * max((node.loops or 1.0) / max(node.processes, 1.0), 1.0)
    by_width = rows * ((node.width or 16) + _ROW_OVERHEAD_BYTES) / _KB
    processes = max(node.processes, 1.0)
    if node.batches and node.batches > 1 and node.memory_kb:
        # All processes share the table of a parallel hash, and may each give as much to it
        # (ExecChooseHashTableSize of src/backend/executor/nodeHash.c).
        whole_kb = node.memory_kb * node.batches * 1.2
        return max(whole_kb / processes if node.parallel else whole_kb, by_width)
    # What the sorts of all processes took together.
    return max(by_width, (node.sort_kb or node.disk_kb or 0) * 1.3 / processes)


def _groups_kb(plan: ExplainedPlan, node: PlanNode, version: int) -> float:
    """What all groups of a hash aggregate take at once.

    Not its batches times its memory: most of them are far from full. HAVING takes away groups that were in
    the table, and where a LIMIT above had enough of them the estimate tells how many there are.
    """
    small = version >= _FIRST_WITH_SMALL_GROUPS
    each = _GROUP_OVERHEAD_BYTES if small else _GROUP_OVERHEAD_BYTES_BEFORE_18
    groups = (node.rows or 0.0) + (node.rows_removed or 0.0)
    if node.id in stopped_early(plan.nodes):
        groups = max(groups, node.rows_estimated or 0.0)
    needed = groups * (_GROUP_WIDTHS * (node.width or 16) + each) / _KB
    # Wide states (array_agg) are not in the width; what was taken is the least.
    return max(needed, (node.memory_kb or 0) * 1.2)


def _saved_ms(plan: ExplainedPlan, node: PlanNode) -> float:
    """What memory would save in a node that went to disk; times include those of the nodes below."""
    below = [each for each in plan.nodes if each.parent == node.id]
    timed = (node.temp_io_read_ms or 0.0) + (node.temp_io_write_ms or 0.0)
    timed -= sum((each.temp_io_read_ms or 0.0) + (each.temp_io_write_ms or 0.0) for each in below)
    # Summed over all processes, where the node's time is that of each.
    timed /= max(node.processes, 1.0)
    own = node.own_ms or 0.0
    share = 0.0
    if node.sort_kb:
        # Runs are written once and read once for each pass that merges them.
        blocks = max(node.sort_kb / 8, 1.0)
        share = min(_SORT_SHARE * max((node.temp_written or 0) / blocks, 1.0), 0.5)
    elif node.type == "Aggregate":
        share = _AGGREGATE_SHARE if (node.batches or 0) > _MANY_BATCHES else 0.0
    # A hash in batches fits the processor's caches better than a large one: only its I/O is a loss.
    waited = timed if timed > _WAIT_SHARE_MIN * own else 0.0
    return min(max(waited, share * own), _SAVED_MAX * own)


def _saving(
    statement: TunedStatement, number: int, plan: ExplainedPlan, nodes: tuple[PlanNode, ...]
) -> ExpectedSaving:
    """What memory would save in these nodes, and what another plan would at most."""
    most = _SAVED_MAX * sum(each.own_ms or 0.0 for each in nodes)
    return ExpectedSaving(statement.name, number, sum(_saved_ms(plan, each) for each in nodes), most)


def _lossy(evidence: FinderEvidence) -> Iterator[tuple[TableScan, float, float]]:
    """Scans whose bitmap kept pages without their rows, with what it needs in kB and what that saves."""
    for scan in evidence.scans:
        lossy, exact = scan.node.heap_blocks_lossy or 0, scan.node.heap_blocks_exact or 0
        if scan.node.type == "Bitmap Heap Scan" and lossy > exact:
            again = 1 - scan.rows / max(scan.rows_in, 1.0)
            yield scan, (lossy + exact) * _BITMAP_PAGE_BYTES / _KB, 0.8 * scan.ms * again


def _not_hashed(evidence: FinderEvidence) -> Iterator[tuple[TunedStatement, int, PlanNode, float, float]]:
    """Subplans of IN that were run through for each row, since a hash of their rows was too large."""
    for statement, number, plan in evidence.plans:
        for node in plan.nodes:
            loops = node.loops or 0.0
            if not (node.subplan or "").startswith("SubPlan") or node.type != "Materialize" or loops < 100:
                continue
            top = plan.nodes[node.parent] if node.parent is not None else None
            condition = top.conditions.get("Filter", "") if top is not None else ""
            subplan = str(node.subplan)
            if top is None or subplan not in condition or is_hashed(subplan, condition):
                continue
            # ExecSubPlan takes its time in the node above; the estimate decides (subplan_is_hashable).
            rows = max(node.rows_estimated or 0.0, 1.0)
            needed = rows * ((node.width or 8) + _ROW_OVERHEAD_BYTES) * _HASHED_TIMES / _KB
            spent = (node.total_ms or 0.0) + (top.own_ms or 0.0)
            yield statement, number, node, needed, 0.95 * spent


def _is_hash(node: PlanNode) -> bool:
    return node.type == "Hash" or (node.type == "Aggregate" and bool(node.batches))


def _work_mem(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    have_kb = evidence.setting("work_mem", 4096)
    multiplier = evidence.setting("hash_mem_multiplier", 2.0)
    memory = evidence.symptom.machine.memory_bytes
    limit_kb = memory * _MEMORY_SHARE / _KB if memory else _MEMORY_UNKNOWN_KB
    clients = max(evidence.symptom.clients, 1)
    needed: dict[str, float] = {}
    savings: dict[str, list[ExpectedSaving]] = {"sort": [], "hash": []}
    sentences: dict[str, list[str]] = {"sort": [], "hash": []}
    for statement, number, plan in evidence.plans:
        spilled = [node for node in plan.nodes if node.disk and not node.never_executed]
        kept = [node for node in plan.nodes if node.disk is not None]
        for node in spilled:
            kind = "hash" if _is_hash(node) else "sort"
            need_kb = _needed_kb(plan, node, evidence.facts.version)
            processes = max(node.processes, 1.0)
            if need_kb * len(kept) * processes * clients > limit_kb:
                continue
            needed[kind] = max(needed.get(kind, 0.0), need_kb)
            above = plan.nodes[node.parent] if node.parent is not None and node.type == "Hash" else None
            pair = (node, above) if above else (node,)
            savings[kind].append(_saving(statement, number, plan, pair))
            sentences[kind].append(
                f"{node.name} of {statement.name} went to disk ({need_kb / _KB:,.0f} MB would do)"
            )
    for scan, need_kb, saved in _lossy(evidence):
        if need_kb * clients > limit_kb:
            continue
        needed["sort"] = max(needed.get("sort", 0.0), need_kb)
        savings["sort"].append(ExpectedSaving(scan.statement.name, scan.plan_number, saved))
        sentences["sort"].append(
            f"{scan.node.heap_blocks_lossy or 0:,} pages of the bitmap of {scan.read_table.name} did not fit "
            "with their rows, so all rows on them were compared"
        )
    for statement, number, node, need_kb, saved in _not_hashed(evidence):
        if need_kb * clients <= limit_kb:
            needed["hash"] = max(needed.get("hash", 0.0), need_kb)
            savings["hash"].append(ExpectedSaving(statement.name, number, saved))
            sentences["hash"].append(
                f"{node.subplan} of {statement.name} was scanned {node.loops or 0:,.0f} times "
                "instead of being "
                "hashed"
            )
    if needed:
        yield from _offers(needed, savings, sentences, have_kb, multiplier, limit_kb / clients)


def _offers(
    needed: Mapping[str, float],
    savings: Mapping[str, list[ExpectedSaving]],
    sentences: Mapping[str, list[str]],
    have_kb: float,
    multiplier: float,
    most_kb: float,
) -> Iterator[FinderOffer]:
    """The settings for what sorts and hashes need in kB; `most_kb` fits into the memory of one client."""
    wanted_kb = max(needed.get("sort", 0.0), needed.get("hash", 0.0) / max(multiplier, 1.0))
    wanted_mb = max(math.ceil(wanted_kb / _KB), 1)
    # A round number, but for what would no longer fit.
    work_mem_mb = min(2 ** math.ceil(math.log2(wanted_mb)), max(wanted_mb, int(most_kb / _KB)))
    if work_mem_mb * _KB > have_kb:
        yield _setting(
            f"work_mem:{work_mem_mb}MB", "work-mem", f"work_mem = {work_mem_mb}MB",
            _reason([*sentences["sort"], *sentences["hash"]]), {"work_mem": f"{work_mem_mb}MB"},
            [*savings["sort"], *savings["hash"]],
        )  # fmt: skip
    # For hashes alone, also where sorts are too large for memory: what these need is another question.
    factor = math.ceil(2 * needed.get("hash", 0.0) / have_kb) / 2
    if multiplier < factor <= _HASH_MULTIPLIER_MAX:
        reason = _reason(sentences["hash"]) + ("" if "sort" in needed else "; no sort did")
        yield _setting(
            f"hash_mem_multiplier:{factor:g}", "hash-memory", f"hash_mem_multiplier = {factor:g}",
            reason, {"hash_mem_multiplier": f"{factor:g}"}, savings["hash"],
        )  # fmt: skip


def _reason(sentences: Sequence[str]) -> str:
    return "; ".join(list(dict.fromkeys(sentences))[:3])


def _setting(
    id_: str,
    kind: str,
    title: str,
    reason: str,
    settings: dict[str, str],
    savings: list[ExpectedSaving],
    *,
    why_not: str = "",
) -> FinderOffer:
    candidate = Candidate(
        id=id_, layer="infrastructure", kind=kind, title=title, reason=reason, statements=(),
        settings=settings, restart="shared_buffers" in settings, bytes=0, why_not=why_not,
    )  # fmt: skip
    return FinderOffer(candidate, tuple(savings))


def _shared_buffers(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    memory = evidence.symptom.machine.memory_bytes
    if not memory:
        return
    block = evidence.facts.block_bytes
    have = evidence.setting("shared_buffers") * block
    touched = {(scan.read_table.schema_, scan.read_table.name): scan.read_table for scan in evidence.scans}
    used = {name for scan in evidence.scans for name in scan.indexes}
    working = sum(
        table.pages * block + sum(index.bytes for index in table.indexes if index.name in used)
        for table in touched.values()
    )
    # A scan of a table larger than a quarter of shared_buffers keeps to a small ring (freelist.c).
    largest = max((table.pages * block for table in touched.values()), default=0)
    wanted = max(working * 1.2, largest * 4.2)
    if (working * 0.9 < have and largest * 4 < have) or wanted > _BUFFERS_SHARE * memory:
        return
    size_mb = 2 ** math.ceil(math.log2(max(wanted / (1 << 20), 128)))
    size_mb = min(size_mb, int(_BUFFERS_SHARE * memory / (1 << 20)))
    if size_mb * (1 << 20) <= have * 1.2:
        return
    savings, read_all, all_ = [], 0, 0
    for statement, number, plan in evidence.plans:
        top = plan.nodes[0]
        read, hit = top.buffers_read or 0, top.buffers_hit or 0
        read_all, all_ = read_all + read, all_ + read + hit
        if read < _READ_MIN * (read + hit):
            continue
        timed = top.io_read_ms or 0.0
        processes = max((node.processes for node in plan.nodes), default=1.0)
        savings.append(
            ExpectedSaving(
                statement.name, number, max(timed * 0.9, read * _READ_BLOCK_MS) / max(processes, 1.0)
            )
        )
    if not savings:
        return
    yield _setting(
        f"shared_buffers:{size_mb}MB", "shared-buffers", f"shared_buffers = {size_mb}MB",
        f"{read_all:,} of {all_:,} pages were read from the system; the statements' tables and indexes are "
        f"{size_in_words(working)}, shared_buffers {size_in_words(have)}",
        {"shared_buffers": f"{size_mb}MB"}, savings,
        why_not=UNTRIED if evidence.symptom.machine.empties_buffers else "",
    )  # fmt: skip


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    yield from _work_mem(evidence)
    yield from _shared_buffers(evidence)


MEMORY = Finder("memory", "infrastructure", ("work-mem", "hash-memory", "shared-buffers"), _find)
