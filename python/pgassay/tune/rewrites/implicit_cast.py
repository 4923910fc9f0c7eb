"""A cast that keeps an index from being used → the constant in the column's own type.

`id = 10.0` turns an integer column into numeric, `id::text = '10'` into text. Both say the same of the column
itself where the constant is one that the column can have.
"""

import math
import re
from collections.abc import Iterator
from decimal import Decimal

from pglast import ast

from pgassay.tune.rewrites.base import Context, Edit, Rewrite, Site, check_grouping, named, scope_of_site
from pgassay.tune.rewrites.functions import COMPARISONS
from pgassay.tune.rewrites.names.data_types import FLOATS, INTEGERS
from pgassay.tune.rewrites.tree import (
    RefusedError,
    cast,
    constant,
    integer,
    is_operation,
    names_of,
    operation,
    sides,
    text,
)

MIRRORED = {"=": "=", "<>": "<>", "!=": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
RANGE = {"smallint": 15, "integer": 31, "bigint": 63}
TEXTS = ("", "text", "character varying")
TEXT_TYPES = (("text",), ("pg_catalog", "text"), ("varchar",), ("pg_catalog", "varchar"))
NUMERIC_TYPES = (("numeric",), ("pg_catalog", "numeric"))
CANONICAL_INTEGER = re.compile(r"0|-?[1-9]\d*")
CANONICAL_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _sites(context: Context) -> Iterator[Site]:
    for site in context.nodes():
        if is_operation(site.node, *COMPARISONS):
            column, _, value = _turned(site.node)
            if isinstance(column, ast.TypeCast) and isinstance(column.arg, ast.ColumnRef):
                if _type(column) in TEXT_TYPES and type_of(site, column.arg) not in TEXTS:
                    yield site
            elif isinstance(_number(value), Decimal) and type_of(site, column) in INTEGERS | FLOATS:
                yield site


def type_of(site: Site, reference: ast.Node) -> str:
    """The type of a column at a site, '' where it is not known or is no column."""
    if not isinstance(reference, ast.ColumnRef):
        return ""
    try:
        return scope_of_site(site).resolve(reference).column.type
    except RefusedError:
        return ""


def _turned(node: ast.Node) -> tuple[ast.Node, str, ast.Node]:
    """The comparison with its column on the left."""
    left, right = sides(node)
    assert isinstance(node, ast.A_Expr)
    operator = names_of(node.name)[0]
    if isinstance(right, ast.ColumnRef) or (
        isinstance(right, ast.TypeCast) and isinstance(right.arg, ast.ColumnRef)
    ):
        return right, MIRRORED[operator], left
    return left, operator, right


def _number(node: ast.Node) -> Decimal | None:
    """A number with a point, or one cast to numeric."""
    if isinstance(node, ast.TypeCast) and _type(node) in NUMERIC_TYPES and not node.typeName.typmods:
        value = constant(node.arg)
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            return Decimal(value)
        return None
    value = constant(node)
    return value if isinstance(value, Decimal) else None


def _type(node: ast.TypeCast) -> tuple[str, ...]:
    return names_of(node.typeName.names)


def _edit(context: Context, site: Site) -> Edit:
    del context
    scope = scope_of_site(site)
    column, operator, value = _turned(site.node)
    if isinstance(column, ast.TypeCast):
        return _cast_column(site, column, operator, value)
    assert isinstance(column, ast.ColumnRef)
    found = scope.resolve(column)
    number = _number(value)
    if found.column.type in FLOATS:
        raise RefusedError(
            f"{named(found, column)} is a {found.column.type}, which is compared with rounding"
        )
    assert number is not None
    whole = math.floor(number)
    if abs(whole) >= 2**62:
        raise RefusedError("the number is beyond what a bigint holds")
    if number != whole:
        if operator not in ("<", "<=", ">", ">="):
            raise RefusedError(f"{named(found, column)} is never {number}")
        operator = "<=" if operator.startswith("<") else ">"
    made = operation(column, operator, integer(whole))
    reason = f"{named(found, column)} is {found.column.type}, so {number} need not be numeric."
    return Edit(((site.node, made),), reason)


def _cast_column(site: Site, column: ast.TypeCast, operator: str, value: ast.Node) -> Edit:
    scope = scope_of_site(site)
    reference = column.arg
    assert isinstance(reference, ast.ColumnRef)
    found = scope.resolve(reference)
    name, kind = named(found, reference), found.column.type
    check_grouping(site, reference)
    if column.typeName.typmods or column.typeName.arrayBounds:
        raise RefusedError(f"the cast of {name} may cut it")
    if not scope.facts.deterministic:
        raise RefusedError("the database's collation calls different texts equal")
    if operator not in ("=", "<>", "!="):
        raise RefusedError(f"as text {name} has another order")
    said = constant(value)
    if not isinstance(said, str):
        raise RefusedError(
            f"{name}::text is not compared with a constant, and the value may not be a valid {kind}"
        )
    if kind in INTEGERS:
        if not CANONICAL_INTEGER.fullmatch(said) or not -(2 ** RANGE[kind]) <= int(said) < 2 ** RANGE[kind]:
            raise RefusedError(f"{said!r} is not how a value of {kind} is written")
        made = operation(reference, operator, integer(int(said)))
    elif kind == "uuid":
        if not CANONICAL_UUID.fullmatch(said):
            raise RefusedError(f"{said!r} is not how a uuid is written")
        made = operation(reference, operator, cast(text(said), "uuid"))
    else:
        raise RefusedError(f"equal values of {kind} are written differently, or depending on settings")
    return Edit(((site.node, made),), f"{name} is {kind}, and only that value is written {said!r}.")


REWRITE = Rewrite(
    "implicit-cast",
    _sites,
    _edit,
    "the column is cast to the type of a constant, which hides it from an index on it",
)
