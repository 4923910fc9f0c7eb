"""Forward selection with made-up measures: what is taken, in which order, and what is said of the rest.

And what a candidate touches by its plans alone, which decides what is measured.
"""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tune_samples as samples
from finder_samples import plan
from pgassay.tune.candidate import StatementRewrite, TunedStatement
from pgassay.tune.search.forward import select
from pgassay.tune.search.planner_screen import differs, is_planner_setting, is_told_by_plan, set_beside
from pgassay.tune.search.proof_time import proof_trials_s, provable
from pgassay.tune.search.selection import (
    STOPPED_S_MIN,
    STOPPED_TIMES,
    FixSelection,
    Seconds,
    Tried,
    gain_of,
    is_longer,
    longest_s,
    total_s,
)
from pgassay.tune.tuned_statements import measured

WEIGHTS = {"a": 1.0, "b": 1.0, "c": 1.0}
BASE = {"a": 1.0, "b": 1.0, "c": 2.0}


def never(taken: Sequence[str], name: str, _current: Seconds) -> Seconds | None:
    raise AssertionError(f"{name} on top of {taken} touches nothing that was changed")


def test_what_gains_most_is_taken_first_and_what_gains_too_little_is_not() -> None:
    tried = [Tried("small", {"a": 0.99}), Tried("good", {"b": 0.1}), Tried("best", {"c": 0.1})]
    selection = select(WEIGHTS, BASE, tried, never, gain_min=1.03, members_max=5)
    assert selection.ids == ("best", "good")
    assert [step.total_s for step in selection.steps] == pytest.approx([2.1, 1.2])
    assert selection.beside == {"small": pytest.approx(1.2 / 1.19)}


def test_what_helps_the_same_statement_is_measured_again_on_top() -> None:
    asked = []

    def measure(taken: Sequence[str], name: str, _current: Seconds) -> Seconds | None:
        asked.append((tuple(taken), name))
        return {"c": 0.1}

    tried = [Tried("one", {"c": 0.1}), Tried("other", {"c": 0.11})]
    selection = select(WEIGHTS, BASE, tried, measure, gain_min=1.03, members_max=5)
    assert selection.ids == ("one",)
    assert asked == [(("one",), "other")]
    assert selection.beside == {"other": pytest.approx(1.0)}


def test_two_that_only_help_together_with_a_third_are_found_on_top_of_it() -> None:
    """A candidate may gain more on top of another than alone."""

    def measure(_taken: Sequence[str], _name: str, _current: Seconds) -> Seconds | None:
        return {"c": 0.1}

    tried = [Tried("first", {"c": 1.0}), Tried("second", {"c": 1.9})]
    selection = select(WEIGHTS, BASE, tried, measure, gain_min=1.03, members_max=5)
    assert selection.ids == ("first", "second")


def test_what_is_not_expected_to_gain_most_is_not_measured_again() -> None:
    """Each of three is expected to gain as many times as before on top of the best, and the second does."""
    asked = []

    def measure(taken: Sequence[str], name: str, current: Seconds) -> Seconds | None:
        asked.append((tuple(taken), name))
        return {"c": current["c"] * {"half": 0.5, "third": 0.97}[name]}

    tried = [Tried("best", {"c": 0.4}), Tried("half", {"c": 1.0}), Tried("third", {"c": 1.9})]
    selection = select(WEIGHTS, BASE, tried, measure, gain_min=1.03, members_max=2)
    assert selection.ids == ("best", "half") and asked == [(("best",), "half")]


def test_a_setting_that_changed_nothing_alone_is_looked_at_on_top_of_each_that_is_taken() -> None:
    """And what an index gains once that is taken, though it touched nothing on top of those before."""

    def measure(taken: Sequence[str], name: str, _current: Seconds) -> Seconds | None:
        if name == "setting":
            return {"c": 0.1} if "index" in taken else {}
        assert name == "second"
        return {"b": 0.1} if "setting" in taken else {}

    tried = [Tried("setting"), Tried("index", {"a": 0.1}), Tried("second", {"a": 0.9})]
    selection = select(WEIGHTS, BASE, tried, measure, gain_min=1.03, members_max=5, anew={"setting"})
    assert selection.ids == ("index", "setting", "second")
    # Without that word it is never asked: it touches nothing of what was taken.
    assert select(WEIGHTS, BASE, tried, measure, gain_min=1.03, members_max=5).ids == ("index",)


def test_what_slows_another_statement_is_weighed_and_an_endless_one_is_never_taken() -> None:
    tried = [Tried("harm", {"a": 0.1, "b": 3.0}), Tried("endless", {"c": math.inf})]
    selection = select(WEIGHTS, BASE, tried, never, gain_min=1.03, members_max=5)
    assert selection.ids == ()
    assert selection.beside == {"harm": pytest.approx(4.0 / 5.1), "endless": 0.0}


def test_what_could_not_be_tried_is_left_out_and_no_more_are_taken_than_can_be_proved() -> None:
    tried = [Tried("refused", refused="it failed"), Tried("one", {"a": 0.1}), Tried("two", {"b": 0.1})]
    selection = select(WEIGHTS, BASE, tried, never, gain_min=1.03, members_max=1)
    assert selection.ids == ("one",)
    assert set(selection.beside) == {"two"}


def test_a_statement_that_runs_more_often_weighs_more() -> None:
    often = {"a": 10.0, "b": 1.0, "c": 1.0}
    assert gain_of(often, BASE, {"a": 0.5}) == pytest.approx(13 / 8)
    assert total_s(often, BASE) == pytest.approx(13)


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), st.floats(0.01, 10), min_size=1, max_size=3), max_size=6)
)
def test_every_step_gains_and_nothing_is_lost(fixes: list[dict[str, float]]) -> None:
    tried = [Tried(str(number), touched) for number, touched in enumerate(fixes)]
    touched_by = {each.id: each.seconds for each in tried}
    selection = select(
        WEIGHTS, BASE, tried, lambda _taken, name, _current: touched_by[name], gain_min=1.03, members_max=9
    )
    before = total_s(WEIGHTS, BASE)
    for step in selection.steps:
        assert before / step.total_s >= 1.03 * (1 - 1e-9)
        before = step.total_s
    assert {*selection.ids, *selection.beside} == set(touched_by)


def test_of_two_that_gain_about_as_much_for_the_same_statements_another_word_decides() -> None:
    asked: list[tuple[str, ...]] = []

    def pick(_taken: Sequence[str], names: Sequence[str], _current: Seconds) -> str:
        asked.append(tuple(names))
        return names[-1]

    tried = [Tried("best", {"c": 0.1}), Tried("alike", {"c": 0.2}), Tried("less", {"c": 1.5})]
    selection = select(
        WEIGHTS,
        BASE,
        tried,
        lambda _taken, _name, _current: {"c": 0.2},
        gain_min=1.03,
        members_max=5,
        pick=pick,
    )
    # 'less' saves too little for that, and another statement's fix is no other answer to the same question.
    assert asked == [("best", "alike")]
    assert selection.ids == ("alike",)
    elsewhere = [Tried("one", {"a": 0.1}), Tried("other", {"b": 0.1})]
    assert select(
        WEIGHTS, BASE, elsewhere, never, gain_min=1.03, members_max=5, pick=pick
    ).ids == ("one", "other")  # fmt: skip
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("told", "ids", "beside"), [(True, 2, None), (False, 1, 1.0), (None, 1, pytest.approx(2.2 / 2.0))]
)
def test_a_small_gain_on_top_of_a_fix_for_the_same_statement_must_be_told_from_the_noise(
    told: bool | None, ids: int, beside: object
) -> None:
    tried = [Tried("one", {"c": 0.2}), Tried("same", {"c": 0.3, "b": 0.9})]
    asked = []

    def holds(taken: Sequence[str], name: str, current: Seconds) -> bool | None:
        asked.append((tuple(taken), name, current["c"]))
        return told

    selection = select(
        WEIGHTS,
        BASE,
        tried,
        lambda _taken, _name, _current: {"c": 0.0},
        gain_min=1.03,
        members_max=5,
        holds=holds,
    )
    assert asked == [(("one",), "same", 0.2)]
    assert len(selection.ids) == ids
    assert selection.beside.get("same") == beside


def test_rounds_tell_only_where_each_is_longer_and_the_medians_are_apart() -> None:
    assert is_longer((1.1, 1.2, 1.3, 1.15), (1.0, 0.9, 1.05, 1.0), 1 / 1.03)
    assert not is_longer((1.1, 1.2, 1.3, 1.04), (1.0, 0.9, 1.05, 1.0), 1 / 1.03)
    assert not is_longer((1.02, 1.02, 1.02, 1.02), (1.0, 1.0, 1.0, 1.0), 1 / 1.03)
    assert not is_longer((2.0, 2.0), (1.0, 1.0), 1 / 1.03)


def test_a_proof_of_fewer_leaves_the_last_ones_out_and_says_what_they_gained() -> None:
    tried = [Tried("best", {"c": 0.1}), Tried("good", {"b": 0.1}), Tried("small", {"a": 0.9})]
    selection = select(WEIGHTS, BASE, tried, never, gain_min=1.03, members_max=5)
    assert selection.ids == ("best", "good", "small")
    # Chosen, twin, as it is, and the set without each: that loses what the one gained.
    assert proof_trials_s(selection, BASE, 3, {}) == pytest.approx([1.1, 1.1, 4.0, 3.0, 2.0, 1.2])
    assert proof_trials_s(selection, BASE, 1, {}) == pytest.approx([2.1, 2.1, 4.0])
    fewer = selection.first(2, 4.0)
    assert fewer.ids == ("best", "good")
    assert fewer.beside == {"small": pytest.approx(1.2 / 1.1)}
    assert selection.first(3, 4.0) == selection
    # Six blocks of six arms take 6 × (6 × 3 + 2 × 12.4) s, of five arms 6 × (5 × 3 + 2 × 10.6) s.
    assert provable(selection, WEIGHTS, BASE, 258.0).ids == ("best", "good", "small")
    assert provable(selection, WEIGHTS, BASE, 250.0).ids == ("best", "good")
    assert provable(selection, WEIGHTS, BASE, 1.0).ids == ("best",)
    # A weight makes no trial longer.
    often = dict.fromkeys(WEIGHTS, 100.0)
    assert provable(selection, often, BASE, 258.0).ids == ("best", "good", "small")
    assert provable(FixSelection(), WEIGHTS, BASE, 1.0).ids == ()


def test_fixes_that_slow_the_same_writes_are_no_fixes_for_the_same_statements() -> None:
    """Each index slows the write 'c' a little; 'a' and 'b' gain by one each: nothing is asked again."""

    def never_asked(*_words: object) -> bool:
        raise AssertionError("it was asked")

    def pick(_taken: Sequence[str], names: Sequence[str], _current: Seconds) -> str:
        raise AssertionError(f"{names} are compared")

    seconds = {"one": {"a": 0.5, "c": 1.02}, "other": {"b": 0.5, "c": 1.02}}
    selection = select(
        WEIGHTS,
        {"a": 1.0, "b": 1.0, "c": 1.0},
        [Tried(name, touched) for name, touched in seconds.items()],
        lambda _taken, name, _current: seconds[name],
        gain_min=1.03,
        members_max=5,
        pick=pick,
        holds=never_asked,
    )
    assert set(selection.ids) == {"one", "other"}


@pytest.mark.parametrize(
    ("settings", "sql", "is_setting", "is_told"),
    [
        ({"random_page_cost": "1.1", "effective_cache_size": "6GB"}, (), True, True),
        # What memory there is decides how a plan is executed, too.
        ({"random_page_cost": "1.1", "work_mem": "64MB"}, (), False, False),
        ({}, ("CREATE INDEX i ON t (a)", "create unique index j ON t (b)"), False, True),
        ({}, ("CREATE INDEX i ON t (a)", "VACUUM t"), False, False),
        ({"random_page_cost": "1.1"}, ("CREATE INDEX i ON t (a)",), False, True),
        ({"work_mem": "64MB"}, ("CREATE INDEX i ON t (a)",), False, False),
        ({}, (), False, False),
    ],
)
def test_an_index_and_the_planners_costs_change_nothing_but_plans(
    settings: dict[str, str], sql: tuple[str, ...], *, is_setting: bool, is_told: bool
) -> None:
    made = samples.candidate("one", settings=settings, sql=sql)
    assert (is_planner_setting(made), is_told_by_plan(made)) == (is_setting, is_told)


def test_a_rewrite_is_not_told_by_its_plan() -> None:
    other = StatementRewrite(statement="list", sql="SELECT 1", condition="why", proof="proven")
    made = samples.candidate("one", sql=(), rewrites=(other,), settings={"random_page_cost": "1.1"})
    assert not is_planner_setting(made) and not is_told_by_plan(made)


def test_plans_differ_by_their_nodes_and_their_cost() -> None:
    whole = plan()
    (node,) = whole.nodes
    dearer = whole.model_copy(update={"nodes": (node.model_copy(update={"cost_total": 102.0}),)})
    hardly = whole.model_copy(update={"nodes": (node.model_copy(update={"cost_total": 100.5}),)})
    by_index = whole.model_copy(update={"nodes": (node.model_copy(update={"index": "i"}),)})
    assert differs(whole, by_index, by_cost=False)
    assert differs(whole, dearer, by_cost=True) and not differs(whole, dearer, by_cost=False)
    assert not differs(whole, hardly, by_cost=True)


@pytest.mark.parametrize(
    ("with_s", "now_s", "beside_s"),
    [(0.9, 2.0, 0.45), (0.9, math.inf, 0.9), (0.9, 0.0, 0.9), (0.1, 2.0, 0.1)],
    ids=["slower now", "stopped", "nothing", "changed much"],
)
def test_seconds_are_set_beside_those_of_now(with_s: float, now_s: float, beside_s: float) -> None:
    class Now:
        """Stands in for the copy: what the statement takes now without the fix."""

        def seconds(self, _statement: object, _sql: str, *, usual_s: float, limit_s: float) -> float:
            assert usual_s > 1.0 and limit_s == math.inf
            return now_s

    (statement,) = measured([TunedStatement(name="q", sql="SELECT 1")])
    found = set_beside(
        Now(),  # type: ignore[arg-type]  # a stand-in
        [statement],
        {},
        current={"q": 1.0},
        seconds={"q": with_s},
    )
    assert found == pytest.approx({"q": beside_s})


def test_without_time_what_is_expected_counts_but_two_that_do_the_same_do_not_multiply() -> None:
    tried = [
        Tried("best", {"c": 0.1, "b": 1.05}),
        # On top of the best it is expected to make c ten times as fast once more, which nobody has seen.
        Tried("alike", {"c": 0.2}),
        # It touches what the best made slower, and makes another statement faster by itself.
        Tried("other", {"a": 0.1, "b": 1.1}),
    ]
    selection = select(WEIGHTS, BASE, tried, never, gain_min=1.03, members_max=5, has_time=lambda: False)
    assert selection.ids == ("best", "other")
    assert selection.steps[-1].seconds == pytest.approx({"a": 0.1, "b": 1.155, "c": 0.1})


def test_a_slow_statement_is_waited_for_only_as_long_as_it_may_matter() -> None:
    base, best = {"slow": 12.0, "quick": 0.2, "alone": 9.0}, {"slow": 0.02, "quick": 0.01, "alone": 9.0}
    weights = {"slow": 1.0, "quick": 1.0, "alone": 1.0}
    # What nothing made faster is waited for as before, and a quick one is no matter.
    found = longest_s(weights, base, {**best, "alone": 0.1}, 1.03)
    assert found == pytest.approx({"slow": STOPPED_S_MIN, "alone": STOPPED_TIMES * 0.1})
    # A margin of a workload that takes long otherwise is more than some times the best.
    assert longest_s(weights, base, best, 1.2) == pytest.approx({"slow": 0.02 + 0.2 * 9.03})
    # Where it counts much, it matters sooner.
    heavy = {"slow": 100.0, "quick": 1.0, "alone": 1.0}
    assert longest_s(heavy, base, best, 1.2) == pytest.approx({"slow": STOPPED_S_MIN})


def test_what_was_stopped_is_measured_again_on_top_of_what_touches_it() -> None:
    asked = []

    def measure(_taken: Sequence[str], name: str, _current: Seconds) -> Seconds | None:
        asked.append(name)
        return {"c": 0.05, "a": 0.9}

    tried = [Tried("best", {"c": 0.1}), Tried("stopped", {"a": 0.9}, stopped=("c",))]
    selection = select(WEIGHTS, BASE, tried, measure, gain_min=1.03, members_max=5)
    assert asked == ["stopped"] and selection.ids == ("best", "stopped")
