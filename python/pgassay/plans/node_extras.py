"""A node's conditions, and what else EXPLAIN printed of it, alike for its JSON and its text."""

from collections.abc import Iterator, Mapping

Keys = Mapping[str, object]
CONDITIONS = (
    "Index Cond", "Recheck Cond", "TID Cond", "Order By", "Hash Cond", "Merge Cond", "Join Filter", "Filter",
    "One-Time Filter", "Run Condition", "Sort Key", "Presorted Key", "Group Key", "Hash Key", "Cache Key",
    "Cache Mode", "Window", "Function Call", "Table Function Call", "Conflict Filter", "Remote SQL",
)  # fmt: skip
# Told by fields of their own, or written by one of the two forms alone.
_ELSEWHERE = frozenset(
    {
        "Node Type", "Parallel Aware", "Async Capable", "Join Type", "Inner Unique", "Partial Mode",
        "Strategy", "Command", "Operation", "Parent Relationship", "Subplan Name", "Scan Direction",
        "Custom Plan Provider", "Relation Name", "Function Name", "Table Function Name", "CTE Name",
        "Tuplestore Name", "Alias", "Schema", "Index Name", "Disabled", "Output", "Plans", "Workers",
        "Grouping Sets", "Target Tables", "Startup Cost", "Total Cost", "Plan Rows", "Plan Width",
        "Actual Startup Time", "Actual Total Time", "Actual Rows", "Actual Loops", "Heap Fetches",
        "Index Searches", "Workers Planned", "Workers Launched", "Cache Hits", "Cache Misses",
        "Cache Evictions", "Cache Overflows", "Exact Heap Blocks", "Lossy Heap Blocks", "Subplans Removed",
        "Sort Method", "Sort Space Used", "Sort Space Type", "Full-sort Groups", "Pre-sorted Groups",
        "Peak Memory Usage", "Disk Usage", "Hash Buckets", "Original Hash Buckets", "Hash Batches",
        "Original Hash Batches", "HashAgg Batches", "Storage", "Maximum Storage", "Sampling Method",
        "Sampling Parameters", "Repeatable Seed", "JIT", "WAL Records", "WAL FPI", "WAL Bytes",
    }
)  # fmt: skip
_ELSEWHERE_ENDS = (" Blocks", " Time")
_LINE = "; "


def text_of(value: object) -> str | None:
    """A text; a list is joined as EXPLAIN's text joins it. None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(each for each in value if isinstance(each, str))
    return None


def is_known(key: str) -> bool:
    """Whether a key of a node is one that EXPLAIN prints, and not part of a text that was cut or misread."""
    if key in _ELSEWHERE or key in CONDITIONS or key.endswith(_ELSEWHERE_ENDS):
        return True
    return key in ("Planned Partitions", "Single Copy") or key.startswith("Rows Removed by ")


def conditions_of(keys: Keys) -> dict[str, str]:
    """What a node filters, joins, sorts and groups by, in a fixed order."""
    found = {key: text for key in CONDITIONS if (text := text_of(keys.get(key))) is not None}
    sets = keys.get("Grouping Sets")
    if isinstance(sets, list):
        for key, text in _grouping_sets(sets):
            found[key] = f"{found[key]}{_LINE}{text}" if key in found else text
    return found


def _grouping_sets(sets: list[object]) -> Iterator[tuple[str, str]]:
    """GROUPING SETS: for each a sort and its keys, as the text has them on lines of their own."""
    for each in sets:
        if not isinstance(each, Mapping):
            continue
        sort = text_of(each.get("Sort Key"))
        if sort is not None:
            yield "Sort Key", sort
        for plural, key in (("Group Keys", "Group Key"), ("Hash Keys", "Hash Key")):
            groups = each.get(plural)
            for group in groups if isinstance(groups, list) else []:
                yield key, text_of(group) or "()"


def other_of(keys: Keys) -> dict[str, str]:
    """All else, as text, without what is 0, false or no single value: the text leaves that out too."""
    found: dict[str, str] = {}
    for key in sorted(keys):
        if key in _ELSEWHERE or key in CONDITIONS or key.endswith(_ELSEWHERE_ENDS):
            continue
        if key.startswith("Rows Removed by "):
            continue
        value = keys[key]
        if isinstance(value, bool):
            shown = "true" if value else ""
        elif isinstance(value, int | float):
            shown = f"{value:g}" if value else ""
        else:
            shown = text_of(value) or ""
        if shown and shown != "0":
            found[key] = shown
    method = text_of(keys.get("Sampling Method"))
    if method is not None:
        found["Sampling"] = f"{method} ({text_of(keys.get('Sampling Parameters')) or ''})"
        seed = text_of(keys.get("Repeatable Seed"))
        if seed is not None:
            found["Sampling"] += f" REPEATABLE ({seed})"
    return found
