"""apply.sql and undo.sql: CONCURRENTLY where it can be, in order, and what can't be taken back is said."""

import pytest
from pglast import parse_plpgsql, parse_sql

import tune_samples
from pgassay.model.build import Build
from pgassay.tune.answer.scripts import apply_script, online, undo_script
from pgassay.tune.candidate import Candidate, StatementRewrite
from pgassay.tune.facts.schema import IndexFacts, SchemaFacts, TableFacts
from pgassay.tune.finders.evidence.building import defined_anew


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


HEAD = [
    r"\set ON_ERROR_STOP on",
    "SET lock_timeout = '5s';",
    "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings "
    "WHERE name IN ('statement_timeout', 'transaction_timeout');",
]
INDEX = candidate(
    sql=("CREATE INDEX orders_customer ON orders (customer)",), undo=("DROP INDEX orders_customer",)
)
SETTING = candidate(id="work_mem", settings={"work_mem": "64MB"}, title="more memory for sorts")


def table(name: str, **changes: object) -> TableFacts:
    known: dict[str, object] = {"schema_": "public", "name": name, "kind": "table", "columns": ()}
    return TableFacts.model_validate(known | changes)


def without_limits(lines: list[str]) -> list[str]:
    """The statements without comments and limits of locks."""
    apart = ("--", "SET lock_timeout", "\\set ", "SELECT pg_catalog.set_config", "SELECT 'DROP INDEX", "DO ")
    return [line for line in lines if not line.startswith(apart)]


def facts(*tables: TableFacts) -> SchemaFacts:
    return SchemaFacts(version=180000, database="shop", encoding="UTF8", collation="C", tables=tuple(tables))


def test_an_index_is_made_and_dropped_concurrently() -> None:
    applied, undone = apply_script([INDEX], None), undo_script([INDEX], None)
    assert (
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_customer ON orders (customer);"
        in applied.splitlines()
    )
    assert "DROP INDEX CONCURRENTLY IF EXISTS orders_customer;" in undone.splitlines()
    for text in (applied, undone):
        assert "SET lock_timeout = '5s';" in text.splitlines()
        assert "BEGIN" not in text


def test_what_was_applied_last_is_undone_first() -> None:
    undone = undo_script([INDEX, SETTING], None)
    assert undone.index("ALTER SYSTEM RESET") < undone.index("DROP INDEX")
    applied = apply_script([INDEX, SETTING], None)
    assert applied.index("CREATE INDEX") < applied.index("ALTER SYSTEM SET work_mem = '64MB';")
    assert applied.count("SELECT pg_reload_conf();") == 1


def test_settings_come_last_since_a_provider_may_refuse_them() -> None:
    applied, undone = apply_script([SETTING, INDEX], None), undo_script([SETTING, INDEX], None)
    assert (
        applied.index("CREATE INDEX") < applied.index("parameter group") < applied.index("ALTER SYSTEM SET")
    )
    assert undone.index("ALTER SYSTEM RESET") < undone.index("DROP INDEX")


def test_names_without_a_schema_mean_what_they_meant_when_it_was_tried() -> None:
    """EXPLAIN and pg_get_indexdef leave the schema of a type out where the search path finds it."""
    of_tenants = facts(table("orders")).model_copy(update={"search_path": ("Tenant 1", "public")})
    for script in (apply_script([INDEX], of_tenants), undo_script([INDEX], of_tenants)):
        lines = script.splitlines()
        assert lines.index('SET search_path = "Tenant 1", public;') < lines.index("SET lock_timeout = 0;")
    assert "search_path" not in apply_script([INDEX], facts(table("orders")))
    assert apply_script([], of_tenants) == ""


def test_a_setting_that_needs_a_restart_says_so() -> None:
    buffers = candidate(settings={"shared_buffers": "1GB"}, restart=True)
    assert "next restart" in apply_script([buffers], None)
    assert "next restart" in undo_script([buffers], None)


def test_an_upgrade_says_what_its_initdb_does_about_checksums() -> None:
    build = Build(origin="apt", version="18.4", major=18, bin_directory="/nowhere")
    assert "--no-data-checksums" in apply_script([candidate(build=build)], None)


def test_a_rewrite_names_what_it_rests_on() -> None:
    other = StatementRewrite(statement="slow", sql="SELECT 1", condition="id is the key of t", proof="proven")
    applied = apply_script([candidate(rewrites=(other,))], None)
    assert "-- It returns the same rows as long as this is true: id is the key of t" in applied


def test_what_cannot_be_taken_back_is_said() -> None:
    vacuum = candidate(sql=("VACUUM (ANALYZE) orders",), undoable=False, title="vacuum orders")
    assert "can't be undone" in undo_script([vacuum], None)
    assert "VACUUM" in apply_script([vacuum], None)


def test_a_rewritten_statement_is_a_comment_of_whole_lines() -> None:
    other = StatementRewrite(statement="slow", sql="SELECT 1\nFROM orders", condition="c", proof="proven")
    applied = apply_script([candidate(rewrites=(other,))], None)
    assert [line for line in applied.splitlines() if line and not line.startswith("--")] == HEAD
    assert "-- FROM orders" in applied


def test_whatever_a_statement_is_called_its_name_stays_in_its_comment() -> None:
    name = "select-a\n; DROP TABLE b; \r-x"
    fix = candidate(
        rewrites=(StatementRewrite(statement=name, sql="SELECT 1", condition="c", proof="proven"),)
    )
    for script in (apply_script([fix], None), undo_script([fix], None)):
        bare = [line for line in script.splitlines() if line and not line.startswith("--")]
        assert bare == HEAD


def test_an_index_of_a_partitioned_table_is_made_partition_by_partition() -> None:
    known = facts(
        table("orders", kind="partitioned"),
        table("orders_1", parent="orders"),
        table("orders_2", parent="orders"),
    )
    lines = without_limits(online("CREATE INDEX i ON orders (customer)", known))
    assert lines == [
        "CREATE INDEX IF NOT EXISTS i ON ONLY orders (customer);",
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_1_i ON public.orders_1 (customer);",
        'ALTER INDEX "public"."i" ATTACH PARTITION "public"."orders_1_i";',
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_2_i ON public.orders_2 (customer);",
        'ALTER INDEX "public"."i" ATTACH PARTITION "public"."orders_2_i";',
    ]


def test_partitions_that_came_since_leave_the_index_invalid_and_that_is_said() -> None:
    known = facts(table("orders", kind="partitioned"), table("orders_1", parent="orders"))
    warned = online("CREATE INDEX i ON orders (customer)", known)[-1]
    assert 'IF EXISTS (SELECT FROM pg_catalog.pg_index WHERE indexrelid = \'"public"."i"\'::' in warned
    assert 'RAISE WARNING \'%\', \'the index "public"."i" is not on all partitions of' in warned
    assert parse_plpgsql(f"CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS {warned[3:-1]}")


def of_two_levels(*others: TableFacts) -> SchemaFacts:
    return facts(
        table("orders", kind="partitioned"),
        table("orders_1", kind="partitioned", parent="orders"),
        table("orders_2", parent="orders"),
        *others,
    )


def test_partitions_of_partitions_are_made_one_by_one_too() -> None:
    known = of_two_levels(table("orders_1_a", parent="orders_1"))
    assert without_limits(online("CREATE INDEX i ON orders (customer)", known)) == [
        "CREATE INDEX IF NOT EXISTS i ON ONLY orders (customer);",
        "CREATE INDEX IF NOT EXISTS orders_1_i ON ONLY public.orders_1 (customer);",
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_1_a_i ON public.orders_1_a (customer);",
        'ALTER INDEX "public"."orders_1_i" ATTACH PARTITION "public"."orders_1_a_i";',
        'ALTER INDEX "public"."i" ATTACH PARTITION "public"."orders_1_i";',
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_2_i ON public.orders_2 (customer);",
        'ALTER INDEX "public"."i" ATTACH PARTITION "public"."orders_2_i";',
    ]
    fix = candidate(sql=("CREATE INDEX i ON orders (customer)",), undo=("DROP INDEX i",))
    lines = without_limits(undo_script([fix], known).splitlines())
    assert [line for line in lines if "DROP" in line] == [
        "DROP INDEX IF EXISTS i;",
        "DROP INDEX IF EXISTS public.orders_1_i;",
        "DROP INDEX CONCURRENTLY IF EXISTS public.orders_1_a_i;",
        "DROP INDEX CONCURRENTLY IF EXISTS public.orders_2_i;",
    ]


def test_partitions_that_are_not_known_or_no_tables_lock_it_and_that_is_said() -> None:
    foreign = table("orders_1_a", kind="foreign", parent="orders_1")
    for known in (of_two_levels(), of_two_levels(foreign)):
        lines = online("CREATE INDEX i ON orders (customer)", known)
        assert "locks it against writes" in lines[0]
        # One that is there is whole: the script may be run again, as after a refused ALTER SYSTEM.
        assert lines[1] == "CREATE INDEX IF NOT EXISTS i ON orders (customer);"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE INDEX i ON t (a)", "CREATE INDEX CONCURRENTLY IF NOT EXISTS i ON t (a);"),
        ("DROP INDEX i", "DROP INDEX CONCURRENTLY IF EXISTS i;"),
        ("REINDEX INDEX CONCURRENTLY i", "REINDEX (CONCURRENTLY) INDEX i;"),
    ],
)
def test_what_runs_concurrently_waits_for_older_transactions_as_long_as_they_take(
    sql: str, expected: str
) -> None:
    """It holds up nobody while it waits; ended by a limit it leaves an invalid index behind."""
    comment, *_, statement, after = online(sql, None)
    before = next(line for line in online(sql, None) if not line.startswith("--"))
    assert comment.startswith("-- If this fails") and "INVALID" in comment
    assert (before, statement, after) == ("SET lock_timeout = 0;", expected, "SET lock_timeout = '5s';")


def test_no_limit_of_the_role_ends_what_takes_long() -> None:
    for text in (apply_script([INDEX], None), undo_script([INDEX], None)):
        assert [line for line in text.splitlines() if line in HEAD][: len(HEAD)] == HEAD


@pytest.mark.parametrize(
    "sql", ["VACUUM (FULL, ANALYZE) t", "VACUUM FULL t", "REPACK (ANALYZE) t", "CLUSTER t"]
)
def test_what_locks_everybody_out_says_so(sql: str) -> None:
    first, second = online(sql, None)
    assert "locked against reads and writes" in first and second.endswith("t;")
    for other in ("VACUUM (ANALYZE) t", "ANALYZE t", "REPACK (CONCURRENTLY) t"):
        assert "locked against reads and writes" not in "".join(online(other, None))


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("CREATE INDEX i ON t (a)", "VACUUM and DDL on it wait until this ends, and so does all that"),
        ("DROP INDEX i", "VACUUM and DDL on it wait until this ends, and so does all that"),
        ("REINDEX INDEX CONCURRENTLY i", "VACUUM and DDL on it wait until this ends, and so does all that"),
        ("VACUUM (ANALYZE) t", "lock the table for a moment, to give empty pages back"),
        ("ANALYZE t", "Reads and writes of the table continue; VACUUM and DDL on it wait"),
        ("CREATE STATISTICS s ON a, b FROM t", "Reads and writes of the table continue"),
        ("ALTER TABLE t SET (fillfactor = 80)", "Reads and writes of the table continue"),
        ("ALTER TABLE t ALTER COLUMN a SET STATISTICS 500", "Reads and writes of the table continue"),
    ],
)
def test_every_statement_says_what_it_locks_for_whom(sql: str, words: str) -> None:
    comments = [line for line in online(sql, None) if line.startswith("--")]
    assert any(words in line for line in comments)


def test_an_index_of_a_partitioned_table_is_not_dropped_concurrently() -> None:
    index = IndexFacts.model_validate(
        {"schema_": "public", "name": "i", "table": "orders", "method": "btree", "keys": ()}
    )
    parted = facts(table("orders", kind="partitioned", indexes=(index,)))
    plain = facts(table("orders", indexes=(index,)))
    for name in ("public.i", "i"):
        locked, dropped = online(f"DROP INDEX {name}", parted)
        assert "locked for a moment" in locked and dropped == f"DROP INDEX IF EXISTS {name};"
        assert f"DROP INDEX CONCURRENTLY IF EXISTS {name};" in online(f"DROP INDEX {name}", plain)


def test_partitions_of_a_table_of_the_same_name_in_another_schema_are_left_alone() -> None:
    known = facts(
        table("orders", kind="partitioned"),
        table("orders", kind="partitioned", schema_="other"),
        table("orders_1", parent="orders", parent_schema="public"),
        table("orders_9", parent="orders", parent_schema="other", schema_="other"),
    )
    text = "\n".join(online("CREATE INDEX i ON public.orders (customer)", known))
    assert "orders_1" in text and "orders_9" not in text


def test_names_of_partitions_indexes_differ_though_their_tables_names_are_long() -> None:
    long = "measurements_of_all_sensors_of_the_northern_plant_since_it_ran"
    known = facts(
        table("m", kind="partitioned"),
        *(table(f"{long}{number}", parent="m") for number in (1, 2)),
        *(table(f"{'ä' * 30}{number}", parent="m") for number in (1, 2)),
    )
    made = {
        parse_sql(line)[0].stmt.idxname
        for name in ("m_a_pga123456", "m_b_pga654321")
        for line in without_limits(online(f"CREATE INDEX {name} ON m (a)", known))
        if "CONCURRENTLY" in line
    }
    assert len(made) == 8 and not made & {each.name for each in known.tables}
    assert all(len(name.encode()) <= 63 for name in made)


def test_what_a_partitioned_index_left_half_made_is_dropped_too() -> None:
    known = facts(table("orders", kind="partitioned"), table("orders_1", parent="orders"))
    fix = candidate(sql=("CREATE INDEX i ON orders (customer)",), undo=("DROP INDEX i",))
    lines = without_limits(undo_script([fix], known).splitlines())
    assert [line for line in lines if "DROP" in line] == [
        "DROP INDEX IF EXISTS i;",
        "DROP INDEX CONCURRENTLY IF EXISTS public.orders_1_i;",
    ]


def test_an_index_that_was_not_dropped_after_all_does_not_end_the_undoing() -> None:
    fix = candidate(sql=("DROP INDEX i",), undo=("CREATE INDEX i ON t (a)",))
    assert "CREATE INDEX CONCURRENTLY IF NOT EXISTS i ON t (a);" in undo_script([fix], None).splitlines()
    # One that is INVALID would be passed over: it is dropped first.
    lines = apply_script([INDEX], None).splitlines()
    place = next(number for number, line in enumerate(lines) if "IF NOT EXISTS orders_customer" in line)
    assert lines[place - 1].startswith("SELECT 'DROP INDEX CONCURRENTLY \"orders_customer\"' FROM")
    assert lines[place - 1].endswith("AND NOT indisvalid \\gexec")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("email COLLATE app.ci", "((email COLLATE app.ci))"),
        ('lower("E") COLLATE app."C i" app.ops DESC', '((lower("E") COLLATE app."C i") app.ops DESC)'),
        ('email COLLATE "C"', '(email COLLATE "C")'),
    ],
)
def test_a_collation_in_a_schema_is_one_name_in_the_index_that_is_made_again(key: str, expected: str) -> None:
    """As pg_get_indexdef has it where the schema is not in the search path."""
    definition = f"CREATE INDEX i ON public.t USING btree ({key})"
    fix = candidate(sql=("DROP INDEX public.i",), undo=(definition,))
    made = f"CREATE INDEX CONCURRENTLY IF NOT EXISTS i ON public.t {expected};"
    assert made in undo_script([fix], None).splitlines()
    assert defined_anew(definition) == f"CREATE INDEX ON public.t {expected}"


def test_an_extension_stays_and_that_is_said() -> None:
    fix = candidate(sql=("CREATE EXTENSION IF NOT EXISTS pg_trgm", "CREATE INDEX i ON t (a)"))
    assert "-- The extension pg_trgm stays" in undo_script([fix], None)
    assert "extension" not in undo_script([INDEX], None)


def test_what_must_not_be_seen_half_done_is_one_transaction() -> None:
    fix = candidate(
        at_once=True,
        sql=("ALTER TABLE t RENAME TO u", "CREATE TABLE t (a int)", "VACUUM (ANALYZE) t"),
        undo=("TRUNCATE u", "INSERT INTO u SELECT * FROM t", "DROP TABLE t"),
    )
    applied = without_limits(apply_script([fix], None).splitlines())
    guarded = ["SELECT", "\\if", "\\echo", "\\else"]
    assert [line.split()[0] for line in applied if line] == [
        *guarded, "BEGIN;", "ALTER", "CREATE", "COMMIT;", "VACUUM", "\\endif"
    ]  # fmt: skip
    undone = without_limits(undo_script([fix], None).splitlines())
    assert [line.split()[0] for line in undone if line] == [
        *guarded, "BEGIN;", "TRUNCATE", "INSERT", "DROP", "COMMIT;", "\\endif"
    ]  # fmt: skip


def test_a_name_of_a_statement_with_a_line_break_stays_a_comment() -> None:
    other = StatementRewrite(statement="a\nDROP TABLE t;", sql="SELECT 1", condition="c", proof="proven")
    for text in (
        apply_script([candidate(rewrites=(other,))], None),
        undo_script([candidate(rewrites=(other,))], None),
    ):
        assert "DROP TABLE t" in text and "\nDROP" not in text


def test_nothing_recommended_is_no_script() -> None:
    assert apply_script([], None) == undo_script([], None) == ""


def test_settings_for_a_server_that_nobody_saw_are_comments() -> None:
    """This machine's memory and caches say nothing of it: ALTER SYSTEM would take them over."""
    index = tune_samples.candidate("a")
    fixes = [index, tune_samples.candidate("m", sql=(), undo=(), settings={"work_mem": "64MB"})]
    applied, undone = (
        make(fixes, None, "8 GB of memory, 2 processors") for make in (apply_script, undo_script)
    )
    assert "-- ALTER SYSTEM SET work_mem = '64MB';" in applied
    assert "Measured on: 8 GB of memory, 2 processors." in applied
    assert not [line for line in (applied + undone).splitlines() if line.startswith("ALTER SYSTEM")]
    assert "CREATE INDEX" in applied
    assert "pgassay_settings_kept" not in applied + undone
    assert "\nALTER SYSTEM SET work_mem = '64MB';" in apply_script(fixes, None)
