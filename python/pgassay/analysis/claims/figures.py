"""Claims of a figure beside the speed: what trials or executed plans counted or measured, in two arms.

What is counted differs little between trials: its interval is what all of them lie within. A latency is
measured: its interval is that of the median over blocks, as for two statements.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from pgassay.analysis.claims.arm_claims import judged
from pgassay.analysis.claims.record_claims import TRIALS_LEAST, arm_of, by_median, of_ratio, trials_of
from pgassay.analysis.descriptive.checkpoints import REQUESTED, TIMED, counted
from pgassay.model.arm import Arm
from pgassay.model.further_results.claims import Claim, ClaimVerdict, JudgedClaim
from pgassay.model.plans.executed_plan import StatementPlan
from pgassay.model.plans.explained_plan import PlanNode
from pgassay.model.result import CompareResult
from pgassay.model.trial import TrialRecord, figure
from pgassay.record.experiment import StoredExperiment
from pgassay.words import figure as in_words
from pgassay.words import join, plural

_TABLES = "pg_statio_user_tables"
_TABLES_SHOWN = 6
_JOINS = ("Nested Loop", "Hash Join", "Merge Join")


@dataclass(frozen=True)
class Kind:
    """A figure: where it comes from, and its words in a sentence.

    `of_trial`, `of_nodes`: the figure of one trial, or of a plan's nodes; None where it has none. `in_text`:
    it is a word, so that arms are alike or differ.
    """

    words: str
    source: Literal["counted", "measured", "plan"]
    of_trial: Callable[[TrialRecord, Claim], float | None] | None = None
    of_nodes: Callable[[Sequence[PlanNode]], float | str | None] | None = None
    has_table: bool = False
    in_text: bool = False


def _latency(name: str) -> Callable[[TrialRecord, Claim], float | None]:
    def of_trial(record: TrialRecord, claim: Claim) -> float | None:  # noqa: ARG001
        return record.load.latency_ms.get(name) if record.load is not None else None

    return of_trial


def _hit_ratio(record: TrialRecord, claim: Claim) -> float | None:
    rows = [row for row in record.counters.get(_TABLES, ()) if row.get("relname") == claim.table]
    hit, read = (sum(figure(row, name) for row in rows) for name in ("heap_blks_hit", "heap_blks_read"))
    return hit / (hit + read) if hit + read else None


def _table_size(record: TrialRecord, claim: Claim) -> float | None:
    tables = record.upkeep_before.tables if record.upkeep_before is not None else ()
    sizes = [each.pages * each.page_bytes / 1e6 for each in tables if each.name == claim.table]
    return sum(sizes) if sizes else None


def _wal(record: TrialRecord, claim: Claim) -> float | None:
    """Of maintenance what its command wrote, else what the trial did; in MB."""
    of_command = _done("wal_bytes")(record, claim)
    found = record.verification.wal_bytes if of_command is None else of_command
    return None if found is None else found / 1e6


def _done(name: str) -> Callable[[TrialRecord, Claim], float | None]:
    def of_trial(record: TrialRecord, claim: Claim) -> float | None:
        works = [
            work for work in record.maintenance if not claim.statement or work.statement == claim.statement
        ]
        found = [work.done[name] for work in works if name in work.done]
        return sum(found) if found else None

    return of_trial


def _checkpoints(record: TrialRecord, claim: Claim) -> float | None:  # noqa: ARG001
    """Without counters it is not known; with some, a view is missing where none of its own moved."""
    return counted(record, (*REQUESTED, *TIMED)) if record.counters else None


def _summed(name: str, *, per_loop: bool = False) -> Callable[[Sequence[PlanNode]], float | None]:
    def of_nodes(nodes: Sequence[PlanNode]) -> float | None:
        found = [
            float(value) * (node.loops or 0.0 if per_loop else 1.0)
            for node in nodes
            if (value := getattr(node, name)) is not None
        ]
        return sum(found) if found else None

    return of_nodes


def _removed(nodes: Sequence[PlanNode]) -> float:
    """A plan without a filter removes no row."""
    return _summed("rows_removed", per_loop=True)(nodes) or 0.0


def _joined(nodes: Sequence[PlanNode]) -> float:
    return max(((node.rows or 0.0) * (node.loops or 0.0) for node in nodes if node.type in _JOINS), default=0)


def _joins(nodes: Sequence[PlanNode]) -> float:
    return float(sum(node.type in _JOINS for node in nodes))


def _sort_method(nodes: Sequence[PlanNode]) -> str | None:
    return next((node.sort_method for node in nodes if node.sort_method is not None), None)


FIGURES: Mapping[str, Kind] = {
    "latency-mean": Kind("ms of mean latency", "measured", _latency("mean")),
    "latency-stddev": Kind("ms of standard deviation", "measured", _latency("stddev")),
    "latency-p99": Kind("ms of latency at p99", "measured", _latency("p99")),
    "hit-ratio": Kind("of the blocks in shared buffers", "counted", _hit_ratio, has_table=True),
    "table-size": Kind("MB of table", "counted", _table_size, has_table=True),
    "wal": Kind("MB of WAL", "counted", _wal),
    "rows-frozen": Kind("rows frozen", "counted", _done("tuples_frozen")),
    "checkpoints": Kind("checkpoints", "counted", _checkpoints),
    "rows-removed": Kind("rows removed by filters", "plan", of_nodes=_removed),
    "rows-joined": Kind("rows out of the largest join", "plan", of_nodes=_joined),
    "joins": Kind("joins", "plan", of_nodes=_joins),
    "heap-fetches": Kind("heap fetches", "plan", of_nodes=_summed("heap_fetches")),
    "index-searches": Kind("index searches", "plan", of_nodes=_summed("index_searches")),
    "sort-method": Kind("", "plan", of_nodes=_sort_method, in_text=True),
}


def is_measured(claim: Claim) -> bool:
    """Whether the claim's figure has noise, so that its verdict takes blocks as one on a speed does."""
    kind = FIGURES.get(claim.figure)
    return kind is not None and kind.source == "measured"


def is_of_plans(claim: Claim) -> bool:
    """Whether one executed plan of each arm has the claim's figure."""
    kind = FIGURES.get(claim.figure)
    return kind is not None and kind.source == "plan"


def judge(claim: Claim, result: CompareResult, stored: StoredExperiment, level: float) -> JudgedClaim:
    """The claim by what trials or plans have of its figure; `level`: of one that is measured."""
    kind = FIGURES[claim.figure]
    own, other = (arm_of(claim, name, stored) for name in (claim.arm, claim.against))
    if kind.source == "measured":
        logs = list(_log_ratios(claim, kind, own, other, stored))
        return by_median(claim, logs, result.margin, stored.experiment, level)
    if kind.source == "plan":
        values = tuple(_of_plans(claim, kind, arm, result) for arm in (own, other))
        for arm, found in zip((own, other), values, strict=True):
            if not found and any(_executed(claim, arm, result)):
                # The next trial has the same plan.
                why = f"the executed plans of {arm.name} have no {claim.figure}"
                return judged(claim, "can't be tried here", why, stored.experiment)
        return _of_counts(claim, kind, values, "in the executed plans", 1, result.margin, stored)
    counts = tuple(_of_trials(claim, kind, arm, stored) for arm in (own, other))
    lacking = next((arm for arm, found in zip((own, other), counts, strict=True) if not found), None)
    if lacking is not None and len(records := list(trials_of(lacking, stored))) >= TRIALS_LEAST:
        # More trials would have it as little.
        why = _not_counted(claim, lacking, records)
        return judged(claim, "can't be tried here", why, stored.experiment)
    where = f"in {plural(min(map(len, counts)), 'trial')} of each"
    return _of_counts(claim, kind, counts, where, TRIALS_LEAST, result.margin, stored)


def _log_ratios(claim: Claim, kind: Kind, own: Arm, other: Arm, stored: StoredExperiment) -> Iterator[float]:
    """Of each block that both arms have, the log of the figure over the other's."""
    blocks: list[dict[int, list[float]]] = []
    for arm in (own, other):
        found: dict[int, list[float]] = {}
        for record in trials_of(arm, stored):
            value = kind.of_trial(record, claim) if kind.of_trial is not None else None
            if value is not None and value > 0:
                found.setdefault(record.block, []).append(math.log(value))
        blocks.append(found)
    first, second = blocks
    for block in sorted({*first} & {*second}):
        yield fmean(first[block]) - fmean(second[block])


def _of_trials(claim: Claim, kind: Kind, arm: Arm, stored: StoredExperiment) -> list[float | str]:
    if kind.of_trial is None:
        return []
    found = (kind.of_trial(record, claim) for record in trials_of(arm, stored))
    return [value for value in found if value is not None]


def _not_counted(claim: Claim, arm: Arm, records: Sequence[TrialRecord]) -> str:
    """That trials have no such figure, and of which tables they have some."""
    lacks = f"no trial of {arm.name} has a {claim.figure}"
    if not claim.table:
        return lacks
    rows = (row for record in records for row in record.counters.get(_TABLES, ()))
    known = sorted({str(row["relname"]) for row in rows if row.get("relname")})
    if claim.figure == "table-size":
        upkeep = [each.upkeep_before for each in records if each.upkeep_before is not None]
        known = sorted({each.name for found in upkeep for each in found.tables})
    there = f"; they read {join(known[:_TABLES_SHOWN])}" if known else ""
    return f"{lacks} of a table {claim.table}{there}"


def _of_plans(claim: Claim, kind: Kind, arm: Arm, result: CompareResult) -> list[float | str]:
    if kind.of_nodes is None:
        return []
    found = (kind.of_nodes(plan.nodes) for plan in _executed(claim, arm, result))
    return [value for value in found if value is not None]


def _executed(claim: Claim, arm: Arm, result: CompareResult) -> Iterator[StatementPlan]:
    """The executed plans of an arm, of the claim's statement where it has one."""
    for plan in result.plans:
        is_of_it = (plan.arm, plan.stratum) == (arm.name, arm.stratum)
        if plan.executed and is_of_it and plan.statement == (claim.statement or plan.statement):
            yield plan


def _of_counts(
    claim: Claim,
    kind: Kind,
    values: Sequence[Sequence[float | str]],
    where: str,
    least: int,
    margin: float,
    stored: StoredExperiment,
) -> JudgedClaim:
    experiment = stored.experiment
    if not all(values):
        return judged(claim, "undecided", "not counted yet", experiment)
    fewest = min(map(len, values))
    if fewest < least:
        why = f"it has {plural(fewest, 'trial')} of an arm, and a verdict takes {least} at least"
        return judged(claim, "undecided", why, experiment)
    if kind.in_text:
        verdict, why = _of_words(claim, *(", ".join(sorted({*map(str, each)})) for each in values))
        return judged(claim, verdict, f"{why} {where}", experiment)
    own, other = ([float(value) for value in each] for each in values)
    counted = f"{in_words(median(own))} and {in_words(median(other))} {kind.words} {where}"
    if not min(own) or not min(other):
        verdict, why = _of_none(claim, own, other)
        return judged(claim, verdict, f"{counted}; {why}" if why else counted, experiment)
    ratio = median(own) / median(other)
    interval = (min(own) / max(other), max(own) / min(other))
    verdict, why = of_ratio(claim, ratio, interval, margin, "trials")
    return judged(claim, verdict, f"{counted}; {why}", experiment, ratio, interval)


def _of_words(claim: Claim, own: str, other: str) -> tuple[ClaimVerdict, str]:
    is_same = own == other
    why = f"{own} in both" if is_same else f"{own}, and {other} there,"
    return ("reproduced" if is_same is (claim.says == "equal") else "refuted"), why


def _of_none(claim: Claim, own: Sequence[float], other: Sequence[float]) -> tuple[ClaimVerdict, str]:
    """Where an arm has none of it, so that there is no ratio."""
    if max(own) == max(other) == 0:
        return ("reproduced" if claim.says == "equal" else "no difference here"), "none in both"
    is_more, is_less = min(own) > max(other), max(own) < min(other)
    if not is_more and not is_less:
        return "undecided", "trials disagree on the direction"
    if claim.says == "equal" or is_more is not (claim.says == "more"):
        return "refuted", ""
    return "reproduced", ""
