"""What a statement returned compared: rows, names of columns, errors; and the values of instances."""

import pytest

from pgassay.experiment.running.result_bag import ROWS_DIFFER, Bag, ResultColumn
from pgassay.tune.facts.schema import ColumnFacts
from pgassay.tune.rewrites.tree import read
from pgassay.tune.same_results.rows import Outcome, RowOrder, difference
from pgassay.tune.same_results.values import candidates, constants


def outcome(*rows: bytes, name: str = "c", kind: str = "23/-1") -> Outcome:
    bag = Bag((ResultColumn(name, 23, kind),))
    for row in rows:
        bag.add([row])
    return Outcome(bag)


def test_errors_are_results() -> None:
    failed, other = Outcome(error="21000"), Outcome(error="22012")
    assert difference(failed, Outcome(error="21000")) is None
    assert difference(failed, other) == "they fail differently"
    assert difference(failed, outcome()) == "one fails and the other does not"


def test_names_and_types_of_columns_are_compared() -> None:
    assert difference(outcome(), outcome(name="other")) == "their columns have different names"
    assert difference(outcome(), outcome(kind="20/-1")) == "their columns have different types"
    assert difference(outcome(b"1"), outcome(b"1")) is None
    assert difference(outcome(b"1"), outcome(b"2")) == ROWS_DIFFER


def test_a_total_order_is_that_of_all_columns() -> None:
    assert RowOrder(total=True).of(3) == (0, 1, 2)
    assert (RowOrder(keys=(1,)).of(3), RowOrder().of(3)) == ((1,), ())


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
