"""The blocks of several machines as evidence of one effect, and evidence that it is not one.

A block's arms all ran on one machine, so machines never differ within a block, and each machine's factors
have expectation 1 given what that machine did before (`statistics.eprocess`). Machines don't know of each
other: in whatever order their blocks end, the product over all of them is a test martingale of "every machine
has this effect". A machine's scale and its weights of neighbours come from its own earlier blocks.

Half of the evidence counts one sharpness for all machines, which finds an effect soonest where they are
alike. The other half is the product of what each machine says for itself, with a sharpness for each: machines
may be of unequal noise. A mean of two test martingales is one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pgassay.analysis.statistics.eprocess import (
    AnyEvidence,
    BlockEvidence,
    FloatArray,
    OfFactors,
    log_sum_exp,
    mixed,
)
from pgassay.analysis.statistics.joined_evidence import BothMustAgree, EitherWillDo
from pgassay.analysis.statistics.sequence import point_estimate
from pgassay.analysis.statistics.starts import OfStarts

# Effects at which it is asked whether machines agree, between their own and on either side: more of them make
# the answer sharper, never wrong.
_CELLS_BETWEEN, _CELLS_BESIDE = 40, 6
# What the factors at these effects take in memory is bounded.
_NUMBERS_AT_ONCE = 4_000_000
# The effects asked about reach beyond the machines' own by this much at least, a log ratio.
_BEYOND = 0.05


@dataclass(frozen=True)
class PooledEvidence(OfFactors):
    """The evidence of several machines' blocks, in one order.

    parts: of each machine, all with the same leading shape, members and grid. order: the places of the blocks
    of all parts, one part after the other, in the order in which they ended, (blocks).
    """

    parts: tuple[BlockEvidence, ...]
    order: NDArray[np.intp]

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading shape: that of an effect."""
        return self.parts[0].shape

    @property
    def blocks(self) -> int:
        """The blocks of all machines."""
        return sum(part.blocks for part in self.parts)

    @property
    def members(self) -> int:
        """The members of a block."""
        return self.parts[0].members

    @property
    def log_weights(self) -> FloatArray:
        """What each grid point counts; the last is the product of what each machine says for itself."""
        shared = np.exp(self.parts[0].log_weights)
        result: FloatArray = np.log(np.append(shared / shared.sum(), 1.0) / 2)
        return result

    @property
    def log_bounding_share(self) -> float:
        """As that of a part, in the half that counts one sharpness for all."""
        return min(part.log_bounding_share for part in self.parts) - float(np.log(2.0))

    def log_factors_above(self, effect: FloatArray | float) -> FloatArray:
        """log of each block's factor of E⁺ by grid point, (..., blocks, grid)."""
        return self._in_order([part.log_factors_above(effect) for part in self.parts])

    def log_factors_below(self, effect: FloatArray | float) -> FloatArray:
        """As log_factors_above, of E⁻."""
        return self._in_order([part.log_factors_below(effect) for part in self.parts])

    def both_sides(self) -> "PooledEvidence":
        """The evidence and its mirror image, on a new first axis."""
        return PooledEvidence(tuple(part.both_sides() for part in self.parts), self.order)

    def bracket_of_end(self, excess: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Effects around the lower end: the outermost of the parts'.

        What holds for every factor of a machine holds for its weighted mean, as which it enters the second
        half.
        """
        ends = [part.bracket_of_end(excess) for part in self.parts]
        return np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)

    def bracket_of_balance(self) -> tuple[FloatArray, FloatArray]:
        """Effects around the one at which E⁺ = E⁻: the outermost of the parts'."""
        ends = [part.bracket_of_balance() for part in self.parts]
        return np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)

    def _in_order(self, factors: list[FloatArray]) -> FloatArray:
        weights = self.parts[0].log_weights
        own = []
        for of_part in factors:
            path = mixed(np.cumsum(of_part, axis=-2), weights)
            own.append(np.diff(path, axis=-1, prepend=0.0)[..., np.newaxis])
        both = np.concatenate([np.concatenate(factors, axis=-2), np.concatenate(own, axis=-2)], axis=-1)
        result: FloatArray = both[..., self.order, :]
        return result


@dataclass(frozen=True)
class PooledStarts(OfStarts):
    """The evidence of several machines' starts, in one order (as `PooledEvidence`): the product over them."""

    parts: tuple[OfStarts, ...]
    order: NDArray[np.intp]

    @classmethod
    def of(cls, parts: tuple[OfStarts, ...], order: NDArray[np.intp]) -> "PooledStarts":
        """The starts of these machines together."""
        differences = np.concatenate([part.difference for part in parts], axis=-1)
        return cls(differences[..., order], parts, order)

    def both_sides(self) -> "PooledStarts":
        """The evidence and its mirror image, on a new first axis."""
        return self.of(tuple(part.both_sides() for part in self.parts), self.order)

    def path(self, sign: float, effect: FloatArray | float) -> FloatArray:
        """log E⁺ of the log ratios times `sign`, after each start."""
        steps = [np.diff(part.path(sign, effect), axis=-1, prepend=0.0) for part in self.parts]
        result: FloatArray = np.cumsum(np.concatenate(steps, axis=-1)[..., self.order], axis=-1)
        return result


def pool(parts: Sequence[AnyEvidence], ended: Sequence[Sequence[float | str]]) -> AnyEvidence:
    """The evidence of several machines together.

    ended: for each of them when its blocks ended, by one clock or as text that sorts like it; what is equal
    keeps the order of the parts. The order of a machine's own blocks is kept whatever its clock says.

    What is joined of two evidences is pooled in each of them.

    Raises ValueError where parts differ in members or grid, or a part has another number of blocks.
    """
    joined = parts[0]
    if isinstance(joined, BothMustAgree | EitherWillDo):
        alike = [part for part in parts if isinstance(part, type(joined))]
        if len(alike) != len(parts):
            raise ValueError("machines can be pooled only where their blocks are judged alike")
        first, second = (
            pool([each.first for each in alike], ended),
            pool([each.second for each in alike], ended),
        )
        return replace(joined, first=first, second=second)
    if [part.blocks for part in parts] != [len(each) for each in ended]:
        raise ValueError(f"there are {[part.blocks for part in parts]} blocks, not {list(map(len, ended))}")
    order = _order(ended)
    if isinstance(joined, OfStarts):
        return PooledStarts.of(tuple(cast(OfStarts, part) for part in parts), order)
    return _pool([cast(BlockEvidence, part) for part in parts], order)


def _pool(parts: Sequence[BlockEvidence], order: NDArray[np.intp]) -> PooledEvidence:
    if len({(part.members, tuple(part.log_weights), part.shape) for part in parts}) != 1:
        raise ValueError("machines can be pooled only where their blocks are made alike and judged alike")
    return PooledEvidence(tuple(parts), order)


def _order(ended: Sequence[Sequence[float | str]]) -> NDArray[np.intp]:
    """The places of all parts' blocks in the order in which they ended."""
    # A clock that was set back must not make a later block an earlier one.
    times = [_ascending(each) for each in ended]
    first = np.cumsum([0, *map(len, times)])
    keyed = [(moment, place, block) for place, each in enumerate(times) for block, moment in enumerate(each)]
    return np.array([int(first[place]) + block for _, place, block in sorted(keyed)], dtype=np.intp)


def _ascending(moments: Sequence[float | str]) -> list[float | str]:
    latest: list[float | str] = []
    for moment in moments:
        latest.append(moment if not latest or moment > latest[-1] else latest[-1])  # type: ignore[operator]
    return latest


def final_log_evidence(evidence: AnyEvidence, effects: FloatArray, *, above: bool) -> FloatArray:
    """log of E⁺ (or E⁻) after the last block at each effect, (effects, ...), a few effects at once."""
    if isinstance(evidence, BothMustAgree | EitherWillDo):
        both = (final_log_evidence(each, effects, above=above) for each in (evidence.first, evidence.second))
        return evidence.of(*both)
    if isinstance(evidence, OfStarts):
        path: FloatArray = evidence.path(1.0 if above else -1.0, effects)[..., -1]
        return path
    part = cast(BlockEvidence, evidence)
    factors = part.log_factors_above if above else part.log_factors_below
    numbers = effects.size * part.blocks * len(part.log_weights)
    some = np.array_split(effects, min(len(effects), 1 + numbers // _NUMBERS_AT_ONCE))
    return np.concatenate([mixed(factors(each).sum(axis=-2), part.log_weights) for each in some])


def log_disagreement(parts: Sequence[AnyEvidence]) -> FloatArray:
    """log of the evidence that no single effect fits all machines, of the leading shape.

    If the machines have one effect, then at it both the product and the mean of their evidences against it
    are e-processes, and so is half their sum. The answer is the least of that over all effects, so the
    probability that it ever reaches 1/α is at most α. The product finds machines that all differ a little,
    the mean one that differs a lot.

    Between two effects that are asked about, E⁺ is at least what it is at the right one and E⁻ at least what
    it is at the left one, so the answer is never too large.
    """
    own = [point_estimate(part) for part in parts]
    low, high = np.min(own, axis=0), np.max(own, axis=0)
    beyond = np.maximum(high - low, _BEYOND)
    effects = np.concatenate(
        [
            np.linspace(low - beyond, low, _CELLS_BESIDE, endpoint=False),
            np.linspace(low, high, _CELLS_BETWEEN, endpoint=False),
            np.linspace(high, high + beyond, _CELLS_BESIDE + 1),
        ]
    )
    against = []
    for part in parts:
        above = final_log_evidence(part, effects, above=True)
        below = final_log_evidence(part, effects, above=False)
        nothing = np.full((1, *above.shape[1:]), -np.inf)
        # Cells: left of the first effect, between two, right of the last.
        right = np.concatenate([above, nothing])
        left = np.concatenate([nothing, below])
        against.append(np.logaddexp(right, left) - np.log(2.0))
    stacked = np.stack(against, axis=-1)
    product = stacked.sum(axis=-1)
    mean = log_sum_exp(stacked) - np.log(len(parts))
    result: FloatArray = (np.logaddexp(product, mean) - np.log(2.0)).min(axis=0)
    return result
