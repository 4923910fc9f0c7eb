"""What finders offer with the chosen set in place: what may be added to it, and what it makes superfluous."""

import pytest

import tune_samples as samples
from finder_samples import facts, plan
from pgassay.tune.candidate import Candidate
from pgassay.tune.finders.evidence.sql_text import SqlText
from pgassay.tune.search.finders_again import found_with, may_be_added, unused, written
from pgassay.tune.search.planner_screen import index_made_by
from pgassay.tune.search.selection import Tried


def making(sql: str, **changes: object) -> Candidate:
    return samples.candidate("made", sql=(sql,), **changes)


def reading(index: str) -> object:
    read = plan()
    return read.model_copy(update={"nodes": (read.nodes[0].model_copy(update={"index": index}),)})


def test_an_index_that_no_plan_uses_any_more_is_superfluous() -> None:
    plain = making("CREATE INDEX plain ON t (a)")
    covering = samples.candidate("covering", sql=('CREATE INDEX "co vering" ON t (a) INCLUDE (b)',))
    setting = samples.candidate("cost", sql=(), undo=(), settings={"random_page_cost": "1.1"})
    taken = [plain, covering, setting]
    assert unused(taken, [reading("co vering")], ()) == (plain.id,)  # type: ignore[list-item]
    assert unused(taken, [reading("plain"), reading("co vering")], ()) == ()  # type: ignore[list-item]
    assert unused(taken, [reading("co vering")], {plain.id}) == ()  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("candidate", "name"),
    [
        (making("CREATE INDEX made ON t (a)"), "made"),
        (samples.candidate("two", sql=("CREATE INDEX made ON t (lower(a))", "ANALYZE t")), None),
        (making("VACUUM FULL t"), None),
        (making("CREATE INDEX made ON t (a)", settings={"work_mem": "1GB"}), None),
    ],
    ids=["index", "index-and-statistics", "no-index", "index-and-setting"],
)
def test_only_what_is_an_index_alone_is_known_by_its_plans(candidate: Candidate, name: str | None) -> None:
    assert index_made_by(candidate) == name


def test_an_index_that_only_a_constraints_check_uses_stays() -> None:
    """The check of a foreign key is in no plan; `place` is the statement that writes."""
    tried = {
        "for-a-check": Tried("for-a-check", {"place": 0.05}),
        "for-a-query": Tried("for-a-query", {"list": 0.1, "place": 0.09}),
        "slows": Tried("slows", {"place": 0.2}),
    }
    assert written(samples.search_run(tried=tried)) == {"for-a-check"}


@pytest.mark.parametrize(
    ("changes", "may"),
    [
        ({}, True),
        ({"settings": {"work_mem": "1GB"}}, True),
        ({"settings": {"random_page_cost": "2"}}, False),
        ({"kind": "unneeded-index"}, False),
        ({"kind": "partitioning"}, False),
        ({"physical": True}, False),
        ({"described": True}, False),
        ({"why_not": "it can't be tried"}, False),
    ],
    ids=lambda each: str(each),
)
def test_what_can_not_be_applied_after_the_chosen_set_is_not_offered_with_it(
    changes: dict[str, object], *, may: bool
) -> None:
    taken = [samples.candidate("cost", settings={"random_page_cost": "1.1"})]
    assert may_be_added(samples.candidate("new", **changes), taken) is may


def test_a_reason_says_what_was_in_place() -> None:
    near, far = samples.candidate("near"), samples.candidate("far", statements=("report",))
    found = found_with(samples.candidate("new", reason="read often"), [near, far])
    assert found.reason == "with index near: read often"
    found = found_with(samples.candidate("new", reason="read often", statements=("place",)), [near, far])
    assert found.reason == "with index near; index far: read often"


@pytest.mark.parametrize(
    ("sql", "levels"),
    [
        ("SELECT b FROM t WHERE a = 1", [{"a", "b"}]),
        (
            "SELECT sum(t.b) FROM t WHERE t.id < (SELECT avg(t.id) FROM t WHERE t.a = 3)",
            [{"a", "id"}, {"b", "id"}],
        ),
        (
            "SELECT o.b FROM t o WHERE EXISTS (SELECT FROM t i WHERE i.a = o.id)",
            [{"a"}, {"b", "id"}],
        ),
        ("SELECT a FROM t WHERE EXISTS (SELECT FROM u WHERE u.x = t.id AND b = 3)", [{"a", "b", "id"}]),
        ("SELECT x.a FROM (SELECT a FROM t JOIN u ON u.y = t.b) AS x", [{"a", "b"}]),
        ("SELECT t.b FROM t JOIN u USING (a)", [{"a", "b"}]),
        ("SELECT x.b FROM (SELECT t.b FROM t JOIN u USING (id)) x JOIN v USING (b)", [{"b", "id"}]),
        ("SELECT t.b FROM t NATURAL JOIN u", []),
        ("SELECT o FROM t o WHERE o.a = 3", []),
        ("SELECT row_to_json(t) FROM t WHERE a = 3", []),
        ("SELECT * FROM t", []),
        ("no SQL", []),
    ],
)
def test_each_level_of_a_query_has_the_columns_that_it_takes(sql: str, levels: list[set[str]]) -> None:
    table = facts().tables[0]
    assert {frozenset(each) for each in levels} == SqlText(sql).columns_of_levels(table)


def test_all_columns_are_read_where_a_row_or_a_natural_join_takes_them() -> None:
    table = facts().tables[0]
    assert SqlText("SELECT t.b FROM t JOIN u USING (a)").columns_read(table, "t") == {"a", "b"}
    for sql in (
        "SELECT o FROM t o WHERE o.a = 3",
        "SELECT row_to_json(t) FROM t WHERE a = 3",
        "SELECT t.b FROM t NATURAL JOIN u",
    ):
        assert SqlText(sql).columns_read(table, "o" if " t o " in sql else "t") is None, sql
    # A column of that name is meant before the row.
    assert SqlText("SELECT a FROM t a").columns_read(table, "a") == {"a"}
