"""The questions of a grid of factors, and what is said of their answers."""

import math

import numpy as np
import pytest

from pgassay.analysis.effects.effect_sentences import ranked, sentences_of, size_words
from pgassay.analysis.effects.questions import grid_of, questions
from pgassay.analysis.verdicts.compare import analyse
from pgassay.errors import UsageError
from pgassay.model.further_results.effects import Interaction, LevelEffect
from pgassay.report.compare.page import page_of
from simulated_worlds import World
from whole_experiments import planned, run_whole

GRID = ("io_method=sync,worker", "work_mem=1MB,2MB,3MB")


def cells(*levels: tuple[str, str]) -> list[dict[str, str]]:
    return [{"a": first, "b": second} for first, second in levels]


def test_a_grid_is_asked_for_every_factor_and_every_pair():
    grid = grid_of([{"a": a, "b": b} for b in "xyz" for a in "12"], {})
    asked = questions(grid)
    counts = {kind: sum(each.kind == kind for each in asked) for kind in ("main", "at", "interaction")}
    assert counts == {"main": 1 + 2, "at": 3 + 2 * 2, "interaction": 2}
    main = asked[0]
    assert [grid.cells[place][0] for place in main.plus] == ["2"] * 3
    assert [grid.cells[place][0] for place in main.minus] == ["1"] * 3
    # Each cell stands against the one that differs in this factor alone.
    assert [grid.cells[place][1] for place in main.plus] == [grid.cells[place][1] for place in main.minus]


def test_a_missing_cell_leaves_its_partner_out():
    grid = grid_of(cells(("1", "x"), ("2", "x"), ("1", "y")), {})
    asked = questions(grid)
    assert [(each.kind, len(each.plus)) for each in asked if each.kind == "main"] == [
        ("main", 1),
        ("main", 1),
    ]
    assert not [each for each in asked if each.kind == "interaction"]


def effect(factor: str, ratio: float, low: float, high: float, verdict: str, **rest) -> LevelEffect:
    return LevelEffect(
        factor=factor, level="new", reference="old", ratio=ratio, interval=(low, high), verdict=verdict,
        rounds=9, **rest,
    )  # fmt: skip


def test_the_ranking_begins_with_the_largest_and_bounds_the_rest():
    main = [
        effect("io_method", 1.001, 0.985, 1.0151, "equivalent"),
        effect("storage", 0.5, 0.45, 0.53, "slower"),
    ]
    ranking = ranked(["io_method", "storage"], main)
    said = sentences_of(ranking, main, [], [], 0.03)
    assert said[0] == "storage: 2.0 × [1.9, 2.2], old over new; io_method: at most 1.02 ×."
    least = math.log(1 / 0.53) / math.log(1.0151 if 1.0151 > 1 / 0.985 else 1 / 0.985)
    assert f"{least:.0f} times as much" in said[1]
    assert size_words(ranked(["cpus"], [])[0]) == "cpus: not known yet"


def test_what_is_said_to_be_at_most_is_rounded_upwards():
    (size,) = ranked(["io_method"], [effect("io_method", 1.0, 0.99, 1.0101, "equivalent")])
    assert size_words(size) == "io_method: at most 1.02 ×"


def test_a_withheld_effect_bounds_nothing():
    """Imitating the volumes took the processors: the interval is of that, and not of the storage."""
    withheld = effect("storage", 1.0, 0.99, 1.01, "inconclusive", withheld=True)
    proven = effect("clients", 2.0, 1.9, 2.2, "faster")
    clients, storage = ranking = ranked(["storage", "clients"], [withheld, proven])
    assert (clients.factor, storage.at_most) == ("clients", None)
    assert sentences_of(ranking, [withheld, proven], [], [], 0.03) == (
        "clients: 2.0 × [1.9, 2.2], new over old; storage: not known yet.",
    )


def test_an_effect_that_is_there_at_one_level_alone_is_told_so():
    at = [
        effect("io_method", 1.3, 1.2, 1.4, "faster", at={"clients": "50"}),
        effect("io_method", 1.0, 0.99, 1.01, "equivalent", at={"clients": "1"}),
    ]
    interaction = Interaction(
        factor="io_method", level="new", reference="old", by="clients", by_level="50", by_reference="1",
        ratio=1.3, interval=(1.15, 1.45), verdict="larger", rounds=9,
    )  # fmt: skip
    main = [effect("io_method", 1.15, 1.1, 1.2, "faster")]
    said = sentences_of(ranked(["io_method"], main), main, at, [interaction], 0.03)
    assert said[-1] == (
        "io_method=new matters only at clients=50 (30 % faster than old, [1.20, 1.40]); at clients=1 it is "
        "within 3 %."
    )


def whole(rounds: int = 12, **world):
    experiment = planned(*GRID, seed=5, blocks=rounds)
    design = experiment.design.model_copy(update={"decided_rest": False})
    experiment = experiment.model_copy(update={"design": design})
    source = World("normal", 0.01, np.random.default_rng(4), **world)
    return run_whole(experiment, source, until_decided=False).stored


@pytest.fixture(scope="module")
def stored():
    names = [arm.name for arm in planned(*GRID, seed=5).arms]
    return whole(effects={name: math.log(2) for name in names if "work_mem=3MB" in name})


def test_a_factor_that_only_strata_differ_in_has_its_effect(stored):
    effects = analyse(stored).effects
    assert effects is not None
    assert effects.rounds == 12
    first, second = effects.ranking
    assert (first.factor, first.faster, first.slower) == ("work_mem", "3MB", "1MB")
    assert first.interval[0] < 2 < first.interval[1]
    assert second.factor == "io_method" and second.ratio is None and second.at_most < 1.1
    assert all(each.verdict != "larger" for each in effects.interactions)


def test_every_output_begins_with_what_matters_most(stored):
    result = analyse(stored)
    for shown in (
        page_of(result, stored).terminal(width=100, unicode=False),
        page_of(result, stored).markdown(),
    ):
        assert "What matters most" in shown
        assert "work_mem: 2.0" in shown and "io_method: at most" in shown
    page = page_of(result, stored).html()
    assert "What each factor does" in page and "Effects at each level of another factor" in page


def test_one_factor_alone_has_no_ranking():
    experiment = planned("work_mem=1MB,2MB", seed=1, blocks=4)
    ended = run_whole(experiment, World("normal", 0.01, np.random.default_rng(1)), until_decided=False)
    assert ended.result().effects is None


def test_a_round_that_is_not_whole_does_not_count():
    full = whole(6)
    cut = full.__class__(full.folder, full.experiment, full.trials[:-1], block_plans=full.block_plans)
    assert analyse(cut).effects.rounds == 5


def test_effects_can_be_what_an_experiment_goes_on_for():
    experiment = planned(*GRID, seed=2, blocks=40, decide="effects")
    assert not experiment.design.decided_rest
    source = World("normal", 0.01, np.random.default_rng(2))
    ended = run_whole(experiment, source, look_at_each=True)
    result = ended.result()
    assert result.effects.decided and result.effects.rounds < 40
    assert [each.verdict for each in result.effects.main] == ["equivalent"] * 3


def test_one_factor_alone_can_not_go_on_for_effects():
    with pytest.raises(UsageError, match="add a factor"):
        planned("work_mem=1MB,2MB", seed=1, decide="effects")
