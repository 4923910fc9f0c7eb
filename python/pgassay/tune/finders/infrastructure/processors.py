"""Parallel workers for long scans, and JIT where compiling costs more than it saves.

Evidence: a long statement that reads large tables in one process, on a machine with processors that its
clients leave idle; JIT's time in an executed plan.
Threshold: 50 ms, since starting workers takes a few; a table above min_parallel_table_scan_size; for each
client a processor of its own and one more. JIT: a tenth of the statement.
Prediction: scans, hash joins and aggregates share their time among the processes; starting them takes 3 ms.
JIT's own time goes, and what it made faster is not known before the trial.
"""

from collections.abc import Iterator

from pgassay.tune.candidate import Candidate
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, statement_ms

STATEMENT_MS_MIN = 50.0
JIT_SHARE_MIN = 0.1
_WORKERS_MAX = 4
_START_MS = 3.0
# A worker's share of the memory's bandwidth and of handing rows on: less than a whole process.
_WORTH = 0.85
_SHARED = frozenset({"Seq Scan", "Bitmap Heap Scan", "Hash Join", "Hash", "Aggregate", "Index Only Scan"})


def _parallel(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    processors = evidence.symptom.machine.processors
    if not processors:
        return
    have = int(evidence.setting("max_parallel_workers_per_gather", 2))
    workers = min(processors // max(evidence.symptom.clients, 1) - 1, _WORKERS_MAX)
    pages_min = evidence.setting("min_parallel_table_scan_size", 1024)
    if workers <= have:
        return
    for statement, number, plan in evidence.plans:
        if statement.writes or statement_ms(plan) < STATEMENT_MS_MIN:
            continue
        scans = [
            scan for scan in evidence.scans
            if scan.plan is plan and scan.read_table.pages >= pages_min and scan.node.type in _SHARED
        ]  # fmt: skip
        if not scans or (have > 0 and not any(node.workers_planned for node in plan.nodes)):
            continue
        shared = sum(node.own_ms or 0.0 for node in plan.nodes if node.type in _SHARED)
        now = max((node.processes for node in plan.nodes), default=1.0)
        processes = (workers + 1) * _WORTH
        saved = shared * (1 - min(now / processes, 1.0)) - _START_MS
        settings = {"max_parallel_workers_per_gather": str(workers)}
        if evidence.setting("max_parallel_workers", 8) < workers:
            settings["max_parallel_workers"] = str(workers)
        yield FinderOffer(
            Candidate(
                id=f"parallel:{workers}",
                layer="infrastructure",
                kind="parallel",
                title=f"max_parallel_workers_per_gather = {workers}",
                reason=f"{statement.name} reads {scans[0].read_table.pages:,} pages in "
                f"{'one process' if now <= 1 else f'{now:.0f} processes'} on {processors} processors with "
                f"{evidence.symptom.clients} client{'s' if evidence.symptom.clients > 1 else ''}",
                statements=(),
                settings=settings,
                bytes=0,
            ),
            (ExpectedSaving(statement.name, number, saved),),
        )


def _jit(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for statement, number, plan in evidence.plans:
        total = statement_ms(plan)
        if not plan.jit_ms or plan.jit_ms < JIT_SHARE_MIN * total:
            continue
        yield FinderOffer(
            Candidate(
                id="jit:off",
                layer="infrastructure",
                kind="jit",
                title="jit = off",
                reason=f"compiling {plan.jit_functions or 0} functions took {plan.jit_ms:.1f} of "
                f"{total:.1f} ms of "
                f"{statement.name}",
                statements=(),
                settings={"jit": "off"},
                bytes=0,
            ),
            (ExpectedSaving(statement.name, number, plan.jit_ms),),
        )


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    yield from _parallel(evidence)
    yield from _jit(evidence)


PROCESSORS = Finder("processors", "infrastructure", ("parallel", "jit"), _find)
