"""What real servers showed of the write side: a resource waited for in several events, or beside the CPU."""

from typing import Any

import pytest

from cause_samples import account, checkpoints, evidence, item, load_arm, load_record
from pgassay.analysis.accounts.work_times import work_times
from pgassay.analysis.causes.base import Found
from pgassay.analysis.causes.evidence import Processors
from pgassay.analysis.causes.rank import trial_causes
from pgassay.analysis.causes.rules.wal import full_buffers_s
from pgassay.analysis.causes.rules.write_waits import CHECKPOINT_WAIT
from pgassay.model.trial import Counters


def limit_of(**changes: Any) -> tuple[str, Found]:
    causes = trial_causes(evidence(**changes))
    assert causes.limit is not None
    return causes.limit[0].cause, causes.limit[1]


def faults(**changes: Any) -> dict[str, Found]:
    return {rule.cause: found for rule, found in trial_causes(evidence(**changes)).faults}


def full(count: float) -> Counters:
    return Counters({"pg_stat_wal": [{"wal_buffers_full": count, "wal_records": 1e4}]})


def wal_waits(commit: str, buffers_full: float) -> dict[str, Any]:
    measured = load_record(transactions=1000, facts={"settings": {"synchronous_commit": commit}})
    return {"record": measured, "wal_s": 60.0, "total_s": 80.0, "counters": full(buffers_full)}


def test_writes_of_wal_that_make_room_in_its_buffers_are_no_commits() -> None:
    cause, found = limit_of(**wal_waits("off", 9000.0))
    assert (cause, found.seconds) == ("wal-insert", 60.0)
    assert found.figures["most_waited_for"] == "WALWrite"
    # One at a commit, nine in between.
    assert full_buffers_s(evidence(**wal_waits("on", 9000.0))) == pytest.approx(54.0)
    assert limit_of(**wal_waits("on", 9000.0))[0] == "wal-insert"
    assert limit_of(**wal_waits("on", 10.0))[0] == "wal-fsync"


def test_the_queue_between_two_waits_for_a_buffer_may_go_with_them() -> None:
    # Recorded at 2 ms a write beside a load of 13: 46 transactions, and 1,041 with 64 MB of buffers.
    waited = {"wal_s": 32.09, "writing": {"wal insert": {"WALInsert": 1.08}}, "counters": full(793.0)}
    commit = {"record": wal_waits("off", 1.0)["record"], "total_s": 40.0, "cpu_s": 0.07, **waited}
    cause, found = limit_of(**commit, runnable_s=5.57)
    assert cause == "wal-insert" and found.gain_range is not None and found.gain is not None
    assert found.gain_range[0] == pytest.approx(5.85, rel=0.01)
    assert found.gain_range[0] < found.gain < 1041 / 46 < found.gain_range[1]
    # Where nobody queues, one figure is told.
    assert limit_of(**commit)[1].gain_range is None


def test_where_commits_don_t_wait_nobody_is_told_to_have_them_not_wait() -> None:
    cause, found = limit_of(**wal_waits("off", 0.0))
    assert cause == "wal-fsync"
    assert "larger shared_buffers" in found.remedy and "set synchronous_commit" not in found.remedy
    assert limit_of(**wal_waits("on", 0.0))[1].remedy == ""


def test_who_extends_a_file_and_who_waits_to_extend_it_are_one_limit() -> None:
    """A fifth each, which alone no limit would be."""
    waits = (item("wait", 1.6, "IO:DataFileExtend"), item("wait", 1.6, "Lock:extend"))
    times = work_times([account("backend", *waits, item("wait", 4.8, "Timeout:PgSleep"))])
    cause, found = limit_of(
        total_s=times.total_s, writing=times.writing, lock_s=times.lock_s, locks=times.locks
    )
    assert (cause, found.seconds) == ("extension", pytest.approx(3.2))


BUSY = {"total_s": 80.0, "cpu_s": 13.0, "runnable_s": 39.0, "processors": Processors(2.0, 20.0, 17.0, 2.0)}


def test_the_queue_behind_lookups_of_a_status_is_not_the_processors() -> None:
    waits = {"slru": {"SubtransBuffer": 14.0, "SubtransSLRU": 13.0}}
    cause, found = limit_of(**BUSY, writing=waits)
    assert cause == "slru" and found.gain is None
    assert found.figures["slru_runnable_s"] == pytest.approx(39.0 * 27 / 40)
    assert "savepoints" in found.remedy
    # Few of them leave the queue to the processors, and without a queue a gain can be told.
    assert limit_of(**BUSY, writing={"slru": {"SubtransSLRU": 1.0}})[0] == "all-cores"
    quiet = limit_of(total_s=80.0, cpu_s=2.0, writing=waits)
    assert quiet[0] == "slru" and quiet[1].gain == pytest.approx(80 / 53)


def test_checkpoints_that_commands_ask_for_are_not_those_of_a_small_max_wal_size() -> None:
    """Ten in 10 s: 20 MB of WAL can't have asked for them, 10 GB can have for some, each after 4 GB / 1.9."""
    facts = {"settings": {"max_wal_size": "4GB", "checkpoint_completion_target": "0.9"}}
    base = {"arm": load_arm(), "record": load_record(facts=facts, **checkpoints(10.0))}
    assert "checkpoint" not in faults(**base, wal_bytes=2e7)
    found = faults(**base, wal_bytes=10e9)["checkpoint"]
    assert 5 <= found.figures["checkpoints_requested"] < 10
    # A running server's setting has no unit, which is MB then.
    bare = {"settings": {"max_wal_size": "1024"}}
    base["record"] = load_record(facts=bare, **checkpoints(10.0))
    assert "checkpoint" in faults(**base, wal_bytes=10e9)
    assert "checkpoint" not in faults(**base, wal_bytes=2e7)


def test_rings_of_scans_end_with_larger_shared_buffers_and_those_of_bulk_writes_don_t() -> None:
    """An update of a table beyond a quarter of shared buffers writes from its scan's ring."""

    def remedy(context: str) -> str:
        row = {"object": "relation", "backend_type": "client backend", "context": context, "writes": 900.0}
        counters = Counters({"pg_stat_io": [row]})
        return limit_of(writing={"data write": {"DataFileWrite": 8.0}}, counters=counters)[1].remedy

    assert "larger shared_buffers don't help" in remedy("bulkwrite")
    assert remedy("bulkread") == ""


def test_vacuum_has_a_ring_of_its_own_that_a_setting_makes_larger() -> None:
    """Its pages are of the context vacuum, whoever runs it: larger shared_buffers change nothing."""
    rows = [
        {"backend_type": "client backend", "object": "relation", "context": context, "writes": writes}
        for context, writes in (("vacuum", 9e4), ("bulkwrite", 1e3), ("normal", 1e3))
    ]
    written = {"writing": {"data write": {"DataFileWrite": 40.0}}, "total_s": 80.0}
    cause, found = limit_of(**written, counters=Counters({"pg_stat_io": rows}))
    assert cause == "backend-writes"
    assert "raise vacuum_buffer_usage_limit" in found.remedy
    assert "COPY" not in found.remedy


def test_commands_that_ask_for_a_checkpoint_are_those_of_today() -> None:
    """CREATE DATABASE asks for none since 15, but by file_copy; DROP DATABASE does (dbcommands.c)."""
    remedy = CHECKPOINT_WAIT.remedy
    assert "DROP DATABASE" in remedy
    assert "CREATE DATABASE" in remedy.partition(" with STRATEGY file_copy")[0]
    assert remedy.count("CREATE DATABASE") == remedy.count("file_copy") == 1
