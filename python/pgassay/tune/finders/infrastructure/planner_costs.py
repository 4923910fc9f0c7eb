"""random_page_cost and effective_cache_size, where they keep the planner from an index.

Evidence: a table that is fully read though an index on the very conditions, or on the column that it is
joined by, is there and would find few rows; and the storage probe of the machine that the server runs on, or
that the statements are measured with all their pages in memory. In memory also a table that is fully read for
some of its rows, or to be joined, without such an index: one may be made, and an expression, a range or a
join's order that is not foreseen here may be the planner's choice once random pages are cheap.
Threshold: the probe's ratio, of a random read to a sequential one, times the share of pages that are not in
memory, differs from random_page_cost by more than a third. That share is what the default rests on: storage
40 times slower at random and 90 % cached make 4 (PostgreSQL's manual, random_page_cost). Without either
nothing is offered. effective_cache_size: three quarters of memory, where it is set to less than
half of that.
Prediction: as of an index that is made anew; none where no index is there, but what it may save at most: the
scan and its join. Whether any plan changes, the planner says before anything is timed.
"""

from collections.abc import Iterator

from pgassay.tune.candidate import Candidate
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.design.btree import fetched, ranges, single_values
from pgassay.tune.finders.design.join import lookups
from pgassay.tune.finders.evidence.building import Key, serving
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, TableScan
from pgassay.tune.finders.evidence.work import index_ms, miss_share
from pgassay.words import percent_rounded

COST_MIN, COST_RATIO_MIN = 1.1, 1.33
_CACHE_OF_MEMORY = 0.75


def _cost(evidence: FinderEvidence, missed: float) -> float | None:
    """random_page_cost by the probe, or for pages that are all in memory; None where neither is known."""
    machine = evidence.symptom.machine
    if reads_memory(evidence):
        return COST_MIN
    if not machine.random_read_us or not machine.sequential_read_mb_s:
        return None
    sequential_us = evidence.facts.block_bytes / machine.sequential_read_mb_s
    return round(max(machine.random_read_us / sequential_us * max(missed, 0.02), COST_MIN), 1)


def reads_memory(evidence: FinderEvidence) -> bool:
    """Whether all pages come from memory: by the cache state, and as they fit there."""
    machine, block = evidence.symptom.machine, evidence.facts.block_bytes
    size = sum(table.pages * block for table in evidence.facts.tables)
    return machine.reads_memory and size <= _CACHE_OF_MEMORY * (machine.memory_bytes or 0)


def _why(evidence: FinderEvidence, scan: TableScan) -> str:
    """What a random page costs here, in words."""
    if reads_memory(evidence):
        return "what it reads is in memory, where a random page costs as much as the next one"
    return (
        f"the probe of this machine took {evidence.symptom.machine.random_read_us:,.0f} µs for a random "
        f"page, and {percent_rounded(miss_share(scan))} of the pages were read"
    )


def _unused(evidence: FinderEvidence, scan: TableScan) -> tuple[str, float] | None:
    """An index that is there and not used, and what using it would save."""
    rows = evidence.rows_of(scan.table)
    equal = single_values(scan, rows)
    names = [str(each.column) for each in equal]
    bounds = ranges(scan)
    tail = next((name for name in bounds if name not in names), None)
    keys = [Key(tail)] if tail else []
    used = [*equal, *(bounds[tail] if tail else [])]
    index = serving(scan.table, names, keys) if used else None
    if index is not None:
        wanted = fetched(scan, used, rows)
        return index.name, scan.ms - index_ms(scan, wanted, evidence.symptom.machine)
    joined = lookups(evidence, scan)
    index = serving(scan.table, joined.columns[:1], ()) if joined is not None else None
    if joined is not None and index is not None:
        return index.name, joined.before_ms - joined.after_ms
    return None


def _possible_ms(evidence: FinderEvidence, scan: TableScan) -> float:
    """What a scan takes for some of its rows, or with its join; 0 where all of them are wanted."""
    joined = lookups(evidence, scan)
    if joined is not None:
        return joined.before_ms
    return scan.ms if scan.conditions else 0.0


def _offered(evidence: FinderEvidence, scan: TableScan) -> tuple[str, ExpectedSaving] | None:
    """Why another cost may help, and what it would save."""
    found = _unused(evidence, scan)
    name, number = scan.statement.name, scan.plan_number
    if found is not None and found[1] > 0:
        return f"{scan.sentence}, though {found[0]} is there", ExpectedSaving(name, number, found[1])
    most_ms = _possible_ms(evidence, scan) if reads_memory(evidence) else 0.0
    return (scan.sentence, ExpectedSaving(name, number, 0.0, most_ms)) if most_ms > 0 else None


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    have_cost = evidence.setting("random_page_cost", 4.0)
    have_cache = evidence.setting("effective_cache_size") * evidence.facts.block_bytes
    memory = evidence.symptom.machine.memory_bytes
    for scan in evidence.scans:
        found = _offered(evidence, scan) if scan.is_sequential else None
        if found is None:
            continue
        why, saving = found
        settings = {}
        cost = _cost(evidence, miss_share(scan))
        if cost is None:
            continue
        if cost * COST_RATIO_MIN < have_cost:
            settings["random_page_cost"] = f"{cost:g}"
        if memory and have_cache < _CACHE_OF_MEMORY * memory / 2:
            settings["effective_cache_size"] = f"{int(memory * _CACHE_OF_MEMORY) >> 20}MB"
        if not settings:
            continue
        words = ", ".join(f"{name} = {value}" for name, value in sorted(settings.items()))
        yield FinderOffer(
            Candidate(
                id=f"planner-costs:{words.replace(' ', '')}",
                layer="infrastructure",
                kind="planner-costs",
                title=words,
                reason=f"{why}; {_why(evidence, scan)}",
                statements=(),
                settings=settings,
                bytes=0,
            ),
            (saving,),
        )


PLANNER_COSTS = Finder("planner-costs", "infrastructure", ("planner-costs",), _find)
