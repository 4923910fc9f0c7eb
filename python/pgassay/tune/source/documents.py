"""Keys and values of JSON documents, which no statistics tell: read from a few documents of the source."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import psycopg
from psycopg import sql

from pgassay.environment.server.sessions import ControlSession
from pgassay.tune.facts.schema import ColumnFacts, TableFacts
from pgassay.tune.source.use import Use

# So many documents are read, of blocks drawn at random; where those have none, of the table's first.
DOCUMENTS_MAX = 1000
# Blocks with a few times as many rows: some are empty, and some rows have no document.
_SPARE = 4.0
_READ = """
SELECT field.key, field.value, pg_catalog.count(*)::int
FROM (SELECT {column}::pg_catalog.jsonb AS document FROM {table} {sample}
    WHERE {column} IS NOT NULL LIMIT {most}) AS few
CROSS JOIN LATERAL pg_catalog.jsonb_each_text(
    CASE WHEN pg_catalog.jsonb_typeof(few.document) = 'object' THEN few.document END) AS field
WHERE field.value IS NOT NULL
GROUP BY field.key, field.value
ORDER BY 3 DESC, 2"""
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
    share = min(100.0, 100.0 * _SPARE * DOCUMENTS_MAX / max(table.rows, 1.0))
    drawn = sql.SQL("TABLESAMPLE SYSTEM ({}) REPEATABLE (0)").format(sql.Literal(round(share, 6)))
    for sample in (drawn, sql.SQL("")):
        query = sql.SQL(_READ).format(
            column=sql.Identifier(column.name),
            table=sql.Identifier(table.schema_, table.name),
            sample=sample,
            most=sql.Literal(DOCUMENTS_MAX),
        )
        try:
            rows = session.execute(query, prepare=False).fetchall()
        except psycopg.Error:
            if session.closed:
                raise
            continue  # no right to read it, or a kind of table that has no blocks to draw
        fields: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for key, value, count in rows:
            fields[str(key)].append((str(value), int(count)))
        if fields:
            return fields
    return {}
