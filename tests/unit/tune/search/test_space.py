"""Forward selection of fixes that may take only so much space on disk, with made-up measures."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from pgassay.tune.search.forward import Space, select
from pgassay.tune.search.selection import Seconds, Tried

MEGABYTE = 1 << 20
WEIGHTS = {"a": 1.0, "b": 1.0, "c": 1.0}
BASE = {"a": 4.0, "b": 3.0, "c": 3.0}


def room(most: float, **megabytes: float) -> Space:
    """A limit, and what each takes, in megabytes."""
    return Space(most * MEGABYTE, {name: round(each * MEGABYTE) for name, each in megabytes.items()})


def measured(_taken: Sequence[str], _name: str, _current: Seconds) -> Seconds:
    """Two for the same statement: on top of the other neither gains."""
    return {}


def taken(space: Space, **seconds: Seconds) -> list[str]:
    """What is chosen of fixes that bring statements to these seconds."""
    tried = [Tried(name, each) for name, each in seconds.items()]
    return [*select(WEIGHTS, BASE, tried, measured, gain_min=1.03, members_max=5, space=space).ids]


def test_what_has_no_room_is_not_taken_and_is_told_with_the_room_that_was_left() -> None:
    tried = [Tried("large", {"a": 0.1}), Tried("small", {"b": 0.5}), Tried("other", {"c": 0.5})]
    space = room(100, large=300, small=60, other=30)
    selection = select(WEIGHTS, BASE, tried, measured, gain_min=1.03, members_max=5, space=space)
    assert {*selection.ids} == {"small", "other"}
    assert selection.over == {"large": 10 * MEGABYTE}
    assert selection.beside["large"] > 1.03
    anything = select(WEIGHTS, BASE, tried, measured, gain_min=1.03, members_max=5)
    assert len(anything.ids) == 3 and not anything.over


def test_of_both_orders_the_one_is_taken_that_fills_the_room_better() -> None:
    each = {name: {name: 0.1} for name in "abc"}
    # The best one takes all of the room, where two others gain more together.
    assert sorted(taken(room(100, a=100, b=50, c=50), **each)) == ["b", "c"]
    # A tiny one that gains little for its size leaves the best without its room.
    assert taken(room(100, a=100, b=1), a={"a": 0.1}, b={"b": 2.5}) == ["a"]


def test_what_frees_space_makes_room() -> None:
    assert taken(room(0, drop=-50, index=40), index={"a": 0.5}, drop={"b": 2.0}) == ["drop", "index"]


@given(
    st.dictionaries(
        st.sampled_from("stuvwxyz"), st.tuples(st.floats(0.1, 6), st.integers(0, 200)), min_size=1
    ),
    st.integers(0, 400),
)
def test_the_set_never_takes_more_than_it_may(fixes: dict[str, tuple[float, int]], most: int) -> None:
    space = room(most, **{name: megabytes for name, (_, megabytes) in fixes.items()})
    tried = [Tried(name, {"abc"[number % 3]: each[0]}) for number, (name, each) in enumerate(fixes.items())]
    selection = select(WEIGHTS, BASE, tried, measured, gain_min=1.03, members_max=5, space=space)
    assert space.left(selection.ids) >= 0
    assert all(space.bytes[name] > left for name, left in selection.over.items())
    assert not {*selection.over} & {*selection.ids}
