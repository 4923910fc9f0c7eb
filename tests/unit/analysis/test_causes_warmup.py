"""The server's counters of a load have its warm-up in them; what is told of them is told so."""

from typing import Any

import pytest

from cause_samples import ELAPSED_S, evidence, load_arm, load_record
from pgassay.analysis.causes.base import Found
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.rules import connections, spill, wal
from pgassay.model.arm import Arm

WARMUP_S = 30.0


def warmed(**changes: Any) -> Evidence:
    """A load of ten seconds that was warmed up for thirty."""
    counters = changes.pop("counters", {})
    base = {"arm": _arm(), "record": load_record(counters=counters), "total_s": 80.0}
    return evidence(**base | changes)


def _arm() -> Arm:
    made = load_arm()
    workload = made.spec.workload
    assert workload.load is not None
    load = workload.load.model_copy(update={"warmup_s": WARMUP_S})
    spec = made.spec.model_copy(update={"workload": workload.model_copy(update={"load": load})})
    return made.model_copy(update={"spec": spec})


def test_connections_are_opened_over_the_warmup_too() -> None:
    opened = {"pg_stat_database": [{"xact_commit": 160.0, "xact_rollback": 0.0}]}
    assert connections.CONNECTIONS.find(warmed(counters=opened, sessions_opened=160.0)) is None, "4 a second"
    found = connections.CONNECTIONS.find(warmed(counters=opened, sessions_opened=800.0))
    assert isinstance(found, Found)
    assert found.figures["opened_per_second"] == pytest.approx(20.0)


def test_what_spilled_in_the_warmup_is_no_rate_of_the_measured_part() -> None:
    def spilled(temporary_bytes: float) -> Evidence:
        return warmed(counters={"pg_stat_database": [{"temp_bytes": temporary_bytes}]})

    assert spill.SPILL.find(spilled(2e7)) is None, "half a MB a second"
    assert isinstance(spill.SPILL.find(spilled(5e7)), Found)


def test_full_buffers_of_the_warmup_are_not_held_against_commits_of_the_measured_part() -> None:
    """As many writes to make room as commits, in either part: half of the wait is of either kind."""
    full = {"pg_stat_wal": [{"wal_buffers_full": 4000.0}]}
    assert wal.full_buffers_s(warmed(counters=full, wal_s=40.0)) == pytest.approx(20.0)


def test_the_wal_of_the_warmup_asks_for_checkpoints_once() -> None:
    """1 GB of WAL, with the warm-up's, asks for two checkpoints: the other eight were commands."""
    counters = {"pg_stat_checkpointer": [{"num_requested": 10.0}]}
    settings = {"max_wal_size": "1GB", "checkpoint_completion_target": "0.9"}
    found = wal.CHECKPOINT.find(warmed(counters=counters, settings=settings, wal_bytes=float(2**30)))
    assert isinstance(found, Found)
    assert found.figures["checkpoints_requested"] == 2
    assert found.figures["seconds_between"] == (ELAPSED_S + WARMUP_S) / 2
