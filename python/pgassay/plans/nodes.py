"""The nodes of a plan's document (EXPLAIN's JSON, or its text in that form) with the figures that they have.

The two forms differ in what they leave out: the JSON writes zeros and words that the text does not. Both come
to the same here. A count of blocks is null where the whole plan touched none, since the text can't tell that
from EXPLAIN without BUFFERS.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pgassay.model.plans.explained_plan import PlanWorker
from pgassay.plans.explain_output.text_names import operation_name
from pgassay.plans.node_extras import conditions_of, other_of, text_of

NODES_MAX = 100_000
Keys = Mapping[str, object]
_REMOVED = tuple(
    f"Rows Removed by {what}" for what in ("Filter", "Join Filter", "Index Recheck", "Conflict Filter")
)
_BLOCKS = {
    f"{name}_{key}": f"{scope} {key.title()} Blocks"
    for name, scope in (("buffers", "Shared"), ("local", "Local"), ("temp", "Temp"))
    for key in ("hit", "read", "dirtied", "written")
    if scope != "Temp" or key in ("read", "written")
}
_TIMES = {
    "io_read_ms": ("I/O Read Time", "Shared I/O Read Time", "Local I/O Read Time"),
    "io_write_ms": ("I/O Write Time", "Shared I/O Write Time", "Local I/O Write Time"),
    "temp_io_read_ms": ("Temp I/O Read Time",),
    "temp_io_write_ms": ("Temp I/O Write Time",),
}
_WAL = {"wal_records": "WAL Records", "wal_fpi": "WAL FPI", "wal_bytes": "WAL Bytes"}
_COUNTS = {
    "heap_fetches": "Heap Fetches",
    "index_searches": "Index Searches",
    "workers_planned": "Workers Planned",
    "workers_launched": "Workers Launched",
    "width": "Plan Width",
}
# A parallel worker has these of its own, which are not in the node's.
_COUNTS_OF_EACH = {
    "cache_hits": "Cache Hits",
    "cache_misses": "Cache Misses",
    "cache_evictions": "Cache Evictions",
    "cache_overflows": "Cache Overflows",
}
# The JSON has these with 0 where the text leaves them out; the blocks are those of each process from 18 on.
_NONZERO = {
    "heap_blocks_exact": "Exact Heap Blocks",
    "heap_blocks_lossy": "Lossy Heap Blocks",
    "subplans_removed": "Subplans Removed",
}
_FIGURES = {
    "startup_loop_ms": "Actual Startup Time",
    "loop_ms": "Actual Total Time",
    "cost_startup": "Startup Cost",
    "cost_total": "Total Cost",
    "rows_estimated": "Plan Rows",
    "rows": "Actual Rows",
    "loops": "Actual Loops",
}
_SOURCES = ("Relation Name", "Function Name", "Table Function Name", "CTE Name", "Tuplestore Name", "Alias")


@dataclass
class Draft:
    """A node before its own time is known: `values` are fields of PlanNode."""

    id: int
    parent: int | None
    depth: int
    keys: Keys
    values: dict[str, object] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """The node's type, as the JSON has it."""
        return str(self.values["type"])

    @property
    def subplan(self) -> str | None:
        """The name of the InitPlan, SubPlan or CTE whose top the node is."""
        return text_of(self.keys.get("Subplan Name"))

    def number(self, name: str) -> float:
        """A figure of `values`; 0 where there is none."""
        value = self.values.get(name)
        return float(value) if isinstance(value, int | float) else 0.0


def figure(value: object) -> float | None:
    """A finite number of a document; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 and math.isfinite(value) else None


def count(value: object) -> int | None:
    """A whole number that is not negative; None for anything else."""
    number = figure(value)
    return int(number) if number is not None and 0 <= number < 2**63 else None


def children(node: Keys) -> list[Keys]:
    """The nodes just below a node."""
    found = node.get("Plans")
    return [child for child in found if isinstance(child, Mapping)] if isinstance(found, list) else []


def walk(top: Keys) -> Iterator[tuple[int, int | None, int, Keys]]:
    """Every node, parents first: its id, its parent's, its depth and its keys. Any depth is walked."""
    waiting: list[tuple[int | None, int, Keys]] = [(None, 0, top)]
    number = 0
    while waiting:
        parent, depth, node = waiting.pop()
        yield number, parent, depth, node
        waiting += [(number, depth + 1, child) for child in reversed(children(node))]
        number += 1


def drafts_of(document: Keys) -> list[Draft]:
    """The nodes of a document, in the order in which EXPLAIN prints them; raises ValueError for too many."""
    top = document.get("Plan")
    if not isinstance(top, Mapping):
        return []
    made = []
    for number, parent, depth, keys in walk(top):
        if number >= NODES_MAX:
            raise ValueError(f"the plan has more than {NODES_MAX:,} nodes")
        made.append(Draft(number, parent, depth, keys))
    counts_blocks = _any(document, made, _BLOCKS.values())
    counts_times = _any(document, made, [key for keys in _TIMES.values() for key in keys])
    counts_wal = _any(document, made, _WAL.values())
    for draft in made:
        draft.values = _values(draft)
        if counts_blocks:
            draft.values |= {name: count(draft.keys.get(key)) or 0 for name, key in _BLOCKS.items()}
        if counts_times:
            draft.values |= {
                name: round(sum(figure(draft.keys.get(key)) or 0.0 for key in keys), 3)
                for name, keys in _TIMES.items()
            }
        if counts_wal:
            draft.values |= {name: count(draft.keys.get(key)) or 0 for name, key in _WAL.items()}
    return made


def _any(document: Keys, drafts: list[Draft], keys: Iterable[str]) -> bool:
    """Whether any node, or the planning, has one of these figures above 0."""
    planning = document.get("Planning")
    parts = [draft.keys for draft in drafts] + ([planning] if isinstance(planning, Mapping) else [])
    names = tuple(keys)
    return any(figure(part.get(name)) for part in parts for name in names)


def _values(draft: Draft) -> dict[str, object]:
    keys = draft.keys
    loops = figure(keys.get("Actual Loops"))
    executed = loops is not None
    made: dict[str, object] = {
        "type": text_of(keys.get("Node Type")) or "?",
        "name": operation_name(keys),
        "subplan": draft.subplan,
        "relation": next((name for name in map(text_of, map(keys.get, _SOURCES)) if name), None),
        "relation_schema": text_of(keys.get("Schema")),
        "alias": text_of(keys.get("Alias")),
        "index": text_of(keys.get("Index Name")),
        "join_type": text_of(keys.get("Join Type")),
        "parallel": keys.get("Parallel Aware") is True,
        "disabled": keys.get("Disabled") is True,
        "never_executed": loops == 0,
        "conditions": conditions_of(keys),
        "output": text_of(keys.get("Output")),
        "other": other_of(keys),
        "workers": tuple(_workers(keys)),
    }
    made |= {name: figure(keys.get(key)) for name, key in _FIGURES.items()}
    made |= {name: count(keys.get(key)) for name, key in _COUNTS.items()}
    parts = [keys, *_worker_keys(keys)]
    made |= {name: _sum_of(parts, key) for name, key in _COUNTS_OF_EACH.items()}
    made |= {name: _sum_of(parts, key) or None for name, key in _NONZERO.items()}
    if executed:
        removed = [figure(keys.get(key)) for key in _REMOVED]
        total = sum(value for value in removed if value is not None)
        made["rows_removed"] = total if total or {"Filter", "Join Filter"} & keys.keys() else None
        made["rows_rechecked"] = figure(keys.get("Rows Removed by Index Recheck")) or None
    return made | _space(parts, keys)


def _sum_of(parts: list[Keys], key: str) -> int | None:
    """A count of all processes together; None where none has it."""
    found = [number for part in parts if (number := count(part.get(key))) is not None]
    return sum(found) if found else None


# --- Sorts, hashes and stored rows: what they took, and whether it went to disk.


def _space(parts: list[Keys], own: Keys) -> dict[str, object]:
    """The sort, the memory and the disk of a node: all processes together, the largest of their memory."""
    sorts = [text_of(part.get("Sort Method")) for part in parts]
    on_disk = [part.get("Sort Space Type") == "Disk" for part in parts]
    found = [(method, disk) for method, disk in zip(sorts, on_disk, strict=True) if method]
    sort_kb = [size for part in parts if (size := count(part.get("Sort Space Used"))) is not None]
    made: dict[str, object] = {
        # Where one process sorted on disk and another in memory, the disk is what matters.
        "sort_method": next((method for method, disk in found if disk), found[0][0] if found else None),
        "sort_kb": sum(sort_kb) if sort_kb else None,
    }
    is_in_groups = any("Full-sort Groups" in part for part in parts)
    made |= _group_sorts(parts) if is_in_groups and not found else {}
    memory = [size for part in parts if (size := count(part.get("Peak Memory Usage"))) is not None]
    batches = [
        number
        for part in parts
        for key in ("Hash Batches", "HashAgg Batches")
        if (number := count(part.get(key))) is not None
    ]
    disk_kb = [size for part in parts if (size := count(part.get("Disk Usage")))]
    storage, stored_kb = text_of(own.get("Storage")), count(own.get("Maximum Storage"))
    made["memory_kb"] = max(memory) if memory else stored_kb if storage == "Memory" else None
    made["disk_kb"] = sum(disk_kb) if disk_kb else stored_kb if storage == "Disk" else None
    made["batches"] = max(batches) if batches else None
    made["batches_planned"] = count(own.get("Original Hash Batches"))
    can_spill = bool(found or batches or storage or made["sort_method"])
    spilled = any(on_disk) or any(number > 1 for number in batches) or storage == "Disk"
    made["disk"] = (spilled or made.get("disk") is True) if can_spill else None
    return made


def _group_sorts(parts: list[Keys]) -> dict[str, object]:
    """An incremental sort: the methods of its groups and the largest space that one of them took."""
    methods: list[str] = []
    size = 0
    disk = False
    names = ("Full-sort Groups", "Pre-sorted Groups")
    for group in (part.get(name) for part in parts for name in names):
        if not isinstance(group, Mapping):
            continue
        used = group.get("Sort Methods Used")
        methods += [str(each) for each in used if str(each) not in methods] if isinstance(used, list) else []
        for space in ("Memory", "Disk"):
            part = group.get(f"Sort Space {space}")
            if isinstance(part, Mapping):
                size = max(size, count(part.get("Peak Sort Space Used")) or 0)
                disk = disk or space == "Disk"
    return {"sort_method": ", ".join(methods) or None, "sort_kb": size or None, "disk": disk}


def _worker_keys(keys: Keys) -> list[Keys]:
    workers = keys.get("Workers")
    return [worker for worker in workers if isinstance(worker, Mapping)] if isinstance(workers, list) else []


def _workers(keys: Keys) -> Iterator[PlanWorker]:
    merged: dict[int, dict[str, object]] = {}
    for worker in _worker_keys(keys):
        number = count(worker.get("Worker Number"))
        if number is not None:
            merged.setdefault(number, {}).update(worker)
    for number in sorted(merged):
        part = merged[number]
        space = _space([part], part)
        yield PlanWorker(
            number=number,
            loop_ms=figure(part.get("Actual Total Time")),
            rows=figure(part.get("Actual Rows")),
            loops=figure(part.get("Actual Loops")),
            **{
                name: space[name]
                for name in ("sort_method", "sort_kb", "memory_kb", "disk_kb", "batches", "disk")
            },
        )
