"""Values that no statistics tell, read from a few rows of the source.

These are keys and values of JSON documents, and values of columns that were never analysed.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import psycopg
from psycopg import sql

from pgassay.environment.server.sessions import ControlSession
from pgassay.tune.facts.schema import ColumnFacts, TableFacts
from pgassay.tune.source.use import Use

# So many rows are read, of blocks drawn at random; where those have none, of the table's first.
ROWS_MAX = 1000
# A table whose column is NULL everywhere is not read to its end for them.
_MET_MAX = 20 * ROWS_MAX
# Blocks with a few times as many rows: some are empty, and some rows have no document.
_SPARE = 4.0
# A value that is so much more frequent than the mean is a common one, as ANALYZE has it
# (src/backend/commands/analyze.c, analyze_mcv_list); of the others a histogram has so many.
_COMMON_RATIO = 1.25
_BOUNDS_MAX = 101
_READ = """
SELECT field.key, field.value, pg_catalog.count(*)::int
FROM (SELECT met.value::pg_catalog.jsonb AS document
    FROM (SELECT {column} AS value FROM {table} {sample} LIMIT {met}) AS met
    WHERE met.value IS NOT NULL LIMIT {most}) AS few
CROSS JOIN LATERAL pg_catalog.jsonb_each_text(
    CASE WHEN pg_catalog.jsonb_typeof(few.document) = 'object' THEN few.document END) AS field
WHERE field.value IS NOT NULL
GROUP BY field.key, field.value
ORDER BY 3 DESC, 2"""
_READ_VALUES = """
SELECT few.value::pg_catalog.text, pg_catalog.count(*)::int
FROM (SELECT met.value FROM (SELECT {column} AS value FROM {table} {sample} LIMIT {met}) AS met
    WHERE met.value IS NOT NULL LIMIT {most}) AS few
GROUP BY few.value
ORDER BY few.value"""
# Of what such a use compares a parameter with, or stores into.
_OF_COLUMNS = frozenset({"equal", "list", "array", "below", "above", "like", "age", "stored"})
# By key, its values with how many documents have each, the most frequent first.
_Fields = Mapping[str, list[tuple[str, int]]]


def with_documents(session: ControlSession, uses: Mapping[int, Use], rows_per_call: float) -> dict[int, Use]:
    """The uses with what documents of the source have: fields their `known` values, keys the key.

    Which key a parameter stands for is not known: the one that leads to about as many rows as a call
    returns. A session that the server ends is an error of psycopg's.
    """
    found = dict(uses)
    for number, use in uses.items():
        if use.kind != "field" or use.table is None or use.column is None:
            continue
        fields = _fields(session, use.table, use.column)
        if use.key_number is not None:
            key = _key(fields, max(use.table.rows, 1.0), rows_per_call)
            found[use.key_number] = replace(uses[use.key_number], known=(key,) if key else ())
        else:
            key = use.key
        found[number] = replace(use, key=key, known=tuple(value for value, _ in fields.get(key, ())))
    return found


def _key(fields: _Fields, rows: float, rows_per_call: float) -> str:
    """The key whose values lead to about so many rows; '' without any."""

    def distance(key: str) -> float:
        of_a_value = rows / len(fields[key])
        return abs(math.log(max(of_a_value, 1.0) / max(rows_per_call, 1.0)))

    return min(sorted(fields), key=distance, default="")


def _fields(session: ControlSession, table: TableFacts, column: ColumnFacts) -> _Fields:
    fields: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for key, value, count in _few(session, _READ, table, column):
        fields[str(key)].append((str(value), int(str(count))))
    return fields


def with_values(session: ControlSession, uses: Mapping[int, Use]) -> dict[int, Use]:
    """The uses with the values of a few rows for columns of which the statistics hold none.

    A session that the server ends is an error of psycopg's.
    """
    found = dict(uses)
    read: dict[tuple[str, str, str], ColumnFacts] = {}
    for number, use in uses.items():
        table, column = use.table, use.column
        if use.kind not in _OF_COLUMNS or table is None or column is None:
            continue
        if not column.common and not column.histogram:
            place = (table.schema_, table.name, column.name)
            if place not in read:
                rows = _few(session, _READ_VALUES, table, column, use.expression)
                read[place] = _with_statistics(
                    column, [(str(value), int(str(count))) for value, count in rows]
                )
            sampled = read[place]
            found[number] = replace(use, column=sampled, is_sampled=bool(sampled.common or sampled.histogram))
    return found


def _with_statistics(column: ColumnFacts, values: Sequence[tuple[str, int]]) -> ColumnFacts:
    """The column with what ANALYZE would say, about, of these values and how often each was met, in order."""
    most = _COMMON_RATIO * sum(count for _, count in values) / max(len(values), 1)
    is_short = len(values) < _BOUNDS_MAX
    common = [(value, count) for value, count in values if count > 1 and (is_short or count >= most)]
    others = [value for value, count in values if (value, count) not in common]
    step = max(1, math.ceil((len(others) - 1) / (_BOUNDS_MAX - 1)))
    common.sort(key=lambda each: -each[1])
    return column.model_copy(
        update={"common": tuple(value for value, _ in common), "histogram": tuple(others[::step])}
    )


def _few(
    session: ControlSession, query: str, table: TableFacts, column: ColumnFacts, expression: str = ""
) -> list[tuple[object, ...]]:
    """What the query tells of a few rows of the table; [] where the role may not read them.

    `expression`: what is read in place of the column, as SQL.
    """
    share = min(100.0, 100.0 * _SPARE * ROWS_MAX / max(table.rows, 1.0))
    drawn = sql.SQL("TABLESAMPLE SYSTEM ({}) REPEATABLE (0)").format(sql.Literal(round(share, 6)))
    for sample in (drawn, sql.SQL("")):
        text = sql.SQL(query).format(
            column=sql.SQL(expression) if expression else sql.Identifier(column.name),
            table=sql.Identifier(table.schema_, table.name),
            sample=sample,
            most=sql.Literal(ROWS_MAX),
            met=sql.Literal(_MET_MAX),
        )
        try:
            rows = session.execute(text, prepare=False).fetchall()
        except psycopg.Error:
            if session.closed:
                raise
            continue  # no right to read it, or a kind of table that has no blocks to draw
        if rows:
            return list(rows)
    return []
