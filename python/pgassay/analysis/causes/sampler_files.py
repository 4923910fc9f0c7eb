"""The samplers' files beside a trial or an interval, read for its causes: counters over spans of time."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from pgassay.analysis.accounts.threads import Span
from pgassay.errors import UsageError
from pgassay.record import observations
from pgassay.record.observations import PROCESSOR_STOLEN, PROCESSOR_USED, Columns, floats

# Columns of host_cpu in which a processor is not to be had, whoever has it.
PROCESSOR_TAKEN = (*PROCESSOR_USED, PROCESSOR_STOLEN)


# A rule asks for the same file again and again; a trial's folder never changes once it is written.
@lru_cache(maxsize=8)
def read_columns(folder: Path, sampler: str) -> Columns:
    """The columns of a sampler's file; {} when there is none, or a damaged one."""
    try:
        return observations.columns(folder, sampler) or {}
    except UsageError:
        return {}


def moved(folder: Path, sampler: str, names: Sequence[str], spans: Sequence[Span]) -> list[float] | None:
    """How far cumulative counters of a sampler moved within the spans; None when it left no such file."""
    columns = read_columns(folder, sampler)
    if not columns or not columns.get("clock_ns") or not {*names} <= columns.keys():
        return None
    clock = floats(columns, "clock_ns")
    edges = np.array([[span.begin_ns, span.end_ns] for span in spans])
    found = [np.interp(edges, clock, floats(columns, name)) for name in names]
    return [float((values[:, 1] - values[:, 0]).sum()) for values in found]
