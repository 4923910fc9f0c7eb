"""Which experiment with open claims is run next, and for how long; which files are meant."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_claims import Simulated, simulated_run

from pgassay.errors import UsageError
from pgassay.experiment.claims.claim_files import claimed_files
from pgassay.experiment.claims.run_order import (
    LEFT_MIN_S,
    Outlook,
    Turn,
    Waiting,
    best_of,
    goes_on,
    next_of,
    times_late,
)

OUTLOOKS = st.builds(Outlook, st.floats(0, 10_000), st.sampled_from((0.1, 1.0)))
EXPERIMENTS = st.builds(
    Waiting,
    name=st.uuids().map(str),
    outlooks=st.lists(OUTLOOKS, max_size=5).map(tuple),
    is_tried=st.booleans(),
    least_s=st.none() | st.floats(0, 10_000),
    setup_s=st.floats(0, 200),
    fruitless=st.integers(0, 3),
)


def waiting(name: str, *seconds: float, **changes: object) -> Waiting:
    fields = {"outlooks": tuple(map(Outlook, seconds))} | changes
    return Waiting(name=name, **fields)  # type: ignore[arg-type]


def order(*experiments: Waiting) -> list[str]:
    """The names in the order in which they are chosen, each once, with ever so much time."""
    left, found = list(experiments), []
    while left:
        turn = next_of(left, 1e9)
        assert turn is not None
        found.append(turn.chosen.name)
        left.remove(turn.chosen)
    return found


def test_the_most_telling_a_minute_are_first() -> None:
    many = waiting("many claims", *[300.0] * 5)
    one = waiting("one claim", 100.0)
    loads_long = waiting("loads long", 100.0, setup_s=100.0)
    nearly = waiting("nearly decided", 5.0, is_tried=True)
    far = waiting("far from decided", 4000.0, is_tried=True)
    promised = waiting("promised before", 50.0, is_tried=True, fruitless=3)
    size = Waiting("a size", (Outlook(100.0, 0.1),), is_tried=True)
    assert order(size, far, promised, loads_long, one, many, nearly) == [
        "nearly decided",
        "many claims",
        "one claim",
        "loads long",
        "promised before",
        "a size",
        "far from decided",
    ]


def test_a_few_quick_claims_count_before_all_of_them() -> None:
    found = best_of([Outlook(10.0), Outlook(12.0), Outlook(1000.0)], 2000.0)
    assert found is not None and (found.rate, found.seconds) == (2 / 12, 12.0)
    # What does not fit the time left is no promise.
    assert best_of([Outlook(1000.0)], 600.0) is None
    assert best_of([Outlook(590.0)], 600.0, setup_s=20.0) is None


def test_what_can_give_no_verdict_in_the_time_left_is_not_begun() -> None:
    assert next_of([waiting("long", 700.0, least_s=700.0)], 600.0) is None
    # One that was begun has evidence, to which anything adds; one whose spread may be less is tried.
    assert next_of([waiting("begun", 700.0, least_s=700.0, is_tried=True)], 600.0) is not None
    assert next_of([waiting("perhaps", 700.0, least_s=100.0)], 600.0) is not None
    assert next_of([waiting("decided")], 600.0) is None


def test_what_was_never_run_is_tried_before_others_have_their_hundredth_block() -> None:
    """Its claims are expected beyond the time left, by a spread that nobody measured yet."""
    full_disk = waiting("full disk", *[4000.0] * 5, least_s=300.0)
    endless = waiting("endless", 2000.0, is_tried=True)
    turn = next_of([endless, full_disk], 3600.0)
    assert turn is not None and (turn.chosen.name, turn.share_s) == ("full disk", 450.0)
    # And it is a rival of what is nearly decided, which is first.
    turn = next_of([waiting("near", 100.0, is_tried=True), full_disk], 3600.0)
    assert turn is not None and turn.chosen.name == "near" and turn.rival_rate == 0.25 * 5 / 300


def test_an_experiment_of_which_no_time_is_known_is_tried_as_well() -> None:
    """Six claims on statements that nobody has run stayed untried beside others' third and fourth turns."""
    unknown = waiting("unknown", *[4000.0] * 6)
    third = waiting("third turn", *[300.0] * 3, is_tried=True, least_s=300.0, fruitless=1)
    turn = next_of([unknown, third], 2000.0)
    assert turn is not None and turn.chosen is unknown
    partly = waiting("partly", 1500.0, *[4000.0] * 5)
    turn = next_of([partly, third], 2000.0)
    assert turn is not None and turn.chosen is partly, "one that is expected late takes no try away"


def test_a_share_is_what_its_verdicts_are_expected_to_take_and_a_half_more() -> None:
    turn = next_of([waiting("a", 100.0), waiting("b", 200.0)], 600.0)
    assert turn is not None and turn.chosen.name == "a"
    assert (turn.share_s, turn.rival_rate) == (150.0, 1 / 200)
    # With no verdict in sight the time is shared alike.
    turn = next_of([waiting("a", 900.0, is_tried=True), waiting("b", 700.0, is_tried=True)], 600.0)
    assert turn is not None and (turn.chosen.name, turn.share_s, turn.rival_rate) == ("b", 300.0, 0.0)


def test_an_experiment_goes_on_while_no_other_decides_more_a_second() -> None:
    turn = Turn(waiting("a", 100.0), 150.0, rival_rate=1 / 200)
    assert goes_on([Outlook(190.0)], 500.0, turn, 1e4)
    assert not goes_on([Outlook(210.0)], 500.0, turn, 1e4)
    # Within its share a verdict is waited for, and none that lies beyond it.
    assert goes_on([Outlook(50.0, 0.1)], 90.0, turn, 1e4)
    assert not goes_on([Outlook(4000.0)], 10.0, turn, 1e4)
    assert goes_on([Outlook(4000.0)], 10.0, turn, 600.0) and not goes_on(
        [Outlook(4000.0)], 200.0, turn, 600.0
    )


def test_what_is_late_is_believed_half_as_much_each_time() -> None:
    turn = Turn(Waiting("one", ()), share_s=0.0, rival_rate=0.005)
    assert [goes_on([Outlook(100.0)], 10.0, turn, 1e4, late) for late in range(3)] == [True, True, False]
    assert [times_late(waited_s, 100.0) for waited_s in (0.0, 149.0, 150.0, 450.0)] == [0, 0, 1, 3]
    assert times_late(1e6, None) == 0


@given(st.lists(EXPERIMENTS, max_size=6), st.floats(0, 5_000))
def test_nobody_gets_more_than_is_left(experiments: list[Waiting], left_s: float) -> None:
    turn = next_of(experiments, left_s)
    if turn is None:
        assert left_s < LEFT_MIN_S or not any(each.outlooks and each.fits(left_s) for each in experiments)
        return
    assert turn.chosen.outlooks and 0 < turn.share_s <= left_s
    assert turn.chosen.fits(left_s)


def in_turn(files: list[Simulated], time_s: float) -> int:
    """The same with an equal share of the time for each file, one after the other."""
    for file in files:
        blocks = int((time_s / len(files) - file.setup_s) / file.block_s)
        file.blocks = min(max(blocks, 0), max(file.truth))
    return sum(each.decided for each in files)


def test_more_is_decided_in_the_same_time_than_with_equal_shares() -> None:
    """Thirty files as the examples are: some claims take 4 blocks, some a hundred; blocks of 10 to 150 s."""
    ours = alike = known = 0
    for seed in range(20):
        chance = random.Random(f"claims {seed}")
        files = [
            Simulated(
                str(number),
                [round(4 * 30 ** chance.random() ** 2) for _ in range(chance.randint(1, 8))],
                10.0 * 15 ** chance.random() ** 2,
                chance.uniform(10, 60),
            )
            for number in range(30)
        ]
        known += simulated_run([replace(each, error=0.0) for each in files], 5400.0, chance)
        alike += in_turn([replace(each) for each in files], 5400.0)
        ours += simulated_run(files, 5400.0, chance)
    assert ours > 1.3 * alike
    # Nearly as much as if it were known beforehand what each claim takes.
    assert ours > 0.85 * known


def test_all_stands_for_the_examples_with_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = claimed_files([Path("all")])
    assert "sort-memory" in [file.name for file in elsewhere]
    monkeypatch.chdir(tmp_path)
    assert [file.name for file in claimed_files([Path("all")])] == [file.name for file in elsewhere]
    own = tmp_path / "examples"
    own.mkdir()
    with pytest.raises(UsageError, match="name files instead of all"):
        claimed_files([Path("all")])
    claim = (
        'id = "one"\ntext = "t"\nsource = { title = "A page" }\narm = "a=1"\nagainst = "a=2"\nsays = "equal"'
    )
    for name, text in (("with.toml", f"[[claim]]\n{claim}\n"), ("without.toml", "scale = 1\n")):
        (own / name).write_text(text, "utf-8")
    assert [str(file.path) for file in claimed_files([Path("all")])] == ["examples/with.toml"]
    other = tmp_path / "with.toml"
    other.write_text(f"[[claim]]\n{claim}\n", "utf-8")
    with pytest.raises(UsageError, match=r"two of the files are called with\.toml"):
        claimed_files([Path("all"), other])
