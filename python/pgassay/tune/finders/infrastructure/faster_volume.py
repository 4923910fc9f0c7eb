"""The next faster volume, where the data lie on an imitated one and its limits hold reads and writes back.

Evidence: executed plans whose reads and writes of pages took a third of the statement's time
(track_io_timing) at 0.7 of the volume's bytes a second, or whose pages came and went at 0.7 of its operations
a second: a volume counts both. Threshold: both, since limits that do not bind make nothing faster when they
grow, whatever that costs. Prediction: the time of both shrinks as that limit grows. The price is the
difference of a month's bill, by the catalogue's price lists.
"""

from collections.abc import Iterator

from pgassay.tune.candidate import Candidate, OtherStorage
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence, statement_ms

READ_SHARE_MIN, LIMIT_SHARE_MIN = 0.33, 0.7


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for other in evidence.symptom.storages:
        savings, sentences = [], []
        for statement, number, plan in evidence.plans:
            top, whole = plan.nodes[0], statement_ms(plan)
            written = top.buffers_written or 0
            moved = ((top.buffers_read or 0) + written) * evidence.facts.block_bytes
            # A node's time is that of all below it, over all processes.
            waited = (top.io_read_ms or 0.0) + (top.io_write_ms or 0.0)
            waited /= max((node.processes for node in plan.nodes), default=1.0)
            if not moved or waited < READ_SHARE_MIN * whole:
                continue
            rate = moved / (waited / 1e3)
            single = (
                sum(node.own_buffers_read or 0 for node in plan.nodes if node.type != "Seq Scan") + written
            )
            factor, limit = _bound(other, rate, single / (waited / 1e3))
            if factor <= 1:
                continue
            savings.append(ExpectedSaving(statement.name, number, waited * (1 - 1 / factor)))
            sentences.append(
                f"{statement.name} waited {waited:.0f} of {whole:.0f} ms for reads"
                f"{' and writes' if written else ''}, at {rate / 1e6:,.0f} "
                f"MB/s, which is what the volume's {limit} let through"
            )
        if savings:
            yield FinderOffer(_candidate(other, sentences), tuple(savings))


def _bound(other: OtherStorage, rate: float, pages: float) -> tuple[float, str]:
    """(by how much the limit that binds is higher on the other volume, its name); 1 where none binds.

    `rate`: bytes a second; `pages`: those that were asked for one by one, a second: the kernel reads ahead of
    a scan of a whole table, in requests of many pages.
    """
    if other.bytes_now and rate >= LIMIT_SHARE_MIN * other.bytes_now:
        return other.bytes / other.bytes_now, "bytes"
    if other.operations_now and pages >= LIMIT_SHARE_MIN * other.operations_now:
        return other.operations / other.operations_now, "operations"
    return 1.0, ""


def _candidate(other: OtherStorage, sentences: list[str]) -> Candidate:
    price = "" if other.per_month is None else f", for {other.per_month:+,.2f} {other.currency} a month"
    return Candidate(
        id=f"storage:{other.text}",
        layer="infrastructure",
        kind="storage",
        title=f"Volume {other.text}{price}",
        reason="; ".join(sentences[:3]),
        statements=(),
        undoable=False,
        storage=other.storage,
        per_month=other.per_month,
        why_not=other.why_not,
    )


STORAGE = Finder("storage", "infrastructure", ("storage",), _find)
