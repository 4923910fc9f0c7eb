"""Spans of a few ticks of the kernel's clock: what they can't tell of the machine's processors."""

import pytest

from cause_samples import evidence
from pgassay.analysis.causes.evidence import Processors
from pgassay.analysis.causes.rank import trial_causes


@pytest.mark.parametrize("elapsed_s", [0.2, 0.02])
def test_a_span_of_a_few_ticks_does_not_tell_how_many_processors_there_were(elapsed_s: float) -> None:
    """/proc/stat counts 10 ms at a time: two processors for 20 ms may be one, seen twice."""
    busy = {"cpu_s": 1.8 * elapsed_s, "runnable_s": 4 * elapsed_s, "client_s": 2 * elapsed_s}
    span = {"total_s": 8 * elapsed_s, "elapsed_s": elapsed_s}
    own = Processors(2.0, 2 * elapsed_s, 1.9 * elapsed_s, 0.0)
    limit = trial_causes(evidence(**busy, **span, processors=own)).limit
    assert (limit is not None and limit[0].cause == "all-cores") is (elapsed_s > 0.1)
