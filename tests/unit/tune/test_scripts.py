"""apply.sql and undo.sql: CONCURRENTLY where it can be, in order, and what can't be taken back is said."""

from pgassay.tune.candidate import Candidate, StatementRewrite
from pgassay.tune.facts.schema import SchemaFacts, TableFacts
from pgassay.tune.scripts import apply_script, online, undo_script


def candidate(**changes: object) -> Candidate:
    known: dict[str, object] = {
        "id": "index:orders(customer)",
        "layer": "design",
        "kind": "btree",
        "title": "index orders by customer",
        "reason": "999,999 rows discarded",
        "statements": ("slow",),
    }
    return Candidate.model_validate(known | changes)


INDEX = candidate(
    sql=("CREATE INDEX orders_customer ON orders (customer)",), undo=("DROP INDEX orders_customer",)
)
SETTING = candidate(id="work_mem", settings={"work_mem": "64MB"}, title="more memory for sorts")


def table(name: str, **changes: object) -> TableFacts:
    known: dict[str, object] = {"schema_": "public", "name": name, "kind": "table", "columns": ()}
    return TableFacts.model_validate(known | changes)


def facts(*tables: TableFacts) -> SchemaFacts:
    return SchemaFacts(version=180000, database="shop", encoding="UTF8", collation="C", tables=tuple(tables))


def test_an_index_is_made_and_dropped_concurrently() -> None:
    applied, undone = apply_script([INDEX], None), undo_script([INDEX], None)
    assert "CREATE INDEX CONCURRENTLY orders_customer ON orders (customer);" in applied.splitlines()
    assert "DROP INDEX CONCURRENTLY orders_customer;" in undone.splitlines()
    for text in (applied, undone):
        assert "SET lock_timeout = '5s';" in text.splitlines()
        assert "BEGIN" not in text


def test_what_was_applied_last_is_undone_first() -> None:
    undone = undo_script([INDEX, SETTING], None)
    assert undone.index("ALTER SYSTEM RESET work_mem;") < undone.index("DROP INDEX")
    applied = apply_script([INDEX, SETTING], None)
    assert applied.index("CREATE INDEX") < applied.index("ALTER SYSTEM SET work_mem = '64MB';")
    assert applied.count("SELECT pg_reload_conf();") == 1


def test_a_setting_that_needs_a_restart_says_so() -> None:
    buffers = candidate(settings={"shared_buffers": "1GB"}, restart=True)
    assert "next restart" in apply_script([buffers], None)
    assert "next restart" in undo_script([buffers], None)


def test_what_cannot_be_taken_back_is_said() -> None:
    vacuum = candidate(sql=("VACUUM (ANALYZE) orders",), undoable=False, title="vacuum orders")
    assert "can't be taken back" in undo_script([vacuum], None)
    assert "VACUUM" in apply_script([vacuum], None)


def test_a_rewritten_statement_is_a_comment_of_whole_lines() -> None:
    other = StatementRewrite(statement="slow", sql="SELECT 1\nFROM orders", condition="c", proof="proven")
    applied = apply_script([candidate(rewrites=(other,))], None)
    assert [line for line in applied.splitlines() if line and not line.startswith("--")] == [
        "SET lock_timeout = '5s';"
    ]
    assert "-- FROM orders" in applied


def test_whatever_a_statement_is_called_its_name_stays_in_its_comment() -> None:
    name = "select-a\n; DROP TABLE b; \r-x"
    fix = candidate(
        rewrites=(StatementRewrite(statement=name, sql="SELECT 1", condition="c", proof="proven"),)
    )
    for script in (apply_script([fix], None), undo_script([fix], None)):
        bare = [line for line in script.splitlines() if line and not line.startswith("--")]
        assert bare == ["SET lock_timeout = '5s';"]


def test_an_index_of_a_partitioned_table_is_made_partition_by_partition() -> None:
    known = facts(
        table("orders", kind="partitioned"),
        table("orders_1", parent="orders"),
        table("orders_2", parent="orders"),
    )
    lines = [line for line in online("CREATE INDEX i ON orders (customer)", known) if line[:2] != "--"]
    assert lines == [
        "CREATE INDEX i ON ONLY orders (customer);",
        "CREATE INDEX CONCURRENTLY orders_1_i ON public.orders_1 (customer);",
        'ALTER INDEX "public"."i" ATTACH PARTITION "public"."orders_1_i";',
        "CREATE INDEX CONCURRENTLY orders_2_i ON public.orders_2 (customer);",
        'ALTER INDEX "public"."i" ATTACH PARTITION "public"."orders_2_i";',
    ]


def test_partitions_of_partitions_are_locked_and_that_is_said() -> None:
    known = facts(table("orders", kind="partitioned"), table("orders_1", kind="partitioned", parent="orders"))
    lines = online("CREATE INDEX i ON orders (customer)", known)
    assert "locks it against writes" in lines[0]
    assert lines[1] == "CREATE INDEX i ON orders (customer);"


def test_nothing_recommended_is_no_script() -> None:
    assert apply_script([], None) == undo_script([], None) == ""
