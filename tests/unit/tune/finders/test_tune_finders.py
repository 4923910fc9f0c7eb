"""What finders offer and leave alone, on plans and facts made for it."""

import json
from dataclasses import replace

import pytest

import tune_samples as samples
from finder_samples import COLUMNS, ROWS, facts, index, plan, symptom
from pgassay.plans.explain_plan import read_plans
from pgassay.tune.candidate import AdvisedMachine, Candidate, Symptom, TunedStatement
from pgassay.tune.facts.schema import IndexKey
from pgassay.tune.finders import registry
from pgassay.tune.finders.base import ExpectedSaving, Finder, FinderOffer
from pgassay.tune.finders.registry import FINDERS, find


def test_an_index_is_offered_once_for_all_values() -> None:
    found = find(symptom(plan(), plan("(a = 9)", rows=2000), known=facts()))
    (best,) = [each for each in found if each.kind == "btree"]
    assert best.id == "index:t(a)" and best.sql[0].endswith("ON public.t (a)")
    assert best.statements == ("q",) and 0 < best.predicted["q"] < 0.3
    # More rows for one value: less is gained over both.
    (alone,) = [each for each in find(symptom(plan(), known=facts())) if each.kind == "btree"]
    assert alone.predicted["q"] < best.predicted["q"] and best.bytes and best.bytes > ROWS * 10
    assert best.undo[0].startswith("DROP INDEX public.")


def test_nothing_is_offered_where_it_would_not_help() -> None:
    by_id = index("i", "id", unique=True)
    cases = {
        "the index is there": symptom(plan(), known=facts(index("i", "a", "b"))),
        "a unique one finds the row": symptom(plan("((id = 1) AND (a = 7))"), known=facts(by_id)),
        "another takes the time": symptom(plan(rest_ms=500), known=facts()),
        "nobody runs it": symptom(plan(), known=facts(), share=0.01),
        "it takes no time": symptom(plan(ms=0.1), known=facts()),
        "half of the rows match": symptom(plan(rows=ROWS // 2), known=facts()),
    }  # fmt: skip
    for why, case in cases.items():
        assert not find(case), why
    # An index that is not valid is no index.
    assert find(symptom(plan(), known=facts(index("i", "a", valid=False))))


def test_an_operator_class_for_like_has_neither_order_nor_ranges() -> None:
    for_like = IndexKey(column="a", opclass="text_pattern_ops", default_opclass=False)
    known = facts(index("i", keys=(for_like,)))
    assert [each.id for each in find(symptom(plan("(a > 5)"), known=known))] == ["index:t(a)"]
    assert not find(symptom(plan("(a = 5)"), known=known))


@pytest.mark.parametrize("made", [{}, {"unique": True}], ids=["index", "key"])
def test_an_index_of_another_collation_than_its_column_finds_nothing(made: dict[str, object]) -> None:
    """PostgreSQL reads an index for a comparison in its own collation alone (IndexCollMatchesExprColl)."""
    name = COLUMNS[1].model_copy(update={"name": "name", "type": "text", "collation": "default"})
    case = plan("(name = 'x'::text)")
    for collation, missing in (("C", ["index:t(name)"]), ("default", [])):
        key = IndexKey(column="name", opclass="text_ops", collation=collation)
        known = facts(index("i", keys=(key,), **made), columns=(*COLUMNS, name))
        assert [each.id for each in find(symptom(case, known=known))] == missing


def test_an_index_that_can_not_find_keys_or_has_some_rows_alone_leaves_gin_to_be_offered() -> None:
    document = COLUMNS[1].model_copy(update={"name": "doc", "type": "jsonb"})

    def offered(condition: str, opclass: str, **fields: object) -> list[str]:
        key = IndexKey(column="doc", opclass=opclass, default_opclass=opclass == "jsonb_ops")
        known = facts(index("i", method="gin", keys=(key,), **fields), columns=(*COLUMNS, document))
        return [each.id for each in find(symptom(plan(condition), known=known)) if each.kind == "gin"]

    has_key, contains = "(doc ? 'x'::text)", "(doc @> '{}'::jsonb)"
    assert offered(has_key, "jsonb_path_ops") == ["index:gin:t(doc)"]
    assert not offered(contains, "jsonb_path_ops") and not offered(has_key, "jsonb_ops")
    assert not offered(contains, "jsonb_ops")
    assert offered(has_key, "jsonb_ops", predicate="(a = 1)") == ["index:gin:t(doc)"]


def test_or_over_several_columns_asks_for_an_index_of_each() -> None:
    either = "((a = 7) OR (b = ANY ('{1,2}'::integer[])))"
    (both,) = find(symptom(plan(either), known=facts()))
    assert (both.id, both.title) == ("index:t(a)+index:t(b)", "Indexes on t(a) and t(b)")
    assert [sql.rpartition(" ON ")[2] for sql in both.sql] == ["public.t (a)", "public.t (b)"]
    assert len(both.undo) == 2 and both.predicted["q"] < 0.1
    # One of them alone may be another candidate, of the same workload: no name is taken twice.
    (alone,) = find(symptom(plan(), known=facts()))
    assert alone.sql[0] not in both.sql
    # Where one is there the other is all that is missing; where both are, nothing is.
    (rest,) = find(symptom(plan(either), known=facts(index("i", "a", "b"))))
    assert rest.id == "index:t(b)" and "OR's side b has no index" in rest.reason
    assert not find(symptom(plan(either), known=facts(index("i", "a"), index("j", "b"))))
    for refused in ("((a = 7) OR (b <> 7))", "((a = 7) OR (id > 0))", "((a = 7) OR (random() < 0.5))"):
        assert not [
            each for each in find(symptom(plan(refused), known=facts())) if each.kind == "or-conditions"
        ]


@pytest.mark.parametrize(
    ("expression", "indexed"),
    [
        ("date_trunc('day'::text, at)", "date_trunc('day', at)"),
        ("EXTRACT(year FROM at)", "EXTRACT(YEAR FROM at)"),
        ("(at)::date", "at::date"),
        ("to_char(at, 'YYYY'::text)", ""),
    ],
)
def test_a_part_of_a_time_is_indexed_where_no_zone_changes_it(expression: str, indexed: str) -> None:
    def titles(kind: str) -> list[str]:
        column = COLUMNS[0].model_copy(update={"name": "at", "type": kind})
        known = facts(columns=(*COLUMNS, column))
        return [each.title for each in find(symptom(plan(f"({expression} = '1'::text)"), known=known))]

    expected = [f"Index on t(({indexed}))"] if indexed else []
    assert titles("timestamp without time zone") == titles("timestamp(3) without time zone") == expected
    assert titles("timestamp with time zone") == []


def test_indexes_that_constraints_rest_on_stay() -> None:
    read = plan(ms=0.1)
    twice = index("one", "a"), index("two", "a")
    assert [each.id for each in find(symptom(read, known=facts(*twice)))] == ["drop-index:public.two"]
    for fields in ({"unique": True}, {"constraint": "c"}, {"replica_identity": True}):
        kept = index("two", "a", **fields)
        found = find(symptom(read, known=facts(twice[0], kept)))
        assert [each.id for each in found] == ["drop-index:public.one"], fields
        assert not find(symptom(read, known=facts(kept, index("three", "a", **fields)))), fields
    (beginning,) = find(symptom(read, known=facts(index("long", "a", "b"), index("short", "a"))))
    assert beginning.id == "drop-index:public.short" and beginning.undo == ("-- short",)
    unread = index("idle", "b", scans=0)
    assert not find(symptom(read, known=facts(unread, sequential_scans=5)))
    assert find(symptom(read, known=facts(unread, sequential_scans=500)))


def test_an_empty_symptom_and_an_unreadable_condition_offer_nothing() -> None:
    assert find(Symptom((), {}, facts(), {})) == ()
    assert find(symptom(plan("(a = ) %% nonsense"), known=facts())) == ()


def test_finders_have_names_of_their_own() -> None:
    assert len({finder.name for finder in FINDERS}) == len(FINDERS) and all(each.kinds for each in FINDERS)


def test_an_index_for_a_partition_is_made_on_the_table_above() -> None:
    part = facts().tables[0].model_copy(update={"parent": "t", "schema_": "parts"})
    top = part.model_copy(update={"parent": None, "schema_": "public", "kind": "partitioned", "pages": 0})
    known = facts().model_copy(update={"tables": (part, top), "search_path": ("parts", "public")})
    seen = plan()
    node = seen.nodes[0].model_copy(update={"relation_schema": "parts"})
    found = find(symptom(seen.model_copy(update={"nodes": (node,)}), known=known))
    assert "index:t(a)" in [each.id for each in found]


def _workload(*parts: tuple[str, str, float, int]) -> Symptom:
    """Statements of one scan each: name, SQL, share of the workload, rows that pass a range of b."""
    statements = tuple(TunedStatement(name=name, sql=sql) for name, sql, _, _ in parts)
    plans = {name: (plan("((a = 7) AND (b > 5))", rows=rows),) for name, _, _, rows in parts}
    return Symptom(statements, plans, facts(), {name: share for name, _, share, _ in parts})


def test_one_covering_index_is_offered_for_scans_with_the_same_keys() -> None:
    columns = (*COLUMNS, *(COLUMNS[1].model_copy(update={"name": name}) for name in ("c", "d")))
    rows = 9_000
    two = _workload(
        ("one", "SELECT sum(c) FROM t WHERE a = 7 AND b > 5", 0.5, rows),
        ("other", "SELECT sum(d) FROM t WHERE a = 7 AND b > 5", 0.5, rows),
    )
    known = facts(columns=columns)
    found = {each.id: each for each in find(replace(two, facts=known)) if each.kind == "covering"}
    assert set(found) == {
        "index:t(a,b) include(c)",
        "index:t(a,b) include(d)",
        "index:t(a,b) include(c,d)",
    }
    assert set(found["index:t(a,b) include(c,d)"].predicted) == {"one", "other"}
    assert {each.reason_of for each in found.values()} <= {"one", "other"}
    # What is too wide for one statement's index is not put into another's either.
    wide = tuple(each.model_copy(update={"width": 40}) if each.name == "d" else each for each in columns)
    ids = [each.id for each in find(replace(two, facts=facts(columns=wide))) if each.kind == "covering"]
    assert ids == ["index:t(a,b) include(c)"]


def test_what_is_little_of_the_workload_may_be_much_of_what_is_left() -> None:
    """The second statement takes 1 % of the time: nothing beside all of it, much once the first is fast."""
    slow, quick = (
        ("slow", "SELECT id FROM t WHERE a = 7", 0.99),
        ("quick", "SELECT id FROM t WHERE b = 9", 0.01),
    )

    def offered(slow_rows: int) -> set[str]:
        statements = tuple(TunedStatement(name=name, sql=sql) for name, sql, _ in (slow, quick))
        plans = {"slow": (plan(rows=slow_rows),), "quick": (plan("(b = 9)"),)}
        found = find(Symptom(statements, plans, facts(), {name: share for name, _, share in (slow, quick)}))
        return {name for each in found for name in each.statements}

    assert offered(20) == {"slow", "quick"}
    assert "quick" not in offered(ROWS // 2)


def test_memory_makes_a_random_page_as_cheap_as_the_next_one() -> None:
    known = facts(index("i", "a")).model_copy(
        update={"settings": {"random_page_cost": "4", "effective_cache_size": "524288"}}
    )
    here = AdvisedMachine(memory_bytes=8 << 30, reads_memory=True)
    (found,) = [each for each in find(replace(symptom(plan(), known=known), machine=here)) if each.settings]
    assert found.settings["random_page_cost"] == "1.1" and "in memory" in found.reason
    for machine in (
        AdvisedMachine(),
        AdvisedMachine(memory_bytes=8 << 30),
        replace(here, memory_bytes=1 << 20),
    ):
        assert not find(replace(symptom(plan(), known=known), machine=machine))
    # Where an index is to be made first, what it may save is not known, and it is tried all the same.
    bare = facts().model_copy(update={"settings": known.settings})
    found, *_ = [each for each in find(replace(symptom(plan(), known=bare), machine=here)) if each.settings]
    assert found.predicted == {"q": 1.0} and "is there" not in found.reason
    # Not where all rows are wanted, nor where the cost is right.
    whole = plan("", rows=ROWS)
    assert not find(replace(symptom(whole, known=bare), machine=here))
    right = bare.model_copy(
        update={"settings": {"random_page_cost": "1.1", "effective_cache_size": "786432"}}
    )
    assert not [each for each in find(replace(symptom(plan(), known=right), machine=here)) if each.settings]


def test_the_probe_of_a_disk_says_what_a_random_page_costs() -> None:
    known = facts(index("i", "a")).model_copy(update={"settings": {"random_page_cost": "40"}})
    read = plan()
    seen = read.model_copy(
        update={"nodes": (read.nodes[0].model_copy(update={"own_buffers_hit": 0, "own_buffers_read": 600}),)}
    )
    asked = symptom(seen, known=known)
    probed = AdvisedMachine(random_read_us=100, sequential_read_mb_s=300)
    (found,) = [each for each in find(replace(asked, machine=probed)) if each.kind == "planner-costs"]
    # 8,192 bytes at 300 MB/s take 27.3 µs.
    assert found.settings == {"random_page_cost": "3.7"} and found.predicted["q"] < 0.3
    assert "fully read" in found.reason and "though i is there" in found.reason
    assert "the probe of this machine took 100 µs for a random page" in found.reason
    assert "100 % of the pages were read" in found.reason
    for unknown in (AdvisedMachine(), replace(probed, random_read_us=None)):
        assert not find(replace(asked, machine=unknown))
    # A cost that is right within a third is left alone.
    right = known.model_copy(update={"settings": {"random_page_cost": "4"}})
    assert not find(replace(asked, facts=right, machine=probed))


@pytest.mark.parametrize(
    ("common", "shares", "alone"),
    [
        (("7", "1", "2"), (0.01, 0.6, 0.39), False),  # nearly all rows have values that no index finds
        (("7", "1", "2"), (0.01, 0.2, 0.1), True),  # any other value is as rare as this one
    ],
)
def test_a_partial_index_for_one_value_of_many_that_are_as_rare_says_so(
    common: tuple[str, ...], shares: tuple[float, ...], alone: bool
) -> None:
    columns = tuple(
        each.model_copy(update={"distinct": 30.0, "common": common, "common_share": shares})
        if each.name == "b"
        else each
        for each in facts().tables[0].columns
    )
    seen = symptom(plan("(b = 7)", rows=1000), known=facts(columns=columns))
    literal = replace(seen, statements=(TunedStatement(name="q", sql="SELECT * FROM t WHERE b = 7"),))
    (partial,) = [each for each in find(literal) if each.kind == "partial"]
    assert partial.for_one_value is alone


def test_shared_buffers_are_told_where_they_are_empty_before_each_statement() -> None:
    """Then no trial shows what a page that stays in them saves."""
    known = facts(pages=8_000).model_copy(update={"settings": {"shared_buffers": "2048"}})
    read = plan(rows=ROWS // 2)
    node = read.nodes[0].model_copy(update={"buffers_read": 8_000, "buffers_hit": 0})
    seen = symptom(read.model_copy(update={"nodes": (node,)}), known=known)
    for empties in (True, False):
        machine = AdvisedMachine(memory_bytes=8 << 30, empties_buffers=empties)
        found = [each for each in find(replace(seen, machine=machine)) if each.kind == "shared-buffers"]
        assert len(found) == 1
        assert ("--cache as-is" in found[0].why_not) is empties


def written(images: int) -> Symptom:
    """An UPDATE that writes 100 pages of log, of which so many are whole pages."""
    node = {
        "Node Type": "ModifyTable", "Operation": "Update", "Relation Name": "t", "Schema": "public",
        "Alias": "t", "Plan Rows": 0, "Plan Width": 0, "Startup Cost": 0, "Total Cost": 100,
        "Actual Rows": 0, "Actual Loops": 1, "Actual Startup Time": 50, "Actual Total Time": 50,
        "WAL Records": 900, "WAL FPI": images, "WAL Bytes": 100 * 8192,
    }  # fmt: skip
    document = [{"Plan": node, "Planning Time": 0.1, "Execution Time": 50.1}]
    seen = read_plans(json.dumps(document), "made")[0]
    statement = TunedStatement(name="q", sql="UPDATE t SET b = 1", writes=True)
    return Symptom((statement,), {"q": (seen,)}, facts(), {"q": 1.0})


@pytest.mark.parametrize(
    ("requested", "timed", "images", "offered"),
    [(40, 2, 60, 1), (2, 0, 60, 0), (40, 90, 60, 0), (40, 2, 10, 0)],
)
def test_checkpoints_that_the_log_asked_for_are_told_by_what_the_source_counted(
    requested: int, timed: int, images: int, offered: int
) -> None:
    source = facts().model_copy(
        update={
            "settings": {"max_wal_size": "512", "work_mem": "1"},
            "checkpoints_requested": requested,
            "checkpoints_timed": timed,
        }
    )
    # The copy has written nothing yet, and has settings of its own.
    copy = facts().model_copy(update={"settings": {"max_wal_size": "8192", "work_mem": "4096"}})
    known = copy.counted_by(source)
    assert known.settings == {"max_wal_size": "512", "work_mem": "4096"}
    found = [each for each in find(replace(written(images), facts=known)) if each.kind == "wal"]
    assert [each.settings for each in found] == [{"max_wal_size": "4096MB"}] * offered
    assert all("not tested" in each.why_not for each in found)
    assert not find(replace(written(images), facts=copy))


def test_a_copy_counts_anew_and_its_source_knows_which_index_nobody_reads() -> None:
    idle = index("idle", "b", scans=0)
    copy = facts(idle, sequential_scans=0, updated=0)
    source = facts(idle, index("used", "a", scans=7000), sequential_scans=500, updated=90, dead_rows=12)
    known = copy.counted_by(source)
    assert (known.tables[0].sequential_scans, known.tables[0].updated) == (500, 90)
    assert known.tables[0].dead_rows == 12
    read = plan(ms=0.1)
    assert not find(symptom(read, known=copy))
    (drop,) = find(symptom(read, known=known))
    assert drop.id == "drop-index:public.idle"
    # One that the source does read, and a table that it has not.
    busy = facts(index("idle", "b", scans=9), sequential_scans=500)
    assert not find(symptom(read, known=copy.counted_by(busy)))
    assert copy.counted_by(source.model_copy(update={"tables": ()})).tables == copy.tables


@pytest.mark.parametrize(
    ("sql", "undo", "restores"),
    [
        (("CREATE INDEX i ON t (a)",), ("DROP INDEX i",), True),
        (("CREATE INDEX i ON t (lower(a))", "ANALYZE t"), ("DROP INDEX i",), True),
        (("CREATE STATISTICS s ON a, b FROM t", "ANALYZE t"), ("DROP STATISTICS s",), True),
        (("DROP INDEX i",), ("CREATE INDEX i ON t (a)",), True),
        (("ALTER TABLE t SET (fillfactor = 80)", "VACUUM (FULL) t"), ("ALTER TABLE t RESET (f)",), False),
        (("ALTER TABLE t ALTER a SET STATISTICS 9", "ANALYZE t"), ("ALTER TABLE t ALTER a SET",), False),
        (("VACUUM t",), (), False),
    ],
)
def test_what_stays_when_a_candidate_is_taken_back(
    sql: tuple[str, ...], undo: tuple[str, ...], restores: bool
) -> None:
    candidate = samples.candidate("made", sql=sql, undo=undo, undoable=bool(undo))
    assert candidate.is_restored_by_undo is restores


@pytest.mark.parametrize(("ms", "most_ms", "offered"), [(10, None, 1), (0, 10, 1), (0.5, 1, 0), (0, None, 0)])
def test_what_may_save_enough_is_offered_though_it_is_expected_to_save_less(
    ms: float, most_ms: float | None, offered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = symptom(plan(ms=20.0), known=facts())
    candidate = Candidate(
        id="statistics", layer="operations", kind="made", title="", reason="", statements=()
    )  # fmt: skip
    offer = FinderOffer(candidate, (ExpectedSaving("q", 0, ms, most_ms),))
    made = Finder("made", "operations", ("made",), lambda _evidence: [offer])
    monkeypatch.setattr(registry, "FINDERS", (made,))
    found = find(known)
    assert len(found) == offered
    # What is predicted is what is expected.
    assert all(each.predicted["q"] == pytest.approx(1 - ms / 20.2, abs=1e-3) for each in found)
