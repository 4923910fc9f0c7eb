"""EXPLAIN's documents without the literals in them; names of tables, columns and functions stay.

What a key is not known to hold counts as an expression, so that what a later version or an extension prints
is left out as well.
"""

from collections.abc import Mapping
from dataclasses import replace

from pgassay.plans.explain_output.find_plans import FoundPlan
from pgassay.plans.node_extras import is_known
from pgassay.sql_text import REDACTED, without_literals

# Names: what stands in them is no literal, digits or not.
_NAMES = frozenset(
    {
        "Relation Name", "Function Name", "Table Function Name", "CTE Name", "Tuplestore Name", "Alias",
        "Schema", "Index Name", "Subplan Name", "Trigger Name", "Constraint Name", "Relation",
        "Custom Plan Provider", "Conflict Arbiter Indexes", "Query Identifier",
    }
)  # fmt: skip
# Values of the planner's settings, and figures by name: nothing of the data.
_KEPT_WHOLE = frozenset({"Settings", "Planning", "Serialization", "JIT"})


def redacted_plan(found: FoundPlan) -> FoundPlan:
    """A plan that was found in a text, without literals in its document and its statement."""
    return replace(
        found,
        document=redacted_document(found.document, known_alone=found.format != "json"),
        statement=None if found.statement is None else without_literals(found.statement),
    )


def redacted_document(document: Mapping[str, object], *, known_alone: bool = False) -> dict[str, object]:
    """What EXPLAIN (FORMAT JSON) printed, without the literals in its expressions. Any depth is walked.

    `known_alone`: nodes keep the keys that EXPLAIN is known to print. In a text that was cut within a string
    the rest of the string may look like a key.
    """
    made: dict[str, object] = {}
    waiting: list[tuple[Mapping[str, object], dict[str, object]]] = [(document, made)]
    while waiting:
        source, target = waiting.pop()
        is_node = "Node Type" in source
        for key, value in source.items():
            if known_alone and is_node and not is_known(key):
                continue
            if isinstance(value, Mapping) and key not in _KEPT_WHOLE:
                inner: dict[str, object] = {}
                target[key] = inner
                waiting.append((value, inner))
            elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
                parts: list[object] = []
                for each in value:
                    if isinstance(each, Mapping):
                        part: dict[str, object] = {}
                        waiting.append((each, part))
                        parts.append(part)
                    else:
                        parts.append(_redacted(key, each))
                target[key] = parts
            else:
                target[key] = _redacted(key, value)
    return made


def _redacted(key: str, value: object) -> object:
    """A text or a list of them; figures and names stay."""
    if key in _NAMES or key in _KEPT_WHOLE:
        return value
    if isinstance(value, str):
        return REDACTED if key == "Query Parameters" else without_literals(value, is_plan=key != "Query Text")
    if isinstance(value, list):
        return [_redacted(key, each) for each in value]
    return value
