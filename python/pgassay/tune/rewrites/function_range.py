"""A function of a column → a range of the column, which an index on it can find.

Right where the function is monotonic and its value follows from the column's alone: the day, month or year
of a timestamp without time zone or a date. With time zone it depends on the session's TimeZone, and in
zones that have set their clocks back over midnight (Havana) it is not even monotonic: offered for UTC only,
whether it is written in the statement or the server's setting.
"""

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from pglast import ast
from pglast.enums import A_Expr_Kind

from pgassay.tune.candidate import RewriteProof
from pgassay.tune.rewrites.base import Context, Edit, Rewrite, Site, check_grouping, named, scope_of_site
from pgassay.tune.rewrites.names.scope import Scope
from pgassay.tune.rewrites.tree import (
    RefusedError,
    cast,
    conjunction,
    constant,
    is_operation,
    items,
    names_of,
    operation,
    sides,
    text,
    walk,
)

MIRRORED = {"=": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
PLAIN, ZONED, DATE = "timestamp without time zone", "timestamp with time zone", "date"
UNITS = ("day", "week", "month", "quarter", "year")
UTC = frozenset({"utc", "etc/utc", "gmt", "etc/gmt", "uct", "etc/uct", "zulu", "universal"})
ISO = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T]00:00(?::00(?:\.0+)?)?)?")
DAY = datetime.timedelta(days=1)
DATE_TYPE = (("date",), ("pg_catalog", "date"))


@dataclass(frozen=True)
class Pattern:
    """`unit` of `column`: by a cast to date or by date_trunc ("day" …), or the year as a number ("number").

    `in_utc`: the column was turned by AT TIME ZONE 'UTC' before.
    """

    column: ast.ColumnRef
    unit: str
    in_utc: bool = False
    function: str = "date_trunc"


def _pattern(node: object) -> Pattern | None:
    if isinstance(node, ast.TypeCast) and names_of(node.typeName.names) in DATE_TYPE:
        inner = _column(node.arg)
        return Pattern(inner[0], "day", inner[1], "date") if inner else None
    if not isinstance(node, ast.FuncCall) or names_of(node.funcname)[:-1] not in ((), ("pg_catalog",)):
        return None
    name, args = names_of(node.funcname)[-1], items(node.args)
    if len(args) < 2 or name not in ("date_trunc", "extract", "date_part"):
        return None
    said = constant(args[0])
    inner = _column(args[1])
    if inner is None or not isinstance(said, str):
        return None
    unit = said.lower()
    if name == "date_trunc":
        return Pattern(inner[0], unit if len(args) == 2 else "zone", inner[1])
    return Pattern(inner[0], "number" if unit == "year" else f"the {unit}", inner[1], name)


def _column(node: object) -> tuple[ast.ColumnRef, bool] | None:
    """The column, and whether AT TIME ZONE 'UTC' stands around it."""
    if isinstance(node, ast.ColumnRef):
        return node, False
    if isinstance(node, ast.FuncCall) and names_of(node.funcname) == ("pg_catalog", "timezone"):
        args = items(node.args)
        if len(args) == 2 and isinstance(args[1], ast.ColumnRef) and str(constant(args[0])).lower() in UTC:
            return args[1], True
    return None


def _turned(node: ast.Node) -> tuple[Pattern, str, ast.Node] | None:
    if not is_operation(node, *MIRRORED):
        return None
    assert isinstance(node, ast.A_Expr)
    left, right = sides(node)
    operator = names_of(node.name)[0]
    found = _pattern(left)
    if found is not None:
        return found, operator, right
    found = _pattern(right)
    return (found, MIRRORED[operator], left) if found is not None else None


def _sites(context: Context) -> Iterator[Site]:
    for site in context.nodes():
        if _turned(site.node) is not None or _between(site.node) is not None:
            yield site


def _between(node: ast.Node) -> Pattern | None:
    if isinstance(node, ast.A_Expr) and node.kind == A_Expr_Kind.AEXPR_BETWEEN:
        return _pattern(node.lexpr)
    return None


def _edit(context: Context, site: Site) -> Edit:
    scope = scope_of_site(site)
    pattern = _between(site.node)
    if pattern is not None:
        assert isinstance(site.node, ast.A_Expr)
        low, high = items(site.node.rexpr)
        pairs = [(">=", low), ("<=", high)]
    else:
        turned = _turned(site.node)
        assert turned is not None
        pattern, operator, value = turned
        pairs = [(operator, value)]
    kind = _kind(scope, pattern)
    check_grouping(site, pattern.column)
    failing = _may_overflow(pattern, kind)
    parts: list[ast.Node] = []
    proof: RewriteProof = "by test" if failing else "proven"
    by_parameter = False
    for operator, value in pairs:
        parameter = value if isinstance(value, ast.ParamRef) else _cast_parameter(value)
        if parameter is not None:
            proof, by_parameter = "by test", True
            uses = sum(
                isinstance(one, ast.ParamRef) and one.number == parameter.number for one in walk(context.tree)
            )
            if uses > 1:
                raise RefusedError(
                    f"${parameter.number} stands in other places too, and may not be a date there"
                )
            parts += _of_parameter(pattern, kind, operator, parameter)
        else:
            parts += _of_constant(pattern, kind, operator, value)
    made = conjunction(parts)
    assert made is not None
    reason = f"{pattern.function} of {'.'.join(names_of(pattern.column))} grows with it"
    if kind == ZONED:
        reason += (
            ", in UTC" if pattern.in_utc else f", while the session's TimeZone is {scope.facts.time_zone}"
        )
    if failing:
        reason += f"; {failing}"
    if by_parameter:
        reason += "; the parameter is a date within the years of a timestamp"
    return Edit(((site.node, made),), f"{reason}.", proof)


def _kind(scope: Scope, pattern: Pattern) -> str:
    """The column's type, where this pattern is monotonic in it."""
    found = scope.resolve(pattern.column)
    name, kind = named(found, pattern.column), found.column.type
    if kind not in (PLAIN, ZONED, DATE):
        raise RefusedError(f"{name} is {kind or 'of a type that is not known'}, no timestamp or date")
    if pattern.in_utc and kind != ZONED:
        raise RefusedError(f"{name} has no time zone, so AT TIME ZONE gives it one")
    if kind == ZONED and not pattern.in_utc and scope.facts.time_zone.lower() not in UTC:
        raise RefusedError(
            f"{name} has a time zone: its day depends on the session's TimeZone, and that is not UTC"
        )
    if pattern.unit == "zone" or (kind == DATE and pattern.function == "date_trunc"):
        raise RefusedError(f"date_trunc of {name} is done in a time zone")
    if pattern.unit not in (*UNITS, "number"):
        raise RefusedError(
            f"{pattern.unit} of {name} does not grow with it, or is too short to be worth a range"
        )
    return kind


def _may_overflow(pattern: Pattern, kind: str) -> str:
    """For which values the function fails where the range does not; '' where it never fails."""
    if pattern.function == "date_part" and kind == DATE:
        return f"{pattern.function} fails for a date beyond the years of a timestamp"
    if pattern.function == "date_trunc" and (pattern.unit != "day" or kind == ZONED):
        return f"{pattern.function} fails for a moment of 4714 BC whose {pattern.unit} began before it"
    return ""


def _of_constant(pattern: Pattern, kind: str, operator: str, value: ast.Node) -> list[ast.Node]:
    if pattern.unit == "number":
        year = constant(value)
        if isinstance(year, bool) or not isinstance(year, int | Decimal) or year != int(year):
            raise RefusedError("the year is not compared with a whole number")
        if not 1 <= int(year) <= 9998:
            raise RefusedError("the year is not one of four digits")
        low = datetime.date(int(year), 1, 1)
        unit = "year"
    else:
        low = _date(value, zoned=kind == ZONED and not pattern.in_utc)
        unit = pattern.unit
    if _truncated(low, unit) != low:
        raise RefusedError(f"{low} begins no {unit}")
    high = _next(low, unit)
    bounds = {
        "=": [(">=", low), ("<", high)], ">=": [(">=", low)], "<": [("<", low)],
        ">": [(">=", high)], "<=": [("<", high)],
    }[operator]  # fmt: skip
    return [operation(pattern.column, said, _bound(pattern, kind, day)) for said, day in bounds]


def _bound(pattern: Pattern, kind: str, day: datetime.date) -> ast.Node:
    if kind == DATE:
        return cast(text(day.isoformat()), "date")
    if kind == PLAIN:
        return cast(text(f"{day} 00:00:00"), "pg_catalog", "timestamp")
    zone = "+00" if pattern.in_utc else ""
    return cast(text(f"{day} 00:00:00{zone}"), "pg_catalog", "timestamptz")


def _date(value: ast.Node, zoned: bool) -> datetime.date:
    """The day that a literal is the beginning of: '2024-01-31', with a midnight or a cast if need be."""
    if isinstance(value, ast.TypeCast):
        allowed = ("date", "timestamp", "timestamptz") if zoned else ("date", "timestamp")
        words = names_of(value.typeName.names)
        if words[-1] not in allowed or words[:-1] not in ((), ("pg_catalog",)) or value.typeName.typmods:
            raise RefusedError("the constant is cast to another type")
        value = value.arg if isinstance(value.arg, ast.Node) else value
    said = constant(value)
    found = ISO.fullmatch(said) if isinstance(said, str) else None
    if found is None:
        raise RefusedError("it is not compared with a plain date")
    try:
        day = datetime.date.fromisoformat(found[1])
    except ValueError as error:
        raise RefusedError(f"{said!r} is not a date") from error
    if not 1 <= day.year <= 9998:
        raise RefusedError(f"{said!r} is not of four digits")
    return day


def _truncated(day: datetime.date, unit: str) -> datetime.date:
    if unit == "week":
        return day - DAY * day.weekday()
    if unit == "day":
        return day
    month = {"month": day.month, "quarter": (day.month - 1) // 3 * 3 + 1, "year": 1}[unit]
    return datetime.date(day.year, month, 1)


def _next(day: datetime.date, unit: str) -> datetime.date:
    if unit in ("day", "week"):
        return day + DAY * (7 if unit == "week" else 1)
    months = day.month - 1 + {"month": 1, "quarter": 3, "year": 12}[unit]
    return datetime.date(day.year + months // 12, months % 12 + 1, 1)


def _cast_parameter(value: ast.Node) -> ast.ParamRef | None:
    if isinstance(value, ast.TypeCast) and isinstance(value.arg, ast.ParamRef) and not value.typeName.typmods:
        return value.arg if names_of(value.typeName.names) in DATE_TYPE else None
    return None


def _of_parameter(pattern: Pattern, kind: str, operator: str, parameter: ast.ParamRef) -> list[ast.Node]:
    """Bounds of a day that a parameter says.

    A timestamp counts microseconds, so the day's last moment is one before the next day. Written so, infinity
    keeps its own day: 'infinity' + 1 day is 'infinity'.
    """
    if pattern.function != "date" or kind != PLAIN:
        raise RefusedError("it is compared with a parameter, whose value need not begin a period")
    day = cast(parameter, "date")
    low = cast(day, "pg_catalog", "timestamp")
    next_day = cast(operation(day, "+", ast.A_Const(val=ast.Integer(ival=1))), "pg_catalog", "timestamp")
    last = operation(next_day, "-", cast(text("1 microsecond"), "pg_catalog", "interval"))
    bounds = {
        "=": [(">=", low), ("<=", last)], ">=": [(">=", low)], "<": [("<", low)],
        ">": [(">", last)], "<=": [("<=", last)],
    }[operator]  # fmt: skip
    return [operation(pattern.column, said, bound) for said, bound in bounds]


REWRITE = Rewrite("function-range", _sites, _edit, "a function of the column hides it from an index on it")
