"""The contract of a sampler.

A sampler is asked once per tick, on the runner's thread, and answers one row. A sampler whose
source is missing says so by `available()`, and is left out without spoiling the rest.
"""

from typing import Protocol


class Sampler(Protocol):
    """One source of observations over a trial."""

    name: str
    version: int
    columns: tuple[str, ...]

    def available(self) -> bool:
        """Whether the source exists here; asked once, before the first sample."""

    def sample(self) -> tuple[float, ...]:
        """One row: as many values as `columns`; raises OSError when the source has gone."""
