"""Two evidences as one: both must agree, or either is enough.

`BothMustAgree` is for two assumptions of which one holds: the lesser of two e-values is one if either is.
`EitherWillDo` is for two ways of which one gets there soon: each has a part of the wealth, and the greater
part is no more than their sum, which is an e-value if both are.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from pgassay.analysis.statistics.eprocess import AnyEvidence, FloatArray

LOG_2 = float(np.log(2.0))


@dataclass(frozen=True)
class _Joined(ABC):
    """What two kinds of evidence say together, by `of` at each place; shape and blocks are the first's."""

    first: AnyEvidence
    second: AnyEvidence

    @property
    def shape(self) -> tuple[int, ...]:
        """The leading shape: that of an effect."""
        return self.first.shape

    @property
    def blocks(self) -> int:
        """The number of blocks observed."""
        return self.first.blocks

    def log_path_above(self, effect: FloatArray | float) -> FloatArray:
        """What both together say of E⁺ after each block, a logarithm."""
        return self.of(self.first.log_path_above(effect), self.second.log_path_above(effect))

    def log_path_below(self, effect: FloatArray | float) -> FloatArray:
        """As log_path_above, of E⁻."""
        return self.of(self.first.log_path_below(effect), self.second.log_path_below(effect))

    def log_highest_above(self, effect: FloatArray | float) -> FloatArray:
        """Of what each has reached so far: what one has excluded it goes on to exclude."""
        return self.of(self.first.log_highest_above(effect), self.second.log_highest_above(effect))

    def log_highest_below(self, effect: FloatArray | float) -> FloatArray:
        """As log_highest_above, of E⁻."""
        return self.of(self.first.log_highest_below(effect), self.second.log_highest_below(effect))

    @abstractmethod
    def of(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """One figure of both, of the logarithms of what each says."""


@dataclass(frozen=True)
class BothMustAgree(_Joined):
    """An effect is excluded where both exclude it: the interval is the hull of both.

    first_eased, second_eased: how much less each must reach, a logarithm; with log 2 it is asked for 1/α
    where an end of an interval takes 2/α. The estimate is the first's.
    """

    first_eased: float = 0.0
    second_eased: float = 0.0

    def of(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """What both say together, of the logarithms of what each says."""
        result: FloatArray = np.minimum(first + self.first_eased, second + self.second_eased)
        return result


@dataclass(frozen=True)
class EitherWillDo(_Joined):
    """An effect is excluded where either excludes it with its part of the wealth: the intersection of both.

    share: the first's part, above 0 and below 1. The estimate is the first's.
    """

    share: float = 0.5

    def of(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """What either says, of the logarithms of what each says."""
        result: FloatArray = np.maximum(first + math.log(self.share), second + math.log1p(-self.share))
        return result


def strict(evidence: AnyEvidence) -> AnyEvidence:
    """The same evidence with nothing eased: an e-value if either part of what must agree is one."""
    if isinstance(evidence, BothMustAgree):
        first, second = strict(evidence.first), strict(evidence.second)
        return BothMustAgree(first, second)
    if isinstance(evidence, EitherWillDo):
        return replace(evidence, first=strict(evidence.first), second=strict(evidence.second))
    return evidence
