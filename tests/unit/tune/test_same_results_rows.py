"""Bags of rows compared: copies, order, NULLs, rounding of floats, errors; and the values of instances."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.tune.facts.schema import ColumnFacts
from pgassay.tune.rewrites.tree import read
from pgassay.tune.same_results import rows as module
from pgassay.tune.same_results.rows import Outcome, Row, difference
from pgassay.tune.same_results.values import candidates, constants

INTEGER, DOUBLE = 23, 701


def outcome(
    *given_rows: Row, kinds: tuple[int, ...] = (INTEGER, INTEGER), keys: tuple[int, ...] = ()
) -> Outcome:
    made = Outcome(columns=tuple((f"c{number}", kind) for number, kind in enumerate(kinds)))
    places = [place for place, kind in enumerate(kinds) if kind == DOUBLE]
    for row in given_rows:
        made.add(row, places, keys)
    return made


def test_rows_are_a_bag_and_an_order_where_it_is_total() -> None:
    one, turned = outcome(("1", "2"), ("3", None)), outcome(("3", None), ("1", "2"))
    assert difference(one, turned, ordered=False) is None
    assert difference(one, turned, ordered=True) == "their rows come in another order"
    assert (
        difference(outcome(("1", "1")), outcome(("1", "1"), ("1", "1")), ordered=False) == "their rows differ"
    )
    # NULL, the empty text and a shift between columns are different.
    assert difference(outcome((None, "")), outcome(("", None)), ordered=False) == "their rows differ"
    assert difference(outcome(("ab", "c")), outcome(("a", "bc")), ordered=False) == "their rows differ"


def test_the_order_of_the_keys_alone() -> None:
    one = outcome(("1", "a"), ("1", "b"), ("2", "c"), keys=(0,))
    ties = outcome(("1", "b"), ("1", "a"), ("2", "c"), keys=(0,))
    wrong = outcome(("2", "c"), ("1", "b"), ("1", "a"), keys=(0,))
    assert difference(one, ties, ordered=False) is None
    assert difference(one, wrong, ordered=False) == "their rows come in another order"


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("0.1", "0.1", True), ("0.30000000000000004", "0.3", True), ("0.3", "0.30001", False),
        ("NaN", "NaN", True), ("Infinity", "Infinity", True), (None, None, True), (None, "0", False),
        ("0", "-0", True), ("1e-13", "0", True), ("NaN", "1", False),
    ],
)  # fmt: skip
def test_floats_are_equal_within_rounding(first: str | None, second: str | None, same: bool) -> None:
    kinds = (INTEGER, DOUBLE)
    one, other = outcome(("1", first), kinds=kinds), outcome(("1", second), kinds=kinds)
    assert (difference(one, other, ordered=False) is None) == same


def test_floats_keep_their_order_within_rounding() -> None:
    def of(*floats: str | None, keys: tuple[int, ...] = ()) -> Outcome:
        return outcome(*((one,) for one in floats), kinds=(DOUBLE,), keys=keys)

    sorted_ones, turned = ("0.1", "0.3", "2"), ("2", "0.1", "0.3")
    assert difference(of(*sorted_ones), of(*turned), ordered=False) is None
    for keys, total in (((0,), False), ((), True)):
        rounded = of("0.1", "0.30000000000000004", "2", keys=keys)
        assert difference(of(*sorted_ones, keys=keys), rounded, ordered=total) is None
        assert (
            difference(of(*sorted_ones, keys=keys), of(*turned, keys=keys), ordered=total)
            == "their rows come in another order"
        )
    # NULL and NaN are told apart in whatever order they come.
    assert difference(of("NaN", None), of(None, "NaN"), ordered=False) is None
    assert difference(of("NaN", None), of("NaN", "NaN"), ordered=False) is not None


def test_errors_are_results() -> None:
    failed, other = Outcome(error="21000"), Outcome(error="22012")
    assert difference(failed, Outcome(error="21000"), ordered=False) is None
    assert difference(failed, other, ordered=False) == "they fail differently"
    assert difference(failed, outcome(), ordered=False) == "one fails and the other does not"


def test_names_and_types_of_columns_are_compared() -> None:
    one = outcome()
    renamed = Outcome(columns=(("c0", INTEGER), ("other", INTEGER)))
    assert difference(one, renamed, ordered=False) == "their columns have other names"
    assert difference(one, outcome(kinds=(INTEGER, 20)), ordered=False) == "their columns are of other types"


def test_very_many_rows_are_compared_by_their_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BAG_ROWS_MAX", 5)
    rows: list[Row] = [(str(number), str(number % 3)) for number in range(20)]
    one, other = outcome(*rows), outcome(*reversed(rows))
    assert not one.bag and difference(one, other, ordered=False) is None
    assert difference(one, outcome(*rows[:-1], ("19", "2")), ordered=False) == "their rows differ"
    assert difference(one, outcome(*rows[:-1], rows[0]), ordered=False) == "their rows differ"
    assert outcome(*rows, kinds=(INTEGER, DOUBLE)).too_many


@given(
    st.lists(st.tuples(st.sampled_from("123"), st.sampled_from(["a", None]))),
    st.randoms(use_true_random=False),
)
def test_a_bag_is_equal_to_itself_shuffled_and_to_no_other(rows: list[Row], chance: object) -> None:
    shuffled = sorted(rows, key=lambda _: chance.random())  # type: ignore[attr-defined]  # hypothesis's Random
    assert difference(outcome(*rows), outcome(*shuffled), ordered=False) is None
    assert difference(outcome(*rows), outcome(*rows, ("4", None)), ordered=False) == "their rows differ"


def test_values_hold_the_statement_s_constants_and_their_neighbours() -> None:
    tree = read(
        "SELECT 1 FROM t WHERE a = 41 AND b = 'Ab' AND c::date = '2024-02-28' AND d = $1 AND e = 1.50"
    )
    said = constants((tree,), (("7",), (None,)))
    assert {"40", "41", "42", "6", "7", "8"} <= set(values("integer", said))
    assert {"Ab", "aB", "Ab "} <= set(values("text", said))
    assert "Ab " not in values("character varying(2)", said)
    assert {"2024-02-28 00:00:00", "2024-02-27 23:59:59.999999", "2024-02-29 00:00:00", "infinity"} <= set(
        values("timestamp(3) without time zone", said)
    )
    assert {"2024-02-28", "2024-02-29", "2024-02-27"} <= set(values("date", said))
    assert {"1.50", "1.5"} <= set(values("numeric(4,2)", said))
    assert all(-(2**15) <= int(value) < 2**15 for value in values("smallint", ("32767", "-32768", "99999")))


def values(kind: str, said: tuple[str, ...]) -> tuple[str, ...]:
    return candidates(ColumnFacts(name="c", type=kind, not_null=False), said, ())


@pytest.mark.parametrize("kind", ["date", "timestamp without time zone", "timestamp with time zone"])
@pytest.mark.parametrize("said", ["9999-12-31", "9999-12-31 23:59:59", "0001-01-01", "9999-01-31"])
def test_the_ends_of_all_dates_have_values_on_the_side_that_there_is(kind: str, said: str) -> None:
    """A period without an end is often written so; there is no day after it."""
    found = candidates(ColumnFacts(name="until", type=kind, not_null=False), (said, "Europe/Paris"), ())
    assert any(each.startswith(said[:10]) for each in found)
    assert len(found) > len(candidates(ColumnFacts(name="until", type=kind, not_null=False), (), ()))
