"""What `pgassay watch` makes of two readings of counters, the observer's windows, samples of statements."""

import pytest

from pgassay.analysis.descriptive.iostat import IOSTAT_COLUMNS, iostat
from pgassay.native.observer import Value, named
from pgassay.watch.reading import counters
from pgassay.watch.reading.rates import increase, rate, shares
from pgassay.watch.reading.waiting_statements import STATEMENTS_MAX, ActiveSession, StatementTally
from pgassay.watch.reading.window_figures import aios, states, thread_use, waits
from watch_samples import COUNTERS

THREAD = ("pid", "thread", "kind", "start_ns", "alive", "run_ns", "delay_ns", "read_bytes", "write_bytes")
WAIT = ("pid", "thread", "kind", "activity", "wait_event_type", "wait_event", "scheduler_state", "samples")


def test_a_counter_that_fell_was_set_back_and_has_no_rate() -> None:
    before, after = {"a": 10.0, "b": 5.0}, {"a": 4.0, "b": 9.0, "c": 1.0}
    assert increase(before, after, "b") == 4.0
    assert increase(before, after, "a") is None
    assert increase(before, after, "c") is None
    assert rate(before, after, ("b",), 2.0) == 2.0
    assert rate(before, after, ("a", "b"), 2.0) is None
    assert rate(before, after, ("b",), 0.0) is None


@pytest.mark.parametrize("major", [14, 19])
def test_a_row_that_an_index_finds_is_read_once(major: int) -> None:
    """The entry of the index is in tup_returned, and its row in tup_fetched (pgstat_relation.c)."""
    assert "sum(tup_returned) FROM" in counters.query(major)
    assert "tup_fetched" not in counters.query(major)


def test_shares_add_up_to_one_whatever_falls() -> None:
    found = shares({"user": 1.0, "idle": 1.0, "iowait": 5.0}, {"user": 4.0, "idle": 2.0, "iowait": 4.0})
    assert found == {"user": 0.75, "idle": 0.25, "iowait": 0.0}
    assert shares({"user": 1.0}, {"user": 1.0}) == {}


def test_iostat_s_columns_follow_its_definitions() -> None:
    moved = {
        "reads": 200.0, "reads_merged": 50.0, "read_bytes": 409600.0, "read_ms": 300.0, "writes": 10.0,
        "write_bytes": 10240.0, "write_ms": 5.0, "discards": 1.0, "flushes": 4.0, "flush_ms": 6.0,
        "in_flight_ms": 1000.0, "weighted_ms": 3000.0,
    }  # fmt: skip
    after = COUNTERS | moved
    found = iostat(COUNTERS, after, 2.0)
    assert tuple(found) == IOSTAT_COLUMNS
    assert (found["r/s"], found["rkB/s"], found["rrqm/s"], found["%rrqm"]) == (100.0, 200.0, 25.0, 20.0)
    assert (found["r_await"], found["rareq-sz"], found["w_await"]) == (1.5, 2.0, 0.5)
    assert (found["f/s"], found["f_await"], found["aqu-sz"], found["%util"]) == (2.0, 1.5, 1.5, 50.0)
    assert found["d_await"] == 0.0
    assert iostat(after, COUNTERS, 2.0) == {}
    assert iostat(COUNTERS, after, 0.0) == {}


def _waits(*rows: tuple[Value, ...]) -> list[dict[str, Value]]:
    return named(rows, WAIT)


def test_connections_are_counted_by_state_and_waits_without_what_rests() -> None:
    rows = _waits(
        (1, 1, "backend", "active", "Lock", "tuple", "S", 4),
        (1, 1, "backend", "active", "", "", "R", 1),
        (2, 2, "backend", "idle", "Client", "ClientRead", "S", 5),
        (3, 3, "checkpointer", "", "Activity", "CheckpointerMain", "S", 5),
        (4, 4, "pgassay", "active", "", "", "R", 5),
        (5, 5, "io worker", "", "IO", "DataFileRead", "D", 2),
        (5, 5, "io worker", "", "", "", "S", 3),
        (1, 77, "io_uring worker", "", "", "", "R", 5),
    )
    assert states(rows, 5) == {"active": 1.0, "idle": 1.0}
    found = [(wait.kind, wait.event, wait.scheduler, wait.threads) for wait in waits(rows, 5)]
    assert found == [
        ("io_uring worker", "", "running", 1.0),
        ("backend", "tuple", "asleep", 0.8),
        ("io worker", "DataFileRead", "device", 0.4),
        ("backend", "", "running", 0.2),
    ]
    assert (states(rows, 0), waits(rows, 0)) == ({}, ())


def test_where_the_scheduler_can_t_be_read_waits_are_told_all_the_same() -> None:
    rows = _waits((1, 1, "backend", "active", "Lock", "tuple", "-", 2))
    assert [(wait.scheduler, wait.threads) for wait in waits(rows, 4)] == [("unknown", 0.5)]


def test_what_threads_used_counts_those_that_began_and_those_that_ended() -> None:
    before = named(
        [
            (1, 1, "backend", 5, True, 1_000, 500, 4096, 0),
            (2, 2, "backend", 5, True, 9_000, 0, 0, 0),
            (9, 9, "checkpointer", 5, True, 0, 0, 0, 0),
        ],
        THREAD,
    )
    after = named(
        [
            (1, 1, "backend", 5, True, 1_000 + 10**9, 500 + 10**8, 4096 + 8192, 0),
            (2, 2, "backend", 5, False, 9_000 + 10**9, 0, 0, 0),
            # The number of an ended process again: another one, which counts from nothing.
            (9, 9, "parallel worker", 6, True, 2 * 10**9, 0, 0, 0),
        ],
        THREAD,
    )
    by_kind = {use.kind: use for use in thread_use(before, after, 0, 2 * 10**9, has_bytes=True)}
    assert (by_kind["backend"].cpu, by_kind["backend"].queue, by_kind["backend"].threads) == (1.0, 0.05, 1)
    assert by_kind["backend"].read_bytes_s == 4096.0
    assert by_kind["parallel worker"].cpu == 1.0
    hidden = thread_use(before, after, 0, 2 * 10**9, has_bytes=False)
    assert {use.read_bytes_s for use in hidden} == {None}
    assert thread_use(before, after, 5, 5, has_bytes=True) == ()


def test_asynchronous_reads_keep_their_states() -> None:
    rows = named([("SUBMITTED", "readv", 3, 24576)], ("state", "operation", "handles", "bytes"))
    assert [(each.state, each.handles, each.bytes) for each in aios(rows)] == [("SUBMITTED", 3, 24576)]


@pytest.mark.parametrize("major", range(14, 20))
def test_every_version_is_asked_for_every_counter_once(major: int) -> None:
    sql = counters.query(major)
    assert sql.count("::float8") == len(counters._NAMES)
    assert ("pg_stat_checkpointer" in sql) == (major >= 17)
    assert ("pg_stat_bgwriter" in sql) == (major < 17)


def test_the_throughput_between_two_readings() -> None:
    before = dict.fromkeys(counters._NAMES, 0.0)
    after = before | {"transactions": 10.0, "blocks_hit": 30.0, "blocks_read": 10.0, "checkpoints": 1.0}
    found = counters.throughput(before, after, 2.0)
    assert (found.transactions_s, found.blocks_read_s, found.hit_share, found.checkpoints) == (5, 5, 0.75, 1)
    assert counters.throughput(before, before, 2.0).hit_share is None
    assert counters.throughput(after, before, 2.0).transactions_s is None


def test_statements_are_ranked_by_those_that_wait() -> None:
    tally = StatementTally()
    tally.count(
        [
            ActiveSession(7, "SELECT 1", "Lock", "tuple"),
            ActiveSession(7, "SELECT 2", "IO", "DataFileRead"),
            ActiveSession(None, "a", None, None),
        ]
    )
    tally.count(
        [ActiveSession(7, "SELECT\n  3", "Lock", "tuple"), ActiveSession(None, "b", "Client", "ClientWrite")]
    )
    first, *others = tally.take()
    assert (first.query_id, first.query, first.active, first.waiting) == (7, "SELECT 3", 1.5, 1.5)
    assert first.event == "Lock:tuple"
    assert [(each.query, each.active, each.waiting, each.event) for each in others] == [
        ("a", 0.5, 0.0, ""),
        ("b", 0.5, 0.0, ""),
    ]
    assert tally.take() == ()
    tally.count([ActiveSession(number, "q", "Lock", "tuple") for number in range(2 * STATEMENTS_MAX)])
    assert len(tally.take()) == STATEMENTS_MAX
