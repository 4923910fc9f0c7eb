"""EXPLAIN's text as the document that its JSON would be (src/backend/commands/explain.c).

A child stands below its parent's name, behind an arrow. An InitPlan, SubPlan or CTE has a line with its name
first, and then its arrow two columns further in. What is not understood is left out; a text that ends in the
middle gives the nodes that it has.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pgassay.plans.explain_output.text_details import Keys, keys_of_line, worker_of_line
from pgassay.plans.explain_output.text_names import has_figures, node_of_line
from pgassay.plans.explain_output.text_summary import Summary, begins_summary

_LABEL = re.compile(r"(InitPlan|SubPlan|CTE) \S")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_SETS = ("Group Key", "Hash Key", "Sort Key")
ARROW = "->  "


@dataclass
class _Open:
    """A node whose children and details may still follow; `column` is that of its arrow."""

    column: int
    node: Keys
    worker: Keys | None = None
    worker_column: int = 0


@dataclass
class _Reading:
    """A text while it is read."""

    top: Keys | None = None
    stack: list[_Open] = field(default_factory=list)
    label: tuple[int, str] | None = None
    # Below `JIT for worker 0:` of a node.
    skip_below: int | None = None
    summary: Summary = field(default_factory=Summary)


def plan_of_text(text: str) -> Keys | None:
    """The document of the first plan in a text; None where no line is a node's.

    The text begins with the plan's top node or with lines that are not a plan's. It has no decoration:
    `find_plans.py` takes away what psql or a log puts around it.
    """
    lines = text.split("\n")
    start = _first_node(lines)
    if start is None:
        return None
    reading = _Reading()
    base = len(lines[start]) - len(lines[start].lstrip(" "))
    for line in logical_lines(lines[start:]):
        stripped = line.lstrip(" ")
        if stripped:
            _line(reading, stripped.rstrip(), max(0, len(line) - len(stripped) - base))
    if reading.top is None:
        return None
    return {"Plan": reading.top} | reading.summary.finish()


def _first_node(lines: Sequence[str]) -> int | None:
    """The line of the top node: the first with figures, else the first with the name of a node."""
    named: int | None = None
    for place, line in enumerate(lines):
        stripped = line.strip()
        if not stripped or stripped.startswith("->"):
            continue
        if has_figures(stripped) and node_of_line(stripped) is not None:
            return place
        if named is None and node_of_line(stripped) is not None:
            named = place
    return named


def logical_lines(lines: Sequence[str]) -> Iterator[str]:
    """The lines, with those joined between which a quoted name or string goes on.

    A string that never ends is not joined: the text was cut, or the quote means something else.
    """
    place = 0
    joins = True
    while place < len(lines):
        line = lines[place]
        place += 1
        # The name of a CTE, of a trigger and a setting's value are printed without quotes of their own.
        stripped = line.lstrip()
        quoted = not _LABEL.match(stripped) and not begins_summary(stripped, 0)
        quote = _open_quote(line) if joins and quoted else ""
        if not quote:
            yield line
            continue
        parts, after = [line], place
        while quote and after < len(lines):
            following = lines[after]
            after += 1
            parts.append(following)
            head, found, rest = following.partition(quote)
            del head
            if found:
                quote = _open_quote(rest)
        if quote:
            joins = False
            yield line
            continue
        place = after
        yield "\n".join(parts)


def _open_quote(line: str) -> str:
    """The quote that is still open at a line's end, or ''."""
    if "'" not in line and '"' not in line:
        return ""
    rest = _QUOTED.sub("", line)
    return next((sign for sign in rest if sign in "'\""), "")


def _line(reading: _Reading, text: str, column: int) -> None:
    if reading.top is None:
        reading.top = node_of_line(text) or {}
        reading.stack = [_Open(-1, reading.top)]
        return
    if begins_summary(text, column):
        reading.stack, reading.label = [], None
        reading.summary.begin(text)
        return
    if reading.summary.is_open:
        reading.summary.add(text)
        return
    if text.startswith(ARROW.rstrip()) and _child(reading, text, column):
        return
    if _LABEL.match(text):
        reading.label = (column, text)
        return
    _detail(reading, text, column)


def _child(reading: _Reading, text: str, column: int) -> bool:
    """Add a node behind an arrow; False where it is none."""
    node = node_of_line(text[2:].strip())
    if node is None:
        return False
    place = column
    if reading.label is not None and reading.label[0] < column:
        place, name = reading.label
        node |= {"Subplan Name": name}
    reading.label, reading.skip_below = None, None
    while len(reading.stack) > 1 and reading.stack[-1].column >= place:
        reading.stack.pop()
    parent = reading.stack[-1].node
    children = parent.setdefault("Plans", [])
    if isinstance(children, list):
        children.append(node)
    reading.stack.append(_Open(place, node))
    return True


def _detail(reading: _Reading, text: str, column: int) -> None:
    """A condition or a figure of the node above, or of one of its workers."""
    if reading.skip_below is not None:
        if column > reading.skip_below:
            return
        reading.skip_below = None
    if text.startswith("JIT for worker"):
        reading.skip_below = column
        return
    current = reading.stack[-1]
    worker = worker_of_line(text)
    if worker is not None:
        number, keys = worker
        workers = current.node.setdefault("Workers", [])
        if isinstance(workers, list):
            current.worker, current.worker_column = {"Worker Number": number} | keys, column
            workers.append(current.worker)
        return
    keys = keys_of_line(text)
    if current.worker is not None and column > current.worker_column:
        current.worker |= keys
        return
    current.worker = None
    for key in _SETS:
        # GROUPING SETS have a line for each.
        if key in keys and key in current.node:
            keys[key] = f"{current.node[key]}; {keys[key]}"
    current.node |= keys
