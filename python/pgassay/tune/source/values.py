"""Values for parameters by the statistics of the columns that they are compared with.

Two sets a statement: a frequent one (the most common values, ranges of a tenth of the rows) and a rare one
(values of the histogram, ranges of a hundredth), since the best plan may differ. Values are in PostgreSQL's
text form. Each column is drawn for itself: of what two columns hold together the statistics say nothing.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pgassay.tune.facts.schema import ColumnFacts, TableFacts
from pgassay.tune.rewrites.names.data_types import FLOATS, INTEGERS, base_type
from pgassay.tune.source.use import WORDS, Use

Set = Literal["frequent", "rare"]
SETS: tuple[Set, ...] = ("frequent", "rare")
Values = tuple[str | None, ...]
# Of the rows, what lies beyond a bound.
_TAIL: dict[Set, float] = {"frequent": 0.1, "rare": 0.01}
# Rows of a LIMIT where the server tells nothing: a page of a list.
LIMIT_DEFAULT = 20
_ARRAY_ELEMENTS = 3
NONE_FOUND = "no document of {table}.{column} with such a key was found"
# PostgreSQL reads $1 as text where nothing says its type.
_OF_OUTPUT = {
    "boolean": "true", "interval": "1 day", "date": "2024-01-01", "timestamp without time zone": "2024-01-01",
    "timestamp with time zone": "2024-01-01 00:00:00+00", "text": "", "character varying": "", "unknown": "",
}  # fmt: skip
_TEXTS = frozenset({"text", "character varying", "character", "citext", "name"})
# Ids that are made for new rows lie so far beyond those that are there.
_BEYOND = 1_000_000
# Where a type has no room for that they are its largest.
_LARGEST = {"smallint": 2**15 - 1, "integer": 2**31 - 1}


class NoValueError(Exception):
    """No value of a parameter is known; the message says why, as the end of a sentence."""


@dataclass(frozen=True)
class Drawn:
    """The sets of values of a statement, the frequent one first, and what of them was assumed."""

    sets: tuple[Values, ...]
    assumed: tuple[str, ...] = ()


def draw(
    uses: Mapping[int, Use], types: Mapping[int, str], rows_per_call: float, ages: Mapping[str, str]
) -> Drawn:
    """Both sets of values, one where they are alike.

    `types` are those that the server gives parameters of the output, `ages` how long ago a column's value
    was, as an interval. Raises NoValueError for the first parameter that has no value, with its number.
    """
    last = max(uses, default=0)
    bounds = _bounded_both(uses)
    sets: list[Values] = []
    for wanted in SETS:
        values: list[str | None] = [None] * last
        for number, use in uses.items():
            try:
                values[number - 1] = _value(use, wanted, bounds, types, rows_per_call, ages)
            except NoValueError as error:
                raise NoValueError(f"${number}: {error}") from None
        if tuple(values) not in sets:
            sets.append(tuple(values))
    return Drawn(tuple(sets), tuple(dict.fromkeys(_assumptions(uses.values()))))


def _assumptions(uses: Iterable[Use]) -> list[str]:
    found = []
    for use in uses:
        if use.is_sampled and use.table is not None and use.column is not None:
            place = f"{use.table.name}.{use.column.name}"
            sampled = f"values of {place} are those of a few rows, since the statistics hold none"
            of_expression = f"values of {use.expression} are those of a few rows of {use.table.name}"
            found.append(of_expression if use.expression else sampled)
        if use.kind == "output" and use.reason:
            found.append(f"a value of its type was assumed for ${use.number}: {use.reason}")
        if use.kind == "assumed":
            found.append(f"{use.known[0]} was assumed for ${use.number} of {use.function}")
        elif use.kind == "like":
            found.append("the beginning and the middle of a value were used as patterns of LIKE")
        elif use.kind == "field" and use.table is not None and use.column is not None:
            place = f"{use.table.name}.{use.column.name}"
            of_key = f"the key '{use.key}' was taken for ${use.key_number}, and " if use.key_number else ""
            found.append(f"{of_key}values of '{use.key}' are those of a few documents of {place}")
        elif use.kind == "word":
            found.append(f"'{WORDS[use.function]}' was used for the word that {use.function} asks for")
        elif use.kind == "offset":
            found.append("OFFSET was assumed as 0, and as a few pages")
        elif use.kind == "array":
            found.append(f"{_ARRAY_ELEMENTS} elements were assumed for arrays")
        elif use.kind == "limit" and not use.is_top:
            found.append(f"LIMIT {LIMIT_DEFAULT} was assumed within a subquery")
    return found


def _bounded_both(uses: Mapping[int, Use]) -> set[tuple[str, str]]:
    """The columns that have a bound on either side."""
    sides: dict[tuple[str, str], set[str]] = {}
    for use in uses.values():
        if use.side is not None and use.table is not None and use.column is not None:
            sides.setdefault((use.table.name, use.column.name), set()).add(use.side)
    return {column for column, kinds in sides.items() if len(kinds) > 1}


def _value(
    use: Use,
    wanted: Set,
    bounds: set[tuple[str, str]],
    types: Mapping[int, str],
    rows_per_call: float,
    ages: Mapping[str, str],
) -> str | None:
    if use.kind == "unknown":
        raise NoValueError(use.reason)
    if use.kind == "limit":
        return (
            str(max(1, math.ceil(rows_per_call))) if use.is_top and rows_per_call > 0 else str(LIMIT_DEFAULT)
        )
    if use.kind == "offset":
        return "0" if wanted == "frequent" else str(10 * max(LIMIT_DEFAULT, math.ceil(rows_per_call)))
    if use.kind == "word":
        return WORDS[use.function]
    if use.kind == "assumed":
        return use.known[0]
    if use.kind == "output":
        return _of_type(types.get(use.number, "text"))
    table, column = use.table, use.column
    assert table is not None and column is not None, "every other use is of a column"
    if use.kind in ("field", "key"):
        return _of_document(use, table, column, wanted)
    if use.kind == "stored":
        return _stored(table, column, wanted, use)
    known = values_of(column, wanted)
    if not known:
        place = use.expression or f"{table.name}.{column.name}"
        raise NoValueError(
            f"neither the statistics nor a few rows hold a value of {place} (the role "
            "must be allowed to read the column, and no row-level security hides its rows from it)"
        )
    if use.side is not None:
        is_both = (table.name, column.name) in bounds
        bound = _bound(column, use.side, wanted, is_both=is_both)
        return bound if use.kind != "age" else _age(bound, ages, column)
    if use.kind == "array":
        return _array(known[: 1 if len(known) < _ARRAY_ELEMENTS else _ARRAY_ELEMENTS])
    if use.kind == "like":
        # Of an empty text, which many rows may have, the pattern would be of all rows.
        return _pattern(_cased(next(filter(None, known), ""), use.function), wanted)
    value = known[use.element % len(known)] if use.kind == "list" else known[0]
    return _cased(value, use.function)


def _of_document(use: Use, table: TableFacts, column: ColumnFacts, wanted: Set) -> str:
    if not use.known:
        raise NoValueError(NONE_FOUND.format(table=table.name, column=column.name))
    place = use.element % len(use.known)
    return use.known[place if wanted == "frequent" else -1 - place]


def values_of(column: ColumnFacts, wanted: Set) -> tuple[str, ...]:
    """Values that the column has: the most common ones first, or first those of the histogram.

    Those of a histogram are taken from its middle outwards, so that ends, often outliers, come last.
    """
    bounds = column.histogram
    middle = sorted(range(len(bounds)), key=lambda place: abs(place - (len(bounds) - 1) / 2))
    spread = tuple(bounds[place] for place in middle)
    if wanted == "frequent":
        return (*column.common, *spread)
    # Another than the frequent set's where all values are alike: a key has no common ones.
    turned = spread if column.common else (*spread[1:], *spread[:1])
    return (*turned, *reversed(column.common))


def _bound(column: ColumnFacts, side: str, wanted: Set, *, is_both: bool) -> str:
    """A bound beyond which a tenth or a hundredth of the rows lie; of two bounds, so much lies between."""
    ordered = column.histogram or tuple(sorted(column.common, key=_order))
    tail = _TAIL[wanted]
    if is_both:
        place = 0.5 - tail / 2 if side == "above" else 0.5 + tail / 2
    else:
        place = 1 - tail if side == "above" else tail
    index = round((len(ordered) - 1) * place, 6)
    # Outwards to the next bound: no range is empty.
    index = math.floor(index) if side == "above" else math.ceil(index)
    return ordered[min(max(index, 0), len(ordered) - 1)]


def _order(value: str) -> tuple[float, str]:
    try:
        return (float(value), "")
    except ValueError:
        return (math.inf, value)


def _age(bound: str, ages: Mapping[str, str], column: ColumnFacts) -> str:
    if bound not in ages:
        raise NoValueError(f"the age of values of {column.name} is not known")
    return ages[bound]


def age_bounds(uses: Mapping[int, Use]) -> tuple[str, ...]:
    """The values whose age `draw` will ask for."""
    found, both = dict[str, None](), _bounded_both(uses)
    for use in uses.values():
        table, column = use.table, use.column
        if use.kind != "age" or table is None or column is None or use.side is None:
            continue
        if column.histogram or column.common:
            is_both = (table.name, column.name) in both
            found |= dict.fromkeys(_bound(column, use.side, wanted, is_both=is_both) for wanted in SETS)
    return tuple(found)


def _of_type(name: str) -> str:
    """A value of the output's type; numbers are 1, which divides and multiplies without harm."""
    kind = base_type(name)
    if kind in INTEGERS | FLOATS or kind == "numeric":
        return "1"
    if kind in _OF_OUTPUT:
        return _OF_OUTPUT[kind]
    raise NoValueError(f"it is a constant of type {name}, and its value is not known")


def _stored(table: TableFacts, column: ColumnFacts, wanted: Set, use: Use) -> str | None:
    """A value for a row that is written: one that the column has, or a new one where it must be unique."""
    is_key = any(
        index.unique and len(index.keys) == 1 and index.keys[0].column == column.name
        for index in table.indexes
    )
    known = values_of(column, wanted)
    if is_key:
        # The sets of a statement make no row twice.
        return _fresh(column, known, 1 + use.element + use.elements * SETS.index(wanted))
    if known:
        return known[use.element % len(known)]
    if not column.not_null:
        return None
    raise NoValueError(f"{table.name}.{column.name} is NOT NULL, and the statistics hold no value of it")


def _fresh(column: ColumnFacts, known: Sequence[str], number: int) -> str:
    """A value that no row has: far beyond the largest number, or a text that was never there."""
    kind = base_type(column.type)
    if kind in INTEGERS | {"numeric"}:
        numbers = [int(float(value)) for value in known if re.fullmatch(r"-?\d{1,15}(\.\d+)?", value)]
        most, largest = max(numbers, default=0), _LARGEST.get(kind)
        if largest is None or most + _BEYOND + number <= largest:
            return str(most + _BEYOND + number)
        if largest - number > most:
            return str(largest - number)
        raise NoValueError(f"{column.name} is unique, and {column.type} has no larger value left")
    if kind == "uuid":
        return f"00000000-0000-4000-8000-{number:012x}"
    if kind in _TEXTS:
        return f"new{number}"
    raise NoValueError(f"{column.name} is unique, and a new value of {column.type} can't be generated")


def _cased(value: str, function: str) -> str:
    return value.lower() if function == "lower" else value.upper() if function == "upper" else value


def _pattern(value: str, wanted: Set) -> str:
    plain = re.sub(r"([\\%_])", r"\\\1", value)
    if wanted == "frequent":
        return f"{plain[: max(1, min(4, len(plain) // 2))].rstrip(chr(92))}%"
    middle = value[len(value) // 4 : len(value) // 4 + 4]
    return "%" + re.sub(r"([\\%_])", r"\\\1", middle) + "%"


def _array(values: Sequence[str]) -> str:
    return "{" + ",".join('"' + re.sub(r'(["\\])', r"\\\1", value) + '"' for value in values) + "}"
