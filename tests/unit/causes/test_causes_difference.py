"""What explains a difference: intervals that hold for all items together, and nothing that was not used."""

import numpy as np
import pytest

import analysis_samples
from cause_samples import account, item
from pgassay.analysis.accounts.work_times import work_times
from pgassay.analysis.causes import difference
from pgassay.analysis.causes.difference import ITEMS, differences, items_of, seconds_of_connections
from pgassay.analysis.verdicts.study import Study, gather_study
from simulated_noise import noise

RUNS, BLOCKS, ALPHA = 120, 15, 0.05
CPU, READS = ITEMS.index(("connections", "on CPU")), ITEMS.index(("connections", "waiting for reads"))
WORKERS = ITEMS.index(("I/O workers", "on CPU"))


@pytest.fixture(scope="module")
def study() -> Study:
    """One arm, its control and its twin."""
    plan = analysis_samples.experiment()
    return gather_study(analysis_samples.stored(plan, analysis_samples.simulate(plan, 2)))


def simulated(kind: str, random: np.random.Generator, shift: dict[int, float]) -> np.ndarray:
    """Seconds of trials of about 2 s, (items, blocks, arms): few items are used, arm 1 differs by `shift`."""
    seconds = np.zeros((len(ITEMS), BLOCKS, 3))
    # Blocks drift, and the items of one trial go up and down together.
    common = 0.1 * random.standard_normal((BLOCKS, 1)) + 0.03 * noise(kind, (BLOCKS, 3), random)
    for place, typical in ((CPU, 1.2), (READS, 0.8), (WORKERS, 0.2)):
        seconds[place] = typical * (1 + common + 0.03 * noise(kind, (BLOCKS, 3), random))
    for place, by in shift.items():
        seconds[place, :, 1] += by
    return seconds


@pytest.mark.parametrize("kind", ["normal", "skewed"])
def test_the_intervals_of_all_items_hold_together(study: Study, kind: str) -> None:
    random = np.random.default_rng([31, len(kind)])
    shift = {READS: -0.4, WORKERS: 0.38}
    truth = np.array([shift.get(place, 0.0) for place in range(len(ITEMS))])
    missed = 0
    for _ in range(RUNS):
        found = differences(simulated(kind, random, shift), study, ALPHA)
        missed += bool(((found.lower[:, 0] > truth) | (found.upper[:, 0] < truth)).any())
    assert missed / RUNS <= ALPHA + 3 * (ALPHA * (1 - ALPHA) / RUNS) ** 0.5


def test_what_moved_is_told_and_what_was_not_used_is_not(study: Study) -> None:
    found = differences(
        simulated("normal", np.random.default_rng(32), {READS: -0.4, WORKERS: 0.38}), study, ALPHA
    )
    items = items_of(found, 0)
    assert [(each.process, each.item) for each in items] == [ITEMS[READS], ITEMS[WORKERS]]
    assert items[0].seconds == pytest.approx(-0.4, abs=0.1)
    low, high = items[0].interval
    assert low is not None
    assert high is not None
    assert low < -0.4 < high < 0
    assert not items_of(differences(simulated("normal", np.random.default_rng(33), {}), study, ALPHA), 0)


@pytest.mark.parametrize("unit", ["trial", "start"])
def test_one_execution_in_each_shared_start_explains_nothing(
    monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    plan = analysis_samples.experiment(unit=unit)
    stored = analysis_samples.stored(plan, analysis_samples.simulate(plan, 2))
    seconds = simulated("normal", np.random.default_rng(32), {READS: -0.4})
    monkeypatch.setattr(difference, "_seconds", lambda *_: seconds)
    assert bool(difference.explanations(stored, gather_study(stored))) == (unit == "trial")


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ("IO:DataFileWrite", "writes"),
        ("IO:DataFileExtend", "writes"),
        ("LWLock:WALInsert", "writes"),
        ("IO:SlruRead", "writes"),
        ("IPC:CheckpointDone", "writes"),
        ("IO:WalSync", "WAL"),
        ("Lock:relation", "other locks"),
        ("IPC:SyncRep", "standbys"),
    ],
)
def test_time_that_moved_in_any_wait_is_an_item(event: str, told: str) -> None:
    """Who waited for nothing but backend writes had no item that could have moved."""
    times = work_times([account("backend", item("wait", 4.0, event), item("cpu", 1.0))])
    known = {name: value for (_, name), value in zip(ITEMS, seconds_of_connections(times), strict=False)}
    assert {name: value for name, value in known.items() if value} == {
        "on CPU": 1.0,
        f"waiting for {told}": 4.0,
    }
