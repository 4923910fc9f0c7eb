"""What share of a table's rows a condition lets through, by the statistics of its column (pg_stats).

As var_eq_const and ineq_histogram_selectivity of src/backend/utils/adt/selfuncs.c reckon, without the
operators' own functions: values are compared as numbers, else as text.
"""

from pgassay.tune.facts.schema import ColumnFacts, TableFacts
from pgassay.tune.finders.evidence.conditions import Condition

# Of PostgreSQL: DEFAULT_EQ_SEL, DEFAULT_RANGE_INEQ_SEL (src/include/utils/selfuncs.h).
_UNKNOWN_EQUAL, _UNKNOWN_RANGE = 0.005, 0.3333


def distinct_values(column: ColumnFacts, rows: float) -> float | None:
    """How many different values a column has; None without statistics."""
    if column.distinct is None:
        return None
    return -column.distinct * rows if column.distinct < 0 else column.distinct


def equal_share(column: ColumnFacts, value: str | None, rows: float) -> float:
    """The share of rows with this value; of a value on average where it is not known."""
    distinct = distinct_values(column, rows)
    if not distinct:
        return _UNKNOWN_EQUAL
    if value is None:
        return 1 / max(distinct, 1.0)
    for common, share in zip(column.common, column.common_share, strict=False):
        if same(common, value):
            return share
    rest = 1 - sum(column.common_share) - (column.null_share or 0.0)
    others = max(distinct - len(column.common), 1.0)
    return max(rest, 0.0) / others


def same(left: str, right: str) -> bool:
    """Whether two texts are one value: as text, as number, or as the words of a boolean."""
    if left == right:
        return True
    words = {"t": "true", "f": "false"}
    if words.get(left, left).lower() == words.get(right, right).lower():
        return True
    try:
        return float(left) == float(right)
    except ValueError:
        return False


def below_share(column: ColumnFacts, value: str) -> float | None:
    """The share of rows below a value, of those that are not null; None without a histogram."""
    bounds = column.histogram
    common = sum(
        share
        for each, share in zip(column.common, column.common_share, strict=False)
        if _key(each) < _key(value)
    )
    rest = max(1 - sum(column.common_share) - (column.null_share or 0.0), 0.0)
    if len(bounds) < 2:
        return common if column.common and rest < 0.05 else None
    position = sum(1 for each in bounds if _key(each) < _key(value))
    return common + rest * min(max((position - 0.5) / (len(bounds) - 1), 0.0), 1.0)


def _key(value: str) -> tuple[int, float, str]:
    try:
        return 0, float(value), ""
    except ValueError:
        return 1, 0.0, value


def share(condition: Condition, table: TableFacts, rows: float) -> float:
    """The share of the rows that a condition lets through, 0 to 1, by statistics or PostgreSQL's defaults.

    Two bounds of one column are two conditions: multiply nothing, see `together`.
    """
    column = table.column(condition.column) if condition.column else None
    if column is None:
        return _UNKNOWN_EQUAL if condition.is_equality else _UNKNOWN_RANGE
    nulls = column.null_share or 0.0
    match condition.kind:
        case "null":
            return nulls
        case "not null":
            return 1 - nulls
        case "true" | "false":
            return equal_share(column, "t" if condition.kind == "true" else "f", rows)
        case "equal" | "outer":
            return equal_share(column, condition.values[0] if condition.values else None, rows)
        case "in":
            values = condition.values or ("",)
            return min(sum(equal_share(column, value, rows) for value in values), 1.0)
        case "range" if condition.values:
            below = below_share(column, condition.values[0])
            if below is None:
                return _UNKNOWN_RANGE
            return below if condition.operator.startswith("<") else max(1 - nulls - below, 0.0)
        case _:
            return _UNKNOWN_RANGE


def together(found: tuple[Condition, ...], table: TableFacts, rows: float) -> float:
    """The share that passes all conditions, taken as independent; two bounds of a column as one range."""
    result = 1.0
    ranges: dict[str, list[Condition]] = {}
    for condition in found:
        if condition.kind == "range" and condition.column:
            ranges.setdefault(condition.column, []).append(condition)
        else:
            result *= share(condition, table, rows)
    for name, bounds in ranges.items():
        column = table.column(name)
        nulls = (column.null_share or 0.0) if column else 0.0
        shares = [share(each, table, rows) for each in bounds]
        missing = sum(1 - nulls - each for each in shares)
        result *= max(1 - nulls - missing, 1 / max(rows, 1.0)) if len(bounds) > 1 else shares[0]
    return min(max(result, 0.0), 1.0)
