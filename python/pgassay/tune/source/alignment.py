"""Which values a logged statement has for the parameters of one that pg_stat_statements normalised.

Both texts are parsed, and their trees walked side by side: where the normalised one has $3, the other has a
constant, or a parameter of its own whose value the log tells.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pglast import ast, scan
from pglast.parser import ParseError

from pgassay.tune.rewrites.tree import IGNORED, RefusedError, items, read, substitute, walk
from pgassay.tune.source.log import LoggedValues

# As many different sets of values of a statement are kept while a log is read.
SETS_KEPT_MAX = 2000
# Sets that are measured of those in a log: what ran most often, what took longest, what ran least often.
SETS_MAX = 3
# Elements of a list of which the server keeps the first alone, where no log tells how many there were.
LIST_ELEMENTS = 5


class UnlikeError(Exception):
    """Two statements differ in more than their constants."""


@dataclass
class LoggedSets:
    """The sets of values of one statement in a log: how often each ran, and the longest of its times.

    `numeric`: the parameters that stood for numbers with a fraction.
    """

    calls: dict[tuple[str | None, ...], int] = field(default_factory=dict)
    longest_ms: dict[tuple[str | None, ...], float] = field(default_factory=dict)
    numeric: set[int] = field(default_factory=set)

    def add(self, values: tuple[str | None, ...], duration_ms: float | None) -> None:
        """Count one execution."""
        if values not in self.calls and len(self.calls) >= SETS_KEPT_MAX:
            return
        self.calls[values] = self.calls.get(values, 0) + 1
        self.longest_ms[values] = max(self.longest_ms.get(values, 0.0), duration_ms or 0.0)

    def chosen(self) -> tuple[tuple[str | None, ...], ...]:
        """The set that ran most often, the one that took longest, and the one that ran least often."""
        if not self.calls:
            return ()
        often = sorted(self.calls, key=lambda values: (-self.calls[values], self.longest_ms[values]))
        longest = max(self.calls, key=lambda values: self.longest_ms[values])
        found = dict.fromkeys((often[0], *((longest,) if self.longest_ms[longest] else ()), often[-1]))
        return tuple(found)[:SETS_MAX]


def aligned(normalised: ast.Node, logged: LoggedValues) -> tuple[dict[int, str | None], set[int]]:
    """By the number of each parameter its value in the logged statement; those that are no whole numbers.

    Raises UnlikeError where the statements differ in more, or the log does not tell a value.
    """
    try:
        other = read(logged.sql)
    except RefusedError as error:
        raise UnlikeError(str(error)) from error
    values: dict[int, str | None] = {}
    numeric: set[int] = set()
    _align(normalised, other, logged.parameters, values, numeric)
    return values, numeric


def _align(
    one: object,
    other: object,
    parameters: Sequence[str | None],
    values: dict[int, str | None],
    numeric: set[int],
) -> None:
    if isinstance(one, ast.ParamRef):
        value, has_fraction = _value(other, parameters)
        values[one.number or 0] = value
        numeric.update({one.number or 0} if has_fraction else ())
        return
    if isinstance(one, tuple) and isinstance(other, tuple):
        if len(one) != len(other):
            raise UnlikeError("lists of different lengths")
        for mine, others in zip(one, other, strict=True):
            _align(mine, others, parameters, values, numeric)
        return
    if isinstance(one, ast.Node) and isinstance(other, ast.Node):
        if type(one) is not type(other):
            raise UnlikeError(f"{type(one).__name__} and {type(other).__name__}")
        for name in one:
            if name not in IGNORED:
                _align(getattr(one, name), getattr(other, name), parameters, values, numeric)
        return
    if one != other:
        raise UnlikeError(f"{one!r} and {other!r}")


def _value(node: object, parameters: Sequence[str | None]) -> tuple[str | None, bool]:
    """(the value of a constant or a parameter as text, whether it is a number with a fraction)."""
    if isinstance(node, ast.ParamRef):
        place = (node.number or 0) - 1
        if not 0 <= place < len(parameters):
            raise UnlikeError("the log does not have the values of its parameters")
        return parameters[place], False
    if isinstance(node, ast.A_Expr) and node.lexpr is None and node.name and node.name[-1].sval == "-":
        value, has_fraction = _value(node.rexpr, parameters)
        return f"-{value}", has_fraction
    if not isinstance(node, ast.A_Const):
        raise UnlikeError("no constant")
    if node.isnull or node.val is None:
        return None, False
    if isinstance(node.val, ast.Integer):
        return str(node.val.ival or 0), False
    if isinstance(node.val, ast.Float):
        text = str(node.val.fval)
        return text, not text.isdigit()
    if isinstance(node.val, ast.Boolean):
        return ("true" if node.val.boolval else "false"), False
    if isinstance(node.val, ast.String):
        return str(node.val.sval), False
    raise UnlikeError("a constant of bits")


def cut_lists(sql: str) -> set[int]:
    """The parameters that stand for a whole list of constants: `IN ($1 /*, ... */)` of 18 and newer."""
    found = set()
    try:
        tokens = scan(sql)
    except ParseError:
        return set()
    for token, comment in pairwise(tokens):
        if token.name == "PARAM" and comment.name == "C_COMMENT":
            text = sql.encode()[comment.start : comment.end + 1].decode(errors="replace")
            number = sql.encode()[token.start + 1 : token.end + 1].decode(errors="replace")
            if text.replace(" ", "") == "/*,...*/" and number.isdigit():
                found.add(int(number))
    return found


def with_lists(tree: ast.Node, lengths: Mapping[int, int]) -> ast.Node:
    """The statement with so many parameters in each cut list, the further ones with new numbers."""
    last = max((node.number or 0 for node in walk(tree) if isinstance(node, ast.ParamRef)), default=0)
    replaced: dict[int, ast.Node] = {}
    for node in walk(tree):
        for name in node:
            members = items(getattr(node, name))
            numbers = [each.number or 0 for each in members if isinstance(each, ast.ParamRef)]
            if len(members) != 1 or not numbers or numbers[0] not in lengths:
                continue
            count = lengths[numbers[0]] - 1
            added = tuple(ast.ParamRef(number=last + step) for step in range(1, count + 1))
            last += count
            fields = {each: getattr(node, each) for each in node if getattr(node, each) is not None}
            replaced[id(node)] = type(node)(**{**fields, name: (*members, *added)})
    return substitute(tree, replaced) if replaced else tree


def list_lengths(tree: ast.Node, other: ast.Node, cut: Iterable[int]) -> dict[int, int]:
    """How many elements the lists have in `other` of which the server kept the first alone."""
    wanted = set(cut)
    found: dict[int, int] = {}
    pairs: list[tuple[object, object]] = [(tree, other)]
    while pairs:
        one, two = pairs.pop()
        if isinstance(one, tuple) and isinstance(two, tuple):
            first = one[0] if len(one) == 1 else None
            if isinstance(first, ast.ParamRef) and first.number in wanted and two:
                found[first.number or 0] = len(two)
            pairs.extend(zip(one, two, strict=False))
        elif isinstance(one, ast.Node) and isinstance(two, ast.Node) and one.__class__ == two.__class__:
            pairs.extend((getattr(one, name), getattr(two, name)) for name in one if name not in IGNORED)
    return found
