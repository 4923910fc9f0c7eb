"""Tables that a statement reads whole: partitions, parallel scans, statistics that are hidden."""

from dataclasses import replace
from typing import Any

import pytest
from running_server.test_statement_findings import ORDERS, called, found, plan

from pgassay.analysis.diagnosis.interval import TableShape
from pgassay.errors import UsageError
from pgassay.running_server.diagnosis.estimated_plans import _shape, refuse_unclear
from pgassay.tune.facts.schema import (
    ColumnFacts,
    ConstraintFacts,
    IndexFacts,
    IndexKey,
    SchemaFacts,
    TableFacts,
)
from pgassay.tune.rewrites.tree import read

COUNTED = called("7", "SELECT count(*) FROM visits WHERE at = $1", 100, 1.0, 100)
VISITS = replace(ORDERS, partition_of=("public", "visits"), indexes={})


def scan(name: str, number: int, cost: float, **more: Any) -> dict[str, Any]:
    """A sequential scan as EXPLAIN has it, of about 310 rows."""
    return {
        "Node Type": "Seq Scan", "Relation Name": name, "Schema": "public", "Alias": f"visits_{number}",
        "Startup Cost": 0.0, "Total Cost": cost, "Plan Rows": 310, "Plan Width": 8,
        "Filter": f"(visits_{number}.at = $1)", "Parent Relationship": "Member", **more,
    }  # fmt: skip


def test_partitions_are_told_by_their_table_whose_index_serves_all() -> None:
    """A plan for any values holds them all: the largest was named, and each took too little of the cost."""
    scans = [scan(f"visits_{year}", number, 1000.0) for number, year in enumerate(range(2020, 2025))]
    tables = tuple(replace(VISITS, name=f"visits_{year}", rows=100_000) for year in range(2020, 2025))
    document = plan("Append", **{"Total Cost": 5000.0, "Plan Rows": 900}, Plans=scans)
    ((kind, sentence, sql),) = found(document, COUNTED, tables=tables)
    assert (kind, sentence) == (
        "whole-table",
        "each partition of visits in question is read completely, up to 100,000 rows for about 310: "
        "no index on at",
    )
    # PostgreSQL makes none CONCURRENTLY on a partitioned table.
    assert sql == "CREATE INDEX ON visits (at); -- writes wait until it is made"


def test_the_rows_of_a_parallel_scan_are_those_of_all_its_processes() -> None:
    table = replace(ORDERS, name="visits", indexes={})
    below = scan("visits", 0, 4000.0, **{"Parallel Aware": True, "Parent Relationship": "Outer"})
    document = plan("Gather", **{"Workers Planned": 2, "Total Cost": 5000.0}, Plans=[below])
    ((_, sentence, _),) = found(document, COUNTED, tables=(table,))
    # Two workers, and two fifths of a leader.
    assert sentence.startswith("visits is read completely, 150,000 rows for about 744:")


def facts(*tables: TableFacts) -> SchemaFacts:
    return SchemaFacts.model_construct(tables=tables)


def test_statistics_that_the_role_may_not_see_are_not_said_to_be_none() -> None:
    column = ColumnFacts(name="at", type="date", not_null=False)
    year = TableFacts(
        schema_="public", name="visits_2024", kind="table", columns=(column,), rows=105_311,
        parent="visits_2020s", parent_schema="public",
    )  # fmt: skip
    decade = TableFacts(
        schema_="public", name="visits_2020s", kind="partitioned", columns=(column,),
        parent="visits", parent_schema="public",
    )  # fmt: skip
    top = TableFacts(schema_="public", name="visits", kind="partitioned", columns=(column,))
    every = facts(year, decade, top)
    assert _shape(year, every, is_hidden=True).is_analyzed
    assert not _shape(year, every, is_hidden=False).is_analyzed
    assert not _shape(year.model_copy(update={"rows": -1}), every, is_hidden=True).is_analyzed
    assert _shape(year, every, is_hidden=True).partition_of == ("public", "visits")
    assert _shape(top, every, is_hidden=False).partition_of is None


def test_a_partitioned_table_that_refers_gets_one_index_for_all_its_partitions() -> None:
    key = ConstraintFacts(
        name="lines_fkey", kind="foreign", columns=("visit",), definition="", referenced_schema="public",
        referenced_table="visits", referenced_columns=("id",),
    )  # fmt: skip
    table = TableFacts(schema_="public", name="visits", kind="table", columns=())
    lines = TableFacts(schema_="public", name="lines", kind="partitioned", columns=(), constraints=(key,))
    parts = [
        lines.model_copy(
            update={"name": f"lines_{year}", "kind": "table", "rows": 60_000.0, "parent": "lines",
                    "parent_schema": "public"}
        )
        for year in (2024, 2025)
    ]  # fmt: skip
    shape = _shape(table, facts(table, lines, *parts), is_hidden=False)
    (only,) = shape.referencing
    assert (only.table, only.rows, only.is_indexed) == ("lines", 120_000, False)
    document = plan("ModifyTable", Operation="Delete", Schema="public", **{"Relation Name": "visits"})
    statement = called("8", "DELETE FROM visits WHERE id = $1", 10, 2.0, 10)
    ((_, _, sql),) = found(document, statement, tables=(replace(shape, is_analyzed=True),))
    assert sql == "CREATE INDEX ON lines (visit); -- writes wait until it is made"


def test_only_an_index_that_could_serve_is_said_to_be_there() -> None:
    """Names with capitals stand in quotes in a plan; an index of some of the rows serves no others."""
    column = ColumnFacts(name="userId", type="integer", not_null=True)
    table = TableFacts(schema_="public", name="visits", kind="table", columns=(column,), rows=100_000)

    def shape(**changes: Any) -> TableShape:
        index = IndexFacts(
            schema_="public", name="i", table="visits", method="btree", keys=(IndexKey(column="userId"),)
        )
        return _shape(
            table.model_copy(update={"indexes": (index.model_copy(update=changes),)}),
            facts(table),
            is_hidden=True,
        )

    document = plan("Append", Plans=[scan("visits", 0, 4000.0, Filter='(visits_0."userId" = $1)')])
    ((_, sentence, sql),) = found(document, COUNTED, tables=(shape(),))
    assert sentence.endswith('though i begins with "userId"') and not sql
    for partly in ({"predicate": '"userId" > 7'}, {"method": "brin"}, {"valid": False}):
        ((_, sentence, sql),) = found(document, COUNTED, tables=(shape(**partly),))
        assert sentence.endswith('no index on "userId"')
        assert sql == 'CREATE INDEX CONCURRENTLY ON visits ("userId");'
    lower = {"keys": (IndexKey(column=None, expression="lower(mail::text)"),)}
    document = plan("Append", Plans=[scan("visits", 0, 4000.0, Filter="(lower((mail)::text) = $1)")])
    ((_, sentence, sql),) = found(document, COUNTED, tables=(shape(**lower),))
    assert "though i begins with" in sentence and not sql


def test_an_index_for_patterns_is_not_offered_again() -> None:
    column = ColumnFacts(name="mail", type="text", not_null=True)
    key = IndexKey(column="mail", opclass="text_pattern_ops", default_opclass=False)
    index = IndexFacts(schema_="public", name="i", table="visits", method="btree", keys=(key,))
    table = TableFacts(
        schema_="public", name="visits", kind="table", columns=(column,), rows=100_000, indexes=(index,)
    )
    shape = _shape(table, facts(table), is_hidden=True)
    for condition in ("(visits_0.mail ~~ 'ab%'::text)", "(visits_0.mail = $1)"):
        document = plan("Append", Plans=[scan("visits", 0, 4000.0, Filter=condition)])
        ((_, sentence, sql),) = found(document, COUNTED, tables=(shape,))
        assert "though i begins with mail" in sentence and not sql
    # One without it serves no pattern, but where the collation is C.
    document = plan("Append", Plans=[scan("visits", 0, 4000.0, Filter="(visits_0.mail ~~ 'ab%'::text)")])
    ((_, _, sql),) = found(document, COUNTED, tables=(replace(shape, indexes={"i": ("mail",)}),))
    assert sql == "CREATE INDEX CONCURRENTLY ON visits (mail text_pattern_ops);"


def test_of_a_table_of_each_tenant_none_is_planned_in_the_place_of_another() -> None:
    def table(schema: str) -> TableFacts:
        return TableFacts(schema_=schema, name="orders", kind="table", columns=())

    tenants = facts(*map(table, ("tenant_1", "tenant_2", "tenant_3"))).model_copy(
        update={"search_path": ("public",)}
    )
    with pytest.raises(UsageError, match=r"orders is in the schemas tenant_1, tenant_2 and 1 more: name one"):
        refuse_unclear(read("SELECT * FROM orders WHERE id = $1"), tenants)
    refuse_unclear(read("WITH orders AS (SELECT 1) SELECT * FROM orders"), tenants)
    refuse_unclear(read("SELECT * FROM tenant_2.orders, nothing"), tenants)
    refuse_unclear(read("SELECT * FROM orders"), facts(table("only")).model_copy(update={"search_path": ()}))
