"""What an interval of a running server means: accounts without idle time, chains of locks, words, pages."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest

from pgassay.analysis.accounts.samples import IDLE_CONNECTION
from pgassay.analysis.accounts.threads import BACKEND
from pgassay.analysis.causes.registry import RULES
from pgassay.analysis.causes.rules import locks
from pgassay.analysis.diagnosis.accounts import accounts
from pgassay.analysis.diagnosis.diagnose import diagnose
from pgassay.analysis.diagnosis.interval import Cost, Interval, Session, SessionsSample
from pgassay.analysis.diagnosis.sessions import blockers, sampled_statements, without_constants
from pgassay.model.experiment import ArmCeiling
from pgassay.model.running_server.diagnosis import CalledStatement, DiagnosedServer, Diagnosis
from pgassay.model.vacuum_state import Holder, VacuumState
from pgassay.record.columns import to_parquet
from pgassay.report.diagnosis import diagnosis_page as report
from pgassay.running_server.diagnosis import estimated_plans

S = 1_000_000_000
SECONDS = 10
LOOKS = 100
HOSTILE = '<script>alert("1")</script> \x1b[31m\n[x](y)'
SERVER = DiagnosedServer(
    name="db:5432/shop",
    version="18.4",
    role="me",
    is_local=True,
    is_standby=False,
    postmaster_pid=70,
    data_directory="/data",
    device="sda",
)
Wait = tuple[int, str, str, str, str, int]


def write(folder: Path, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
    place = folder / "observations"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.parquet").write_bytes(to_parquet(columns, sampler=name, version=1))


def write_waits(folder: Path, rows: Sequence[Wait]) -> None:
    """Rows of (pid, kind, event type, event, scheduler's state, samples), in the middle of the interval."""
    names = ("pid", "kind", "wait_event_type", "wait_event", "scheduler_state", "samples")
    columns: dict[str, Sequence[Any]] = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    clock = {"from_ns": [0] * len(rows), "clock_ns": [SECONDS * S] * len(rows)}
    clock["activity"] = ["idle" if row[1] == IDLE_CONNECTION else "active" for row in rows]
    write(folder, "waits", {**clock, **columns})


def write_threads(
    folder: Path, cpu_s: Mapping[int, float], read_bytes: int = 0, delay_s: float = 0.0
) -> None:
    """Backends that were there all the time, with the CPU seconds that each used."""
    rows = [(pid, clock, used * clock / SECONDS) for pid, used in cpu_s.items() for clock in (0, SECONDS)]
    zeros = [0] * len(rows)
    write(
        folder,
        "threads",
        {
            "pid": [pid for pid, _, _ in rows],
            "thread": [pid for pid, _, _ in rows],
            "kind": [BACKEND] * len(rows),
            "clock_ns": [clock * S for _, clock, _ in rows],
            "seen_ns": [clock * S for _, clock, _ in rows],
            "start_ns": [-S] * len(rows),
            "alive": [1] * len(rows),
            "run_ns": [int(used * S) for _, _, used in rows],
            "delay_ns": [int(delay_s * clock / SECONDS * S) for _, clock, _ in rows],
            "children_cpu_ns": zeros,
            "read_bytes": [read_bytes * clock // SECONDS for _, clock, _ in rows],
        },
    )


def interval(folder: Path, **changes: Any) -> Interval:
    base = Interval(
        server=SERVER,
        folder=folder,
        started_at="2026-03-01T12:00:00.000+00:00",
        begin_ns=0,
        end_ns=SECONDS * S,
        seconds_asked=SECONDS,
        interrupted=False,
        is_hidden=False,
        cost=Cost(0.01, 0.02, 0.03, LOOKS / SECONDS, LOOKS, 0),
        samples=(),
        counters={"pg_stat_database": [{"datname": "shop", "xact_commit": 500.0}]},
        settings={"work_mem": "4MB"},
    )
    return replace(base, **changes)


def limit(diagnosis: Diagnosis) -> str:
    return diagnosis.causes[0].cause


def test_idle_connections_are_no_time(tmp_path: Path) -> None:
    write_threads(tmp_path, {1: 1.0, 2: 0.0})
    write_waits(
        tmp_path,
        [
            (1, BACKEND, "", "", "R", 10),
            (1, BACKEND, "Lock", "transactionid", "S", 90),
            (2, IDLE_CONNECTION, "Client", "ClientRead", "S", 100),
        ],
    )
    found = accounts(interval(tmp_path))
    backend = found.of(BACKEND)
    assert backend is not None
    assert found.idle_s == pytest.approx(10, abs=0.1)
    assert backend.wall_s == pytest.approx(10, abs=0.1)
    assert {item.wait_event for item in backend.items} == {"", "transactionid"}
    assert sum(item.share for item in backend.items) == pytest.approx(1)
    diagnosis = diagnose(interval(tmp_path))
    assert limit(diagnosis) == "row-locks"
    assert diagnosis.causes[0].share == pytest.approx(0.9, abs=0.02)
    assert diagnosis.activity.connections_busy == pytest.approx(1, abs=0.01)
    assert diagnosis.next == (locks.ROWS.next_step,)


def test_short_sessions_take_no_more_than_the_whole(tmp_path: Path) -> None:
    # Of a session of milliseconds the processor's and the queue's time are known, not how long it was.
    write_threads(tmp_path, {1: 6.0}, delay_s=12.0)
    write_waits(tmp_path, [(1, BACKEND, "", "", "R", 100)])
    backend = accounts(interval(tmp_path)).of(BACKEND)
    assert backend is not None
    assert {item.kind: item.share for item in backend.items} == pytest.approx(
        {"cpu": 1 / 3, "runnable": 2 / 3}
    )
    assert (backend.wall_s, backend.residue_s, backend.threads) == pytest.approx((18, 0, 1.8))


def test_a_server_without_work_has_no_cause(tmp_path: Path) -> None:
    write_threads(tmp_path, {1: 0.01, 2: 0.0})
    write_waits(tmp_path, [(pid, IDLE_CONNECTION, "Client", "ClientRead", "S", 100) for pid in (1, 2)])
    diagnosis = diagnose(interval(tmp_path))
    assert [cause.cause for cause in diagnosis.causes] == ["unknown"]
    assert diagnosis.causes[0].evidence["idle_share"] == pytest.approx(0.999, abs=0.001)
    assert (
        "the server was idle (99.9 % of the time no connection worked)"
        in report.page_of(diagnosis).terminal()
    )


def test_open_transactions_that_wait_for_their_client(tmp_path: Path) -> None:
    write_threads(tmp_path, {1: 0.1})
    write_waits(tmp_path, [(1, BACKEND, "Client", "ClientRead", "S", 100)])
    diagnosis = diagnose(interval(tmp_path))
    assert (limit(diagnosis), diagnosis.causes[0].layer) == ("client-bound", "design")
    assert "while their clients did something else" in report.page_of(diagnosis).terminal()


def test_looks_alone_never_say_cpu(tmp_path: Path) -> None:
    write_waits(tmp_path, [(1, BACKEND, "", "", "-", 90), (1, BACKEND, "IO", "WalSync", "-", 10)])
    elsewhere = interval(tmp_path, server=SERVER.model_copy(update={"is_local": False}))
    diagnosis = diagnose(elsewhere)
    assert limit(diagnosis) == "unknown"
    assert "time on processors" in str(diagnosis.causes[0].evidence["not_known"])
    assert diagnosis.accounts[0].residue_s == pytest.approx(9)
    assert "not known which" in report.page_of(diagnosis).terminal()


def test_a_role_that_may_not_see_is_told_so_and_no_limit_is_guessed(tmp_path: Path) -> None:
    write_threads(tmp_path, {1: 9.0})
    write_waits(tmp_path, [(1, BACKEND, "", "", "R", 100)])
    assert limit(diagnose(interval(tmp_path))) == "backend-core"
    hidden = diagnose(interval(tmp_path, is_hidden=True, missing=("GRANT pg_monitor TO me",)))
    assert limit(hidden) == "unknown"
    assert hidden.activity.connections_busy is None
    assert "GRANT pg_monitor TO me" in report.page_of(hidden).terminal()


def test_nothing_sampled_is_no_reason_to_fail(tmp_path: Path) -> None:
    diagnosis = diagnose(interval(tmp_path))
    assert limit(diagnosis) == "unknown"
    assert diagnosis.accounts == ()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT *  FROM t\n WHERE a = 42 AND b = 'it''s'", "SELECT * FROM t WHERE a = ? AND b = ?"),
        ("SELECT t1.c2, $1 FROM t1 WHERE x = 1.5", "SELECT t1.c2, $1 FROM t1 WHERE x = ?"),
        ("DO $x$ secret $x$", "DO ?"),
        ("SELECT 'cut off", "SELECT 'cut off"),
        (r"SELECT E'it\'s secret', b WHERE c = 'so'", "SELECT ?, b WHERE c = ?"),
        (r"SELECT e'a\\' , 'b\', DATE'2026-01-01'", "SELECT ? , ?, DATE?"),
        ("SELECT 1e5, 1.5E-3, 0x1F, .5, 1_000, t1.c2", "SELECT ?, ?, ?, ?, ?, t1.c2"),
        ("SET b = b + -12 WHERE x=-3 AND f(a - 1, -2.5)", "SET b = b + ? WHERE x=? AND f(a - ?, ?)"),
        ("SELECT $q1$secret$q1$, $é$secret$é$, $1, $2", "SELECT ?, ?, $1, $2"),
        ("SELECT /* don't */ 'secret' FROM t", "SELECT /* don't */ ? FROM t"),
        ("SELECT a -- it's\n, 'secret', 'so'", "SELECT a -- it's , ?, ?"),
        ('SELECT "it\'s", \'secret\' AS "a""b\'"', 'SELECT "it\'s", ? AS "a""b\'"'),
        ("SELECT 1 /* key='secret', 7 */", "SELECT ? /* key=?, ? */"),
        ("SELECT '--', 'a', '/*', $$--$$", "SELECT ?, ?, ?, ?"),
    ],
)
def test_statements_are_told_without_their_constants(query: str, expected: str) -> None:
    assert without_constants(query) == expected


@pytest.mark.parametrize("major", [14, 18])
def test_what_may_not_be_planned_has_its_reason(
    major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a statement without constants too, which before 16 is not prepared without parameters."""
    refusing = Mock()
    refusing.execute.side_effect = psycopg.errors.InsufficientPrivilege("permission denied")
    target = SimpleNamespace(session=lambda *_: nullcontext(refusing), is_superuser=False, major=major)
    monkeypatch.setattr(estimated_plans, "read_facts", lambda _: SimpleNamespace(functions=(), tables=()))
    text = "SELECT count(*) FROM t"
    counted = CalledStatement(
        query_id="7",
        query=text,
        calls=5,
        total_s=9.0,
        mean_ms=1800.0,
        rows=5,
        read_bytes=0,
        temporary_bytes=0,
    )
    seen = interval(tmp_path, statements=(counted,), statements_s=9.0)
    found = estimated_plans.with_plans(target, seen, {}, {"7": text})  # type: ignore[arg-type]
    assert "permission denied: EXPLAIN needs the rights" in found.planned[0].missing


def session(pid: int, *blocked_by: int, **more: Any) -> Session:
    return Session(
        pid, None, f"UPDATE t SET a = {pid}", more.pop("state", "active"), **more, blocked_by=blocked_by
    )


def test_the_head_of_a_chain_is_named() -> None:
    # 3 waits for 2, which waits for 1; 4 waits for a prepared transaction; 5 and 6 for each other.
    look = SessionsSample(
        0,
        (
            session(1, state="idle in transaction", user="app", transaction_s=9.0),
            session(2, 1),
            session(3, 2),
            session(4, 0),
            session(5, 6),
            session(6, 5),
        ),
        0.0,
    )
    first, second = blockers([look, look], 10.0)
    assert (first.pid, first.waiting_max, first.waiting_s, first.chain) == (1, 2, 20.0, (3, 2, 1))
    assert (first.state, first.query) == ("idle in transaction", "UPDATE t SET a = ?")
    assert (second.pid, second.state) == (0, "prepared transaction")
    assert blockers([], 10.0) == ()


def test_statements_share_the_busy_time() -> None:
    waiting = session(1, event_type="Lock", event="tuple")
    looks = [
        SessionsSample(0, (waiting, session(2), Session(3, "77", "COMMIT", "idle in transaction")), 0.0)
    ] * 4
    first, second = sampled_statements(looks, 8.0)
    assert (first.query, first.seconds, first.share) == ("UPDATE t SET a = ?", 16.0, 2 / 3)
    assert first.waits == {"Lock:tuple": 0.5, "": 0.5}
    assert (second.query_id, second.waits) == ("77", {"idle in transaction": 1.0})


def write_device(folder: Path, read_mb_s: float, **more: float) -> None:
    """more: by the counter's name, what it moved by in each second."""
    seconds = range(SECONDS + 1)
    moved = dict.fromkeys(("reads", "weighted_ms"), 100.0) | more
    columns = {name: [rate * at for at in seconds] for name, rate in moved.items()}
    columns["read_bytes"] = [read_mb_s * 1e6 * at for at in seconds]
    write(folder, "device", {"clock_ns": [at * S for at in seconds], **columns})


def test_a_limit_of_the_server_s_own_is_held_against_its_own_reads(tmp_path: Path) -> None:
    # The device delivers 40 MB/s; a tenth of it to this server, which may have 10.
    write_device(tmp_path, 40.0)
    write_threads(tmp_path, {1: 0.1}, read_bytes=SECONDS * 4_000_000)
    write_waits(tmp_path, [(1, BACKEND, "IO", "DataFileRead", "D", 100)])
    limited = ArmCeiling(read_mb_s=10.0, read_mb_s_from="limit")
    found = diagnose(interval(tmp_path, ceiling=limited, has_thread_bytes=True))
    assert "storage-throughput" not in {cause.cause for cause in found.causes}
    assert found.activity.server_read_mb_s == pytest.approx(4.0)
    assert found.activity.device_read_mb_s == pytest.approx(40.0)
    assert found.activity.device_write_mb_s is None
    # What a probe found is the device's, whoever reads.
    shared = ArmCeiling(read_mb_s=42.0, read_mb_s_from="probe")
    assert limit(diagnose(interval(tmp_path, ceiling=shared, has_thread_bytes=True))) == "storage-throughput"


def test_the_time_of_writes_is_no_latency_of_reads(tmp_path: Path) -> None:
    """The device took 10 ms a second for reads and nearly 2 s for writes, which may be others'."""
    writes = {"writes": 400.0, "write_bytes": 5e6, "write_ms": 1900.0, "read_ms": 10.0, "weighted_ms": 1910.0}
    write_device(tmp_path, 4.0, **writes)
    write_threads(tmp_path, {1: 0.1}, read_bytes=SECONDS * 4_000_000)
    write_waits(tmp_path, [(1, BACKEND, "IO", "DataFileRead", "D", 100)])
    limited = ArmCeiling(read_mb_s=100.0, read_mb_s_from="limit", read_iops=9000, read_iops_from="limit")
    found = diagnose(interval(tmp_path, ceiling=limited, has_thread_bytes=True))
    assert "storage-latency" not in {cause.cause for cause in found.causes}
    assert found.activity.device_write_mb_s == pytest.approx(5.0)
    assert "5 MB/s written to it" in report.page_of(found).terminal(width=200, unicode=False)


def write_processors(folder: Path, count: int) -> None:
    """All of them busy all the time."""
    seconds = range(SECONDS + 1)
    names = ("nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    columns = {name: [0.0 for _ in seconds] for name in names}
    used = {"user": [float(count * at) for at in seconds]}
    write(folder, "host_cpu", {"clock_ns": [at * S for at in seconds], **used, **columns})


def test_clients_on_the_same_machine_are_no_strangers(tmp_path: Path) -> None:
    write_processors(tmp_path, 2)
    write_threads(tmp_path, {1: 6.0, 2: 5.0}, delay_s=4.0)
    write_waits(tmp_path, [(1, BACKEND, "", "", "R", 100), (2, BACKEND, "", "", "R", 100)])
    own = diagnose(interval(tmp_path, clients_cpu_s=8.0))
    assert [cause.cause for cause in own.causes] == ["all-cores"]
    assert own.activity.server_cpus == pytest.approx(1.1)
    assert own.activity.others_cpus == pytest.approx(0.1)
    strangers = diagnose(interval(tmp_path, others={"backup": 8.0}))
    assert {cause.cause for cause in strangers.causes} == {"backend-core", "noise"}


def test_a_change_of_the_throughput_is_timed(tmp_path: Path) -> None:
    done, looks = 0.0, []
    for second in range(61):
        looks.append(SessionsSample(second * S, (), done))
        done += (1000.0 if second < 30 else 200.0) + second % 3
    (change,) = diagnose(interval(tmp_path, end_ns=60 * S, samples=tuple(looks))).changes
    assert change.what == "transactions"
    assert change.at_s == pytest.approx(30, abs=1)
    assert (change.before, change.after) == (pytest.approx(1000, rel=0.05), pytest.approx(200, rel=0.1))


def test_every_cause_brings_its_words() -> None:
    assert all(rule.phrase and not rule.phrase.endswith(".") for rule in RULES)
    assert all(rule.remedy.endswith(".") and rule.next_step.endswith((".", "?")) for rule in RULES)


def test_an_old_prepared_transaction_is_told_with_how_it_ends(tmp_path: Path) -> None:
    """It takes no time of anybody's yet; what VACUUM may not remove behind it will."""
    write_waits(tmp_path, [(1, BACKEND, "IO", "WalSync", "-", 100)])
    for seconds, is_told in ((2700.0, True), (5.0, False)):
        holder = Holder(kind="prepared transaction", name="x17", transactions=9, seconds=seconds)
        page = report.page_of(diagnose(interval(tmp_path, vacuum_state=VacuumState(holders=(holder,)))))
        assert ("x17: 9 transactions old, 45 min" in page.terminal()) == is_told
        assert ("ROLLBACK PREPARED this transaction" in page.terminal()) == is_told
        assert ("Faults: none found" in page.terminal()) != is_told


def test_hostile_names_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    write_waits(tmp_path, [(1, BACKEND, HOSTILE, HOSTILE, "-", 100)])
    called = CalledStatement(
        query_id="1",
        query=HOSTILE,
        calls=1,
        total_s=1.0,
        mean_ms=1000.0,
        rows=1,
        read_bytes=0,
        temporary_bytes=0,
    )
    hostile = Session(1, None, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    look = SessionsSample(
        0, (hostile, Session(2, None, HOSTILE, "active", "Lock", "tuple", blocked_by=(1,))), 0.0
    )
    diagnosis = diagnose(
        interval(
            tmp_path,
            server=SERVER.model_copy(update={"name": HOSTILE, "version": HOSTILE}),
            samples=(look,),
            statements=(called,),
            missing=(HOSTILE,),
            warnings=(HOSTILE,),
            others={HOSTILE: 5.0},
        )
    )
    page = report.page_of(diagnosis).terminal()
    assert "\x1b" not in page
    assert report.page_of(diagnosis).terminal(unicode=False).isascii()
    html = report.page_of(diagnosis).html()
    assert "<script" not in html and "\x1b" not in html
