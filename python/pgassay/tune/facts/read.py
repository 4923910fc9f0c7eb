"""Reading a database's facts: one query for each catalog, whatever the number of tables, and nothing written.

Every function and relation is named with its schema, so that objects of the same name in a search path of the
user's are not called. Sizes need a short ACCESS SHARE lock on each table; the caller sets timeouts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import psycopg
from psycopg.rows import TupleRow, dict_row

from pgassay.tune.facts.catalog_queries import (
    COLUMNS,
    CONSTRAINTS,
    DATABASE,
    EXTENSIONS,
    FUNCTIONS,
    INDEX_KEYS,
    INDEXES,
    RELATIONS,
    SETTINGS,
    STATISTICS,
    query,
)
from pgassay.tune.facts.schema import (
    ColumnFacts,
    ConstraintFacts,
    ExtendedStatisticsFacts,
    FunctionFacts,
    IndexFacts,
    IndexKey,
    SchemaFacts,
    TableFacts,
)

Row = Mapping[str, object]
# indoption of pg_index (src/include/catalog/pg_index.h).
_DESCENDING, _NULLS_FIRST = 1, 2
_STATISTICS_KINDS = {"d": "ndistinct", "f": "dependencies", "m": "mcv"}


def read_facts(connection: "psycopg.Connection[TupleRow]") -> SchemaFacts:
    """What the catalogs say of the database that the connection is of; servers of 14 and newer.

    Statistics of columns that the role may not read are absent. Raises psycopg.Error as the server does.
    """
    version = connection.info.server_version
    with connection.cursor(row_factory=dict_row) as cursor:

        def rows(text: str) -> list[dict[str, object]]:
            cursor.execute(query(text, version))
            return cursor.fetchall()

        database = rows(DATABASE)[0]
        columns = _grouped(rows(COLUMNS), "relation")
        keys = _grouped(rows(INDEX_KEYS), "index")
        indexes = _grouped(rows(INDEXES), "relation")
        constraints = _grouped(rows(CONSTRAINTS), "relation")
        extensions = rows(EXTENSIONS)
        return SchemaFacts(
            version=version,
            tables=tuple(
                _table(
                    row,
                    tuple(ColumnFacts.model_validate(_plain(each)) for each in columns[row["oid"]]),
                    tuple(_index(each, keys[each["oid"]]) for each in indexes[row["oid"]]),
                    tuple(ConstraintFacts.model_validate(_plain(each)) for each in constraints[row["oid"]]),
                )
                for row in rows(RELATIONS)
            ),
            functions=tuple(FunctionFacts.model_validate(_plain(row)) for row in rows(FUNCTIONS)),
            statistics=tuple(_statistics(row) for row in rows(STATISTICS)),
            settings={str(row["name"]): str(row["setting"]) for row in rows(SETTINGS)},
            extensions=tuple(str(row["name"]) for row in extensions if row["installed"]),
            extension_schemas={str(row["name"]): str(row["schema_"]) for row in extensions if row["schema_"]},
            extensions_available=tuple(str(row["name"]) for row in extensions),
            **_plain(database),
        )


def _grouped(rows: Iterable[dict[str, object]], key: str) -> dict[object, list[dict[str, object]]]:
    found: dict[object, list[dict[str, object]]] = defaultdict(list)
    for row in rows:
        found[row.pop(key)].append(row)
    return found


def _plain(row: Row) -> dict[str, object]:
    """A row's values as a model's fields: arrays as tuples, and what is null left to the default."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in row.items()
        if value is not None
    }


def _index(row: Row, keys: list[dict[str, object]]) -> IndexFacts:
    values = _plain(row)
    values.pop("oid")
    key_count = int(str(values.pop("key_count")))
    return IndexFacts.model_validate(
        values
        | {
            "keys": tuple(_key(key) for key in keys[:key_count]),
            "included": tuple(str(key["column"]) for key in keys[key_count:]),
        }
    )


def _key(row: Row) -> IndexKey:
    values = _plain(row)
    option = int(str(values.pop("option", 0)))
    descending, nulls_first = bool(option & _DESCENDING), bool(option & _NULLS_FIRST)
    return IndexKey.model_validate(
        {"column": None} | values | {"descending": descending, "nulls_first": nulls_first}
    )


def _statistics(row: Row) -> ExtendedStatisticsFacts:
    values = _plain(row)
    letters = values.pop("letters")
    assert isinstance(letters, tuple)
    kinds = tuple(_STATISTICS_KINDS[letter] for letter in letters if letter in _STATISTICS_KINDS)
    return ExtendedStatisticsFacts.model_validate(values | {"kinds": kinds})


def _table(
    row: Row,
    columns: tuple[ColumnFacts, ...],
    indexes: tuple[IndexFacts, ...],
    constraints: tuple[ConstraintFacts, ...],
) -> TableFacts:
    values = _plain(row)
    values.pop("oid")
    options = values.pop("options", ())
    assert isinstance(options, tuple)
    return TableFacts.model_validate(
        values
        | {
            "options": {name: value for name, _, value in (each.partition("=") for each in options)},
            "columns": columns,
            "indexes": indexes,
            "constraints": constraints,
        }
    )
