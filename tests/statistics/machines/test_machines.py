"""Several machines: error rates at any look, disagreement, power, and what is said of machines like these."""

import numpy as np
import pytest

from pgassay.analysis.machines.pooled_evidence import PooledEvidence, log_disagreement, pool
from pgassay.analysis.machines.population import (
    machine_figure,
    machines_needed,
    population_evidence,
)
from pgassay.analysis.statistics.contrasts import evidence_of
from pgassay.analysis.statistics.eprocess import (
    BlockEvidence,
    EvidenceRules,
    FloatArray,
    log_evidence_above,
    log_evidence_below,
)
from pgassay.analysis.statistics.power import minimum_blocks
from pgassay.analysis.statistics.sequence import confidence_sequence
from pgassay.experiment.planning.experiment_plan import CLIPPED_SHARE, SHARPNESS, SHARPNESS_WEIGHTS
from simulated_noise import trials

ALPHA = 0.05
RULES = EvidenceRules(SHARPNESS, 0.03, SHARPNESS_WEIGHTS, CLIPPED_SHARE)
# Paired spreads of machines that are not alike: one is much noisier than another.
UNEQUAL = (0.01, 0.06, 0.025)
N = pytest.mark.parametrize("runs", [80, pytest.param(2000, marks=pytest.mark.slow)])


def within(share: float, runs: int) -> bool:
    """Whether a share of errors is within alpha, with two and a half standard errors of slack."""
    return share <= ALPHA + 2.5 * np.sqrt(ALPHA * (1 - ALPHA) / runs)


def machine(
    kind: str,
    runs: int,
    blocks: int,
    effect: FloatArray | float,
    spread: float,
    random: np.random.Generator,
    *,
    drift: float = 0.0,
) -> FloatArray:
    """(runs, blocks, 3 members and 3 slots on the last axis): a pooled design in a drawn order.

    drift: how much slower each trial is than the one before it on this machine, in logs.
    """
    values = trials(kind, runs, blocks, 3, random, paired_spread=spread)
    values[..., 0] += np.asarray(effect)[..., np.newaxis]
    slots = random.permuted(np.broadcast_to(np.arange(3.0), values.shape), axis=-1)
    slots = slots + 3.0 * np.arange(blocks)[:, np.newaxis]
    return np.concatenate([values - drift * slots, slots], axis=-1)


def evidence(values: FloatArray) -> BlockEvidence:
    return evidence_of(values[..., :3], values[..., 3:], RULES)


def in_turn(parts: list[BlockEvidence]) -> PooledEvidence:
    """All machines' first blocks, then all their second ones, as equally fast machines end them."""
    return pool(parts, [list(range(part.blocks)) for part in parts])


def ever_excluded(found: BlockEvidence, effect: float) -> FloatArray:
    """Whether the sequence ever excluded this effect, for each run."""
    target = np.log(2 / ALPHA)
    above, below = log_evidence_above(found, effect), log_evidence_below(found, effect)
    return (above.max(axis=-1) >= target) | (below.max(axis=-1) >= target)


@N
@pytest.mark.parametrize(
    ("kind", "machines", "blocks", "effect"),
    [
        ("normal", 2, 20, 0.0),
        ("t2.5", 4, 12, 0.05),
        ("skewed", 12, 6, 0.0),
        ("bimodal", 30, 3, -0.03),
    ],
)
def test_one_effect_is_rarely_excluded_at_any_look(runs, kind, machines, blocks, effect):
    """Unequal noise, unequal speeds (each block has its own level), and one machine that becomes slower."""
    random = np.random.default_rng([41, machines])
    parts = [
        evidence(
            machine(kind, runs, blocks, effect, UNEQUAL[place % 3], random, drift=0.01 if place == 1 else 0.0)
        )
        for place in range(machines)
    ]
    assert within(float(ever_excluded(in_turn(parts), effect).mean()), runs)
    assert within(float((log_disagreement(parts) >= np.log(1 / ALPHA)).mean()), runs)


def test_machines_of_unequal_pace_are_valid_in_the_order_in_which_their_blocks_end():
    """One ends ten blocks while the others end two each, whatever order the blocks are told in."""
    runs, random = 250, np.random.default_rng(42)
    counts = (2, 10, 2)
    parts = [
        evidence(machine("t2.5", runs, blocks, 0.02, spread, random))
        for blocks, spread in zip(counts, UNEQUAL, strict=True)
    ]
    ended = [[10.0 * (block + 1) * 5 / blocks for block in range(blocks)] for blocks in counts]
    found = pool(parts, ended)
    assert sorted(found.order) == list(range(14))
    assert list(found.order) != list(range(14))
    assert within(float(ever_excluded(found, 0.02).mean()), runs)


def test_one_machine_alone_is_what_it_was_without_others():
    values = machine("normal", 40, 12, 0.04, 0.03, np.random.default_rng(43))
    alone = evidence(values)
    both = confidence_sequence(alone, ALPHA, running=True)
    pooled = confidence_sequence(in_turn([alone]), ALPHA, running=True)
    assert np.allclose(pooled.lower, both.lower, atol=1e-9)
    assert np.allclose(pooled.upper, both.upper, atol=1e-9)


@N
def test_four_equal_machines_decide_in_a_third_of_the_time(runs):
    """At most 0.35 of the blocks that one machine takes, each machine running one after the other."""
    runs, blocks, spread, effect = min(runs, 600), 120, 0.07, 0.05
    random = np.random.default_rng(44)
    values = [machine("normal", runs, blocks, effect, spread, random) for _ in range(4)]
    alone = decided_after(evidence(values[0]), 1)
    together = decided_after(in_turn([evidence(each) for each in values]), 4)
    assert np.isfinite(alone).mean() > 0.99
    assert together.mean() <= 0.35 * np.minimum(alone, blocks).mean()


def decided_after(found: BlockEvidence, machines: int) -> FloatArray:
    """Rounds, of a block on each machine, until the interval excludes no effect; infinite without."""
    reached = log_evidence_above(found) >= np.log(2 / ALPHA)
    reached[..., : minimum_blocks(pooled=True, contrasts=1, alpha=ALPHA) - 1] = False
    first = np.where(reached.any(axis=-1), reached.argmax(axis=-1) + 1.0, np.inf)
    return np.ceil(first / machines)


@pytest.mark.parametrize(
    ("effects", "least"),
    [
        ((0.05, 0.05, 0.05, 0.05, 0.05, -0.05), 0.95),
        ((0.05, -0.05), 0.95),
        ((0.05, 0.05, 0.05, 0.0), 0.6),
    ],
    ids=["one of six", "two", "one without"],
)
def test_machines_that_disagree_are_found(effects, least):
    runs, random = 100, np.random.default_rng([45, len(effects)])
    parts = [evidence(machine("normal", runs, 20, effect, 0.03, random)) for effect in effects]
    assert (log_disagreement(parts) >= np.log(1 / ALPHA)).mean() >= least


@N
@pytest.mark.parametrize("spreads", [(0.03, 0.03), (0.02, 0.05)], ids=["equal", "unequal"])
def test_a_direction_that_machines_do_not_share_is_rarely_given(runs, spreads):
    """Half are 4 % faster, half 4 % slower: at both looks a direction without disagreement is rare."""
    random = np.random.default_rng([46, int(100 * spreads[1])])
    effects = (0.04, -0.04, 0.04, -0.04)
    values = [
        machine("normal", runs, 24, effect, spreads[place % 2], random)
        for place, effect in enumerate(effects)
    ]
    wrong = np.zeros(runs, dtype=bool)
    for look in (6, 24):
        parts = [evidence(each[:, :look]) for each in values]
        found, agree = in_turn(parts), log_disagreement(parts) < np.log(1 / ALPHA)
        wrong |= agree & ever_excluded(found, 0.0)
    assert within(float(wrong.mean()), runs)


def own_effects(kind: str, runs: int, machines: int, random: np.random.Generator) -> FloatArray:
    """How machines' effects differ from their centre, (runs, machines), symmetric about 0."""
    shape = (runs, machines)
    if kind == "alike":
        return np.zeros(shape)
    if kind == "heavy":
        return 0.01 * random.standard_t(2.5, shape)
    if kind == "two kinds":
        return np.where(random.random(shape) < 0.5, -0.04, 0.04)
    return 0.03 * random.standard_normal(shape)


def figures(
    kind: str, noise: str, runs: int, machines: int, centre: float, random: np.random.Generator
) -> FloatArray:
    """Each machine's figure, (runs, machines), from blocks of its own number and noise."""
    effects = centre + own_effects(kind, runs, machines, random)
    made = []
    for place in range(machines):
        values = machine(noise, runs, 4 + 3 * (place % 3), effects[:, place], UNEQUAL[place % 3], random)
        made.append(machine_figure(values[..., 0] - values[..., 1]))
    return np.stack(made, axis=-1)


@N
@pytest.mark.parametrize(
    ("kind", "noise", "centre"),
    [
        ("alike", "skewed", 0.0),
        ("normal", "normal", 0.0),
        ("heavy", "t2.5", 0.05),
        ("two kinds", "normal", 0.0),
    ],
)
def test_the_centre_of_machines_is_rarely_excluded_after_any_machine(runs, kind, noise, centre):
    random = np.random.default_rng([47, len(kind)])
    found = population_evidence(figures(kind, noise, runs, 30, centre, random))
    assert within(float(ever_excluded(found, centre).mean()), runs)


@N
@pytest.mark.parametrize(
    ("machines", "scale"),
    [
        (6, 0.01),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((6, 0.0), (6, 0.03), (10, 0.0), (10, 0.02))
        ),
    ],
)
def test_a_stop_of_all_machines_does_not_raise_the_errors_of_machines_like_these(runs, machines, scale):
    """A fleet ends when its own question is decided: when that is decides when all figures are taken."""
    runs, rounds = min(runs, 600), 10
    random = np.random.default_rng([50, machines, int(1000 * scale)])
    effects = scale * random.standard_normal((runs, machines))
    values = [machine("normal", runs, rounds, effects[:, place], 0.03, random) for place in range(machines)]
    stopped = np.full(runs, rounds)
    for look in range(rounds, 1, -1):
        parts = [evidence(each[:, :look]) for each in values]
        agree = log_disagreement(parts) < np.log(1 / ALPHA)
        stopped[agree & ever_excluded(in_turn(parts), 0.0)] = look
    pairs = np.stack([each[..., 0] - each[..., 1] for each in values], axis=1)
    found = np.empty((runs, machines))
    for look in np.unique(stopped):
        found[stopped == look] = machine_figure(pairs[stopped == look][..., :look])
    assert (stopped < rounds).any()
    assert within(float(ever_excluded(population_evidence(found), 0.0).mean()), runs)


def test_many_blocks_of_one_machine_are_not_many_machines():
    """Two machines that differ by chance say nothing of a kind whose centre is no effect."""
    runs, random = 200, np.random.default_rng(48)
    effects = own_effects("normal", runs, 2, random)
    parts = [evidence(machine("normal", runs, 60, effects[:, place], 0.01, random)) for place in range(2)]
    assert ever_excluded(in_turn(parts), 0.0).mean() > 0.5
    values = figures("normal", "normal", runs, 2, 0.0, random)
    assert not ever_excluded(population_evidence(values), 0.0).any()


def test_below_six_machines_nothing_can_be_said_and_with_six_it_can():
    assert machines_needed(ALPHA) == 6
    clear = np.full((1, 30), 0.5)
    assert not ever_excluded(population_evidence(clear[:, :5]), 0.0).any()
    assert ever_excluded(population_evidence(clear[:, :6]), 0.0).all()
    for level in (0.05 / 3, 0.01, 0.1):
        needed = machines_needed(level)
        target = np.log(2 / level)
        assert log_evidence_above(population_evidence(clear[:, : needed - 1]), 0.0).max() < target
        assert log_evidence_above(population_evidence(clear[:, :needed]), 0.0).max() >= target


@pytest.mark.parametrize(("machines", "least"), [(6, 0.4), (8, 0.9), (12, 0.98)])
def test_an_effect_of_machines_like_these_is_found(machines, least):
    """5 % on every machine, give or take 1 %, with what blocks leave of the noise."""
    runs, random = 300, np.random.default_rng([49, machines])
    values = 0.05 + 0.015 * random.standard_normal((runs, machines))
    assert ever_excluded(population_evidence(values), 0.0).mean() >= least
