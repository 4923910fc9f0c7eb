"""A statement's misspelt table is found in the text that makes the data, and nothing else is refused."""

import pytest

from pgassay.tune.candidate import TunedStatement
from pgassay.tune.facts.unknown_tables import unknown_table

SHOP = """
CREATE TABLE customers (id int primary key, name text);
INSERT INTO customers SELECT n, 'x' FROM generate_series(1, 1000) n;
CREATE TABLE public."Order Lines" (id int);
create unlogged table if not exists shop.Orders (id int, customer int);
CREATE MATERIALIZED VIEW totals AS SELECT 1;
"""
KNOWN = (
    'WITH c AS (SELECT * FROM customers) SELECT * FROM c JOIN totals ON true JOIN "Order Lines" ON true '
    "JOIN shop.orders ON true JOIN pg_class ON true JOIN information_schema.tables ON true"
)
QUEUE = (
    "SELECT o.id FROM shop.orders o JOIN customers AS c ON c.id = o.customer "
    "ORDER BY o.id LIMIT 10 FOR UPDATE OF o SKIP LOCKED FOR SHARE OF c"
)
WRONG = "SELECT * FROM custommers WHERE id = 3"


def statements(*texts: str) -> list[TunedStatement]:
    return [TunedStatement(name=f"s{number}", sql=text) for number, text in enumerate(texts, start=1)]


def test_a_misspelt_table_is_named_with_the_nearest() -> None:
    found = unknown_table(SHOP, statements(KNOWN, WRONG), is_dump=False)
    assert found == ("s2", "custommers", "is it customers?")
    found = unknown_table(SHOP, statements("SELECT * FROM custommers c FOR UPDATE OF c"), is_dump=False)
    assert found == ("s1", "custommers", "is it customers?")
    found = unknown_table(SHOP, statements("DELETE FROM zzz"), is_dump=False)
    assert found is not None
    assert "it creates Order Lines, customers, orders, totals" in found[2]


@pytest.mark.parametrize("text", [KNOWN, QUEUE, "SELECT 1", "not SQL"])
def test_what_is_there_is_not_refused(text: str) -> None:
    assert unknown_table(SHOP, statements(text), is_dump=False) is None


@pytest.mark.parametrize(
    "line",
    [
        "DO $$ BEGIN EXECUTE 'CREATE TABLE custommers (id int)'; END $$;",
        "SELECT * INTO custommers FROM customers;",
        "ALTER TABLE customers RENAME TO custommers;",
        "\\i more.sql",
        "CREATE EXTENSION postgis;",
        # Its cron.job_run_details is a table that many clean up.
        "CREATE EXTENSION IF NOT EXISTS pg_cron WITH SCHEMA pg_catalog;",
        "CREATE EXTENSION pg_partman;",
        "IMPORT FOREIGN SCHEMA public FROM SERVER other INTO public;",
    ],
)
def test_where_tables_may_come_from_elsewhere_nothing_is_said(line: str) -> None:
    assert unknown_table(f"{SHOP}\n{line}", statements(WRONG), is_dump=False) is None


def test_a_dump_runs_none_of_its_code_and_some_extensions_have_no_tables() -> None:
    code = "CREATE FUNCTION f() RETURNS trigger AS $$ BEGIN EXECUTE 'x'; END $$;\nCREATE EXTENSION pg_trgm;"
    found = unknown_table(f"{SHOP}\n{code}", statements(WRONG), is_dump=True)
    assert found is not None
    assert found[1] == "custommers"
