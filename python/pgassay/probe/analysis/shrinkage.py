"""What the values of one decision take, judged together: measured alone, each is drawn apart by its noise.

The mean log rates m of the values have a Gaussian prior in which neighbours differ by N(0, t²): a random walk
along an ordered grid (Rue and Held, "Gaussian Markov Random Fields", 2005, section 3.3.1), independent draws
about one level where the values have no order (Efron and Morris, "Stein's estimation rule and its
competitors", 1973). The step t is not known: the posteriors of a grid of steps are averaged by their marginal
likelihood. Where the measurements leave open whether values differ, they are drawn together; a step that is
clear in them stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pgassay.model.result import Interval
from pgassay.probe.analysis.estimates import Estimate, Estimates, quantile
from pgassay.probe.analysis.probe_plan import Decision

Floats = npt.NDArray[np.float64]

# From what no probe can see to what no grid exceeds (differences of logarithms).
_STEPS = (0.01, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Joint:
    """The log rates of the measured values of a decision: means, covariance (n x n), degrees of freedom."""

    values: tuple[str, ...]
    means: Floats
    covariance: Floats
    freedom: float

    @cached_property
    def best(self) -> str:
        """The value with the highest mean."""
        return self.values[int(np.argmax(self.means))]

    def gap(self, value: str, other: str) -> float:
        """The log rate of a value less that of another."""
        return float(self.means[self.values.index(value)] - self.means[self.values.index(other)])

    def error(self, value: str, other: str) -> float:
        """The standard error of that gap."""
        one, two = self.values.index(value), self.values.index(other)
        cov = self.covariance
        return float(np.sqrt(max(0.0, cov[one, one] + cov[two, two] - 2 * cov[one, two])))

    def interval(self, value: str, other: str) -> Interval:
        """The 95 % interval of that gap (Student's t)."""
        gap, reach = self.gap(value, other), quantile(self.freedom) * self.error(value, other)
        return gap - reach, gap + reach

    def probability(self, value: str, other: str) -> float:
        """That the value is the better one of the two."""
        from scipy.special import stdtr

        error = self.error(value, other)
        return float(stdtr(self.freedom, self.gap(value, other) / error)) if error > 0 else 0.5


def joint(decision: Decision, estimates: Estimates) -> Joint | None:
    """The values all of whose cells were run, each work's cells judged together, the works averaged.

    None with fewer than two such values.
    """
    known = {
        value: [estimates[spec] for spec in specs]
        for value, specs in decision.candidates.items()
        if specs and all(spec in estimates for spec in specs)
    }
    if len(known) < 2:
        return None
    works = [_posterior(cells, ordered=decision.ordered) for cells in zip(*known.values(), strict=True)]
    return Joint(
        tuple(known),
        np.mean([mean for mean, _ in works], axis=0),
        np.sum([covariance for _, covariance in works], axis=0) / len(works) ** 2,
        min(cell.freedom for cells in known.values() for cell in cells),
    )


def _posterior(cells: Sequence[Estimate], *, ordered: bool) -> tuple[Floats, Floats]:
    """Means and covariance of one work's log rates, over all steps; the level itself is left free."""
    measured = np.array([cell.log_rate for cell in cells])
    weights = np.array([cell.error**-2.0 for cell in cells])
    unit_precision = _unit_precision(len(cells), ordered=ordered)
    likelihoods, means, covariances = [], [], []
    for step in _STEPS:
        precision = unit_precision / step**2 + np.diag(weights)
        covariance = np.linalg.inv(precision)
        mean = covariance @ (weights * measured)
        misfit = measured @ (weights * measured) - mean @ precision @ mean
        free = len(cells) - 1
        likelihoods.append(-free * np.log(step) - 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * misfit)
        means.append(mean)
        covariances.append(covariance)
    shares = np.exp(np.array(likelihoods) - max(likelihoods))
    shares /= shares.sum()
    mean = np.tensordot(shares, means, axes=1)
    spread = [
        inner + np.outer(each - mean, each - mean) for each, inner in zip(means, covariances, strict=True)
    ]
    return mean, np.tensordot(shares, spread, axes=1)


def _unit_precision(count: int, *, ordered: bool) -> Floats:
    """The precision of the prior for a step of 1: of differences of neighbours, or of all from their mean."""
    if not ordered:
        return np.eye(count) - 1 / count
    differences = np.diff(np.eye(count), axis=0)
    return differences.T @ differences
