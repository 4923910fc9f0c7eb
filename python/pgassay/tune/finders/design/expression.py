"""An index on an expression that the statement compares and no index has.

Evidence: a scan whose condition has an expression on one side (lower(email), data ->> 'key', a % 10) that is
surely immutable: one whose value depends on the session's time zone or settings can't be indexed. date_trunc,
extract and ::date are so of timestamps without time zone.
Threshold: as for every index. Prediction: the rows that passed are fetched. Without statistics of the
expression the planner takes half a per cent of the rows for it, so ANALYZE follows.
"""

from collections.abc import Iterator

from pgassay.tune.finders.base import Finder, FinderOffer
from pgassay.tune.finders.design.btree import fetched
from pgassay.tune.finders.evidence.building import Key, NewIndex, index_offer, is_there
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence
from pgassay.tune.finders.evidence.work import index_ms
from pgassay.tune.rewrites.tree import readable_expression


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    for scan in evidence.scans:
        for condition in scan.conditions:
            if condition.expression is None or not condition.immutable or not condition.columns:
                continue
            if condition.kind not in ("equal", "outer", "in", "range"):
                continue
            index = NewIndex(scan.table, (Key(condition.expression, is_expression=True),))
            if is_there(index):
                continue
            used = [each for each in scan.conditions if each.expression == condition.expression]
            wanted = fetched(scan, used, evidence.rows_of(scan.table))
            after = index_ms(scan, wanted, evidence.symptom.machine)
            yield from index_offer(
                evidence, "expression", scan, index, scan.ms - after,
                f"{scan.sentence}; {readable_expression(condition.expression)} is compared, "
                "which no index has",
                analyze=True,
            )  # fmt: skip


EXPRESSION = Finder("expression", "design", ("expression",), _find)
