"""How reports write figures and names."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pgassay.model.result import ArmResult, TwinResult
from pgassay.report import interval_bar, text


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1.8932, "s", "1.893 s"),
        (0.0421, "s", "42.1 ms"),
        (0.00031, "s", "310 µs"),
        (0.0, "s", "0 s"),
        (12345.6, "transactions/s", "12,346 transactions/s"),
        (None, "s", ""),
        (math.inf, "s", ""),
    ],
)
def test_a_quantity_has_a_readable_unit(value: float | None, unit: str, shown: str) -> None:
    assert text.quantity(value, unit) == shown


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ((1.17, 1.2534), "1.170 – 1.253"),
        ((0.98, None), "0.980 – ∞"),
        ((None, 1.5), "0 – 1.500"),
        ((0.0, math.inf), "unbounded"),
        ((12.34, 123.4), "12.3 – 123"),
        (None, ""),
    ],
)
def test_an_interval_says_which_end_is_open(ends, shown: str) -> None:
    assert text.interval(ends) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (725, "12 min 05 s"), (7380, "2 h 03 min")],
)
def test_a_duration_for_a_person_who_waits(seconds: float, shown: str) -> None:
    assert text.duration(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(512, "512 B"), (40_960, "40.0 kB"), (1_343_488_000, "1.25 GB"), (None, "")]
)
def test_a_size_uses_powers_of_1024(count: float | None, shown: str) -> None:
    assert text.size(count) == shown


@given(some.text())
def test_a_cleaned_text_steers_no_terminal(content: str) -> None:
    assert text.clean(content).isprintable()


def test_hidden_characters_are_shown() -> None:
    assert text.clean("a\x1b[31mb\u202ec\nd") == "a\\x1b[31mb\\u202ec d"
    assert text.clean("größe ≤ 3") == "größe ≤ 3"


def test_lines_stay_where_a_text_has_several() -> None:
    assert text.clean_lines("SELECT 1 -- \u202e\n\tFROM t\n") == "SELECT 1 -- \\u202e\n FROM t"


def arm(**changes) -> ArmResult:
    fields = {
        "name": "a",
        "levels": {},
        "ratio": 1.05,
        "interval": (1.01, 1.09),
        "verdict": "faster",
        "meaningful": False,
        "trials": 5,
        "failures": 0,
        "median": 1.0,
        "values": (1.0,),
    }
    return ArmResult(**(fields | changes))


def test_the_word_says_when_a_difference_may_lie_inside_the_margin() -> None:
    assert text.verdict_word(arm(), 0.03) == "faster, maybe < 3 %"
    assert text.verdict_word(arm(meaningful=True), 0.03) == "faster"
    assert text.verdict_word(arm(withheld=True, verdict="inconclusive"), 0.03) == "withheld"


def test_the_twin_speaks_in_each_of_its_states() -> None:
    assert "no block" in text.twin_sentence(TwinResult(ratio=None, interval=None, ok=None))
    assert "not yet tested" in text.twin_sentence(TwinResult(ratio=1.0, interval=(0.9, 1.1), ok=None))
    assert "no difference" in text.twin_sentence(TwinResult(ratio=1.0, interval=(0.99, 1.01), ok=True))
    alarm = text.twin_sentence(TwinResult(ratio=1.2, interval=(1.1, 1.3), ok=False, stratum="clients=8"))
    assert "DIFFERS" in alarm
    assert "clients=8" in alarm


@given(
    some.lists(
        some.tuples(some.floats(0, 50, allow_nan=False), some.one_of(some.none(), some.floats(0, 80))),
        max_size=5,
    ),
    some.integers(11, 80),
)
def test_a_bar_always_fills_its_width(pairs, width: int) -> None:
    intervals = [(low, None if high is None else max(low, high)) for low, high in pairs]
    scale = interval_bar.scale_for(intervals, [], 0.03, width)
    for ends in [*intervals, None]:
        drawn = interval_bar.draw(scale, ends, None, interval_bar.ASCII)
        assert len(drawn) == scale.width <= width
    assert len(interval_bar.axis(scale)) == scale.width


def test_a_bar_lies_on_the_side_of_its_ratio() -> None:
    scale = interval_bar.scale_for([(1.1, 1.3), (0.7, 0.9)], [], 0.03, 41)
    faster = interval_bar.draw(scale, (1.1, 1.3), 1.2, interval_bar.ASCII)
    slower = interval_bar.draw(scale, (0.7, 0.9), 0.8, interval_bar.ASCII)
    middle = scale.width // 2
    assert faster[middle] == slower[middle] == "|"
    assert faster.index("[") > middle
    assert faster.index("[") < faster.index("o") < faster.index("]")
    assert slower.index("]") < middle


def test_an_open_end_is_an_arrow() -> None:
    scale = interval_bar.scale_for([(0.9, 1.2), (0.0, None)], [], 0.03, 31)
    drawn = interval_bar.draw(scale, (0.0, None), 1.0, interval_bar.ASCII)
    assert drawn.startswith("<")
    assert drawn.endswith(">")
