"""Indexes that may go: never the last one that serves, nor one that something rests on."""

import json

import pytest

from finder_samples import facts, index, plan, symptom
from pgassay.plans.explain_plan import read_plans
from pgassay.tune.answer.scripts import apply_script
from pgassay.tune.facts.schema import ConstraintFacts, IndexFacts, IndexKey, SchemaFacts
from pgassay.tune.finders.registry import find

READ = plan(ms=0.1)


def dropped(known: SchemaFacts) -> list[str]:
    return [each.id.removeprefix("drop-index:public.") for each in find(symptom(READ, known=known))]


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        # The planner took one of two that are alike: the other was never scanned.
        ((index("one", "b", scans=0), index("two", "b", scans=9000)), ["two"]),
        ((index("short", "b", scans=900), index("long", "b", "a", scans=0)), ["short"]),
        ((index("one", "b", scans=0), index("two", "b", scans=0)), ["two"]),
        ((index("x", "b", scans=0), index("y", "b", scans=0), index("z", "b", "a", scans=0)), ["x", "y"]),
        ((index("idle", "b", scans=0), index("busy", "a", scans=9)), ["idle"]),
    ],
)
def test_what_another_index_is_needless_beside_stays(
    indexes: tuple[IndexFacts, ...], expected: list[str]
) -> None:
    assert sorted(dropped(facts(*indexes, sequential_scans=500))) == expected


def test_an_index_for_a_foreign_key_stays_though_nothing_was_deleted_yet() -> None:
    key = ConstraintFacts(name="f", kind="foreign", columns=("b",), referenced_table="u")
    for constraints, expected in (((key,), []), ((), ["idle"])):
        known = facts(index("idle", "b", "a", scans=0), sequential_scans=500, constraints=constraints)
        assert dropped(known) == expected


def test_the_index_that_cluster_goes_by_stays() -> None:
    assert dropped(facts(index("idle", "b", scans=0, clustered=True), sequential_scans=500)) == []
    assert dropped(facts(index("one", "b"), index("two", "b", clustered=True))) == ["one"]


def test_an_index_of_a_partitioned_table_is_made_again_for_all_of_it() -> None:
    """The catalog tells it as one ON ONLY that table, which no partition has and no query uses."""
    two = index("two", "b", definition='CREATE INDEX "two" ON ONLY public.t USING btree (b)')
    (found,) = find(symptom(READ, known=facts(index("one", "b"), two, kind="partitioned")))
    assert found.undo == ("CREATE INDEX two ON public.t (b)",)


@pytest.mark.parametrize(
    ("days", "tried"), [(400.0, True), (31.0, True), (6.0, False), (0.2, False), (None, False)]
)
def test_never_scanned_is_told_and_not_tried_before_a_month_was_counted(
    days: float | None, tried: bool
) -> None:
    known = facts(index("idle", "b", scans=0), sequential_scans=500).model_copy(update={"counted_days": days})
    (found,) = find(symptom(READ, known=known))
    assert found.described is not tried and bool(found.why_not) is not tried
    assert "scans on standbys are counted there: check on each with SELECT idx_scan FROM" in found.reason
    assert "AND schemaname = 'public'" in found.reason


def test_standbys_that_the_server_knows_are_named() -> None:
    known = facts(index("idle", "b", scans=0), sequential_scans=500)
    copied = known.counted_by(known.model_copy(update={"standbys": ("reports", "of slot spare")}))
    (found,) = find(symptom(READ, known=copied))
    assert "scans on standbys (reports and of slot spare) are counted there" in found.reason


def test_what_was_scanned_last_long_ago_may_go_and_what_was_lately_may_not() -> None:
    for last, expected in ((100.0, ["idle"]), (20.0, []), (None, [])):
        known = facts(index("idle", "b", scans=7, last_scan_days=last), sequential_scans=500)
        assert dropped(known) == expected


def test_an_index_on_an_expression_stays_since_its_values_are_counted_for_plans() -> None:
    keys = (IndexKey(column=None, expression="lower(a)", opclass="text_ops"),)
    assert (
        dropped(facts(index("idle", scans=0).model_copy(update={"keys": keys}), sequential_scans=500)) == []
    )


def test_the_script_says_why_it_goes_and_how_it_comes_back() -> None:
    definition = "CREATE INDEX idle ON public.t USING btree (b)"
    (found,) = find(
        symptom(READ, known=facts(index("idle", "b", scans=0, definition=definition), sequential_scans=500))
    )
    script = apply_script([found], None)
    assert f"-- {found.reason}" in script and f"-- To undo it: {definition}" in script
    # What pg_get_indexdef does not tell, nobody can make again.
    assert "\n-- It comes back in the default tablespace and without its comment" in script


def test_what_is_written_is_the_table_of_that_schema() -> None:
    """Another schema may have one of the same name, with indexes too small to be dropped for their size."""
    node = {
        "Node Type": "ModifyTable", "Operation": "Insert", "Relation Name": "t", "Schema": "public",
        "Alias": "t", "Plan Rows": 0, "Plan Width": 0, "Startup Cost": 0, "Total Cost": 100,
        "Actual Rows": 0, "Actual Loops": 1, "Actual Startup Time": 50, "Actual Total Time": 50,
    }  # fmt: skip
    read = read_plans(json.dumps([{"Plan": node, "Planning Time": 0.1, "Execution Time": 50.1}]), "made")[0]
    mine = facts(index("one", "b", bytes=8192), index("two", "b", bytes=8192)).tables[0]
    indexes = tuple(each.model_copy(update={"schema_": "other"}) for each in mine.indexes)
    other = mine.model_copy(update={"schema_": "other", "indexes": indexes})
    known = facts().model_copy(update={"tables": (mine, other)})
    assert [each.id for each in find(symptom(read, known=known))] == ["drop-index:public.two"]


def test_what_several_schemas_have_is_told_apart() -> None:
    """With a schema for each tenant all of them have an index of that name."""
    names = []
    for schema in ("public", "tenant_1"):
        twice = [
            index(name, "a", schema_=schema, definition="CREATE INDEX x ON t (a)") for name in ("x", "y")
        ]
        found = find(symptom(plan(), known=facts(*twice, schema_=schema)))
        names += [each.title for each in found if each.kind == "unneeded-index"]
    assert names == ["Drop the index y (duplicate)", "Drop the index tenant_1.y (duplicate)"]
