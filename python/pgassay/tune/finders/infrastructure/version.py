"""A newer version that does by itself what the plans lack.

Evidence: a plan's node that a newer major version executes or plans otherwise, by its release notes: 17
searches an index once for all values of an IN list and reads whole tables in larger pieces; 18 skips through
an index whose first column is not compared, turns OR over one column into one search, and reads ahead
(asynchronous I/O) in sequential and bitmap scans, and leaves out a join of a table with itself; 19
aggregates before a join where that is cheaper, and joins a NOT IN whose columns can't be NULL.
Threshold: the nodes take a tenth of the statement; only versions that are at hand, since another one can't be
measured. Prediction: none, since release notes hold no figures for these data; the search measures it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pgassay.model.plans.explained_plan import PlanNode
from pgassay.tune.candidate import Candidate
from pgassay.tune.finders.base import Finder, FinderOffer
from pgassay.tune.finders.evidence.plan_evidence import JOINS, FinderEvidence, statement_ms

NODE_SHARE_MIN = 0.1
_EQUAL = re.compile(r"\b(\w+)\.(\w+) = (\w+)\.(\w+)\b")
# As 17 and newer print it, and as 16 does.
_NOT_IN = re.compile(r"NOT \((?:ANY .*|hashed )SubPlan ")
_BY_INDEX = ("Index Scan", "Index Only Scan", "Bitmap Index Scan")
_READING = ("Seq Scan", "Bitmap Heap Scan")


@dataclass(frozen=True)
class Improvement:
    """What a major version does otherwise with a node; `words` follow "PostgreSQL 18"."""

    since: int
    words: str
    applies: Callable[[FinderEvidence, PlanNode, tuple[PlanNode, ...]], bool]


def _searches_for_several(_evidence: FinderEvidence, node: PlanNode, _nodes: tuple[PlanNode, ...]) -> bool:
    return node.type in _BY_INDEX and "= ANY" in node.conditions.get("Index Cond", "")


def _reads(_evidence: FinderEvidence, node: PlanNode, _nodes: tuple[PlanNode, ...]) -> bool:
    return node.type in _READING and (node.own_buffers_read or 0) > 0


def _scans_whole(evidence: FinderEvidence, node: PlanNode, nodes: tuple[PlanNode, ...]) -> bool:
    return node.type == "Seq Scan" and _reads(evidence, node, nodes)


def _has_or(_evidence: FinderEvidence, node: PlanNode, _nodes: tuple[PlanNode, ...]) -> bool:
    return node.type == "Seq Scan" and " OR " in node.conditions.get("Filter", "")


def _could_skip(evidence: FinderEvidence, node: PlanNode, _nodes: tuple[PlanNode, ...]) -> bool:
    """A table fully read by a column that an index has behind its first, which is not compared."""
    for scan in evidence.scans:
        if scan.node is not node or not scan.is_sequential:
            continue
        compared = {condition.column for condition in scan.conditions if condition.column is not None}
        for index in scan.read_table.indexes:
            keys = [key.column for key in index.keys]
            if len(keys) > 1 and keys[0] not in compared and set(keys[1:]) & compared:
                return True
    return False


def _aggregates_a_join(_evidence: FinderEvidence, node: PlanNode, nodes: tuple[PlanNode, ...]) -> bool:
    return "Aggregate" in node.type and any(each.parent == node.id and each.type in JOINS for each in nodes)


def _joins_itself(evidence: FinderEvidence, node: PlanNode, nodes: tuple[PlanNode, ...]) -> bool:
    """A join of a table with itself by a column that alone is a key."""
    if node.type not in JOINS:
        return False
    by_alias = {each.alias: each.relation for each in nodes if each.relation and each.alias}
    found = " ".join(node.conditions.get(name, "") for name in ("Hash Cond", "Merge Cond", "Join Filter"))
    for left, column, right, other in _EQUAL.findall(found):
        same = column == other and left != right and by_alias.get(left) == by_alias.get(right)
        relation = by_alias.get(left) if same else None
        table = evidence.facts.table(relation) if relation else None
        keys = (
            [[key.column for key in index.keys] for index in table.indexes if index.unique] if table else []
        )
        if [column] in keys:
            return True
    return False


def _filters_by_not_in(_evidence: FinderEvidence, node: PlanNode, _nodes: tuple[PlanNode, ...]) -> bool:
    return _NOT_IN.search(node.conditions.get("Filter", "")) is not None


IMPROVEMENTS = (
    Improvement(17, "searches an index once for all values of a list", _searches_for_several),
    Improvement(17, "reads whole tables in larger pieces", _scans_whole),
    Improvement(18, "leaves out a join of a table with itself by its key", _joins_itself),
    Improvement(18, "can skip through an index whose first column is not compared", _could_skip),
    Improvement(18, "turns OR over one column into one search of an index", _has_or),
    Improvement(18, "reads ahead (asynchronous I/O)", _reads),
    Improvement(19, "can aggregate before a join", _aggregates_a_join),
    Improvement(19, "joins NOT IN where neither column can be NULL", _filters_by_not_in),
)


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    major = evidence.facts.version // 10_000
    for other in evidence.symptom.versions:
        since = [each for each in IMPROVEMENTS if major < each.since <= other.build.major]
        reasons = list(dict.fromkeys(_reasons(evidence, since)))
        if not reasons:
            continue
        yield FinderOffer(
            Candidate(
                id=f"version:{other.build.major}",
                layer="infrastructure",
                kind="version",
                title=f"PostgreSQL {other.build.major} ({other.build.version}) instead of {major}",
                reason=f"PostgreSQL {other.build.major} may do this itself: {'; '.join(reasons[:3])}",
                statements=tuple(each.name for each in evidence.symptom.statements),
                undoable=False,
                build=other.build,
                why_not=other.why_not,
            ),
            without_gain=True,
        )


def _reasons(evidence: FinderEvidence, improvements: list[Improvement]) -> Iterator[str]:
    for statement, _, plan in evidence.plans:
        nodes = tuple(plan.nodes)
        for node in nodes:
            if (node.own_ms or 0.0) < NODE_SHARE_MIN * statement_ms(plan):
                continue
            for each in improvements:
                if each.applies(evidence, node, nodes):
                    yield f"it {each.words} (from {each.since} on), as {node.name} of {statement.name} needs"


VERSION = Finder("version", "infrastructure", ("version",), _find)
