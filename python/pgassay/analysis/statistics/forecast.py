"""How many more blocks a comparison is likely to take, by continuing the evidence in hand.

The blocks so far say something of the effect and of the noise. Pairs of both are drawn from what they say:
the noise is taken for normal, its spread comes from χ², the effect from a normal around the mean difference,
weighted by a prior (below). For each pair further blocks are drawn, and their factors go on from the products
of the blocks that are there, by the rules of the experiment, until a verdict. No verdict depends on this.

Near blocks are drawn one by one. Further ones are taken together, by the normal sum of their log factors, in
steps of a quarter of the blocks drawn so far: a forecast of 100 blocks needs no better resolution.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pgassay.analysis.statistics.eprocess import (
    PRIOR_WEIGHT,
    BoolArray,
    EvidenceRules,
    FloatArray,
    differences,
    gather_evidence,
    log_products_above,
    log_products_below,
    mixed,
)
from pgassay.analysis.statistics.equivalence import log_margin
from pgassay.analysis.statistics.sign_flips import FLIPS_EASED, rules_of_flips

# Continuations of each contrast, and the further blocks beyond which nothing is said.
PATHS = 80
HORIZON_BLOCKS = 1000
# The prior of the effect is Cauchy's with this scale (a log ratio): most differences that people measure are
# of a few percent. A flat one says that an effect of less than a percent in noise of 15 % is next to
# impossible, and promises its verdict much too soon.
EFFECT_SCALE = 0.06
BLOCKS_BEFORE = 3
_CANDIDATES = 6
_BLOCKS_ONE_BY_ONE = 6
_STEP_SHARE = 0.25
_EXPONENT_MAX = np.float32(80)
# float32 keeps a hundredth of a percent of the products: more than a forecast needs, in half the time.
_Coarse = NDArray[np.float32]


@dataclass(frozen=True)
class DecisionRules:
    """When a comparison is decided: see `StatisticalContract`.

    level: of the confidence sequence; equivalence_level: of the one that must lie inside the margin (a
    fraction); blocks_min: before which no verdict is given.
    """

    margin: float
    level: float
    equivalence_level: float
    blocks_min: int


def further_blocks(
    members: FloatArray, rules: EvidenceRules, decision: DecisionRules, seed: int
) -> FloatArray:
    """Blocks until the verdict of each simulated continuation; (contrasts, blocks, n) → (contrasts, PATHS).

    `members` are the log speeds of the complete blocks, the arm first, n 2 or 3. Infinite where there is no
    verdict within HORIZON_BLOCKS. The draws depend on `seed` and the number of blocks, and not on which other
    contrasts are asked for, so the same record gives the same answer. Raises ValueError with fewer than
    BLOCKS_BEFORE blocks.
    """
    blocks = members.shape[-2]
    if blocks < BLOCKS_BEFORE:
        raise ValueError(f"a forecast needs at least {BLOCKS_BEFORE} blocks, got {blocks}")
    random = np.random.default_rng([seed, blocks])
    spread, effect = _drawn_truths(members, random)
    if rules.flips and members.shape[-1] > 2:
        members, rules, decision, spread = _as_flips(members, rules, decision, spread)
    paths = _Paths.begin(members, rules, decision, spread, effect)
    while paths.left and paths.elapsed < HORIZON_BLOCKS:
        paths.advance(random)
    return np.maximum(paths.times, max(1, decision.blocks_min - blocks))


def _as_flips(
    members: FloatArray, rules: EvidenceRules, decision: DecisionRules, spread: FloatArray
) -> tuple[FloatArray, EvidenceRules, DecisionRules, FloatArray]:
    """The same question asked of the sign flips, which are the last to be convinced (`joined`).

    A pair of the difference and 0, which spreads as the difference does.
    """
    count, eased = members.shape[-1], float(np.exp(FLIPS_EASED))
    difference = differences(members)
    eased_decision = replace(
        decision, level=eased * decision.level, equivalence_level=eased * decision.equivalence_level
    )
    pairs = np.stack([difference, np.zeros_like(difference)], axis=-1)
    return pairs, rules_of_flips(rules), eased_decision, spread * np.sqrt(count / (count - 1) / 2)


def quantiles(times: FloatArray) -> tuple[int | None, int | None, int | None]:
    """p10, median and p90 of one contrast's continuations, (paths,); None for those beyond the horizon."""
    found = np.quantile(times, (0.1, 0.5, 0.9), method="inverted_cdf")
    low, middle, high = (int(value) if np.isfinite(value) else None for value in found)
    return low, middle, high


def _drawn_truths(members: FloatArray, random: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Spreads of a single trial and effects that the blocks allow, both (contrasts, PATHS).

    d has b − 1 degrees of freedom, and the difference of two pooled controls, whose mean is 0, has b more.
    """
    blocks, count = members.shape[-2:]
    difference = differences(members)
    mean = difference.mean(axis=-1)
    squares = ((difference - mean[:, np.newaxis]) ** 2).sum(axis=-1) * (count - 1) / count
    degrees = blocks - 1
    if count > 2:
        squares = squares + ((members[..., 1] - members[..., 2]) ** 2).sum(axis=-1) / 2
        degrees += blocks
    amount = PATHS * _CANDIDATES
    spread = np.sqrt(squares[:, np.newaxis] / random.chisquare(degrees, amount))
    spread = np.maximum(spread, 1e-9)
    error = np.sqrt(count / (count - 1) / blocks) * random.standard_normal(amount)
    effect = mean[:, np.newaxis] + spread * error
    weight = np.cumsum(1 / (1 + (effect / EFFECT_SCALE) ** 2), axis=-1)
    places = (np.arange(PATHS) + random.random()) / PATHS
    chosen = np.stack([np.searchsorted(row / row[-1], places) for row in weight])
    chosen = np.minimum(chosen, amount - 1)
    rows = np.arange(len(chosen))[:, np.newaxis]
    return spread[rows, chosen], effect[rows, chosen]


def _mixed(products: _Coarse, shares: _Coarse) -> FloatArray:
    """log of the mean over the grid by these shares, (rows, questions, grid) → (rows, questions)."""
    largest = products.max(axis=-1)
    # Not a product of matrices: its rounding would depend on how many rows there are.
    total = (np.exp(products - largest[..., np.newaxis]) * shares).sum(axis=-1)
    result: FloatArray = (largest + np.log(total)).astype(np.float64)
    return result


@dataclass
class _Paths:
    """The continuations that are not decided yet, one row each.

    Of the three questions the first is "is there an effect of this sign?", the others are the two sides of
    equivalence. A path whose effect is negative is mirrored, so that all effects are 0 or more.

    times: the answer, of all paths; rows: the places of those that are left. products: log products, (rows,
    questions, grid); now: log evidence, (rows, questions); crossed: the further blocks after which each
    question was answered. squares, observed: the sum of squares of d and the number of blocks, for the scale.
    """

    times: FloatArray
    rows: NDArray[np.intp]
    products: _Coarse
    now: FloatArray
    crossed: FloatArray
    spread: FloatArray
    effect: FloatArray
    squares: FloatArray
    first_squares: float
    observed: int
    members: int
    factor: _Coarse
    shares: _Coarse
    edge: float
    targets: FloatArray
    elapsed: int = 0

    @classmethod
    def begin(
        cls,
        members: FloatArray,
        rules: EvidenceRules,
        decision: DecisionRules,
        spread: FloatArray,
        effect: FloatArray,
    ) -> "_Paths":
        """Where the evidence in hand stands, once for each path."""
        contrasts, blocks, count = members.shape
        evidence = gather_evidence(members, rules)
        edge = log_margin(decision.margin)
        weights = np.exp(rules.log_weights)
        asked = (
            (log_products_above(evidence, 0.0), log_products_below(evidence, 0.0)),
            (log_products_above(evidence, -edge), log_products_below(evidence, edge)),
            (log_products_below(evidence, edge), log_products_above(evidence, -edge)),
        )
        # (sign, contrasts, questions, blocks, grid)
        history = np.stack([np.stack([pair[sign] for pair in asked], axis=1) for sign in (0, 1)])
        so_far = mixed(history, evidence.log_weights)
        negative = (effect < 0).astype(np.intp).ravel()
        contrast = np.repeat(np.arange(contrasts), PATHS)
        difference = differences(members)
        squares = ((difference - difference.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
        target = np.log(2.0 / np.array([decision.level, *[decision.equivalence_level] * 2]))
        best = so_far.max(axis=-1)[negative, contrast]
        return cls(
            times=np.full((contrasts, PATHS), np.inf),
            rows=np.arange(contrasts * PATHS),
            products=history[..., -1, :][negative, contrast].astype(np.float32),
            now=so_far[..., -1][negative, contrast],
            crossed=np.where(best >= target, 0.0, np.inf),
            spread=spread.ravel(),
            effect=np.abs(effect).ravel(),
            squares=squares[contrast],
            first_squares=PRIOR_WEIGHT * rules.first_scale**2,
            observed=blocks,
            members=count,
            factor=(rules.grid * count / (count - 1)).astype(np.float32),
            shares=(weights / weights.sum()).astype(np.float32),
            edge=edge,
            targets=target,
        )

    @property
    def left(self) -> int:
        """The paths without a verdict."""
        return len(self.rows)

    def advance(self, random: np.random.Generator) -> None:
        """Draw the next block, or the next few together, and take out the paths that are decided by it."""
        together = 1
        if self.elapsed >= _BLOCKS_ONE_BY_ONE:
            together = max(1, round(self.elapsed * _STEP_SHARE))
        step = min(together, HORIZON_BLOCKS - self.elapsed)
        paths = self.rows % PATHS
        shared = random.standard_normal(PATHS)[paths]
        between = random.standard_normal(PATHS)[paths]
        degrees_drawn = random.chisquare(step, PATHS)[paths]
        scale = np.sqrt((self.squares + self.first_squares) / (self.observed + PRIOR_WEIGHT - 1))
        unit = self.spread * np.sqrt(self.members / (self.members - 1))
        if step == 1:
            gained = self._log_factors(scale, self.effect + unit * shared, between)
            self.squares = self.squares + (unit * shared) ** 2
        else:
            # Gauss–Hermite with two nodes gives the mean of a log factor and how it moves with d.
            ones = np.ones_like(unit)
            high = self._log_factors(scale, self.effect + unit, ones)
            low = self._log_factors(scale, self.effect - unit, ones)
            moved = (np.sqrt(step) * shared).astype(np.float32)[:, np.newaxis, np.newaxis]
            gained = high * (step / 2 + moved / 2) + low * (step / 2 - moved / 2)
            self.squares = self.squares + unit**2 * degrees_drawn
        self.products += gained
        before, self.now = self.now, _mixed(self.products, self.shares)
        reached = (self.now >= self.targets) & np.isinf(self.crossed)
        share = (self.targets - before) / np.maximum(self.now - before, 1e-9)
        when = np.ceil(self.elapsed + step * np.clip(share, 1e-9, 1.0))
        self.crossed = np.where(reached, when, self.crossed)
        self.elapsed += step
        self.observed += step
        self._take_out_decided()

    def _log_factors(self, scale: FloatArray, difference: FloatArray, between: FloatArray) -> _Coarse:
        """log e of one block per path, question and grid point, (rows, 3, grid)."""
        sharpness = self.factor / scale.astype(np.float32)[:, np.newaxis]
        moved = np.stack([-difference, -self.edge - difference, difference - self.edge], axis=1)
        excess = moved.astype(np.float32)[:, :, np.newaxis] * sharpness[:, np.newaxis, :]
        if self.members > 2:
            # Two controls lie as far above their mean as below it, by σ/√2 times a normal draw.
            half = np.abs(sharpness * (self.spread * between / np.sqrt(2)).astype(np.float32)[:, np.newaxis])
            excess += (half + np.log(1 + np.exp(-2 * half)))[:, np.newaxis, :]
        # In place, and cut off where a factor is as good as 0 anyway: this is nearly all the time it takes.
        np.minimum(excess, _EXPONENT_MAX, out=excess)
        np.exp(excess, out=excess)
        excess += 1
        np.log(excess, out=excess)
        return np.subtract(np.float32(np.log(self.members)), excess, out=excess)

    def _take_out_decided(self) -> None:
        decided = np.minimum(self.crossed[:, 0], np.maximum(self.crossed[:, 1], self.crossed[:, 2]))
        done: BoolArray = np.isfinite(decided)
        if not done.any():
            return
        self.times.ravel()[self.rows[done]] = decided[done]
        left = ~done
        self.rows, self.products, self.now = self.rows[left], self.products[left], self.now[left]
        self.crossed, self.spread, self.effect = self.crossed[left], self.spread[left], self.effect[left]
        self.squares = self.squares[left]
