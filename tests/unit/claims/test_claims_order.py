"""Which experiment with open claims is run next, and for how long; which files are meant."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.errors import UsageError
from pgassay.experiment.claiming.claim_files import claimed_files
from pgassay.experiment.claiming.run_order import LEFT_MIN_S, Waiting, next_of, weight_of
from pgassay.model.further_results.claims import Claim, Source

EXPERIMENTS = st.builds(
    Waiting,
    name=st.uuids().map(str),
    open_claims=st.floats(0, 5),
    is_tried=st.booleans(),
    least_s=st.none() | st.floats(0, 10_000),
    bound_s=st.floats(1, 30_000),
    turns=st.integers(0, 3),
)


def waiting(name: str, **changes: object) -> Waiting:
    fields = {"open_claims": 1, "is_tried": False, "least_s": None, "bound_s": 900.0}
    return Waiting(**({"name": name} | fields | changes))  # type: ignore[arg-type]


def order(*experiments: Waiting) -> list[str]:
    """The names in the order in which they are chosen, each once, with ever so much time."""
    left, found = list(experiments), []
    while left:
        chosen = next_of(left, 1e9)
        assert chosen is not None
        found.append(chosen[0].name)
        left.remove(chosen[0])
    return found


def test_the_most_telling_are_first() -> None:
    many = waiting("many claims", open_claims=5, least_s=300.0)
    one = waiting("one claim", least_s=100.0)
    unknown = waiting("unknown")
    undecided = waiting("undecided", is_tried=True, least_s=1.0)
    again = waiting("had a turn", turns=1, least_s=1.0)
    assert order(again, undecided, unknown, one, many) == [
        "many claims",
        "one claim",
        "unknown",
        "undecided",
        "had a turn",
    ]


def test_a_large_difference_is_asked_for_before_one_that_takes_many_blocks() -> None:
    def weight(says: str, published: float | None) -> float:
        source = Source(title="A page")
        fields = {"id": "one", "text": "…", "source": source, "arm": "a=1", "against": "a=2"}
        return weight_of(Claim(**fields, says=says, published=published))  # type: ignore[arg-type]

    assert weight("faster", 9.8) == weight("slower", 0.3) == weight("faster", None) == 1.0
    assert weight("faster", 1.03) == weight("slower", 0.9) == weight("equal", None) < 1.0


def test_what_can_give_no_verdict_in_the_time_left_is_not_begun() -> None:
    long = waiting("long", least_s=700.0)
    assert next_of([long], 600.0) is None
    # One that was begun has evidence, to which anything adds.
    assert next_of([waiting("begun", least_s=700.0, is_tried=True)], 600.0) is not None
    assert next_of([waiting("decided", open_claims=0)], 600.0) is None


def test_the_time_is_shared_and_who_needs_more_gets_it() -> None:
    chosen = next_of([waiting("a"), waiting("b"), waiting("c", is_tried=True)], 600.0)
    assert chosen is not None and chosen[1] == 300.0
    chosen = next_of([waiting("a", least_s=300.0), waiting("b", bound_s=9000.0)], 600.0)
    assert chosen is not None and chosen[0].name == "a" and chosen[1] == pytest.approx(450.0)


@given(st.lists(EXPERIMENTS, max_size=6), st.floats(0, 5_000))
def test_nobody_gets_more_than_is_left(experiments: list[Waiting], left_s: float) -> None:
    found = next_of(experiments, left_s)
    if found is None:
        assert left_s < LEFT_MIN_S or not any(each.open_claims and each.fits(left_s) for each in experiments)
        return
    chosen, share_s = found
    assert chosen.open_claims and 0 < share_s <= left_s
    assert chosen.is_tried or chosen.least_s is None or chosen.least_s <= left_s


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
