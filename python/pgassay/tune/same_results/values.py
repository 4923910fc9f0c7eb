"""Values for small instances: those of the statement and beside them, and those that trip rewrites up."""

import contextlib
import datetime
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from pglast import ast

from pgassay.tune.facts.schema import ColumnFacts
from pgassay.tune.rewrites.names.data_types import FLOATS, INTEGERS, base_type
from pgassay.tune.rewrites.tree import constant, decimal_of, walk

RANGE = {"smallint": 15, "integer": 31, "bigint": 63}
DAY, MICROSECOND = datetime.timedelta(days=1), datetime.timedelta(microseconds=1)
# Ends of years, and hours that a clock shows twice or never (Europe, America).
MOMENTS = (
    "2024-01-01 00:00:00", "2023-12-31 23:59:59.999999", "2024-03-31 01:30:00", "2024-10-27 00:30:00",
    "2024-11-03 05:30:00", "2024-02-29 12:00:00",
)  # fmt: skip
# Half an hour into the day of zones that statements name, so that their days are told from UTC's.
ZONE_OFFSETS = tuple(datetime.timedelta(hours=hours, minutes=30) for hours in (-9, -2, -1, 0, 3, 4, 5, 7))
INFINITIES = ("infinity", "-infinity")
YEARS = range(1901, 2100)
ISO = re.compile(r"\s*(\d{4})-(\d{2})-(\d{2})(?:[ T](\d{2}):(\d{2})(?::(\d{2}))?)?")
FIXED = {
    "boolean": ("true", "false"),
    "uuid": ("00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "interval": ("1 day", "24 hours", "0"),
    "json": ("{}", '{"a": 1}', "[1, 2]"),
    "jsonb": ("{}", '{"a": 1}', "[1, 2]", '{"a": null}'),
    "bytea": ("\\x", "\\x00", "\\x61"),
    "time without time zone": ("00:00:00", "12:00:00", "23:59:59.999999"),
}
TEXTS = ("", "a", "A", "b", "a ", "ab")


def constants(trees: Iterable[ast.Node], parameters: Iterable[tuple[str | None, ...]]) -> tuple[str, ...]:
    """Every constant of the statements and every value of a parameter, as text, each once."""
    found: dict[str, None] = {}
    for tree in trees:
        for node in walk(tree):
            value = constant(node)
            if value is not None:
                found[str(value).lower() if isinstance(value, bool) else str(value)] = None
    for values in parameters:
        found.update({value: None for value in values if value is not None})
    return tuple(found)


def candidates(column: ColumnFacts, said: tuple[str, ...], sampled: tuple[str, ...]) -> tuple[str, ...]:
    """Values for a column in PostgreSQL's text form: those of the statement first, then those beside them.

    `said` are the statement's constants, `sampled` values of the data. Not all have to suit the type: a row
    with one that does not is left out by the server.
    """
    kind = base_type(column.type)
    made: Iterable[str]
    if kind in INTEGERS:
        made = _integers(said, 2 ** RANGE[kind])
    elif kind == "numeric" or kind in FLOATS:
        made = _numbers(said, kind)
    elif kind in ("text", "character varying", "character", "citext", "name"):
        made = _texts(said, column.type)
    elif kind == "date":
        made = (*(moment.date().isoformat() for moment in _moments(said)), *INFINITIES)
    elif kind.startswith("timestamp"):
        near = ZONE_OFFSETS if any("/" in value for value in said) and kind.endswith("with time zone") else ()
        made = (*(str(moment) for moment in _moments(said, near)), *INFINITIES)
    elif kind.endswith("[]"):
        made = ("{}", *(f"{{{value}}}" for value in said if value.isalnum()), *sampled)
    else:
        made = (*said, *FIXED.get(kind, ()))
    return tuple(dict.fromkeys((*made, *sampled[:4])))


def _numbers_in(said: tuple[str, ...]) -> Iterator[Decimal]:
    for value in said:
        number = decimal_of(value.strip())
        if number is not None and number.is_finite() and abs(number) < 10**18:
            yield number


def _integers(said: tuple[str, ...], limit: int) -> Iterator[str]:
    for number in _numbers_in(said):
        whole = int(number)
        for value in (whole, whole + 1, whole - 1):
            if -limit <= value < limit:
                yield str(value)
    yield from ("1", "2", "0", "3", "100", "-1")


def _numbers(said: tuple[str, ...], kind: str) -> Iterator[str]:
    for number in _numbers_in(said):
        # 1.50 and 1.5 are equal and not written alike.
        yield from (str(number), f"{number.normalize():f}", str(number + 1), str(number - 1))
    yield from ("1", "2.5", "0", "10")
    if kind != "numeric":
        yield from ("0.1", "NaN")


def _texts(said: tuple[str, ...], column_type: str) -> Iterator[str]:
    length = re.search(r"\((\d+)\)", column_type)
    for value in said:
        plain = value.replace("%", "").replace("_", "")
        for text in (value, value.swapcase(), value.capitalize(), plain, f"{plain}x", f"{value} "):
            if not length or len(text) <= int(length[1]):
                yield text
    yield from TEXTS


def _moments(said: tuple[str, ...], near: tuple[datetime.timedelta, ...] = ()) -> Iterator[datetime.datetime]:
    for value in said:
        for moment in _moments_of(value):
            yield from _beside(moment, near)
    yield from (datetime.datetime.fromisoformat(moment) for moment in MOMENTS)


def _beside(moment: datetime.datetime, near: tuple[datetime.timedelta, ...]) -> Iterator[datetime.datetime]:
    """A moment and those beside it, as far as there are any: the last year's end stands for no end at all."""
    shifts = [day + offset for offset in near for day in (0 * DAY, DAY)]
    shifts += [0 * DAY, -MICROSECOND, DAY, DAY - MICROSECOND, -DAY, DAY / 2]
    for shift in shifts:
        with contextlib.suppress(OverflowError):
            yield moment + shift
    with contextlib.suppress(OverflowError):
        month = (moment.replace(day=1) + 32 * DAY).replace(day=1)
        yield from (month, month - MICROSECOND)
    with contextlib.suppress(ValueError):
        yield moment.replace(year=moment.year + 1, day=1)


def _moments_of(value: str) -> Iterator[datetime.datetime]:
    """The moment that a text says; for a number that may be a year, its beginning and its end."""
    found = ISO.match(value)
    try:
        if found:
            yield datetime.datetime(*(int(part or 0) for part in found.groups()))  # type: ignore[arg-type]
        elif value.isdigit() and int(value) in YEARS:
            yield datetime.datetime(int(value), 1, 1)
            yield datetime.datetime(int(value) + 1, 1, 1)
    except ValueError:
        return
