"""Conditions on a part of a timestamp: `extract(year FROM ts) = 2024`, `ts::date = $1`, `date_trunc`.

An index on the column does not serve them. One on the expression does, where no setting changes its value:
of a timestamp without time zone and of a date. With time zone it depends on TimeZone, no index can hold it
(extract_timestamptz and date(timestamptz) are STABLE in pg_proc.dat), and a range of the column is what is
left.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

_NAME = r'"(?:[^"]|"")+"|[a-z_][\w$]*'
_PART = re.compile(
    r"(?:EXTRACT\((?P<field>\w+) FROM |date_part\('(?P<old>\w+)'::text, "
    r"|date_trunc\('(?P<unit>\w+)'::text, |\()\(?"
    rf"(?P<column>(?:(?:{_NAME})\.)?(?P<name>{_NAME}))(?P<zone> AT TIME ZONE '[^']+'::text\))?\)"
    r"(?P<cast>::date)?"
)
_WITHOUT_ZONE = re.compile(r"timestamp(?:\(\d\))? without time zone|date")
_WITH_ZONE = re.compile(r"timestamp(?:\(\d\))? with time zone")
_YEAR = re.compile(r"'?(?P<year>\d{4})'?(?:::[a-z ]+)?")
# The beginning of a unit, as EXPLAIN prints a timestamp, and what the unit spans.
_UNITS = {
    "day": (r"'\d+-\d\d-\d\d 00:00:00[^.]*", "1 day"),
    "month": (r"'\d+-\d\d-01 00:00:00[^.]*", "1 month"),
    "year": (r"'\d+-01-01 00:00:00[^.]*", "1 year"),
}
# Other functions of timestamps, of which no part is understood.
_CALLS = re.compile(r"\(?(?:to_char|timezone|age|date_part|date_trunc|EXTRACT)\(")
# A call's parameter; $0 is an InitPlan's, whose value no statement can name.
_PARAMETER = re.compile(r"\$[1-9]\d*")
# A day that is sure to be a date: a date and a timestamp are compared as timestamps, so that a range of days
# would be another condition. To an infinite one no day can be added; `?` is a literal left out.
_DAY = re.compile(r"'(?!-?infinity')[^']*'::date|\?::date|CURRENT_DATE|\(.*\)::date")
_DAYS_AWAY = re.compile(r"\((?P<day>.*) [-+] \d+\)")
_OF_PLAN = re.compile(r"\$0|(?:Init|Sub)Plan ")
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_WORD = re.compile(_NAME)
Types = Mapping[str, str]


@dataclass(frozen=True)
class TimestampPart:
    """A part of a timestamp: its expression, the column as it stands there, and its bare name.

    field: the unit of 'trunc' and 'extract', in lower case. has_zone: it is taken of the time in a zone that
    is named: `(ts AT TIME ZONE 'UTC')::date`.
    """

    expression: str
    column: str
    name: str
    kind: Literal["date", "trunc", "extract"]
    field: str = ""
    has_zone: bool = False

    def is_steady(self, types: Types) -> bool:
        """Whether an index may hold it, by the types of the table's columns."""
        type_ = types.get(self.name.strip('"'), "")
        # Of a time with a zone, AT TIME ZONE makes one without, and the other way round.
        return bool((_WITH_ZONE if self.has_zone else _WITHOUT_ZONE).fullmatch(type_))

    def as_range(self, operator: str, value: str) -> str:
        """The same condition as a range of the column; '' where there is none, or none that is sure."""
        if self.has_zone:
            return ""
        if self.kind == "date":
            day = f"{value}::date" if _PARAMETER.fullmatch(value) else value if _is_day(value) else ""
            if not day:
                return ""
            return _range(self.column, operator, day, f"{day} + 1")
        if self.kind == "trunc":
            begins, span = _UNITS.get(self.field, ("", ""))
            if operator != "=" or not begins or not re.match(begins, value):
                return ""
            return _range(self.column, operator, value, f"{value} + interval '{span}'")
        year = _YEAR.fullmatch(value) if self.field == "year" else None
        if year is None:
            return ""
        first = int(year["year"])
        return _range(self.column, operator, f"'{first:04d}-01-01'", f"'{first + 1:04d}-01-01'")


def _range(column: str, operator: str, first: str, after: str) -> str:
    """What `part OPERATOR value` is of the column: that part begins at first, the next one at after."""
    return {
        "=": f"{column} >= {first} AND {column} < {after}",
        ">=": f"{column} >= {first}",
        "<": f"{column} < {first}",
        ">": f"{column} >= {after}",
        "<=": f"{column} < {after}",
    }.get(operator, "")


def timestamp_part(expression: str) -> TimestampPart | None:
    """The part of a timestamp that an expression is, as EXPLAIN prints it; None for any other."""
    match = _PART.fullmatch(expression)
    if match is None:
        return None
    field = match["field"] or match["old"] or match["unit"]
    if bool(field) == bool(match["cast"]) or ("((" in expression) != bool(match["zone"] and match["cast"]):
        return None
    kind: Literal["date", "trunc", "extract"] = "extract"
    if match["cast"]:
        kind = "date"
    elif match["unit"]:
        kind = "trunc"
    field = (field or "").lower()
    return TimestampPart(expression, match["column"], match["name"], kind, field, bool(match["zone"]))


def _is_day(value: str) -> bool:
    """Whether a value is a date, and one value: no list, no subquery's result."""
    away = _DAYS_AWAY.fullmatch(value)
    day = away["day"] if away is not None else value
    if _DAY.fullmatch(day) is None or _OF_PLAN.search(_QUOTED.sub("", day)):
        return False
    # What is cast stands in parentheses that close just before the cast.
    depth, bare = 0, _QUOTED.sub("", day.removesuffix("::date"))
    for place, sign in enumerate(bare[:-1]):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if day.startswith("(") and depth == 0 and place < len(bare) - 1:
            return False
    return True


def is_of_time(expression: str, types: Types) -> bool:
    """Whether an expression may be of a timestamp or a date, by the types of the table's columns."""
    kinds = [
        types[name]
        for word in _WORD.findall(_QUOTED.sub("", expression))
        if (name := word.strip('"')) in types
    ]
    return not kinds or any(_WITHOUT_ZONE.fullmatch(kind) or _WITH_ZONE.fullmatch(kind) for kind in kinds)


def hides_a_timestamp(expression: str) -> bool:
    """Whether an expression hides a timestamp from its column's index: a part of it, or its text."""
    return timestamp_part(expression) is not None or _CALLS.match(expression) is not None
