"""A node's line in EXPLAIN's text, as keys of its JSON (ExplainNode in src/backend/commands/explain.c)."""

import re
from collections.abc import Mapping

# Of bounded length, so that no text makes the search for them slow.
_NUMBER = r"(\d{1,320}(?:\.\d{1,9})?)"
_COST = re.compile(rf"\(cost={_NUMBER}\.\.{_NUMBER} rows={_NUMBER} width=(-?\d{{1,12}})\)")
_ACTUAL = re.compile(rf"\(actual (?:time={_NUMBER}\.\.{_NUMBER} )?rows={_NUMBER} loops={_NUMBER}\)")
# What a node may be called by an extension, or by a version to come.
_NAME = re.compile(r"[A-Z][A-Za-z ]{0,60}$")
_NEVER = "(never executed)"
_JOIN = re.compile(r"(Nested Loop|Hash|Merge)(?: (Left|Right|Full|Semi|Anti|Right Semi|Right Anti))? Join$")
_WORD = re.compile(r'"(?:[^"]|"")*"|[^\s."]+')

_AGGREGATES = {
    "Aggregate": "Plain",
    "GroupAggregate": "Sorted",
    "HashAggregate": "Hashed",
    "MixedAggregate": "Mixed",
}
# What the text calls an operation of its own is a ModifyTable in the JSON.
_CHANGES = ("Insert", "Update", "Delete", "Merge")
_PLAIN = (
    "Result", "ProjectSet", "Append", "Merge Append", "Recursive Union", "BitmapAnd", "BitmapOr",
    "Nested Loop", "Seq Scan", "Sample Scan", "Gather", "Gather Merge", "Index Scan", "Index Only Scan",
    "Bitmap Index Scan", "Bitmap Heap Scan", "Tid Scan", "Tid Range Scan", "Subquery Scan", "Function Scan",
    "Table Function Scan", "Values Scan", "CTE Scan", "Named Tuplestore Scan", "WorkTable Scan",
    "Foreign Scan", "Custom Scan", "Materialize", "Memoize", "Sort", "Incremental Sort", "Group",
    "WindowAgg", "Unique", "SetOp", "HashSetOp", "LockRows", "Limit", "Hash",
)  # fmt: skip
_FOREIGN = tuple(f"Foreign {change}" for change in _CHANGES[:3])
# The longest first, so that "Merge Append" is not a Merge.
_NAMES = sorted((*_PLAIN, *_AGGREGATES, *_CHANGES, *_FOREIGN), key=len, reverse=True)
_TARGET_KEYS = {
    "Function Scan": "Function Name",
    "Table Function Scan": "Table Function Name",
    "CTE Scan": "CTE Name",
    "WorkTable Scan": "CTE Name",
    "Named Tuplestore Scan": "Tuplestore Name",
    "Bitmap Index Scan": "Index Name",
}
_ALIAS_ALONE = ("Subquery Scan", "Values Scan", "Result")


def node_of_line(line: str) -> dict[str, object] | None:
    """The keys of a node's line, without its arrow; None where it is no node's line.

    A line without costs and without figures is a node's only where its name is one of PostgreSQL's.
    """
    figures, head = _figures(line)
    node = _named(head.strip())
    if node is None:
        return None
    if not figures and node.pop("unknown", False):
        return None
    node.pop("unknown", None)
    return node | figures


def has_figures(line: str) -> bool:
    """Whether a line has what stands behind a node's name: its cost or its figures."""
    return bool(_COST.search(line) or _ACTUAL.search(line) or _NEVER in line)


def _figures(line: str) -> tuple[dict[str, object], str]:
    """The figures behind a node's name, and what stands before them."""
    found: dict[str, object] = {}
    end = len(line)
    # A name may hold such a text too: the last one is EXPLAIN's.
    cost_at, actual_at, never_at = line.rfind("(cost="), line.rfind("(actual "), line.rfind(_NEVER)
    cost = _COST.match(line, cost_at) if cost_at >= 0 else None
    if cost is not None:
        end = cost_at
        keys = ("Startup Cost", "Total Cost", "Plan Rows", "Plan Width")
        found |= zip(keys, map(number_of, cost.groups()), strict=True)
    actual = _ACTUAL.match(line, actual_at) if actual_at > cost_at else None
    if actual is not None:
        end = min(end, actual_at)
        startup, total, rows, loops = actual.groups()
        if total is not None:
            found |= {"Actual Startup Time": number_of(startup), "Actual Total Time": number_of(total)}
        found |= {"Actual Rows": number_of(rows), "Actual Loops": number_of(loops)}
    elif never_at > cost_at:
        end = min(end, never_at)
        found |= {"Actual Rows": 0, "Actual Loops": 0, "Actual Startup Time": 0.0, "Actual Total Time": 0.0}
    return found, line[:end]


def number_of(text: str) -> int | float:
    """A figure as JSON would have it."""
    return float(text) if "." in text or len(text) > 18 else int(text)


def _named(head: str) -> dict[str, object] | None:
    node: dict[str, object] = {}
    for prefix, key in (("Parallel ", "Parallel Aware"), ("Async ", "Async Capable")):
        if head.startswith(prefix):
            head = head.removeprefix(prefix)
            node[key] = True
    for mode in ("Partial", "Finalize"):
        if head.startswith(f"{mode} "):
            head = head.removeprefix(f"{mode} ")
            node["Partial Mode"] = mode
    join = _JOIN.match(head)
    if join is not None:
        kind = join[1] if join[1] == "Nested Loop" else f"{join[1]} Join"
        return node | {"Node Type": kind, "Join Type": join[2] or "Inner"}
    name = next((name for name in _NAMES if head == name or head.startswith(f"{name} ")), None)
    if name is None:
        return _unknown(head, node)
    rest = head[len(name) :].strip()
    if name in _AGGREGATES:
        return node | {"Node Type": "Aggregate", "Strategy": _AGGREGATES[name]}
    if name in ("SetOp", "HashSetOp"):
        strategy = "Hashed" if name == "HashSetOp" else "Sorted"
        return node | {"Node Type": "SetOp", "Strategy": strategy, "Command": rest}
    if name == "Nested Loop":
        return node | {"Node Type": name, "Join Type": "Inner"}
    if name in _CHANGES:
        return node | {"Node Type": "ModifyTable", "Operation": name} | _target("ModifyTable", rest)
    if name in _FOREIGN:
        operation = name.removeprefix("Foreign ")
        return node | {"Node Type": "Foreign Scan", "Operation": operation} | _target("Foreign Scan", rest)
    if name == "Custom Scan" and rest.startswith("("):
        provider, _, rest = rest[1:].partition(")")
        node["Custom Plan Provider"] = provider
    return node | {"Node Type": name} | _target(name, rest.strip())


def _unknown(head: str, node: dict[str, object]) -> dict[str, object] | None:
    """A node of an extension or of a version to come: its name ends where it says what it works on."""
    ends = [place for place in (head.find(" on "), head.find(" using ")) if place > 0]
    name = head[: min(ends)] if ends else head
    if not _NAME.match(name):
        return None
    return node | {"Node Type": name, "unknown": True} | _target(name, head[len(name) :].strip())


def _target(kind: str, rest: str) -> dict[str, object]:
    """`Backward using INDEX on SCHEMA.TABLE ALIAS`, of which any part may be missing."""
    found: dict[str, object] = {}
    for direction in ("Backward", "NoMovement"):
        if rest.startswith(direction):
            rest = rest.removeprefix(direction).strip()
            found["Scan Direction"] = direction
    if rest.startswith("using "):
        name, rest = _identifier(rest.removeprefix("using "))
        found["Index Name"] = name
        rest = rest.strip()
    if not rest.startswith("on "):
        return found
    name, rest = _identifier(rest.removeprefix("on "))
    if rest.startswith("."):
        found["Schema"] = name
        name, rest = _identifier(rest[1:])
    alias = _identifier(rest.strip())[0] if rest.strip() else name
    if kind == "Bitmap Index Scan":
        return found | {"Index Name": name}
    if kind in _ALIAS_ALONE:
        return found | {"Alias": name}
    return found | {_TARGET_KEYS.get(kind, "Relation Name"): name, "Alias": alias}


def _identifier(text: str) -> tuple[str, str]:
    """The first name of a text, without its quotes, and what follows it."""
    match = _WORD.match(text)
    if match is None:
        return text, ""
    word = match[0]
    if word.startswith('"'):
        word = word[1:-1].replace('""', '"')
    return word, text[match.end() :]


def operation_name(node: Mapping[str, object]) -> str:
    """The name of an operation as EXPLAIN's text has it."""
    kind = str(node.get("Node Type", "?"))
    strategy = str(node.get("Strategy"))
    if kind == "Aggregate":
        kind = next((name for name, plan in _AGGREGATES.items() if plan == strategy), kind)
    elif kind == "SetOp":
        kind = f"{'HashSetOp' if strategy == 'Hashed' else kind} {node.get('Command') or ''}".strip()
    elif kind == "ModifyTable":
        kind = str(node.get("Operation", kind))
    elif kind == "Foreign Scan" and node.get("Operation") not in (None, "Select"):
        kind = f"Foreign {node['Operation']}"
    elif kind == "Custom Scan" and node.get("Custom Plan Provider"):
        kind = f"{kind} ({node['Custom Plan Provider']})"
    join_type = node.get("Join Type", "Inner")
    if join_type != "Inner":
        kind = f"{kind.removesuffix(' Join')} {join_type} Join"
    if node.get("Scan Direction") == "Backward":
        kind = f"{kind} Backward"
    if node.get("Partial Mode") in ("Partial", "Finalize"):
        kind = f"{node['Partial Mode']} {kind}"
    if node.get("Async Capable") is True:
        kind = f"Async {kind}"
    return f"Parallel {kind}" if node.get("Parallel Aware") is True else kind
