"""What a fix costs standbys and later updates, by its SQL and the facts of its table."""

from dataclasses import replace

import pytest

import tune_samples as samples
from finder_samples import COLUMNS, facts, index
from pgassay.tune.answer.side_costs import side_costs, writing_elsewhere
from pgassay.tune.answer.verdicts import ranked
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.facts.schema import TableFacts
from pgassay.tune.search.selection import Tried

SETS_A = TunedStatement(name="set a", sql="UPDATE t SET a = 1 WHERE id = 2", writes=True)
SETS_B = TunedStatement(name="set b", sql="UPDATE t SET b = 1 WHERE id = 2", writes=True)
HOT = {"updated": 1000, "hot_updated": 900}


def said(
    sql: str, *indexes: object, statements: tuple[TunedStatement, ...] = (SETS_A,), **table: object
) -> str:
    candidate = samples.candidate("i", sql=(sql,))
    known = facts(*indexes, **table)  # type: ignore[arg-type]  # indexes, as the samples make them
    return side_costs(candidate, None, statements, known)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE INDEX i ON t (b, a)",
        "CREATE INDEX i ON t (b) INCLUDE (a)",
        "CREATE INDEX i ON t (b) WHERE a > 3",
        "CREATE INDEX i ON t ((a + 1))",
    ],
)
def test_an_index_with_an_updated_column_anywhere_ends_hot_for_that_statement(sql: str) -> None:
    words = said(sql, **HOT)
    assert "set a sets a, so its updates are no longer HOT (90% of 1,000 updates of it were, so far)" in words


@pytest.mark.parametrize(
    ("sql", "indexes"),
    [
        ("CREATE INDEX i ON t (b)", ()),
        ("CREATE INDEX i ON t USING brin (a)", ()),
        ("CREATE INDEX i ON t (a)", (index("j", "a"),)),
        ("CREATE INDEX i ON t (a)", (index("j", "b", predicate="(a > 3)"),)),
    ],
)
def test_no_update_becomes_dearer_where_an_index_had_the_column_or_none_has_it(
    sql: str, indexes: tuple[object, ...]
) -> None:
    assert said(sql, *indexes) == ""


def test_a_brin_index_that_is_there_ends_no_updates_being_hot() -> None:
    assert "no longer HOT" in said("CREATE INDEX i ON t (a)", index("j", "a", method="brin"))


def test_updates_that_the_workload_does_not_have_are_told_where_the_table_had_hot_ones() -> None:
    words = said("CREATE INDEX i ON t (a)", statements=(SETS_B,), **HOT)
    assert "updates of t that set a are no longer HOT" in words and "the workload has none" in words
    assert said("CREATE INDEX i ON t (a)", statements=(SETS_B,)) == ""


def test_standbys_replay_wal_locks_and_removals() -> None:
    def of(sql: str, wal_bytes: int | None = None) -> str:
        return side_costs(samples.candidate("i", sql=(sql,)), wal_bytes, (), None)

    assert of("CREATE INDEX i ON t (a)", 52_000_000) == (
        "it writes 52 MB of WAL, which every standby receives and replays"
    )
    assert of("CREATE INDEX i ON t (a)", 8192) == ""
    assert "wait for its exclusive lock" in of("VACUUM (FULL, ANALYZE) t")
    assert "hot_standby_feedback" in of("VACUUM t")
    assert of("ANALYZE t") == ""
    assert "a standby replays its exclusive lock" in of("DROP INDEX i")
    assert of("THIS is of a newer grammar") == ""


def test_what_is_done_on_the_copy_alone_costs_no_standby_anything() -> None:
    """The script sets fillfactor, and leaves VACUUM (FULL) to its reader."""
    anew = "VACUUM (FULL, ANALYZE) t"
    candidate = samples.candidate("i", sql=("ALTER TABLE t SET (fillfactor = 80)", anew))
    assert "wait for its exclusive lock" in side_costs(candidate, 52_000_000, (), None)
    assert side_costs(candidate.model_copy(update={"on_copy": (anew,)}), 52_000_000, (), None) == ""
    tried = {"index:useless": Tried("index:useless", {"list": 1.0}, 9.0, -(8 << 20), wal_bytes=52_000_000)}
    for on_copy, cost in (((), (9.0, -(8 << 20), 52_000_000)), ((anew,), (None, 4096, None))):
        fix = samples.candidate("useless", sql=("SELECT 1", anew), on_copy=on_copy, bytes=4096)
        (told,) = ranked(samples.of_one(candidates=(fix,), tried=tried))
        assert (told.cost.build_s, told.cost.bytes, told.cost.wal_bytes) == cost
        assert ("it frees" in told.note) is not bool(on_copy)


@pytest.mark.parametrize(
    ("sql", "is_replayed"),
    [
        ("ALTER TABLE t SET (fillfactor = 80)", False),
        ("ALTER TABLE t RESET (autovacuum_enabled)", False),
        ("ALTER TABLE t ALTER COLUMN a SET STATISTICS 1000", False),
        ("ALTER TABLE t ADD PRIMARY KEY (a)", True),
        ("ALTER TABLE t SET (fillfactor = 80), ADD PRIMARY KEY (a)", True),
    ],
)
def test_a_standby_replays_exclusive_locks_alone(sql: str, is_replayed: bool) -> None:
    """SHARE UPDATE EXCLUSIVE, as storage parameters and statistics targets take it, is not in the WAL."""
    words = side_costs(samples.candidate("i", sql=(sql,)), None, (), None)
    assert ("a standby replays its exclusive lock" in words) is is_replayed


def test_only_what_may_be_applied_has_its_costs_told() -> None:
    costs = dict.fromkeys(("index:good", "index:useless"), "it costs this")
    notes = {fix.id: fix.note for fix in ranked(samples.judged(side_costs=costs))}
    assert "it costs this" in notes["index:good"]
    assert "it costs this" not in notes["index:useless"]


def table(name: str, *, refers_to: str | None = None, **fields: object) -> TableFacts:
    constraints = [
        {
            "name": f"{name}_{refers_to}",
            "kind": "foreign",
            "columns": ("a",),
            "referenced_table": refers_to,
            "referenced_columns": ("id",),
        }
    ]
    known = {"schema_": "public", "name": name, "kind": "table", "columns": ()}
    return TableFacts.model_validate(known | {"constraints": constraints if refers_to else ()} | fields)


SHOP = (
    table("users"),
    table("orders", refers_to="users"),
    table("lines", refers_to="orders"),
    table("log"),
    table("logged", triggers=("CREATE TRIGGER t",)),
    table("parted", kind="partitioned"),
    table("part", parent="parted"),
)


@pytest.mark.parametrize(
    ("sql", "indexed", "is_elsewhere"),
    [
        ("INSERT INTO log VALUES (1)", "users ((lower(email)))", True),
        ("INSERT INTO users VALUES (1)", "users ((lower(email)))", False),
        ("DELETE FROM users WHERE id = 1", "lines (a)", False),
        ("UPDATE users SET plan = 'pro' WHERE id = 1", "lines (a)", True),
        ("UPDATE users SET id = 7 WHERE id = 1", "lines (a)", False),
        ("INSERT INTO users VALUES (1)", "orders (a)", True),
        ("INSERT INTO users VALUES (1) ON CONFLICT (email) DO UPDATE SET id = 7", "orders (a)", False),
        ("INSERT INTO lines VALUES (1)", "users (a)", True),
        ("INSERT INTO logged VALUES (1)", "users (a)", False),
        ("INSERT INTO unknown VALUES (1)", "users (a)", False),
        ("SELECT writes_somewhere()", "users (a)", False),
        ("WITH gone AS (DELETE FROM log RETURNING *) INSERT INTO lines SELECT * FROM gone", "log (a)", False),
        ("INSERT INTO part VALUES (1)", "parted (a)", False),
        ("INSERT INTO parted VALUES (1)", "part (a)", False),
        ("MERGE INTO log USING users ON true WHEN MATCHED THEN DELETE", "log (a)", False),
    ],
)
def test_a_statement_writes_elsewhere_only_where_text_and_schema_say_so(
    sql: str, indexed: str, *, is_elsewhere: bool
) -> None:
    known = facts().model_copy(update={"tables": SHOP})
    statement = TunedStatement(name="w", sql=sql, writes=True)
    fix = samples.candidate("i", sql=(f"CREATE INDEX i ON {indexed}", "ANALYZE users"))
    assert writing_elsewhere(fix, [statement], known) == ({"w"} if is_elsewhere else set())
    assert writing_elsewhere(fix, [statement], None) == set()
    other = samples.candidate("i", sql=(f"CREATE INDEX i ON {indexed}", "VACUUM FULL log", "DROP INDEX j"))
    assert writing_elsewhere(other, [statement], known) == set()


def test_a_fix_of_tables_that_nothing_writes_has_no_write_ratio() -> None:
    """All statements that write are timed with it; what they took is no matter of it."""
    judged = samples.judged(members=(), proved=None)
    ratios = {fix.id: fix.cost.write_ratio for fix in ranked(judged)}
    assert ratios["index:good"] == pytest.approx(1.2)
    elsewhere = {"index:good": frozenset({"place"})}
    others = {fix.id: fix for fix in ranked(replace(judged, writing_elsewhere=elsewhere))}
    assert {name: fix.cost.write_ratio for name, fix in others.items()} == ratios | {"index:good": None}
    assert [each.name for each in others["index:good"].statements] == ["list"]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("VACUUM (FULL, ANALYZE) public.t", True),
        ("REPACK (ANALYZE) public.t", True),
        ("VACUUM (ANALYZE) public.t", False),
        ("REINDEX INDEX CONCURRENTLY public.i", False),
    ],
)
def test_a_table_that_is_written_anew_is_locked_and_that_is_said(sql: str, expected: bool) -> None:
    assert ("locked against reads and writes" in said(sql)) is expected


def test_memory_that_every_session_may_take_is_said() -> None:
    for name, expected in (("work_mem", True), ("hash_mem_multiplier", True), ("jit", False)):
        words = side_costs(samples.candidate("s", sql=(), settings={name: "1"}), None, (), None)
        assert ("every session" in words) is expected


@pytest.mark.parametrize(
    ("sql", "kind", "width", "expected"),
    [
        ("CREATE INDEX i ON t (b)", "text", 90, True),
        ("CREATE INDEX i ON t (a) INCLUDE (b)", "jsonb", 90, True),
        ("CREATE INDEX i ON t (b)", "integer[]", 90, True),
        ("CREATE INDEX i ON t (b)", "text", 12, False),
        ("CREATE INDEX i ON t (b)", "character varying(200)", 90, False),
        ("CREATE INDEX i ON t (b)", "character varying(4000)", 90, True),
        ("CREATE INDEX i ON t (lower(b))", "text", 90, True),
        ("CREATE INDEX i ON t (lower((b)::text))", "character varying", 90, True),
        ("CREATE INDEX i ON t (length(b))", "text", 90, False),
        ("CREATE INDEX i ON t (md5(b))", "text", 90, False),
        ("CREATE INDEX i ON t USING gin (b)", "text", 90, False),
        ("CREATE INDEX i ON t (a)", "text", 90, False),
    ],
)
def test_rows_that_a_b_tree_has_no_place_for_are_refused_and_that_is_said(
    sql: str, kind: str, width: int, expected: bool
) -> None:
    changes = {"type": kind, "width": width}
    columns = [each.model_copy(update=changes) if each.name == "b" else each for each in COLUMNS]
    assert ("rows are refused if b takes more than 2,704 bytes" in said(sql, columns=columns)) is expected
