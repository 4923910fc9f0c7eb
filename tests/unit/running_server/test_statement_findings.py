"""What a plan that was not executed and the counts of calls say of a statement; two diagnoses compared."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgassay.analysis.diagnosis.compare_diagnoses import change_of
from pgassay.analysis.diagnosis.diagnose import diagnose
from pgassay.analysis.diagnosis.headline import headline
from pgassay.analysis.diagnosis.interval import (
    Cost,
    Interval,
    PlannedStatement,
    Referencing,
    Session,
    SessionsSample,
    TableShape,
)
from pgassay.analysis.diagnosis.statement_diagnosis import by_statement
from pgassay.analysis.diagnosis.statement_times import statement_times
from pgassay.model.cause import Cause
from pgassay.model.running_server.diagnosis import CalledStatement, DiagnosedServer
from pgassay.report.diagnosis import change as change_report
from pgassay.report.diagnosis import diagnosis_page as report
from pgassay.report.diagnosis.statement_sections import headline_section
from pgassay.report.section import Code
from pgassay.sql_text import identifier

SERVER = DiagnosedServer(
    name="db:5432/shop",
    version="18.4",
    role="me",
    is_local=False,
    is_standby=False,
    postmaster_pid=None,
    data_directory=None,
    device=None,
    connection="host=db dbname=shop",
)
ORDERS = TableShape(
    "public", "orders", 150_000, 0, True, {"orders_pkey": ("id",)},
    types={"made": "timestamp with time zone", "local": "timestamp without time zone"},
)  # fmt: skip


def called(query_id: str, query: str, calls: int, total_s: float, rows: int, **more: int) -> CalledStatement:
    return CalledStatement(
        query_id=query_id,
        query=query,
        calls=calls,
        total_s=total_s,
        mean_ms=1000 * total_s / calls,
        rows=rows,
        read_bytes=0,
        temporary_bytes=more.get("temporary", 0),
        hit_bytes=more.get("hit", 0),
    )


def plan(node_type: str, **keys: Any) -> str:
    usual = {"Startup Cost": 0.0, "Total Cost": 4000.0, "Plan Rows": 38, "Plan Width": 12}
    return json.dumps([{"Plan": {"Node Type": node_type, **usual, **keys}}])


def scan(condition: str, rows: int = 38) -> str:
    return plan(
        "Seq Scan",
        **{"Relation Name": "orders", "Schema": "public", "Alias": "orders", "Plan Rows": rows},
        Filter=condition,
    )


def interval(*statements: CalledStatement, **changes: Any) -> Interval:
    base = Interval(
        server=SERVER,
        folder=Path("nowhere"),
        started_at="2026-03-01T12:00:00.000+00:00",
        begin_ns=0,
        end_ns=10_000_000_000,
        seconds_asked=10,
        interrupted=False,
        is_hidden=False,
        cost=Cost(0.0, 0.0, None, 5.0, 0, 0),
        samples=(),
        counters={},
        settings={"work_mem": "4MB", "block_size": "8192"},
        statements=statements,
        statements_s=sum(each.total_s for each in statements),
        tables=(ORDERS,),
    )
    return replace(base, **changes)


def found(document: str, statement: CalledStatement, **changes: Any) -> list[tuple[str, str, str]]:
    planned = (PlannedStatement(statement.query_id, document, "generic plan"),)
    (only,) = by_statement(interval(statement, planned=planned, **changes))
    return [(each.kind, each.sentence, each.sql) for each in only.findings]


BY_CUSTOMER = called("7", "SELECT * FROM orders WHERE customer_id = $1", 100, 1.0, 3800)


def test_a_scan_that_a_limit_ends_is_not_called_one_of_the_whole_table() -> None:
    below = json.loads(scan("(orders.customer_id = $1)"))[0]["Plan"]
    limited = {"Plan Rows": 10, "Total Cost": 1000.0, "Plans": [below | {"Parent Relationship": "Outer"}]}
    (index,) = found(plan("Limit", **limited), BY_CUSTOMER)
    assert index[1] == (
        "orders is scanned until the LIMIT has its rows, about 37,500 rows of 150,000: "
        "no index on customer_id"
    )
    assert not found(plan("Limit", **limited | {"Total Cost": 10.0}), BY_CUSTOMER)


def test_a_table_read_whole_for_few_rows_asks_for_an_index() -> None:
    assert found(scan("(orders.customer_id = $1)"), BY_CUSTOMER) == [
        (
            "whole-table",
            "orders is read completely, 150,000 rows for about 38: no index on customer_id",
            "CREATE INDEX CONCURRENTLY ON orders (customer_id);",
        )
    ]


@pytest.mark.parametrize(
    ("condition", "end", "indexed"),
    [
        ("((o.buyer = 7) OR (o.payer = 7))", "none on buyer or payer", "buyer payer"),
        ("((o.buyer = $1) OR (o.id = $2))", "none on buyer", "buyer"),
        ("((o.buyer = 7) OR (o.total <> 7))", "no index serves its condition", ""),
        ("(lower(o.note) = 'a o.b'::text)", "no index on (lower(note))", "(lower(note))"),
        ("((o.meta ->> 'o.k'::text) = 'x'::text)", "'o.k')", "(meta ->> 'o.k')"),
        # The server has taken the key out: nothing can be typed for it.
        ("((o.meta ->> $1) = $2)", "no index serves its condition", ""),
        (
            "(date_trunc('day'::text, o.made) = '2024-01-01 00:00:00'::timestamp without time zone)",
            "no index on (date_trunc('day', made))", "(date_trunc('day', made))",
        ),
        (
            "(date_trunc('day'::text, o.made) = '2024-01-01 00:00:00+00'::timestamp with time zone)",
            "o.made < '…'::timestamp with time zone + interval '1 day', with an index on the column",
            "made",
        ),
        (
            "((o.made)::date = $1)",
            "o.made >= $1::date AND o.made < $1::date + 1, with an index on the column", "made",
        ),
        ("((o.local)::date = $1)", "no index on (local::date)", "(local::date)"),
        (
            "(EXTRACT(doy FROM o.local) = $1)", "no index on (EXTRACT(doy FROM local))",
            "(EXTRACT(doy FROM local))",
        ),
        # Neither can be indexed, nor is it a range.
        ("(EXTRACT(doy FROM o.made) = $1)", "(AT TIME ZONE 'UTC') and index that expression", ""),
        ("((o.id)::date = $1)", "which orders_pkey serves", ""),
    ],
)  # fmt: skip
def test_the_index_that_is_named_can_be_made(condition: str, end: str, indexed: str) -> None:
    document = scan(condition).replace('"Alias": "orders"', '"Alias": "o"')
    statement = called("7", "SELECT 1", 100, 1.0, 100)
    ((kind, sentence, sql), *_) = found(document, statement)
    assert kind == "whole-table" and sentence.endswith(end)
    columns = [indexed] if indexed.startswith("(") else indexed.split()
    sql = sql.removesuffix(" -- serves the range only")
    assert sql == " ".join(f"CREATE INDEX CONCURRENTLY ON orders ({column});" for column in columns)


def test_what_an_expression_without_an_index_returns_is_not_called_a_wrong_estimate() -> None:
    statement = called("7", "SELECT 1", 100, 1.0, 100)
    kinds = [each[0] for each in found(scan("(lower(o.note) = 'x'::text)", rows=1000), statement)]
    assert kinds == ["whole-table"]


# The first takes a sixth, or a third, of the time: in neither case half of what all can gain.
@pytest.mark.parametrize("first_s", [1.0, 2.5])
def test_statements_of_which_none_takes_most_are_told_together(tmp_path: Path, first_s: float) -> None:
    statements = [
        called(
            str(number), f"SELECT * FROM orders WHERE c{number} = $1", 100, 1.0 if number else first_s, 3800
        )
        for number in range(6)
    ]
    planned = tuple(
        PlannedStatement(each.query_id, scan(f"(orders.c{each.query_id} = $1)"), "generic plan")
        for each in statements
    )
    seen = interval(*statements, planned=planned, folder=tmp_path)
    given = {"layer": "design", "phrase": "", "remedy": "Do less work.", "next_step": ""}
    limit = Cause.model_construct(cause="backend-core", kind="limit", share=0.09, evidence={}, **given)
    noise = Cause.model_construct(cause="noise", kind="fault", share=0.7, evidence={}, **given)
    told = headline(seen, (limit, noise), by_statement(seen), ())
    assert told.sentence.startswith("6 statements that can be made faster take 100 % of the time, most ")
    assert told.sql.splitlines()[1] == "CREATE INDEX CONCURRENTLY ON orders (c1);"
    assert told.command == "pgassay tune 'host=db dbname=shop' --only=0,1,2,3,4,5"
    (code,) = [each for each in headline_section(told).blocks if isinstance(each, Code) and not each.label]
    assert code.text.splitlines() == told.sql.splitlines() and len(told.sql.splitlines()) == 6
    # Without them it is not the statement that one processor limits, where others have the processors.
    told = headline(seen, (limit, noise), (), ())
    assert told.cause == "noise" and told.command.startswith("ps ")


def test_an_index_that_is_there_is_named_and_not_offered_again() -> None:
    indexed = replace(ORDERS, indexes={"orders_customer": ("customer_id", "id")})
    ((kind, sentence, sql),) = found(scan("(orders.customer_id = $1)"), BY_CUSTOMER, tables=(indexed,))
    assert (kind, sql) == ("whole-table", "")
    assert "though orders_customer begins with customer_id" in sentence


@pytest.mark.parametrize(
    ("keys", "is_usable"),
    [
        (("customer_id",), False),
        (("customer_id", "id"), False),
        (("customer_id", "made_by"), True),
        (("made_by", "customer_id", "id"), True),
        (("id", "customer_id", "made_by"), False),
    ],
)
def test_an_index_on_one_column_of_several_does_not_stand_for_all(
    keys: tuple[str, ...], is_usable: bool
) -> None:
    indexed = replace(ORDERS, indexes={"orders_i": keys})
    document = scan("((orders.customer_id = $1) AND (orders.made_by = $2))")
    ((_, sentence, sql),) = found(document, BY_CUSTOMER, tables=(indexed,))
    assert ("though orders_i begins with customer_id, made_by" in sentence) == is_usable
    expected = "" if is_usable else "CREATE INDEX CONCURRENTLY ON orders (customer_id, made_by);"
    assert sql == expected


def test_an_index_that_is_read_backwards_is_there() -> None:
    indexed = replace(ORDERS, indexes={"orders_i": ("customer_id", "id")})
    below = json.loads(scan("(orders.customer_id = $1)"))[0]["Plan"] | {"Parent Relationship": "Outer"}
    ordered = json.loads(plan("Sort", **{"Sort Key": ["id DESC"], "Plans": [below]}))[0]["Plan"]
    ((_, sentence, sql), *_) = found(plan("Limit", Plans=[ordered]), BY_CUSTOMER, tables=(indexed,))
    assert sentence.endswith("though orders_i begins with customer_id, id DESC") and not sql


@pytest.mark.parametrize(
    ("document", "table", "rows"),
    [
        (scan("(orders.customer_id = $1)", rows=80_000), ORDERS, 80_000),
        (scan("(orders.customer_id = $1)").replace("4000.0", "12.0"), replace(ORDERS, rows=300), 38),
        (
            plan("Index Scan", **{"Relation Name": "orders", "Schema": "public", "Alias": "orders"}),
            ORDERS,
            38,
        ),
    ],
)
def test_what_reads_what_it_needs_is_left_alone(document: str, table: TableShape, rows: int) -> None:
    statement = BY_CUSTOMER.model_copy(update={"rows": 100 * rows})
    assert found(document, statement, tables=(table,)) == []


def test_a_delete_names_the_foreign_key_without_an_index() -> None:
    lines = Referencing("public", "order_lines", ("order_id",), 1_000_000, is_indexed=False)
    served = Referencing("public", "payments", ("order_id",), 1_000_000, is_indexed=True)
    keys = {"Operation": "Delete", "Relation Name": "orders", "Schema": "public", "Alias": "orders"}
    statement = called("8", "DELETE FROM orders WHERE id = $1", 10, 2.0, 10)
    tables = (replace(ORDERS, referencing=(lines, served)),)
    ((kind, sentence, sql),) = found(plan("ModifyTable", **keys), statement, tables=tables)
    assert kind == "foreign-key"
    assert "order_lines is searched completely" in sentence
    assert sql == "CREATE INDEX CONCURRENTLY ON order_lines (order_id);"


def test_rows_that_refute_an_estimate_ask_for_statistics_of_the_columns() -> None:
    statement = called("9", "SELECT * FROM orders WHERE make = $1 AND model = $2", 10, 1.0, 20_000)
    keys = {"Relation Name": "orders", "Schema": "public", "Alias": "orders", "Plan Rows": 15}
    document = plan(
        "Index Scan", **keys, **{"Index Cond": "(orders.make = $1)"}, Filter="(orders.model = $2)"
    )
    ((kind, sentence, sql),) = found(document, statement)
    assert kind == "misestimate"
    assert "returns 2,000 rows where the planner expects 15 rows" in sentence
    assert sql == ("CREATE STATISTICS orders_make_model_stats ON make, model FROM orders; ANALYZE orders;")
    stale = replace(ORDERS, changed_rows=100_000.0)
    ((kind, sentence, sql),) = found(document, statement, tables=(stale,))
    assert (kind, sql) == ("stale-statistics", "ANALYZE orders;")


def test_temporary_files_are_told_with_work_mem() -> None:
    statement = called("10", "SELECT * FROM orders ORDER BY note", 10, 1.0, 38, temporary=400_000_000)
    kinds = [kind for kind, _, _ in found(plan("Sort"), statement)]
    assert kinds == ["spill"]


def test_calls_for_each_row_of_another_statement_are_one_finding() -> None:
    parent = called("1", "SELECT id FROM orders WHERE day = $1", 20, 0.1, 1000)
    child = called("2", "SELECT name FROM customers WHERE id = $1", 1000, 0.5, 1000)
    stranger = called("3", "SELECT now()", 5000, 0.2, 5000)
    by_id = {each.query_id: each for each in by_statement(interval(parent, child, stranger))}
    assert [each.kind for each in by_id["2"].findings] == ["one-by-one"]
    assert "1,000 times for 1,000 rows of SELECT id FROM orders" in by_id["2"].findings[0].sentence
    assert by_id["2"].command.startswith("psql 'host=db dbname=shop' -c 'SELECT usename")
    assert not by_id["1"].findings
    assert not by_id["3"].findings


def test_without_a_plan_pages_for_rows_are_told() -> None:
    statement = called("4", "SELECT f($1)", 10, 1.0, 10, hit=8192 * 120_000)
    (only,) = by_statement(interval(statement, planned=(PlannedStatement("4", "", "", "no right"),)))
    assert [each.kind for each in only.findings] == ["pages"]
    assert "12,000 pages" in only.findings[0].sentence
    assert only.plan_missing == "no right"


def test_a_session_without_a_number_counts_for_the_statement_of_its_text() -> None:
    sessions = (
        Session(1, None, "SELECT * FROM orders WHERE customer_id = 12;", "active"),
        Session(2, None, "", "active"),
        Session(3, "7", "SELECT * FROM orders WHERE customer_id = 5", "active", is_worker=True),
    )
    samples = tuple(SessionsSample(second * 1_000_000_000, sessions, 0.0) for second in range(10))
    (only,) = statement_times(interval(BY_CUSTOMER, samples=samples))
    assert (only.query_id, only.share) == ("7", 1.0)
    # Workers' time is no session's.
    assert only.seconds == pytest.approx(10)
    (only,) = statement_times(interval(samples=samples, statements=None, statements_s=0.0))
    assert only.seconds == pytest.approx(10)


def test_a_wasteful_plan_comes_before_the_processors_that_it_uses(tmp_path: Path) -> None:
    planned = (PlannedStatement("7", scan("(orders.customer_id = 'x'::text)"), "values of a call"),)
    sessions = (Session(1, "7", BY_CUSTOMER.query, "active"),)
    samples = tuple(SessionsSample(second * 1_000_000_000, sessions, 0.0) for second in range(10))
    diagnosis = diagnose(interval(BY_CUSTOMER, planned=planned, samples=samples, folder=tmp_path))
    # Nothing was sampled of its threads, so that it may have been idle: the statements stand all the same.
    (only,) = diagnosis.by_statement
    assert only.plan is not None
    assert "'x'" not in diagnosis.model_dump_json()
    assert "--only=7" in only.command
    assert "orders is read completely" in report.page_of(diagnosis).terminal()


@pytest.mark.parametrize(
    ("cause", "probed"),
    [("backend-writes", "/data"), ("extension", "/data"), ("wal-insert", "/data/pg_wal"), ("slru", "")],
)
def test_what_writes_wait_for_is_followed_by_a_look_at_its_disk(cause: str, probed: str) -> None:
    """The head of a server that waits for its writes sent its reader to a statement's plan."""
    given = {"layer": "infrastructure", "phrase": "", "remedy": "", "next_step": ""}
    limit = Cause.model_construct(cause=cause, kind="limit", share=0.5, evidence={}, **given)
    seen = interval(server=SERVER.model_copy(update={"data_directory": "/data"}))
    told = headline(seen, (limit,), (), ())
    assert told.command.startswith(f"pgassay probe {probed}" if probed else "pgassay watch ")
    # Checkpoints that come too often make both the WAL and the writes.
    figures: dict[str, float | str] = {"seconds_between": 7.0, "max_wal_size": "128MB"}
    fault = Cause.model_construct(cause="checkpoint", kind="fault", share=None, evidence=figures, **given)
    is_first = headline(seen, (limit, fault), (), ()).cause == "checkpoint"
    assert is_first is (cause in ("backend-writes", "wal-insert"))


def test_two_diagnoses_are_told_by_statement(tmp_path: Path) -> None:
    before = diagnose(interval(BY_CUSTOMER, folder=tmp_path))
    faster = BY_CUSTOMER.model_copy(update={"total_s": 0.01, "mean_ms": 0.1})
    after = diagnose(interval(faster, folder=tmp_path, started_at="2026-03-01T13:00:00.000+00:00"))
    change = change_of(before, after)
    (only,) = change.statements
    assert only.times_as_fast == pytest.approx(100)
    assert "100" in change_report.page_of(change).terminal()
    assert "not an experiment" in change_report.page_of(change).terminal()
    assert "orders" in change_report.page_of(change).html()
    assert "The first file is the later one" in " ".join(change_of(after, before).notes)


def test_names_in_sql_are_those_of_the_tables() -> None:
    """Mixed case, a reserved word, and what somebody put into a name to have it run."""
    hostile = 'a"; DROP TABLE b; --'
    table = replace(ORDERS, schema="Shop", name="order")
    document = scan("(x.customer_id = $1)").replace('"Schema": "public"', '"Schema": "Shop"')
    document = document.replace('"Relation Name": "orders"', '"Relation Name": "order"').replace(
        '"Alias": "orders"', '"Alias": "x"'
    )
    ((_, sentence, sql),) = found(document, BY_CUSTOMER, tables=(table,))
    assert sql == 'CREATE INDEX CONCURRENTLY ON "Shop"."order" (customer_id);'
    assert sentence.startswith("Shop.order is read completely")
    assert identifier(hostile) == '"a""; DROP TABLE b; --"'
    assert [identifier(name) for name in ("orders", "Orders", "user", "a b", "_x$1")] == [
        "orders", '"Orders"', '"user"', '"a b"', "_x$1",
    ]  # fmt: skip
