"""What is known of the source when its statements are measured on a copy, and whether they are alike.

A plan is the same where each table is read in the same way, by the same index, and joined alike; nodes that
sort, keep or gather rows may come and go with estimates. A time is the same within an order of magnitude: the
source's mean is over all its values, with other caches, another machine and its sessions beside it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.model.tuning.source import TuneSource
from pgassay.model.vacuum_state import Holder
from pgassay.tune.facts.schema import SchemaFacts, TableFacts
from pgassay.tune.search.selection import Baseline
from pgassay.words import duration
from pgassay.words import seconds as in_words

TIMES_MAX = 10.0
# Shorter ones are as long as the server's overhead, which is another on each machine.
SHORT_MS = 1.0
# What is younger may be a query that ends by itself.
HELD_S_MIN = 300.0
# autovacuum comes at a fifth (autovacuum_vacuum_scale_factor).
_DEAD_MIN = 0.2
_TABLES_NAMED = 3
_PASSING = frozenset(
    {
        "Materialize", "Memoize", "Gather", "Gather Merge", "Sort", "Incremental Sort", "Limit", "Result",
        "Hash", "Unique", "BitmapAnd", "BitmapOr", "Append", "Merge Append", "Subquery Scan", "ProjectSet",
        "LockRows",
    }
)  # fmt: skip


@dataclass(frozen=True)
class CopyOrigin:
    """The server that statements came from.

    `plans` has by the text of each measured statement, with its values, the plan that the source has for it,
    or why it has none; `mean_ms` and `share` are by the statement's own name. `is_here`: the source runs on
    this machine, so that what is known of it is known of the source. `counted`: its catalogs, whose counts of
    use a copy lacks; None where they are not those of the server that fixes are for. `notes` say how the copy
    differs. `held_by`: who keeps VACUUM on the source from removing dead rows, '' for nobody.
    """

    told: TuneSource
    plans: Mapping[str, ExplainedPlan | str]
    mean_ms: Mapping[str, float]
    share: Mapping[str, float]
    is_here: bool
    notes: tuple[str, ...] = field(default=())
    counted: SchemaFacts | None = None
    held_by: str = ""

    @property
    def clients(self) -> int:
        """How many of its sessions are at work at once, which share its memory and its processors."""
        return max(1, round(self.told.sessions or 0.0))


def differences_from_source(origin: CopyOrigin, baseline: Baseline) -> dict[str, str]:
    """By the name of each measured statement that is not on the copy what it is on the source: why. Pure."""
    found: dict[str, str] = {}
    times = _times_ms(baseline)
    for each in baseline.statements:
        reasons = []
        theirs = origin.plans.get(each.sql, "")
        if isinstance(theirs, ExplainedPlan):
            reasons.append(plan_difference(theirs, baseline.estimates[each.name]))
        elif theirs:
            reasons.append(f"the source can't plan it ({theirs})")
        mean_ms = origin.mean_ms.get(each.of.name)
        if mean_ms is not None:
            is_endless = each.of.name in baseline.endless_statements
            reasons.append(time_difference(mean_ms, times[each.of.name], at_least=is_endless))
        reasons = [reason for reason in reasons if reason]
        if reasons:
            found[each.name] = "; ".join(reasons)
    return found


def _times_ms(baseline: Baseline) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    for each in baseline.statements:
        times.setdefault(each.of.name, []).append(1000 * baseline.seconds[each.name])
    return times


def time_difference(mean_ms: float, copy_ms: Sequence[float], *, at_least: bool = False) -> str:
    """Why a mean on the source is none of a statement that took so long on the copy; '' where it may be.

    `at_least`: it did not end on the copy, so it may take any longer time.
    """
    low, high = max(min(copy_ms), SHORT_MS), max(max(copy_ms), SHORT_MS)
    if low / TIMES_MAX <= max(mean_ms, SHORT_MS) <= (math.inf if at_least else high * TIMES_MAX):
        return ""
    times = " to ".join(dict.fromkeys(in_words(value / 1000) for value in (min(copy_ms), max(copy_ms))))
    more = " and more" if at_least else ""
    return f"it takes {in_words(mean_ms / 1000)} on the source on average, and {times}{more} on the copy"


def plan_difference(source: ExplainedPlan, copy: ExplainedPlan) -> str:
    """In what the source's plan is another than the copy's, by a node that differs; '' where it is none."""
    ours, theirs = ([_way(node) for node in plan.nodes if _counts(node)] for plan in (copy, source))
    if ours == theirs:
        return ""
    missing = _without(theirs, ours) or _without(ours, theirs)
    if not missing:
        return "the source joins its tables in another order than the copy"
    mine, other = _without(ours, theirs), _without(theirs, ours)
    return (
        f"the source's plan has {other[0] if other else 'no such node'} where the copy's has "
        f"{mine[0] if mine else 'none'}"
    )


def _without(some: Sequence[str], others: Sequence[str]) -> list[str]:
    left = list(others)
    found = []
    for each in some:
        if each in left:
            left.remove(each)
        else:
            found.append(each)
    return found


def _counts(node: PlanNode) -> bool:
    return node.type not in _PASSING


def _way(node: PlanNode) -> str:
    """A node by how it reads or joins; whether several processes do it together does not count."""
    where = f" on {node.relation}" if node.relation else ""
    by = f" by {node.index}" if node.index else ""
    return f"{node.type.removeprefix('Parallel ')}{where}{by}"


def holder_of(holders: Sequence[Holder]) -> str:
    """The oldest one that VACUUM waits for and that is no passing query; '' for none."""
    for each in holders:
        if each.transactions >= 1 and (each.seconds is None or each.seconds >= HELD_S_MIN):
            since = f", for {duration(each.seconds)}" if each.seconds is not None else ""
            return f"{each.kind} {each.name}{since}"
    return ""


def dead_rows_kept(held_by: str, tables: Sequence[TableFacts]) -> str:
    """What the holder keeps on the source and the copy does not have, in a sentence; '' for nothing much."""
    dead = {table.name: table.dead_rows or 0 for table in tables if _dead_share(table) >= _DEAD_MIN}
    if not held_by or not dead:
        return ""
    most = sorted(dead, key=lambda name: -dead[name])[:_TABLES_NAMED]
    kept = ", ".join(f"{dead[name]:,} of {name}" for name in most)
    return (
        f"on the source {held_by} keeps VACUUM from removing dead rows ({kept}), which nothing on the copy "
        "does: end that first, and VACUUM then"
    )


def _dead_share(table: TableFacts) -> float:
    dead = table.dead_rows or 0
    return dead / max(dead + (table.live_rows or 0), 1)
