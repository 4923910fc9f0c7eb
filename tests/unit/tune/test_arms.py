"""Which arms a proof in one server has: by what the planner says of each set of fixes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tune_samples as samples
from pgassay.model.build import Build
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.tune.candidate import Candidate
from pgassay.tune.copy import TrialCopy
from pgassay.tune.proof.proof_arms import AS_IT_IS, CHOSEN, SharedArms, shared_arms
from pgassay.tune.running.in_time import arms_in_time
from pgassay.tune.search.selection import Baseline, Tried
from pgassay.tune.switchable import indexes_of, is_switchable

STATEMENTS = tuple(each.name for each in samples.BASELINE.statements)
# By the statement the fixes that can serve it, the best first: its plan is by the first that is there.
Serving = Mapping[str, Sequence[str]]


class _Plan:
    """A plan that is told apart by the fix it is by."""

    def __init__(self, shape: str) -> None:
        self.shape, self.cost_total = shape, 1.0


class _Copy:
    """A planner that takes the best fix that is there, in the place of a server's: its choices are drawn."""

    def __init__(self, serving: Serving) -> None:
        self.serving, self.there = serving, frozenset[str]()

    def align(self, fixes: Sequence[Candidate]) -> None:
        self.there = frozenset(each.id for each in fixes)

    def estimate(self, _sql: str, name: str) -> ExplainedPlan:
        by = next((fix for fix in self.serving.get(name, ()) if fix in self.there), "")
        return cast(ExplainedPlan, _Plan(by))


def index(name: str) -> Candidate:
    sql = f'CREATE INDEX "{name}" ON public.orders (a)'
    return samples.candidate(name).model_copy(
        update={"id": name, "sql": (sql,), "settings": {}, "rewrites": ()}
    )


def arms(serving: Serving, names: Sequence[str]) -> SharedArms:
    copy = cast(TrialCopy, _Copy(serving))
    reading = tuple(
        replace(each, of=each.of.model_copy(update={"writes": False})) for each in samples.BASELINE.statements
    )
    baseline = Baseline(reading, samples.BASELINE.seconds, {})
    return shared_arms(samples.search_run(copy, baseline), [index(name) for name in names], None)


def test_fixes_of_statements_of_their_own_take_two_arms() -> None:
    found = arms({"list": ["a"], "report": ["b"], "place": ["c"]}, ["a", "b", "c"])
    assert found.left_out == {CHOSEN: (), AS_IT_IS: ("a", "b", "c")}
    assert found.told_by == dict.fromkeys("abc", AS_IT_IS)
    assert found.touched == {"a": ("list",), "b": ("report",), "c": ("place",)}


def test_one_that_hides_another_is_left_out_in_an_arm_of_its_own() -> None:
    # Without b the list falls back to a, which nothing else needs: the workload as it is tells too much.
    found = arms({"list": ["b", "a"], "report": ["a"]}, ["a", "b"])
    assert found.told_by == {"a": AS_IT_IS, "b": "without b"}
    assert found.left_out["without b"] == ("b",)


def test_a_write_that_maintains_an_index_is_its_cost_and_not_what_it_is_for() -> None:
    made = index("a").model_copy(update={"sql": ('CREATE INDEX "a" ON t (lower(b))', "ANALYZE t")})
    copy = cast(TrialCopy, _Copy({"list": ["a"]}))
    tried = {"a": Tried("a", {"list": 0.1, "place": 0.11})}
    assert samples.BASELINE.statements[2].of.writes
    found = shared_arms(samples.search_run(copy, tried=tried), [made], None)
    assert (found.touched, found.written) == ({"a": ("list",)}, {"a": ("place",)})


@pytest.mark.parametrize("names", [["key"], ["key", "a"], ["a", "key"]])
def test_an_index_that_a_constraints_trigger_uses_is_in_no_plan_and_is_needed(names: list[str]) -> None:
    copy = cast(TrialCopy, _Copy({"list": ["a"]}))
    key = index("key").model_copy(update={"statements": ("place",)})
    tried = {"key": Tried("key", {"place": 0.001}), "a": Tried("a", {"list": 0.01, "place": 0.11})}
    members = [{"key": key, "a": index("a")}[name] for name in names]
    found = shared_arms(samples.search_run(copy, tried=tried), members, None)
    assert found.touched == {name: {"key": ("place",), "a": ("list",)}[name] for name in names}
    assert found.unused == ()
    assert found.told_by == dict.fromkeys(names, AS_IT_IS)


def test_two_that_a_trigger_may_use_are_told_by_arms_of_their_own() -> None:
    copy = cast(TrialCopy, _Copy({}))
    members = [index(name).model_copy(update={"statements": ("place",)}) for name in "ab"]
    tried = {name: Tried(name, {"place": 0.001}) for name in "ab"}
    found = shared_arms(samples.search_run(copy, tried=tried), members, None)
    assert found.told_by == {"a": "without a", "b": "without b"}


@pytest.mark.parametrize(
    ("serving", "place_s", "statements"),
    [
        # Another one serves the write as well, and better.
        ({"place": ["b", "key"]}, 0.001, ("place",)),
        # So little may be chance.
        ({"place": ["b"]}, 0.08, ("place",)),
        # Nothing says that it is for that write.
        ({"place": ["b"]}, 0.001, ("list",)),
    ],
)
def test_a_write_that_was_seen_faster_does_not_keep_an_index_that_plans_pass_over(
    serving: Serving, place_s: float, statements: tuple[str, ...]
) -> None:
    key = index("key").model_copy(update={"statements": statements})
    tried = {"key": Tried("key", {"place": place_s}), "b": Tried("b", {"place": 0.001})}
    run = samples.search_run(cast(TrialCopy, _Copy(serving)), tried=tried)
    assert shared_arms(run, [key, index("b")], None).unused == ("key",)


def test_a_write_that_another_fix_left_out_beside_it_helps_is_not_credited_to_both() -> None:
    """An arm leaves out one member of each group: what the others did to a write is theirs."""
    found = SharedArms(
        left_out={CHOSEN: (), AS_IT_IS: ("a", "b", "c"), "without a, b": ("a", "b")},
        told_by={"a": "without a, b", "b": "without a, b", "c": AS_IT_IS},
        touched={"a": ("list",), "b": ("place",), "c": ("report",)},
        written={"a": ("place", "add"), "b": ("add",), "c": ("place", "add")},
    )
    assert found.of("a") == ("list", "add")
    assert found.of("b") == ("place", "add")
    # The workload as it is is without all of them.
    assert found.of("c") == ("report", "add")
    alone = found.model_copy(update={"left_out": {**found.left_out, "without a, b": ("a",)}})
    assert alone.of("a") == ("list", "place", "add")


def test_what_no_plan_needs_is_no_member_but_one_of_two_alike_stays() -> None:
    found = arms({"list": ["a", "b"]}, ["a", "b"])
    assert found.unused == ("b",) and list(found.touched) == ["a"]
    assert found.left_out == {CHOSEN: (), AS_IT_IS: ("a",)}


@given(st.dictionaries(st.sampled_from(STATEMENTS), st.permutations("abcd"), min_size=1))
def test_every_arm_tells_of_its_members_what_an_arm_without_each_alone_would(serving: Serving) -> None:
    found = arms(serving, "abcd")
    members = list(found.touched)
    assert {*members, *found.unused} == {*"abcd"} and found.left_out[CHOSEN] == ()

    def plan(statement: str, left_out: Sequence[str]) -> str:
        return next((fix for fix in serving.get(statement, ()) if fix in members and fix not in left_out), "")

    for name, arm in found.told_by.items():
        assert found.touched[name]
        for statement in found.touched[name]:
            assert plan(statement, found.left_out[arm]) == plan(statement, [name])
    # Every statement that the set changes has a member that is told to change it.
    changed = {each for each in STATEMENTS if plan(each, []) != plan(each, members)}
    assert changed == {each for touched in found.touched.values() for each in touched}


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        (("CREATE INDEX i ON public.t (a)",), ('public."i"',)),
        (('CREATE INDEX "I""x" ON s.t (a)', "ANALYZE s.t"), ('"s"."I""x"',)),
        (
            ("CREATE EXTENSION IF NOT EXISTS pg_trgm", "CREATE INDEX i ON t USING gin (a gin_trgm_ops)"),
            ('"i"',),
        ),
        (("CREATE UNIQUE INDEX i ON t (a)",), None),
        (("CREATE INDEX ON t (a)",), None),
        (("CREATE STATISTICS s ON a, b FROM t", "ANALYZE t"), None),
        (("VACUUM t",), None),
        (("nonsense",), None),
        ((), ()),
    ],
)
def test_what_is_nothing_but_indexes_can_be_hidden(
    sql: tuple[str, ...], names: tuple[str, ...] | None
) -> None:
    found = indexes_of(samples.candidate("x").model_copy(update={"sql": sql}))
    assert found == (
        names if names is None else tuple(each.replace("public.", '"public".') for each in names)
    )


@pytest.mark.parametrize(
    ("sql", "is_one"),
    [(("CREATE INDEX i ON t (a)",), True), (("ANALYZE t",), False), (("CREATE EXTENSION pg_trgm",), False)],
)
def test_what_leaves_nothing_to_hide_needs_data_of_its_own(
    sql: tuple[str, ...], is_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one copy for all arms, those without an ANALYZE would have its statistics as well."""
    monkeypatch.setattr("pgassay.tune.switchable.build_settings", lambda _build: {})
    build = Build(origin="apt", version="18.4", major=18, bin_directory="/nowhere")
    plain = {"sql": sql, "settings": {}, "build": None, "storage": None, "restart": False}
    assert is_switchable(samples.candidate("x").model_copy(update=plain), build) is is_one


@pytest.mark.parametrize(
    ("left_s", "told", "cut"),
    [(1e6, {"a", "b"}, {}), (60.0, {"a"}, {"b": 10.0}), (0.0, {"a"}, {"b": 10.0})],
)
def test_one_slow_statement_leaves_no_other_unproven(
    left_s: float, told: set[str], cut: dict[str, float]
) -> None:
    copy = cast(TrialCopy, _Copy({"list": ["a"], "report": ["b"]}))
    copy.opened_s = 1.0
    before, after = (
        {"list": 0.01, "report": 100.0, "place": 0.01},
        {"list": 0.001, "report": 10.0, "place": 0.01},
    )
    baseline = replace(samples.BASELINE, seconds=before)
    members = [index("a"), index("b")]
    found = arms_in_time(samples.search_run(copy, baseline), after, members, None, left_s)
    assert found.shared.told_by.keys() == told
    assert found.cut == pytest.approx(cut)
    assert found.whole_block_s > 100


def test_a_write_that_tells_what_a_fix_costs_is_not_left_out_for_lack_of_time() -> None:
    copy = cast(TrialCopy, _Copy({"list": ["a"]}))
    copy.opened_s = 1.0
    baseline = replace(samples.BASELINE, seconds={"list": 1.0, "report": 0.1, "place": 50.0})
    made = index("a").model_copy(update={"sql": ('CREATE INDEX "a" ON t (lower(b))', "ANALYZE t")})
    after = {"list": 0.001, "report": 0.1, "place": 50.0}
    found = arms_in_time(samples.search_run(copy, baseline), after, [made], None, 0.0)
    assert found.shared.statements == {"list", "place"} and not found.cut
