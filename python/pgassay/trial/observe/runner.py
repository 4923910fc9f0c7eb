"""Runs the samplers on one clock beside the measurement."""

import threading
import time
from typing import Self

from pgassay.record.columns import to_parquet
from pgassay.trial.observe.base import Sampler


class SamplerRunner:
    """A thread that asks every sampler at each tick; a context manager around the measurement.

    Rows carry `clock_ns`, CLOCK_MONOTONIC, the clock of every measured statement. The first and
    the last row are taken at the edges of the measurement.
    """

    def __init__(self, samplers: list[Sampler], interval_s: float) -> None:
        """Prepare to sample every `interval_s` seconds."""
        self._samplers = samplers
        self._interval_s = interval_s
        self._rows: dict[str, list[tuple[int, tuple[float, ...]]]] = {each.name: [] for each in samplers}
        self._gone: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samplers", daemon=True)

    def __enter__(self) -> Self:
        self._tick()
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._stop.set()
        self._thread.join()
        self._tick()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self._tick()

    def _tick(self) -> None:
        for sampler in self._samplers:
            if sampler.name in self._gone:
                continue
            try:
                row = sampler.sample()
            except OSError as error:
                self._gone[sampler.name] = str(error)
                continue
            self._rows[sampler.name].append((time.monotonic_ns(), row))

    @property
    def warnings(self) -> list[str]:
        """One sentence for each sampler whose source went away."""
        return [f"sampler {name} stopped: {reason}" for name, reason in self._gone.items()]

    def files(self) -> dict[str, bytes]:
        """One Parquet file per sampler: file name → content."""
        contents = {}
        for sampler in self._samplers:
            rows = self._rows[sampler.name]
            columns: dict[str, list[float] | list[int]] = {"clock_ns": [clock for clock, _ in rows]}
            for index, column in enumerate(sampler.columns):
                columns[column] = [values[index] for _, values in rows]
            contents[f"{sampler.name}.parquet"] = to_parquet(
                columns, sampler=sampler.name, version=sampler.version
            )
        return contents
