"""The ledger of a machine: its detectors, its alarms and their end, its file."""

import json
import math

import numpy as np
import pytest

import analysis_samples as samples
from pgassay.analysis.statistics.assignment import log_draw_evidence
from pgassay.analysis.verdicts.checks import ledger as detectors
from pgassay.analysis.verdicts.checks.ledger import KINDS, ledger_state, ledger_update
from pgassay.environment.linux.machine import machine_id
from pgassay.experiment.running import ledger
from pgassay.model.experiment import BlockDesign


def after(values: list[dict[str, float]]) -> detectors.LedgerState:
    """The state of machine m after experiments with these evidences."""
    experiments = {f"2026-01-{place:04d} 1": value for place, value in enumerate(values)}
    return ledger_state({"machines": {"m": {"experiments": experiments}}}, "m")


def draws(random: np.random.Generator, shape: tuple[int, ...], shift: float) -> np.ndarray:
    """The evidence of experiments of 20 blocks of 3 trials, the drawn one slower by `shift` deviations."""
    values = 0.03 * random.standard_normal((*shape, 20, 3))
    values[..., 0] -= 0.03 * shift
    evidence: np.ndarray = np.exp(log_draw_evidence(values)[..., -1])
    return evidence


def test_the_detector_is_the_sum_of_the_products_from_every_beginning():
    values = [0.5, 4.0, 3.0]
    state = after([{"copy": value} for value in values])
    assert state.detectors["copy"] == pytest.approx(0.5 * 4 * 3 + 4 * 3 + 3)
    assert state.evidence == pytest.approx((0.5 * 4 * 3 + 4 * 3 + 3) / 3)
    assert state.detectors["position"] == 0


def test_an_experiment_that_says_nothing_of_a_kind_leaves_its_detector():
    state = after([{"copy": 5.0}, {"position": 2.0}, {}])
    assert state.detectors == pytest.approx({"copy": 5.0, "position": 2.0, "predecessor": 0.0})


def test_a_machine_that_becomes_biased_is_found_soon_after_any_number_of_clean_experiments():
    random = np.random.default_rng(1)
    for clean in (0, 100, 1000):
        taken = []
        for _ in range(30):
            past = draws(random, (clean,), 0.0)
            later = draws(random, (40,), 0.8)
            # The past alone may have raised a false alarm: those are counted in the test after this one.
            log_detector = -math.inf
            for value in past:
                log_detector = np.logaddexp(0, log_detector) + math.log(value)
                log_detector = -math.inf if log_detector >= math.log(3000) else log_detector
            for count, value in enumerate(later, 1):
                log_detector = np.logaddexp(0, log_detector) + math.log(value)
                if log_detector >= math.log(3000):
                    taken.append(count)
                    break
        assert len(taken) == 30
        assert np.median(taken) <= 6
        product = math.fsum(np.log(draws(random, (clean,), 0.0)))
        if clean:
            assert product < -20  # a product would have to make up for this first


@pytest.mark.parametrize("runs", [100, pytest.param(300, marks=pytest.mark.slow)])
def test_false_alarms_are_as_rare_as_promised(runs):
    """With 1000 clean experiments between alarms on average, at most a tenth of runs of 100 has one."""
    random = np.random.default_rng(2)
    alarmed = 0
    # Run by run: all at once would be gigabytes, which takes several times as long.
    for run in (draws(random, (100, len(KINDS)), 0.0) for _ in range(runs)):
        values = [dict(zip(KINDS, map(float, row), strict=True)) for row in run]
        log_states = [after(values[:count]).alarms for count in (25, 50, 75, 100)]
        alarmed += any(log_states)
    # Markov's bound is 0.1 of the runs; its binomial slack is 3.7 standard deviations.
    assert alarmed / runs <= 0.1 + 3.7 * math.sqrt(0.1 * 0.9 / runs)


def test_an_alarm_lasts_while_the_machine_is_biased_and_ends_when_it_is_mended():
    biased, fair = {"copy": 8.0, "position": 0.7}, {"copy": 0.4, "position": 0.7}
    state = after([fair] * 50 + [biased] * 4)
    assert [alarm.kind for alarm in state.alarms] == ["copy"]
    assert state.alarms[0].since == "2026-01-0053 1"
    # Still biased: the detectors, begun anew, raise it again, and it has been there since the first.
    state = after([fair] * 50 + [biased] * 40)
    assert [(alarm.kind, alarm.since) for alarm in state.alarms] == [("copy", "2026-01-0053 1")]
    # 0.4⁻³ is below 20 and 0.4⁻⁴ above it, however long the machine had been biased.
    assert after([fair] * 50 + [biased] * 40 + [fair] * 3).alarms
    assert not after([fair] * 50 + [biased] * 40 + [fair] * 4).alarms


def test_an_alarm_of_one_kind_does_not_end_by_experiments_of_another():
    state = after([{"copy": 1e6}, *[{"position": 0.1}] * 20])
    assert [alarm.kind for alarm in state.alarms] == ["copy"]


def test_a_resumed_experiment_replaces_its_value_in_its_place():
    known: dict[str, object] = {}
    for name, value in (("a", 2.0), ("b", 3.0), ("a", 5.0)):
        known = ledger_update(known, "m", name, {"copy": value})
    state = ledger_state(known, "m")
    assert state.experiments == 2
    assert state.detectors["copy"] == pytest.approx(5 * 3 + 3)
    assert ledger_state(known, "other").experiments == 0
    with pytest.raises(ValueError, match="must be 0 or more"):
        ledger_update(known, "m", "c", {"copy": math.nan})


def test_extreme_evidence_neither_overflows_nor_buries_the_rest():
    known = ledger_update({}, "m", "a", {"copy": 0.0})
    for place in range(5):
        known = ledger_update(known, "m", f"b{place}", {"copy": math.inf, "position": 1e300})
    assert ledger_state(known, "m").alarms
    assert json.loads(json.dumps(known, allow_nan=False)) == known


def test_an_experiment_adds_what_it_can_speak_on():
    old = samples.experiment(arms=1)
    found = detectors.experiment_evidence(samples.stored(old, samples.simulate(old, 8)))
    # Its twin has a copy of its own, so what differs between twin and control is the copy's.
    assert set(found) == {"copy", "position", "predecessor"}
    drawn = samples.experiment(arms=1).model_copy(update={"design": BlockDesign(data_copies=2)})
    records = [
        record.model_copy(update={"data_copy": record.block % 2}) for record in samples.simulate(drawn, 8)
    ]
    assert set(detectors.experiment_evidence(samples.stored(drawn, records))) == set(KINDS)
    neutral = drawn.model_copy(update={"design": BlockDesign(data_copies=2, between="neutral")})
    assert set(detectors.experiment_evidence(samples.stored(neutral, records))) == {"copy", "position"}
    assert detectors.experiment_evidence(samples.stored(drawn, [])) == {}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The ledger's file in a home of this test's own."""
    monkeypatch.setattr(ledger, "home", lambda: tmp_path)
    return tmp_path / "ledger.json"


def experiment(seed: int = 0, blocks: int = 8):
    """A stored experiment of a fair machine."""
    plan = samples.experiment(arms=1, seed=seed)
    return samples.stored(plan, samples.simulate(plan, blocks, seed=seed + 1))


def test_the_file_holds_every_experiment_once(place):
    assert ledger.summary().experiments == 0
    assert ledger.add_evidence(experiment(seed=1)) is None
    assert ledger.add_evidence(experiment(seed=2)) is None
    first = json.loads(place.read_bytes())
    assert first["format"] == 2
    assert ledger.add_evidence(experiment(seed=1, blocks=12)) is None
    stored = json.loads(place.read_bytes())["machines"][machine_id()]["experiments"]
    assert list(stored) == ["2026-01-01T00:00:00+00:00 1", "2026-01-01T00:00:00+00:00 2"]
    assert stored != first["machines"][machine_id()]["experiments"]
    summary = ledger.summary()
    assert (summary.experiments, summary.alarm, set(summary.detectors)) == (2, False, set(KINDS))


def test_a_ledger_of_twins_is_kept_as_the_evidence_of_their_copies(place):
    machine = {"experiments": {"2025-01-01 1": 40.0, "2025-02-01 1": 90.0}, "log_evidence_max": 8.2}
    place.write_text(json.dumps({"format": 1, "machines": {machine_id(): machine, "other": machine}}))
    summary = ledger.summary()
    assert (summary.experiments, summary.alarm, summary.alarm_since) == (2, True, "2025-02-01")
    assert summary.alarm_kinds == ("copy",)
    sentence = ledger.add_evidence(experiment())
    assert sentence is not None and "which copy of the data" in sentence and "2025-02-01" in sentence
    stored = json.loads(place.read_bytes())
    assert stored["format"] == 2
    assert stored["machines"]["other"]["experiments"] == {
        "2025-01-01 1": {"copy": 40.0},
        "2025-02-01 1": {"copy": 90.0},
    }


@pytest.mark.parametrize(
    "content", ["", '{"format": 2, "machines": {"', "[]", '{"format": 2}', '{"machines": {}, "format": "x"}']
)
def test_a_damaged_file_is_set_aside(place, content):
    place.write_text(content)
    assert ledger.add_evidence(experiment()) is None
    assert ledger.summary().experiments == 1
    assert place.with_name("ledger.json.unreadable").read_text() == content


def test_the_ledger_of_a_later_version_is_left_alone(place):
    content = '{"format": 3, "machines": {}}'
    place.write_text(content)
    assert ledger.add_evidence(experiment()) is None
    assert place.read_text() == content
    assert ledger.summary().experiments == 0
