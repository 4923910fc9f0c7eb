"""What is chosen of a server, what its copy takes over, when it is faithful, and the files that are left."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

import tune_samples as samples
from pgassay.analysis.redaction.redacted_tuning import redacted
from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import UsageError
from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.model.tuning.source import SourceLeftOut, TuneSource
from pgassay.model.tuning.tune_answer import FixStatement
from pgassay.report.tune.tune_page import page_of
from pgassay.tune.answer.proof_verdict import UNLIKE
from pgassay.tune.answer.verdicts import ranked
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.source import dump
from pgassay.tune.source.copied import differences, missing_extensions, settings_of
from pgassay.tune.source.counted import CATALOG, HIDDEN, HIDDEN_TEXT, NESTED, TINY, UTILITY, VALUES, choose
from pgassay.tune.source.gather import gather, given_values, unmatched
from pgassay.tune.source.origin import CopyOrigin, differences_from_source, plan_difference, time_difference
from pgassay.tune.source.statement_files import left_out_text, statements_text
from pgassay.tune.tuned_statements import statements_of
from pgassay.workloads.registry import parse_workload
from source_samples import BUILD, KNOWN, SECRET, row, source


def test_what_took_most_is_chosen_and_what_is_passed_over_is_counted() -> None:
    rows = [
        row(1, "SELECT * FROM orders WHERE id = $1", 300.0),
        row(2, "UPDATE stock SET left_over = left_over - $1 WHERE id = $2", 400.0),
        row(3, "SELECT count(*) FROM items", 50.0),
        row(4, "VACUUM items", 900.0),
        row(5, "SELECT relname FROM pg_class c JOIN pg_catalog.pg_namespace n ON true", 20.0),
        row(6, "SELECT pg_backend_pid()", 10.0),
        row(7, "SELECT x FROM inner_table", 700.0, is_top=False),
        row(8, HIDDEN_TEXT, 320.0, query_id=None),
        row(9, "WITH RECURSIVE r AS (SELECT oid FROM pg_class UNION SELECT oid FROM r) SELECT * FROM r", 5.0),
        row(10, "SELECT my_function($1)", 5.0),
    ]
    found = choose(rows, 2, "yesterday")
    assert [each.query_id for each in found.chosen] == ["2", "1"]
    assert [each.name.rsplit("-", 1)[0] for each in found.chosen] == ["update-stock", "select-orders"]
    assert found.chosen[0].share == pytest.approx(400 / 2010)
    assert found.chosen[0].mean_ms == 40
    assert found.ignored == {NESTED: 1, HIDDEN: 1, UTILITY: 1, CATALOG: 3}
    assert (found.total_ms, found.statements, found.since) == (2010.0, 10, "yesterday")
    assert found.hidden_share == pytest.approx(320 / 2010)
    assert len(choose(rows, 20).chosen) == 4
    (only,) = choose(rows, 20, only=frozenset({"3"})).chosen
    assert only.query_id == "3" and only.share == pytest.approx(50 / 2010)
    assert choose([], 5).chosen == ()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT stats_reset FROM public.pg_stat_statements_info",
        'SELECT * FROM "monitoring".pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid',
        "SELECT last_value, is_called FROM public.orders_id_seq",
    ],
)
def test_what_pgassay_and_pg_dump_read_is_no_workload(sql: str) -> None:
    found = choose([row(1, sql, 500.0), row(2, "SELECT last_value, note FROM counters", 5.0)], 5)
    assert [each.query_id for each in found.chosen] == ["2"] and found.ignored == {CATALOG: 1}


def test_what_took_next_to_no_time_is_passed_over_unless_it_is_asked_for() -> None:
    rows = [
        row(1, "SELECT * FROM orders", 1e6),
        row(2, "SELECT * FROM a", 9.0),
        row(3, "SELECT * FROM b", 11.0),
    ]
    found = choose(rows, 5)
    assert [each.query_id for each in found.chosen] == ["1", "3"] and found.ignored == {TINY: 1}
    assert [each.query_id for each in choose(rows, 5, only=frozenset({"2"})).chosen] == ["2"]


def test_one_text_with_several_numbers_is_one_statement() -> None:
    # A driver that sends small numbers as smallint: the server counts them apart.
    text = "SELECT * FROM orders WHERE id = $1"
    rows = [
        row(1, text, 100.0, calls=10),
        row(2, "SELECT * FROM items WHERE id = $1", 250.0),
        row(3, text, 200.0, calls=5),
        row(4, text, 900.0, is_top=False),
    ]
    found = choose(rows, 5)
    assert [(each.query_id, each.total_ms) for each in found.chosen] == [("3", 300.0), ("2", 250.0)]
    assert (found.chosen[0].calls, found.chosen[0].mean_ms) == (15, 20.0)
    assert found.chosen[0].share == pytest.approx(300 / 550)
    (only,) = choose(rows, 5, only=frozenset({"1"})).chosen
    assert (only.query_id, only.calls) == ("1", 10)


LOAD = [
    row(number, f"INSERT INTO events_{number} VALUES ($1, $2)", 1000.0 - number, calls=9e5)
    for number in range(5)
]


def test_inserts_of_values_do_not_crowd_out_what_can_be_improved() -> None:
    login = row(11, "SELECT * FROM customers WHERE lower(email) = $1", 10.0)
    copied = row(12, "INSERT INTO archive SELECT * FROM orders WHERE placed < $1", 5.0)
    found = choose([*LOAD, login, copied], 3)
    # What reads a table for its rows is searched for; one place is left, for the largest of the others.
    assert [each.query_id for each in found.chosen] == ["0", "11", "12"]
    assert found.ignored == {VALUES: 4}
    assert choose([*LOAD, login, copied], 20).ignored == {}


def test_total_time_mean_time_and_blocks_for_a_row_take_turns() -> None:
    often = [row(number, f"SELECT * FROM t{number} WHERE id = $1", 900.0, calls=1e6) for number in range(5)]
    slow = row(11, "SELECT * FROM reports", 20.0, calls=2.0, rows=1e6)
    wasteful = row(
        12, "SELECT * FROM customers WHERE lower(email) = $1", 10.0, calls=50.0, rows=50.0, blocks=1e6
    )
    once = row(13, "SELECT count(*) FROM customers", 15.0, calls=1.0, rows=1.0, blocks=1e5)
    found = choose([*often, slow, wasteful, once], 3)
    assert [each.query_id for each in found.chosen] == ["0", "11", "12"]
    assert len(choose([*often, slow, wasteful, once], 20).chosen) == 8


def test_a_table_s_name_of_several_lines_is_one_of_a_statement() -> None:
    (found,) = choose([row(1, 'SELECT * FROM "a\n; DROP TABLE b; --"', 1.0)], 1).chosen
    assert found.name.startswith("select-a ; DROP TABLE b; ---")


# --- What a copy takes over.


def test_settings_of_plans_are_taken_over_unless_others_are_given() -> None:
    found = settings_of(source(), {"work_mem": "1GB"}, BUILD, 10 * 1024**3, KNOWN)
    assert found == {
        "shared_buffers": "4096MB", "random_page_cost": "1.1", "jit": "on", "timezone": "Europe/Berlin",
    }  # fmt: skip
    said = differences(source(), found, BUILD)
    assert said[0] == "shared_buffers is 4096MB on the copy and 64GB on the source"
    assert "another machine" in said[1] and len(said) == 2
    newer = differences(source(), found, BUILD.model_copy(update={"major": 18, "version": "18.1"}))
    assert any("PostgreSQL 18.1, the source 17.4" in sentence for sentence in newer)


def test_an_extension_that_the_build_lacks_is_named() -> None:
    assert missing_extensions(source(), BUILD) == ["hstore"]
    assert missing_extensions(source(), BUILD.model_copy(update={"extensions": ("hstore",)})) == []


def test_a_copy_that_the_disk_cannot_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "home", lambda: tmp_path)
    dump.refuse_small_disk(source())
    with pytest.raises(UsageError, match=r"a copy of db:5432/shop \(.*\) needs about .* are free: free some"):
        dump.refuse_small_disk(source(bytes=2**60))


def test_a_build_without_pg_dump_is_refused() -> None:
    with pytest.raises(UsageError, match=r"comes without pg_dump: choose a build .*--pg apt:17"):
        dump.refuse_without_program(BUILD)


def test_the_password_goes_to_pg_dump_by_its_environment_and_is_in_no_text_of_a_source() -> None:
    given = dump.variables(source())
    assert (given["PGPASSWORD"], given["PGHOST"], given["PGPORT"]) == (SECRET, "db", "5432")
    assert "default_transaction_read_only=on" in given["PGOPTIONS"]
    assert SECRET not in repr(source()) + dump.cost_sentence(source())


def test_pg_dump_is_held_to_channel_binding_where_the_user_is() -> None:
    """Else a server in between, whose certificate nobody checks, could pass the password on."""
    known = source()
    asked = replace(known.resolved, parameters={**known.resolved.parameters, "channel_binding": "require"})
    assert dump.variables(replace(known, resolved=asked))["PGCHANNELBINDING"] == "require"
    assert "PGCHANNELBINDING" not in dump.variables(known)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("permission denied for table orders", '(GRANT pg_read_all_data TO "read-only")'),
        ("query would be affected by row-level security policy", '(ALTER ROLE "read-only" BYPASSRLS)'),
        # A schema for each of thousands of tenants.
        ("out of shared memory", "raise max_locks_per_transaction there and restart it"),
        ("canceling statement due to lock timeout", "try again when nobody changes tables"),
        # A page that is broken stays so however quiet the server is.
        ("invalid page in block 12 of relation base/5/16384", "fix that"),
    ],
)
def test_what_pg_dump_complains_of_gets_a_remedy_that_can_be_typed(said: str, remedy: str) -> None:
    told = dump._complaint(f"pg_dump: error: query failed: ERROR:  {said}", source(role="read-only"))
    assert told.endswith(f"{remedy}, or give the data with --dataset dump:FILE")


# --- Faithful or not.


def plan(*nodes: tuple[str, str | None, str | None]) -> ExplainedPlan:
    made = tuple(
        PlanNode(
            id=number, parent=None if number == 0 else 0, depth=0, type=kind, name=kind, relation=on, index=by
        )
        for number, (kind, on, by) in enumerate(nodes)
    )
    return ExplainedPlan(number=1, format="json", executed=False, nodes=made)


SCAN = ("Seq Scan", "orders", None)
INDEXED = ("Index Scan", "orders", "orders_customer")


def test_a_plan_comes_back_where_tables_are_read_and_joined_alike() -> None:
    assert plan_difference(plan(SCAN), plan(("Sort", None, None), SCAN)) == ""
    assert (
        plan_difference(plan(("Gather", None, None), ("Parallel Seq Scan", "orders", None)), plan(SCAN)) == ""
    )
    said = plan_difference(plan(INDEXED), plan(SCAN))
    where = "Index Scan on orders by orders_customer where the copy's has Seq Scan on orders"
    assert said == f"the source's plan has {where}"
    other = ("Seq Scan", "items", None)
    assert "another order" in plan_difference(plan(SCAN, other), plan(other, SCAN))


@pytest.mark.parametrize(
    ("mean_ms", "copy_ms", "comes_back"),
    [
        (50, (5.0,), True), (51, (5.0,), False), (0.01, (0.5,), True), (9, (0.2,), True), (11, (0.2,), False),
        (4, (50.0, 300.0), False), (300, (2.0, 50.0), True), (0.1, (30.0,), False),
    ],
)  # fmt: skip
def test_a_time_comes_back_within_ten_times(
    mean_ms: float, copy_ms: tuple[float, ...], comes_back: bool
) -> None:
    assert (time_difference(mean_ms, copy_ms) == "") == comes_back


def test_each_statement_that_did_not_come_back_is_named_with_the_reasons() -> None:
    baseline = replace(samples.BASELINE, estimates=dict.fromkeys(("list", "report", "place"), plan(SCAN)))
    told = TuneSource(name="db", version="17", seconds=1, statements=3, share=1)
    texts = {each.of.name: each.sql for each in baseline.statements}
    origin = CopyOrigin(
        told,
        {texts["list"]: plan(INDEXED), texts["report"]: plan(SCAN), texts["place"]: "permission denied"},
        {"list": 1000.0, "report": 90_000.0},
        {},
        is_here=False,
    )
    found = differences_from_source(origin, baseline)
    assert "Index Scan" in found["list"]
    assert found["report"] == "it takes 90.00 s on the source on average, and 500 ms on the copy"
    assert found["place"] == "the source can't plan it (permission denied)"


def test_nothing_is_proven_by_what_did_not_come_back_alone() -> None:
    judged = samples.judged()
    proved = judged.proved
    assert proved is not None
    gains = (FixStatement(name="list", ratio=10.0), FixStatement(name="report", ratio=1.5))
    proved = replace(
        proved, members={name: replace(each, statements=gains) for name, each in proved.members.items()}
    )

    def verdict_with(*doubted: str) -> tuple[str, str, str]:
        unlike = dict.fromkeys(doubted, "another plan")
        fix = next(
            each for each in ranked(replace(judged, proved=proved, unlike=unlike)) if each.id == "index:good"
        )
        return fix.verdict, fix.evidence, fix.note

    assert verdict_with() == ("recommended", "proof", "")
    assert verdict_with("list") == ("not decided", "proof", UNLIKE)
    # What came back saves most of the time.
    assert verdict_with("report", "place") == ("recommended", "proof", "")
    # Of a proof that tells no single statement, all must be in doubt.
    proved = replace(
        proved, members={name: replace(each, statements=()) for name, each in proved.members.items()}
    )
    assert verdict_with("list")[0] == "recommended"
    assert verdict_with("list", "report", "place")[0] == "not decided"


# --- Files and pages.

STATEMENT = TunedStatement(
    name="select-orders-1a2b",
    sql="SELECT * FROM orders WHERE note = $1 AND id > $2",
    parameters=(("it's\na \\ note", "5"), (None, "-7")),
    weight=12.5,
)


def test_the_statements_that_are_left_in_the_folder_can_be_given_again(tmp_path: Path) -> None:
    file = tmp_path / "statements.sql"
    file.write_text(statements_text((STATEMENT,), "db:5432/shop"))
    assert statements_of(parse_workload(f"sql:{file}")) == (STATEMENT,)
    ((given,),) = given_values(file).values()
    assert given == (STATEMENT.sql, STATEMENT.parameters)
    other = choose([row(1, "SELECT * FROM orders WHERE note = $1 AND id > $2", 1.0)], 1).chosen
    assert unmatched(given_values(file), other) == []
    assert unmatched(given_values(file), ()) == [STATEMENT.sql]


def test_values_without_a_set_are_refused_and_what_was_left_out_says_why(tmp_path: Path) -> None:
    left_out = (SourceLeftOut(name="q", sql="SELECT $1 -- end", share=0.25, reason="nothing\ntells"),)
    file = tmp_path / "left-out.sql"
    file.write_text(left_out_text(left_out, "db"))
    assert "-- 25 % of the time; left out: nothing tells" in file.read_text()
    with pytest.raises(UsageError, match="statement 1 has no line '-- parameters: …' above it"):
        given_values(file)
    file.write_text(file.read_text().replace("SELECT $1", "-- parameters: 4\nSELECT $1"))
    assert list(given_values(file).values()) == [(("SELECT $1 -- end", (("4",),)),)]
    file.write_text("-- parameters: 4\nSELECT $1;\n-- parameters: 5\nSELECT $1;\n")
    assert list(given_values(file).values()) == [(("SELECT $1", (("4",), ("5",))),)]


def test_each_length_of_a_list_gets_the_values_that_a_file_has_for_it(tmp_path: Path) -> None:
    file = tmp_path / "values.sql"
    two, three = (f"SELECT id FROM orders WHERE id IN ({members})" for members in ("$1, $2", "$1, $2, $3"))
    file.write_text(f"-- parameters: 4, 5\n{two};\n-- parameters: 6, 7, 8\n{three};\n")
    chosen = choose([row(1, two, 2.0), row(2, three, 1.0)], 2).chosen
    found = gather(source(), cast(ControlSession, None), chosen, given_values(file), ())
    assert [(each.sql, each.parameters) for each in found.statements] == [
        (two, (("4", "5"),)),
        (three, (("6", "7", "8"),)),
    ]


def test_a_statement_of_a_file_that_the_server_has_not_is_named_without_its_literals(tmp_path: Path) -> None:
    file = tmp_path / "values.sql"
    file.write_text(f"-- parameters: 4\nSELECT '{SECRET} {'x' * 200}' FROM orders WHERE id = $1;\n")
    assert unmatched(given_values(file), ()) == ["SELECT ? FROM orders WHERE id = $1"]


def test_the_page_says_what_is_known_of_the_source_and_hides_what_is_to_be_hidden() -> None:
    answer = samples.answer()
    told = TuneSource(
        name="db:5432/shop", version="17.4", since="2024-05-01", seconds=600.0, statements=40, share=0.75,
        left_out=(SourceLeftOut(name="q", sql="SELECT $1", share=0.1, reason="nothing tells"),),
        ignored={UTILITY: 3}, settings={"work_mem": "3MB"},
    )  # fmt: skip
    first, *rest = answer.symptom.statements
    first = first.model_copy(
        update={"source_ms": 2500.0, "source_share": 0.5, "unlike_source": f"by {samples.SECRET}"}
    )
    symptom = answer.symptom.model_copy(
        update={"source": told, "statements": (first, *rest), "copy_notes": (f"by {samples.SECRET}",)}
    )
    answer = answer.model_copy(update={"symptom": symptom})
    page = page_of(answer).markdown()
    for word in (
        "db:5432/shop",
        "40 statements since 2024-05-01",
        "3 utility statements",
        "2.500 s",
        "nothing tells",
    ):
        assert word in page
    assert "work\\_mem = 3MB" in page or "work_mem = 3MB" in page
    assert samples.SECRET not in page_of(redacted(answer)).markdown()
