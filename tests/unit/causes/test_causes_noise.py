"""Other processes that took the processors: what of the queue is theirs, and what an unknown limit says."""

import pytest

from cause_samples import ELAPSED_S, evidence
from pgassay.analysis.causes.base import Found
from pgassay.analysis.causes.evidence import Processors
from pgassay.analysis.causes.rank import TrialCauses, limit_with_faults, trial_causes
from pgassay.analysis.causes.rules.processors import NOISE
from pgassay.model.cause import UNKNOWN, Cause


def noise(own_s: float, others_s: float, runnable_s: float) -> Found | None:
    # As many processors as were used, so that they were full.
    count = (own_s + others_s) / ELAPSED_S
    processors = Processors(count, count * ELAPSED_S, own_s, others_s)
    found = NOISE.find(
        evidence(total_s=8 * ELAPSED_S, cpu_s=own_s, runnable_s=runnable_s, processors=processors)
    )
    assert found is None or isinstance(found, Found)
    return found


def test_others_are_to_blame_for_their_part_of_the_queue_alone() -> None:
    # Met in a published experiment: 8.46 s of its own, 3.45 s of others, and 23.20 s were blamed on these.
    assert noise(8.46, 3.45, 23.20) is None, "it is the server's own work that fills them"
    found = noise(5.0, 5.0, 23.20)
    assert found is not None and found.seconds == pytest.approx(11.6)
    assert found.figures["others_cpu_s"] == found.figures["own_cpu_s"] == 5.0
    assert noise(1.0, 9.0, 0.5) is None, "nobody queued for long"


def cause(name: str, kind: str, share: float | None) -> Cause:
    return Cause.model_validate(
        {"arm": "a", "kind": kind, "cause": name, "layer": "measurement", "seconds": None, "share": share,
         "gain_if_lifted": None, "remedy": "no rule explains a quarter of it", "trials": 1, "observed": 1}
    )  # fmt: skip


def test_that_no_rule_explains_a_quarter_is_not_said_above_a_fault_that_does() -> None:
    limit, fault = limit_with_faults([cause(UNKNOWN, "limit", None), cause("noise", "fault", 0.4)])
    assert limit.remedy.startswith("First fix the fault below") and fault.remedy.startswith("no rule")
    small, _ = limit_with_faults([cause(UNKNOWN, "limit", None), cause("noise", "fault", 0.1)])
    assert small.remedy == "no rule explains a quarter of it"
    known, _ = limit_with_faults([cause("lwlocks", "limit", 0.5), cause("noise", "fault", 0.4)])
    assert known.remedy == "no rule explains a quarter of it"


def queueing(**seconds: float) -> TrialCauses:
    """One connection that queued for more than half of its time on processors that others filled."""
    processors = Processors(2.0, 2 * ELAPSED_S, 3.0, 17.0)
    return trial_causes(evidence(total_s=ELAPSED_S, runnable_s=5.4, processors=processors, **seconds))


def test_a_queue_that_others_make_hides_no_wait() -> None:
    """2.4 of 10 s are less than a quarter, and more than half of what the server itself spent."""
    found = queueing(cpu_s=1.6, wal_s=2.4)
    assert found.limit is not None and found.limit[0].cause == "wal-fsync"
    assert [rule.cause for rule, _ in found.faults] == ["noise"]
    few = queueing(cpu_s=3.4, wal_s=0.9)
    assert few.limit is None
    assert [rule.cause for rule, _ in few.lesser] == ["wal-fsync"]


def test_who_queues_longer_than_it_computes_has_no_processor_of_its_own() -> None:
    found = queueing(cpu_s=3.5, client_s=1.1)
    assert found.limit is None
    assert (
        "backend-core: why its connections queued for a processor for longer than they had one"
        in found.missing
    )
