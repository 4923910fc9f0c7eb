"""`pgassay-native sql` against a real server."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from native_servers import PASSWORD, TCP_ROLES, NativeTestServer, started_server
from pgassay.native.process import StatementError
from pgassay.native.sql import SqlSession

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        yield server


@pytest.fixture
def session(server: NativeTestServer) -> Iterator[SqlSession]:
    with SqlSession() as session:
        session.connect(server.parameters())
        yield session


def wait_until(condition, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


def test_connected_tells_the_backend_and_the_version(server: NativeTestServer) -> None:
    with SqlSession() as session:
        connected = session.connect(server.parameters(application_name="who am I"))
        (version,) = server.query("show server_version")
        assert connected.server_version == version.split()[0]
        found = server.query("select pid from pg_stat_activity where application_name = 'who am I'")
        assert found == (connected.pid,)
        session.disconnect()
        gone = "select count(*) from pg_stat_activity where application_name = 'who am I'"
        wait_until(lambda: server.query(gone) == (0,))


def test_rows_are_counted_over_all_statements_of_a_string(session: SqlSession) -> None:
    assert session.execute("one", "select from generate_series(1, 1000)").rows == 1000
    assert (
        session.execute("several", "select 1; create temp table t(x int); select 2; values (3), (4)").rows
        == 4
    )
    assert session.execute("nothing", "").rows == 0


def test_elapsed_is_the_server_time_on_the_clock_of_this_host(session: SqlSession) -> None:
    before_ns = time.monotonic_ns()
    executed = session.execute("sleep", "select pg_sleep(0.2)")
    after_ns = time.monotonic_ns()
    assert before_ns < executed.start_ns < executed.end_ns < after_ns
    assert executed.elapsed_ns == executed.end_ns - executed.start_ns
    assert executed.elapsed_s >= 0.2


def test_an_error_has_its_sqlstate_and_the_session_goes_on(session: SqlSession) -> None:
    session.execute("table", "create temp table once(x int primary key); insert into once values (1)")
    with pytest.raises(StatementError) as caught:
        session.execute("again", "insert into once values (1)")
    assert caught.value.sqlstate == "23505"
    assert caught.value.detail == "Key (x)=(1) already exists."
    with pytest.raises(StatementError, match="syntax error") as caught:
        session.execute("nonsense", "selct 1")
    assert caught.value.sqlstate == "42601"
    assert session.execute("fine", "select 1").rows == 1


def test_a_notice_is_ignored(session: SqlSession) -> None:
    executed = session.execute("notice", "do $$ begin raise notice 'hear me'; raise warning 'me too'; end $$")
    assert executed.rows == 0


def test_options_are_in_effect(server: NativeTestServer) -> None:
    with SqlSession() as session:
        session.connect(server.parameters(options="-c work_mem=7MB -c search_path=pg_catalog"))
        check = "select 1 / (current_setting('work_mem') = '7MB')::int"
        assert session.execute("check", check).rows == 1


def test_copy_out_is_dropped_and_copy_in_refused(session: SqlSession) -> None:
    copied = session.execute("out", "copy (select repeat('x', 100) from generate_series(1, 1000)) to stdout")
    assert copied.bytes > 100_000
    with pytest.raises(StatementError, match="no data to copy"):
        session.execute("in", "create temp table c(x int); copy c from stdin")
    assert session.execute("fine", "select 1").rows == 1


def test_long_rows_take_no_memory(session: SqlSession) -> None:
    executed = session.execute("long", "select repeat('x', 200000000)")
    assert executed.bytes > 200_000_000
    status = Path(f"/proc/{session.process_id}/status").read_text()
    peak_kb = int(status.split("VmHWM:")[1].split()[0])
    assert peak_kb < 20_000


def test_a_zero_byte_is_refused_before_it_is_sent(session: SqlSession) -> None:
    with pytest.raises(StatementError, match="can't be sent"):
        session.execute("zero", "select 'a\0b'")
    assert session.execute("fine", "select 1").rows == 1


def test_a_terminated_backend_is_one_error_and_connect_works_again(server: NativeTestServer) -> None:
    with SqlSession() as session:
        pid = session.connect(server.parameters()).pid
        with pytest.raises(StatementError) as caught:
            session.execute("suicide", f"select pg_terminate_backend({pid}), pg_sleep(60)")
        assert caught.value.sqlstate == "57P01"
        with pytest.raises(StatementError, match="no connection"):
            session.execute("after", "select 1")
        session.connect(server.parameters())
        assert session.execute("fine", "select 1").rows == 1


def test_a_killed_backend_is_one_clear_error(server: NativeTestServer) -> None:
    with SqlSession() as session:
        pid = session.connect(server.parameters()).pid
        starts = server.log.read_text().count("ready to accept")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(StatementError, match="lost"):
            session.execute("after", "select pg_sleep(60)")
        wait_until(lambda: server.log.read_text().count("ready to accept") > starts)

        def connects() -> bool:
            try:
                session.connect(server.parameters())
            except StatementError:
                return False
            return True

        wait_until(connects)


def test_closing_ends_the_process_and_cancels_its_statement(server: NativeTestServer) -> None:
    session = SqlSession()
    pid = session.connect(server.parameters()).pid
    child = session._open_child()
    child.send({"execute": {"name": "sleep", "sql": "select pg_sleep(600)"}})
    active = f"select count(*) from pg_stat_activity where pid = {pid} and state = 'active'"
    wait_until(lambda: server.query(active) == (1,))
    process = child._process
    session.close()
    assert process.returncode == 0
    wait_until(lambda: server.query(f"select count(*) from pg_stat_activity where pid = {pid}") == (0,))


@pytest.mark.parametrize("role", sorted(TCP_ROLES))
def test_passwords_over_tcp(server: NativeTestServer, role: str) -> None:
    with SqlSession() as session:
        tcp = server.parameters(host="127.0.0.1", user=role, password=PASSWORD)
        session.connect(tcp)
        assert session.execute("who", f"select 1 where current_user = '{role}'").rows == 1
        with pytest.raises(StatementError, match="password authentication failed") as caught:
            session.connect(tcp | {"password": "wrong"})
        assert caught.value.sqlstate == "28P01"
        with pytest.raises(StatementError, match="asks for a password") as caught:
            session.connect(tcp | {"password": None})
        assert caught.value.sqlstate is None


def test_a_place_where_nobody_listens(server: NativeTestServer) -> None:
    with SqlSession() as session:
        with pytest.raises(StatementError, match=r"no server can be reached at /nowhere/\.s\.PGSQL\.1"):
            session.connect(server.parameters(host="/nowhere", port=1))
        with pytest.raises(
            StatementError, match=r"no server can be reached at 127\.0\.0\.1:1: Connection refused"
        ):
            session.connect(server.parameters(host="127.0.0.1", port=1))
        with pytest.raises(StatementError, match='database "absent" does not exist'):
            session.connect(server.parameters(dbname="absent"))


def test_notices_come_with_their_statement(session: SqlSession) -> None:
    sql = "DO $$BEGIN RAISE NOTICE 'first'; RAISE WARNING 'ü' USING DETAIL = 'd'; END$$"
    executed = session.execute("speak", sql)
    said = [(notice.severity, notice.message, notice.detail) for notice in executed.notices]
    assert said == [("NOTICE", "first", None), ("WARNING", "ü", "d")]
    assert session.execute("silent", "select 1").notices == ()


def test_notices_without_end_are_bounded(session: SqlSession) -> None:
    executed = session.execute(
        "flood", "DO $$BEGIN FOR i IN 1..40 LOOP RAISE NOTICE '%', repeat('x', 1000000); END LOOP; END$$"
    )
    assert 10 <= len(executed.notices) < 17
    assert len(executed.notices) + executed.notices_dropped == 40
