"""Which machine gives data to which: what one has, or makes sooner by more than the way takes."""

from hypothesis import given
from hypothesis import strategies as st

from pgassay.fleet.spreading.data_transfer import WORTH_S, DataOffer, choose

MEGABYTES = 100 << 20


def offer(name: str, make_s: float | None, *, is_here: bool = False) -> DataOffer:
    return DataOffer(name, is_here, MEGABYTES, make_s)


def receivers(*offers: DataOffer, rate: float = 10 << 20, **speeds: float) -> dict[str, float] | None:
    choice = choose(offers, speeds, lambda _: rate)
    return None if choice is None else dict(choice.receivers)


def test_what_one_has_goes_to_all_that_lack_it() -> None:
    here = offer("a", 60.0, is_here=True)
    choice = choose([offer("b", None), here, offer("c", 30.0)], {})
    assert choice is not None
    assert choice.source == here
    assert choice.receivers == {"b": 60.0, "c": 30.0}


def test_a_slower_machine_would_take_longer_to_make_it() -> None:
    assert receivers(offer("a", 60.0, is_here=True), offer("b", None), a=1.0, b=2.5) == {"b": 150.0}


def test_nothing_travels_where_nothing_is_gained() -> None:
    assert receivers(offer("a", 60.0, is_here=True), offer("b", 1.0, is_here=True)) is None
    # Made before it could have come, or nobody knows how long making takes.
    assert receivers(offer("a", WORTH_S, is_here=True), offer("b", None)) is None
    assert receivers(offer("a", None, is_here=True), offer("b", None)) is None
    # Nobody has it, and all make it at the same time.
    assert receivers(offer("a", 60.0), offer("b", 60.0)) is None
    assert receivers(offer("a", None), offer("b", None)) is None


def test_one_makes_it_for_those_that_would_take_longer_than_that_and_the_way() -> None:
    offers = offer("a", 20.0), offer("b", 25.0), offer("c", 90.0)
    # 100 MB at 10 MB a second: ten seconds on the way.
    assert receivers(*offers) == {"c": 90.0}
    assert receivers(*offers, rate=1 << 20) is None
    assert receivers(*offers, rate=0.0) is None
    assert receivers(offer("a", 20.0), offer("d", None)) is None


OFFERS = st.builds(
    DataOffer, st.text(min_size=1, max_size=3), st.booleans(), st.integers(1, 1 << 40),
    st.one_of(st.none(), st.floats(0.01, 1e6)),
)  # fmt: skip


@given(st.lists(OFFERS, max_size=8, unique_by=lambda each: each.machine), st.floats(0, 1e9))
def test_a_source_has_it_or_makes_it_soonest_and_gives_to_none_that_has_it(
    offers: list[DataOffer], rate: float
) -> None:
    choice = choose(offers, {}, lambda _: rate)
    if choice is None:
        return
    by_name = {each.machine: each for each in offers}
    assert choice.receivers
    assert choice.source.is_here == any(each.is_here for each in offers)
    for name, make_s in choice.receivers.items():
        assert not by_name[name].is_here
        way_s = (
            0.0 if choice.source.is_here else (choice.source.make_s or 0) + choice.source.bytes / max(rate, 1)
        )
        assert make_s > WORTH_S
        assert make_s > way_s
