"""What EXPLAIN prints from which version on: the table by which a plan's version is known, and explained.

Sources: src/backend/commands/explain.c of each version and the release notes' lines about EXPLAIN.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.nodes import walk

OLDEST, NEWEST = 14, 19


@dataclass(frozen=True)
class Sign:
    """Something in a plan that only some versions print.

    keys: keys of the JSON, any of which is the sign; a word in angle brackets is one of `_shapes`. since,
    until: the first and the last version that print it. meaning: what a reader of two plans has to know.
    """

    keys: tuple[str, ...]
    since: int = OLDEST
    until: int = NEWEST
    meaning: str = ""


# Settings that EXPLAIN (SETTINGS) prints where they are not what their version begins with (boot_val of
# guc_tables.c), and that began otherwise before: from which version on what.
DEFAULTS: Mapping[str, Sequence[tuple[int, str]]] = {
    "effective_io_concurrency": ((OLDEST, "1"), (18, "16")),
    "hash_mem_multiplier": ((OLDEST, "1"), (15, "2")),
    "jit": ((OLDEST, "on"), (19, "off")),
}

SIGNS: Sequence[Sign] = (
    Sign(("I/O Read Time", "I/O Write Time"), until=16),
    Sign(("Temp I/O Read Time", "Temp I/O Write Time"), since=15),
    Sign(("<init plan with parameters>",), until=16),
    Sign(
        ("<init plan without parameters>",),
        since=17,
        meaning="From 17 on a condition names the InitPlan or SubPlan that it needs; before, it says $0.",
    ),
    Sign(
        ("Shared I/O Read Time", "Local I/O Read Time"),
        since=17,
        meaning="From 17 on I/O times of tables and of temporary tables are separate.",
    ),
    Sign(("Serialization",), since=17),
    Sign(("Memory Used", "Memory Allocated"), since=17),
    Sign(
        ("Index Searches",),
        since=18,
        meaning="Index Searches, the descents of an index, are counted from 18 on: a missing value "
        "is not zero.",
    ),
    Sign(
        ("<rows with decimals>",),
        since=18,
        meaning="From 18 on rows have two decimals; before, the mean of many loops is a whole number: "
        "rows=0 can be 0.4.",
    ),
    Sign(
        ("Storage", "Maximum Storage"),
        since=18,
        meaning="From 18 on Materialize, WindowAgg and CTE Scan say where they kept their rows.",
    ),
    Sign(("Window",), since=18, meaning="From 18 on a WindowAgg prints its window."),
    Sign(
        ("Disabled",),
        since=18,
        meaning="From 18 on a node that a setting disables is marked; before, it costs 1e10.",
    ),
    Sign(("WAL Buffers Full",), since=18),
    Sign(("Average Prefetch Distance", "Prefetch Capacity", "I/O Count"), since=19),
    Sign(("Estimated Capacity", "Estimated Lookups"), since=19),
)
BUFFERS_MEANING = (
    "EXPLAIN ANALYZE counts blocks by itself from 18 on; before, with BUFFERS only: a plan without them "
    "may have read many."
)


def keys_of(document: Mapping[str, object]) -> frozenset[str]:
    """All keys of a document and of its nodes, with the shapes that no key tells."""
    found: set[str] = set(map(str, document))
    planning = document.get("Planning")
    found |= set(map(str, planning)) if isinstance(planning, Mapping) else set()
    top = document.get("Plan")
    for _, _, _, node in walk(top) if isinstance(top, Mapping) else ():
        found.update(map(str, node))
        found.update(_shapes(node))
    return frozenset(found)


def _shapes(node: Mapping[str, object]) -> list[str]:
    found = []
    name = node.get("Subplan Name")
    if isinstance(name, str) and name.startswith("InitPlan "):
        found.append(f"<init plan {'with' if '(returns $' in name else 'without'} parameters>")
    rows = node.get("Actual Rows")
    if isinstance(rows, float) and node.get("Actual Loops"):
        found.append("<rows with decimals>")
    return found


def majors_of(plan: ExplainedPlan, document: Mapping[str, object]) -> tuple[int | None, int | None]:
    """The oldest and the newest major version that print such a plan; (None, None) where nothing tells."""
    found = keys_of(document)
    signs = [sign for sign in SIGNS if found.intersection(sign.keys)]
    oldest = max((sign.since for sign in signs), default=OLDEST)
    newest = min((sign.until for sign in signs), default=NEWEST)
    if plan.executed and "<rows with decimals>" not in found and oldest < 18:
        # Since 18 every executed node has decimals.
        newest = min(newest, 17)
    if oldest > newest or (oldest == OLDEST and newest == NEWEST):
        return None, None
    return oldest, newest


def notes(first: ExplainedPlan, second: ExplainedPlan) -> list[str]:
    """What the versions of two plans print differently, as far as one of the two shows it."""
    older, newer = sorted((first, second), key=lambda plan: (plan.major_min or 0, plan.major_max or 0))
    if older.major_max is None or newer.major_min is None or older.major_max >= newer.major_min:
        return []
    shown = _seen(newer) - _seen(older)
    found = [
        sign.meaning
        for sign in SIGNS
        if sign.meaning and older.major_max < sign.since <= newer.major_min and shown.intersection(sign.keys)
    ]
    if _counts_blocks(newer) and not _counts_blocks(older):
        found.append(BUFFERS_MEANING)
    return found


def _counts_blocks(plan: ExplainedPlan) -> bool:
    return any(node.buffers_hit is not None for node in plan.nodes)


def _seen(plan: ExplainedPlan) -> frozenset[str]:
    """The signs of the table that a plan shows."""
    found: set[str] = set()
    for node in plan.nodes:
        if node.index_searches is not None:
            found.add("Index Searches")
        if node.rows is not None and node.rows != round(node.rows):
            found.add("<rows with decimals>")
        if "Window" in node.conditions:
            found.add("Window")
        if node.disabled:
            found.add("Disabled")
        if node.subplan and node.subplan.startswith("InitPlan ") and "(returns $" not in node.subplan:
            found.add("<init plan without parameters>")
        if node.type in ("Materialize", "WindowAgg", "CTE Scan") and (node.memory_kb or node.disk_kb):
            found.add("Storage")
        if node.io_read_ms:
            found.add("Shared I/O Read Time")
    return frozenset(found)


def same_setting(name: str, first: ExplainedPlan, second: ExplainedPlan) -> bool:
    """Whether a setting is alike in two plans, or can't be told to differ where one has its default."""
    values = [_values(name, plan) for plan in (first, second)]
    if values[0] is None or values[1] is None:
        return first.settings.get(name) == second.settings.get(name)
    return bool(values[0] & values[1])


def setting_words(name: str, plan: ExplainedPlan) -> str:
    """A setting's value in a plan that may leave out its default."""
    values = _values(name, plan)
    if name in plan.settings or values is None:
        return plan.settings.get(name, "its default")
    return f"{' or '.join(sorted(values))} (its default)"


def _values(name: str, plan: ExplainedPlan) -> frozenset[str] | None:
    """What a setting may be in a plan; None where its default is not known here."""
    if name in plan.settings:
        return frozenset({plan.settings[name]})
    if name not in DEFAULTS:
        return None
    known = DEFAULTS[name]
    majors = range(plan.major_min or OLDEST, (plan.major_max or NEWEST) + 1)
    return frozenset(next(value for since, value in reversed(known) if since <= major) for major in majors)
