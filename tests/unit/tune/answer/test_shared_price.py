"""What writes cost that maintain several chosen fixes: a proof in one server measures it for all of them."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import tune_samples as samples
from pgassay.model.result import ArmResult
from pgassay.model.tuning.tune_answer import Fix, TuneResult
from pgassay.record.experiment import StoredExperiment
from pgassay.tune.answer import compose as composing
from pgassay.tune.answer.answer_sentences import summary
from pgassay.tune.answer.compose import Told, compose
from pgassay.tune.answer.proof_verdict import HIDDEN
from pgassay.tune.answer.verdicts import ranked
from pgassay.tune.proof import effects
from pgassay.tune.proof.effects import Proved, read_proof
from pgassay.tune.proof.proof_arms import AS_IT_IS, CHOSEN, SharedArms
from pgassay.tune.stored_search import stored_search

IDS = ("index:good", "index:second")
SHARED = SharedArms(
    left_out={CHOSEN: (), AS_IT_IS: IDS},
    told_by=dict.fromkeys(IDS, AS_IT_IS),
    touched={"index:good": ("list",), "index:second": ("report",)},
    written=dict.fromkeys(IDS, ("place",)),
)
# Of all statements: seconds as it is, and with all that was chosen.
PLACED = (0.6, 1.0)


def arms(without_s: float, with_s: float) -> tuple[ArmResult, ...]:
    """A statement's arms, each known to 2 %."""
    speed = with_s / without_s
    word = "slower" if speed < 1 else "faster" if speed > 1 else "equivalent"
    one = samples.arm(AS_IT_IS, speed, 0.98 * speed, 1.02 * speed, word)
    chosen = samples.arm(CHOSEN, 1.0, 1.0, 1.0, "equivalent")
    return one.model_copy(update={"median": without_s}), chosen.model_copy(update={"median": with_s})


def proof(
    monkeypatch: pytest.MonkeyPatch, shared: SharedArms = SHARED, **timed: tuple[float, float]
) -> Proved:
    """What is read from a proof in which statements took so long as it is, and with both indexes."""
    whole = samples.arm(AS_IT_IS, 0.5, 0.4, 0.6, "slower")
    result = samples.compared((whole,), {name: arms(*each) for name, each in timed.items()})
    monkeypatch.setattr(effects, "analyse", lambda _: result)
    monkeypatch.setattr(effects, "_stopped", lambda _: {})
    contract = SimpleNamespace(weights=dict.fromkeys(timed, 1.0))
    stored = cast(StoredExperiment, SimpleNamespace(experiment=SimpleNamespace(contract=contract)))
    members = [samples.candidate(name) for name in ("good", "second")]
    return read_proof(stored, members, shared)


def fixes(proved: Proved) -> dict[str, Fix]:
    known = samples.judged(
        candidates=(samples.candidate("good"), samples.candidate("second")), members=IDS, proved=proved
    )
    return {each.id: each for each in ranked(known)}


def test_no_member_is_charged_what_a_write_costs_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each saves 0.3 s and both cost 0.4 s of a write: together they are worth it."""
    found = fixes(proof(monkeypatch, list=(0.4, 0.1), report=(0.4, 0.1), place=PLACED))
    assert {each.verdict for each in found.values()} == {"recommended"}
    other = {"index:good": "second", "index:second": "good"}
    for name, fix in found.items():
        (place,) = (each for each in fix.statements if each.name == "place")
        # An even part of 0.4 s; all of it at most, and nothing at least.
        assert place.ratio == pytest.approx(0.8)
        assert place.interval == (pytest.approx(0.6 / 1.02), 1.0)
        assert place.before_s == pytest.approx(0.8)
        assert f"its price with 'index {other[name]}': place 1.67 × as slow" in fix.note
        assert fix.note.endswith("together they save more than that costs")
        assert fix.cost.write_ratio == pytest.approx(1.25)


def test_what_saves_more_than_all_cost_is_worth_it_whatever_its_part_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = fixes(proof(monkeypatch, list=(2.0, 0.1), report=(0.12, 0.1), place=PLACED))
    assert found["index:good"].verdict == "recommended"
    assert found["index:good"].note.endswith("it saves more than that costs")
    # The other saves 0.02 s, and an even part of the price are 0.2 s.
    assert found["index:second"].verdict == "not decided"
    assert "with 'index good' place 1.67 × as slow" in found["index:second"].note
    assert "an even part of that costs more than it saves" in found["index:second"].note


def test_what_costs_too_much_is_not_told_to_need_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was proven, and a longer proof would say the same."""
    found = fixes(proof(monkeypatch, list=(0.2, 0.1), report=(0.2, 0.1), place=PLACED))
    said = summary(tuple(found.values()), None, 1.6, margin=0.03, members=IDS)
    assert said == (
        "Nothing is recommended: what gains makes other statements slower. Left to you: index good; index "
        "second. The notes say what each costs."
    )
    # Beside what is recommended, and beside what is still open.
    found = fixes(proof(monkeypatch, list=(2.0, 0.1), report=(0.12, 0.1), place=PLACED))
    told = "Left to you: index second. The notes say what each costs."
    said = summary(tuple(found.values()), None, 1.6, margin=0.03, members=IDS)
    assert said == f"Recommended: index good. {told}"
    late = samples.judged(candidates=(samples.candidate("late"),), proved=None, members=())
    said = summary((found["index:second"], *ranked(late)), None, 1.6, margin=0.03, members=IDS)
    assert said.startswith("Nothing is proven: 1 of 2 candidates was not tried") and said.endswith(told)


@pytest.mark.parametrize("report_s", [0.12, 0.2])
def test_what_costs_more_than_all_save_is_recommended_of_none(
    monkeypatch: pytest.MonkeyPatch, report_s: float
) -> None:
    found = fixes(proof(monkeypatch, list=(0.2, 0.1), report=(report_s, 0.1), place=PLACED))
    assert {each.verdict for each in found.values()} == {"not decided"}
    assert all("you decide which of them matters" in each.note for each in found.values())


def test_a_write_of_one_member_alone_is_its_own_price(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = SHARED.model_copy(update={"written": {"index:good": ("place",), "index:second": ()}})
    proved = proof(monkeypatch, alone, list=(2.0, 0.1), report=(0.2, 0.1), place=PLACED)
    assert proved.members["index:good"].slowed == ("place",)
    assert not proved.members["index:good"].others and proved.members["index:good"].joint is None
    assert "its price: place 1.67 × as slow" in fixes(proved)["index:good"].note


@pytest.mark.parametrize(("seconds", "verdict"), [((0.1, 0.1), "no help"), ((0.104, 0.1), "not decided")])
def test_what_leaves_all_its_statements_alike_does_not_help(
    monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, float], verdict: str
) -> None:
    """Not that a longer time might tell: it is told."""
    proved = proof(monkeypatch, list=(2.0, 0.1), report=seconds, place=(1.0, 1.0))
    found = fixes(proved)
    assert found["index:good"].verdict == "recommended"
    assert found["index:second"].verdict == verdict
    open_ = "the proof decided on the whole set, and not on this fix"
    assert found["index:second"].note == ("" if verdict == "no help" else open_)


def test_of_two_that_do_the_same_neither_is_called_of_no_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is ten times as fast with both, and as fast without either: one of them is needed."""
    arm = {"index:good": "without index:good", "index:second": "without index:second"}
    shared = SharedArms(
        left_out={CHOSEN: (), AS_IT_IS: IDS, **{arm[each]: (each,) for each in IDS}},
        told_by=arm,
        touched=dict.fromkeys(IDS, ("list",)),
        written=dict.fromkeys(IDS, ()),
    )
    as_it_is, chosen = arms(1.0, 0.1)
    alike = [samples.arm(name, 1.0, 0.98, 1.02, "equivalent") for name in arm.values()]
    result = samples.compared(
        (as_it_is, *alike), {"list": (as_it_is, chosen, *(each.model_copy() for each in alike))}
    )
    monkeypatch.setattr(effects, "analyse", lambda _: result)
    monkeypatch.setattr(effects, "_stopped", lambda _: {})
    contract = SimpleNamespace(weights={"list": 1.0})
    stored = cast(StoredExperiment, SimpleNamespace(experiment=SimpleNamespace(contract=contract)))
    found = fixes(read_proof(stored, [samples.candidate("good"), samples.candidate("second")], shared))
    assert {(each.verdict, each.note) for each in found.values()} == {("not decided", HIDDEN)}


def test_an_arm_of_its_own_tells_a_members_own_price() -> None:
    arm = "without index:second"
    own = SHARED.model_copy(
        update={
            "left_out": {**SHARED.left_out, arm: ("index:second",)},
            "told_by": {**SHARED.told_by, "index:second": arm},
        }
    )
    assert own.sharing("index:second") == {}
    assert own.sharing("index:good") == {"place": ("index:second",)}


def composed(monkeypatch: pytest.MonkeyPatch, proved: Proved, stopped: str) -> TuneResult:
    """The answer with a proof that ended so."""
    known = samples.judged(
        candidates=(samples.candidate("good"), samples.candidate("second")), members=IDS, proved=proved
    )
    search = stored_search(samples.STATEMENTS, known.baseline, known.found, None, known.margin)
    monkeypatch.setattr(composing, "read_proof", lambda *_: proved)
    answer = samples.answer()
    arm = SimpleNamespace(spec=SimpleNamespace(dataset=SimpleNamespace(source="/data/shop.dump")))
    stored = SimpleNamespace(
        stopped=stopped, trials=(), seconds_used=9.0, experiment=SimpleNamespace(arms=(arm,))
    )
    told = Told(Path("found"), answer.symptom, answer.cause, 1.0)
    return compose(search, told, cast(StoredExperiment, stored))


@pytest.mark.parametrize(("report_s", "is_gone_on"), [(0.2, False), (0.104, True)])
def test_a_proof_is_not_gone_on_with_for_what_costs_too_much(
    monkeypatch: pytest.MonkeyPatch, report_s: float, is_gone_on: bool
) -> None:
    """What is slower by 2 % to 6 % as it is may be found to be, or to be the same."""
    place = (1.0, 1.0) if is_gone_on else PLACED
    proved = proof(monkeypatch, list=(0.2, 0.1), report=(report_s, 0.1), place=place)
    assert bool(composed(monkeypatch, proved, "max-time").go_on) == is_gone_on


def test_the_script_says_which_writes_get_slower_by_several(monkeypatch: pytest.MonkeyPatch) -> None:
    proved = proof(monkeypatch, list=(0.4, 0.1), report=(0.4, 0.1), place=PLACED)
    script = composed(monkeypatch, proved, "decided").apply_sql
    assert "-- With 'index second' it makes place 1.67 × as slow (" in script
    assert "-- With 'index good' it makes place 1.67 × as slow (" in script
