"""Noise for the simulations: four shapes, each with a standard deviation of 1."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
NOISES = ("normal", "t2.5", "bimodal", "skewed")


def noise(kind: str, shape: tuple[int, ...], random: np.random.Generator) -> FloatArray:
    """Independent draws of one shape, standard deviation 1."""
    if kind == "normal":
        return random.standard_normal(shape)
    if kind == "t2.5":
        # The variance of t with 2.5 degrees of freedom is 2.5/0.5 = 5.
        return random.standard_t(2.5, shape) / np.sqrt(5)
    if kind == "bimodal":
        modes = np.where(random.random(shape) < 0.5, -1.0, 1.0)
        return (modes + 0.3 * random.standard_normal(shape)) / np.sqrt(1.09)
    if kind == "skewed":
        # Log speeds fall off to the slow side: a negated log-normal.
        spread = np.sqrt((np.e - 1) * np.e)
        return -random.lognormal(0.0, 1.0, shape) / spread
    raise ValueError(f"there is no noise called {kind}")


def trials(
    kind: str, runs: int, blocks: int, arms: int, random: np.random.Generator, *, paired_spread: float = 0.02
) -> FloatArray:
    """Log speeds of equal arms, shape (runs, blocks, arms), with an effect of the block that all share.

    `paired_spread` is the standard deviation of the difference of two trials of a block.
    """
    block_effects = 0.2 * random.standard_normal((runs, blocks, 1))
    return block_effects + paired_spread / np.sqrt(2) * noise(kind, (runs, blocks, arms), random)
