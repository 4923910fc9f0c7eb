"""What SQL alone tells of storage and processors: how looks are read, and what the rules make of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cause_samples import ELAPSED_S, account, arm, evidence
from pgassay.analysis.accounts.threads import BACKEND, Span
from pgassay.analysis.causes.base import Answer, Found, Missing
from pgassay.analysis.causes.read_series import Growth, ReadCeiling
from pgassay.analysis.causes.rules import device_limit, processors
from pgassay.analysis.causes.sql_evidence import SqlEvidence, looks_of, sql_evidence
from pgassay.environment.remote.session_settings import _about_methods
from pgassay.environment.server.setting_values import SettingFact
from pgassay.errors import UsageError
from pgassay.experiment.planning.remote_options import processors_of
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.experiment import ArmCeiling
from pgassay.record.columns import to_parquet
from pgassay.trial.before_trial_command import environment_of

S = 1_000_000_000
NAMES = ("pid", "kind", "activity", "wait_event_type", "wait_event", "samples")
Row = tuple[int, str, str, str, str, int]
LOOKS = 10
QUIET: Row = (2, "checkpointer", "", "Activity", "CheckpointerMain", LOOKS)
GROWTH = Growth(20, 2.0, 6.0, 120.0, 0.03, -0.1, 0.1)
# 120 reads of a page a second, six of them in flight.
AT_CEILING = SqlEvidence(
    seconds=ELAPSED_S,
    read_bytes=ELAPSED_S * 120 * 8192,
    requests=ELAPSED_S * 120,
    in_flight=6.0,
    computing=0.2,
    computing_series=(0.2,) * 5,
    ceiling=ReadCeiling("read_iops", 121.0, 8192.0, GROWTH),
)


def waits(rows: Sequence[Row], windows: int = 1) -> dict[str, list[Any]]:
    """The same rows in so many windows of half a second."""
    columns: dict[str, list[Any]] = {name: [] for name in ("from_ns", "clock_ns", *NAMES)}
    for window in range(windows):
        for row in rows:
            columns["from_ns"].append(window * S // 2)
            columns["clock_ns"].append((window + 1) * S // 2)
            for name, value in zip(NAMES, row, strict=True):
                columns[name].append(value)
    return columns


def write(folder: Path, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
    place = folder / "observations"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.parquet").write_bytes(to_parquet(columns, sampler=name, version=1))


@pytest.mark.parametrize("state", ["idle", "idle in transaction", "idle in transaction (aborted)"])
def test_who_waits_for_his_client_is_not_at_work(state: str) -> None:
    """A transaction that failed and was left open would count as one more at work all the time."""
    rows: list[Row] = [
        QUIET,
        (3, BACKEND, "active", "", "", LOOKS),
        (4, BACKEND, state, "Client", "ClientRead", LOOKS),
    ]
    at_work = looks_of(waits(rows), None).at_work
    assert at_work is not None
    assert at_work.tolist() == [1.0]


def test_looks_tell_reads_in_flight_from_waits_for_a_worker() -> None:
    rows: list[Row] = [
        QUIET,
        (3, BACKEND, "active", "IO", "DataFileRead", 5),
        (3, BACKEND, "active", "", "", 5),
        (4, BACKEND, "active", "IO", "AioIoCompletion", 10),
        (5, "io worker", "", "IO", "DataFileRead", 4),
        (5, "io worker", "", "Activity", "IoWorkerMain", 6),
        (6, BACKEND, "idle", "Client", "ClientRead", 10),
        (7, "pgassay", "active", "", "", 10),
    ]
    looks = looks_of(waits(rows), None)
    assert looks.count.tolist() == [LOOKS]
    assert looks.in_flight.tolist() == [0.9]
    assert looks.at_work is not None and looks.at_work.tolist() == [2.0]
    assert looks.computing.tolist() == [0.5]


def test_handles_of_pg_aios_count_while_the_kernel_has_them() -> None:
    rows: list[Row] = [QUIET, (4, BACKEND, "active", "IO", "AioIoCompletion", 10)]
    aios = {
        "from_ns": [0, 0, 0],
        "clock_ns": [S // 2] * 3,
        "state": ["SUBMITTED", "COMPLETED_SHARED", "SUBMITTED"],
        "operation": ["readv", "readv", "writev"],
        "handles": [7, 20, 3],
    }
    looks = looks_of(waits(rows), aios)
    assert looks.in_flight.tolist() == [7.0]
    assert looks.at_work is None


@pytest.mark.parametrize(
    ("rows", "is_partial"),
    [
        ([QUIET, (5, "io worker", "", "Activity", "IoWorkerMain", LOOKS)], False),
        # A role without rights is told what its own sessions do, and of others nothing.
        ([(5, "other", "", "", "", LOOKS)], True),
        ([QUIET], True),
    ],
)
def test_counts_of_reads_that_are_hidden_are_no_series(
    rows: list[Row], is_partial: bool, tmp_path: Path
) -> None:
    reading: Row = (3, BACKEND, "active", "IO", "DataFileRead", LOOKS)
    write(tmp_path, "waits", waits([*rows, reading], windows=40))
    seconds = range(21)
    counted = {"clock_ns": [at * S for at in seconds], "read_bytes": [8192.0 * at for at in seconds]}
    levels = {name: [0.0 for _ in seconds] for name in ("reads", "read_time_ms", "statement_s")}
    counted["writes"] = [3.0 * at for at in seconds]
    write(tmp_path, "server_reads", {**counted, **levels})
    span = Span(0, 20 * S, False)
    found = sql_evidence(tmp_path, [span], uses_uring=False, reads_by_workers=True, vcpus=None)
    assert found is not None
    assert (found.is_partial, bool(found.intervals)) == (is_partial, not is_partial)
    # The one second in which counters may come late is left out at the beginning.
    assert is_partial or len(found.intervals) == 9
    assert found.read_bytes == pytest.approx(20 * 8192)
    assert found.writes == pytest.approx(60)


def ask(sql: SqlEvidence, cause: str = "storage-iops", **changes: Any) -> Answer:
    """What the rule of this name says; half of the time of ten connections is waiting for reads."""
    rules = (device_limit.IOPS, device_limit.THROUGHPUT, device_limit.LATENCY, processors.ALL_CORES)
    rule = next(rule for rule in rules if rule.cause == cause)
    seen: dict[str, Any] = {"total_s": 10 * ELAPSED_S, "read_s": 5 * ELAPSED_S, "device": None}
    seen |= {"processors": None, "ceiling": ArmCeiling(), "sql": sql}
    return rule.find(evidence(**seen | changes))


def test_reads_at_a_flat_rate_are_named_by_what_was_flat() -> None:
    found = ask(AT_CEILING)
    assert isinstance(found, Found)
    assert found.figures["ceiling_read_iops"] == 121.0
    assert found.figures["share_of_ceiling"] == pytest.approx(120 / 121)
    assert found.gain is None, "nothing is known of the processors"
    # What is written beside them uses up the same.
    written = ask(replace(AT_CEILING, writes=ELAPSED_S * 60))
    assert isinstance(written, Found) and written.figures["write_iops"] == 60.0
    assert "write_iops" not in found.figures
    assert ask(AT_CEILING, "storage-throughput") is None
    assert ask(AT_CEILING, "storage-latency") is None
    half = replace(AT_CEILING, read_bytes=AT_CEILING.read_bytes / 2, requests=ELAPSED_S * 60)
    assert ask(half) is None, "it was not at its ceiling here"


def test_a_gain_ends_at_the_processors_whose_number_is_given() -> None:
    found = ask(replace(AT_CEILING, vcpus=0.3))
    assert isinstance(found, Found)
    assert found.gain == pytest.approx(0.3 / 0.2)
    assert "processors" in found.next_limit


def test_before_18_bytes_stand_for_both() -> None:
    ceiling = ReadCeiling("read_mb_s", 1.0, None, GROWTH)
    found = ask(replace(AT_CEILING, requests=None, ceiling=ceiling), "storage-throughput")
    assert isinstance(found, Found)
    assert "blocks and not requests" in str(found.figures["by_bytes_or_requests"])
    assert "read_iops" not in found.figures


def test_copies_from_the_system_s_cache_are_no_storage() -> None:
    quick = replace(AT_CEILING, read_bytes=40e9, requests=5e6)
    for cause in ("storage-iops", "storage-latency"):
        changed = quick if cause == "storage-iops" else replace(quick, ceiling=None, in_flight=1.0)
        found = ask(changed, cause)
        assert isinstance(found, Missing) and "cache" in found.what


def test_few_reads_in_flight_at_no_ceiling_are_its_latency() -> None:
    """The decoy: one client at 8 ms a read."""
    one = replace(
        AT_CEILING, ceiling=None, in_flight=0.96, read_bytes=ELAPSED_S * 120 * 8192, requests=ELAPSED_S * 120
    )
    found = ask(one, "storage-latency")
    assert isinstance(found, Found)
    assert found.figures["read_latency_ms"] == pytest.approx(8.0)
    timed = ask(replace(one, read_time_s=0.9 * ELAPSED_S), "storage-latency")
    assert isinstance(timed, Found) and timed.figures["read_latency_ms"] == pytest.approx(7.5)
    missing = ask(one, "storage-throughput")
    assert isinstance(missing, Missing) and "0 intervals" in missing.what
    many = replace(one, in_flight=8.0)
    assert ask(many, "storage-latency") is None
    assert ask(replace(one, is_partial=True), "storage-latency") is None


@pytest.mark.parametrize("requests", [ELAPSED_S * 120, None], ids=["18", "before 18"])
def test_reads_beside_writes_may_wait_at_a_ceiling_of_both(requests: float | None) -> None:
    """120 reads and 120 writes a second are full at 240 requests: then more in flight is the wrong advice."""
    one = replace(AT_CEILING, ceiling=None, in_flight=0.96, requests=requests)
    found = ask(replace(one, writes=ELAPSED_S * 120), "storage-latency")
    assert found == Missing("what the storage gives to reads and writes together")
    for few in (ELAPSED_S * 5, 0.0, None):
        assert isinstance(ask(replace(one, writes=few), "storage-latency"), Found)


def test_records_of_older_versions_have_no_writes(tmp_path: Path) -> None:
    write(tmp_path, "waits", waits([QUIET], windows=40))
    names = ("read_bytes", "reads", "read_time_ms", "statement_s")
    write(tmp_path, "server_reads", {"clock_ns": [0, 20 * S], **{name: [0.0, 9.0] for name in names}})
    span = Span(0, 20 * S, False)
    found = sql_evidence(tmp_path, [span], uses_uring=False, reads_by_workers=False, vcpus=None)
    assert found is not None and found.writes is None
    assert found.read_bytes == pytest.approx(9.0)


@pytest.mark.parametrize(
    ("series", "vcpus", "is_full"),
    [
        ((2.5, 2.0, 3.0, 2.2, 1.9), 2.0, True),
        ((2.5, 2.0, 0.5, 2.2, 4.0), 2.0, False),
        ((2.5, 2.0, 3.0, 2.2, 4.0), 4.0, False),
        ((), 1.0, False),
    ],
)
def test_processors_are_full_when_as_many_have_no_wait_event(
    series: tuple[float, ...], vcpus: float, is_full: bool
) -> None:
    sql = SqlEvidence(seconds=ELAPSED_S, computing=2.3, computing_series=series, vcpus=vcpus)
    found = ask(sql, "all-cores", accounts={"backend": account("backend", threads=3.0)})
    assert isinstance(found, Found) is is_full
    if isinstance(found, Found):
        assert found.seconds == 3 * ELAPSED_S
        assert found.figures["processors"] == vcpus


def test_a_statement_as_short_as_its_windows_is_judged_by_the_one_that_it_took_most_of(
    tmp_path: Path,
) -> None:
    """What the session did in the look before it began is none of its own."""
    idle: Row = (1, "backend", "idle", "Client", "ClientRead", 2)
    half: Row = (1, "backend", "active", "", "", LOOKS - 2)
    whole: Row = (1, "backend", "active", "", "", LOOKS)
    first, both = waits([idle, half, QUIET]), waits([whole, QUIET], windows=2)
    columns = {name: [*first[name], *both[name][2:]] for name in first}
    write(tmp_path, "waits", columns)
    span = Span(round(0.1 * S), round(0.97 * S), is_marked=True)
    sql = sql_evidence(tmp_path, [span], uses_uring=False, reads_by_workers=False, vcpus=1.0)
    assert sql is not None and (sql.computing, sql.computing_series) == (1.0, (1.0,))


def test_processors_whose_number_is_not_given_are_not_known() -> None:
    found = ask(SqlEvidence(computing=9.0, computing_series=(9.0,)), "all-cores")
    assert isinstance(found, Missing) and "--vcpus" in found.what


def test_processors_are_given_for_all_servers_or_for_each() -> None:
    request = CompareRequest(factors=())
    assert processors_of(request, 2) == (None, None)
    assert processors_of(replace(request, vcpus="2"), 3) == (2.0, 2.0, 2.0)
    assert processors_of(replace(request, vcpus="0.5, 8"), 2) == (0.5, 8.0)


@given(st.text(max_size=12), st.integers(1, 3))
def test_any_text_is_processors_or_one_sentence(text: str, servers: int) -> None:
    try:
        found = processors_of(replace(CompareRequest(factors=()), vcpus=text), servers)
    except UsageError as error:
        assert "--vcpus" in str(error)
    else:
        assert len(found) == servers and all(each is not None and each > 0 for each in found)


def test_a_command_finds_the_levels_and_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    place = {"host": "db", "port": 5433, "dbname": "a b", "user": "me", "password": "s3cret", "options": ""}
    found = environment_of(arm({"work_mem": "4MB", "pg_hint.x": "1"}), place)
    assert found["PGASSAY_ARM_WORK_MEM"] == "4MB"
    assert found["PGASSAY_ARM_PG_HINT_X"] == "1"
    assert found["PGASSAY_SERVER"] == "host=db port=5433 dbname='a b' user=me"
    assert not [value for value in found.values() if "s3cret" in value]


@pytest.mark.parametrize(
    ("offered", "said"),
    [(("sync", "worker"), "without liburing"), (("sync", "worker", "io_uring"), "provider")],
)
def test_a_refused_io_uring_is_explained(offered: tuple[str, ...], said: str) -> None:
    fact = SettingFact("io_method", "postmaster", "enum", None, "worker", None, None, offered, "worker")
    sentence = _about_methods({"io_method": fact}, "io_method")
    assert said in sentence and "compare sync with worker" in sentence
    assert _about_methods({"io_method": fact}, "work_mem") == ""
