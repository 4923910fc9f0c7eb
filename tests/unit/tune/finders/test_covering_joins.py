"""An index that a join is looked up in without visits to the heap: its columns, and when it is offered."""

import json

import pytest

from finder_samples import COLUMNS, ROWS, facts, index
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans
from pgassay.tune.candidate import Symptom, TunedStatement
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.finders.registry import find

SQL = "SELECT sum(t.b) FROM u JOIN t ON t.a = u.id"
BY_A = index("by_a", "a")
WIDER = tuple(COLUMNS[2].model_copy(update={"name": name}) for name in ("c", "d", "e"))


def joined(outer_rows: int = 20, kind: str = "Inner", ms: float = 20.0) -> ExplainedPlan:
    """u's rows joined to t, which is fully read for a hash."""

    def node(type_: str, rows: int, ms: float, **fields: object) -> dict[str, object]:
        return {
            "Node Type": type_, "Plan Rows": rows, "Plan Width": 12, "Startup Cost": 0, "Total Cost": 100,
            "Actual Rows": rows, "Actual Loops": 1, "Actual Startup Time": 0.1, "Actual Total Time": ms,
            **fields,
        }  # fmt: skip

    scan = node("Seq Scan", ROWS, 0.6 * ms, **{"Relation Name": "t", "Alias": "t", "Schema": "public"})
    built = node("Hash", ROWS, 0.8 * ms, Plans=[{**scan, "Parent Relationship": "Outer"}])
    outer = node("Seq Scan", outer_rows, 0.1, **{"Relation Name": "u", "Alias": "u", "Schema": "public"})
    inputs = [{**outer, "Parent Relationship": "Outer"}, {**built, "Parent Relationship": "Inner"}]
    both = node("Hash Join", outer_rows, ms, Plans=inputs)
    document = {**both, "Join Type": kind, "Hash Cond": "(u.id = t.a)"}
    return read_plans(json.dumps([{"Plan": document, "Execution Time": ms + 0.1}]), "made")[0]


def offered(known: SchemaFacts, sql: str = SQL, plan: ExplainedPlan | None = None) -> dict[str, float]:
    """The ids of the indexes that are offered, with the part of the statement's time that each leaves."""
    symptom = Symptom((TunedStatement(name="q", sql=sql),), {"q": (plan or joined(),)}, known, {"q": 1.0})
    return {each.id: each.predicted["q"] for each in find(symptom) if each.kind in ("join", "covering")}


def test_what_the_statement_reads_stands_beside_the_column_of_the_join() -> None:
    known = facts(BY_A, columns=(*COLUMNS, *WIDER))
    found = offered(known)
    assert set(found) == {"index:t(a) include(b)"}
    # The scan of all rows, the hash that was built of them, and the join: nearly all of the time goes.
    assert 0 < found["index:t(a) include(b)"] < 0.1
    assert set(offered(known, f"{SQL} WHERE t.d > t.c")) == {"index:t(a) include(b,c,d)"}


def test_the_plain_index_goes_before_and_one_that_is_there_is_not_offered_again() -> None:
    assert set(offered(facts())) == {"index:t(a)"}
    assert not offered(facts(BY_A, index("both", "a", included=("b",))))
    # Another order of the columns finds nothing by the join's.
    assert set(offered(facts(index("other", "b", "a")))) == {"index:t(a)"}


@pytest.mark.parametrize(
    "sql",
    ["SELECT t.* FROM u JOIN t ON t.a = u.id",
     "SELECT t FROM u JOIN t ON t.a = u.id",
     "SELECT sum(u.id) FROM u JOIN t ON t.a = u.id",
     "SELECT sum(t.b + t.c + t.d + t.e) FROM u JOIN t ON t.a = u.id",
     "UPDATE t SET b = u.id FROM u WHERE t.a = u.id",
     "not SQL at all"],
    ids=["all columns", "the row", "the key alone", "four columns", "the table is written", "no SQL"],
)  # fmt: skip
def test_nothing_is_offered_where_too_many_columns_are_read_or_none_beside_the_key(sql: str) -> None:
    assert not offered(facts(BY_A, columns=(*COLUMNS, *WIDER)), sql)


def test_nothing_is_offered_where_the_heap_is_visited_all_the_same_or_the_index_is_wide() -> None:
    assert offered(facts(BY_A, all_visible_pages=480))
    assert not offered(facts(BY_A, all_visible_pages=470))
    wide = tuple(each.model_copy(update={"width": 40}) if each.name == "b" else each for each in COLUMNS)
    assert not offered(facts(BY_A, columns=wide))


def test_nothing_is_offered_where_lookups_give_other_rows_or_take_longer_than_the_scan() -> None:
    known = facts(BY_A)
    assert not offered(known, plan=joined(kind="Right"))
    assert offered(known, plan=joined(kind="Left"))
    few, many = (offered(known, plan=joined(outer_rows=rows)) for rows in (20, 2000))
    assert sum(few.values()) < sum(many.values()) < 1
    assert not offered(known, plan=joined(outer_rows=ROWS))
