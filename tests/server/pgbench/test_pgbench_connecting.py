"""How pgbench's connections are found and lost: libpq's files, several hosts, peers that misbehave."""

import random
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from native_servers import PASSWORD, NativeTestServer, started_server
from pgassay.pgbench.connection import errors_told
from pgassay.pgbench.messages import PgbenchError
from real_tools.pgbench import OURS, both, libpq_environment, ours

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
ONE = ("-n", "-S", "-t", "1")
DONE = "number of transactions actually processed: 1/1"
MARK = b"select 4711"


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        yield server


def test_a_password_file_counts_while_only_its_owner_can_read_it(
    server: NativeTestServer, tmp_path: Path
) -> None:
    file = tmp_path / "passwords"
    file.write_text(f"127.0.0.1:{server.port}:*:by_scram:{PASSWORD}\n")
    place = {"PGHOST": "127.0.0.1", "PGUSER": "by_scram", "PGPASSFILE": str(file)}
    file.chmod(0o600)
    theirs, mine = both(server, *ONE, environment=place)
    assert (mine.status, theirs.status) == (0, 0) and DONE in mine.output
    file.chmod(0o644)
    theirs, mine = both(server, *ONE, environment=place)
    assert (mine.status, theirs.status) == (1, 1)
    assert "has group or world access" in mine.errors and "has group or world access" in theirs.errors
    assert PASSWORD not in mine.errors + mine.output


def test_a_service_file_and_a_connection_string_count(server: NativeTestServer, tmp_path: Path) -> None:
    file = tmp_path / "services"
    file.write_text(f"[here]\nhost={server.folder}\nport={server.port}\nuser=postgres\ndbname=postgres\n")
    gone = {"PGHOST": "", "PGPORT": "", "PGUSER": "", "PGDATABASE": "", "PGSERVICEFILE": str(file)}
    for changes, words in (
        # pgbench names a database itself where neither its words nor $PGDATABASE do.
        ({**gone, "PGSERVICE": "here", "PGDATABASE": "postgres"}, ()),
        (gone, ("service=here",)),
        ({}, ("dbname=postgres options='-c default_transaction_isolation=serializable'",)),
    ):
        theirs, mine = both(server, *ONE, *words, environment=changes)
        assert (mine.status, theirs.status) == (0, 0), (words, mine.errors, theirs.errors)
        assert DONE in mine.output


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("PGTZ", "Asia/Tokyo", "TimeZone"),
        ("PGDATESTYLE", "SQL, DMY", "DateStyle"),
        ("PGGEQO", "off", "geqo"),
        ("PGOPTIONS", "-c work_mem=7MB", "work_mem"),
        ("PGAPPNAME", "mine", "application_name"),
    ],
)
def test_settings_of_the_environment_are_those_of_the_clients(
    server: NativeTestServer, tmp_path: Path, variable: str, value: str, name: str
) -> None:
    expected = value.rpartition("=")[2]
    text = f"select 1 / (case when current_setting('{name}') = '{expected}' then 1 else 0 end);\n"
    (tmp_path / "x.sql").write_text(text)
    words = ("-n", "-t", "1", "-f", "x.sql")
    theirs, mine = both(server, *words, folder=tmp_path, environment={variable: value})
    assert (mine.status, theirs.status) == (0, 0), mine.errors
    assert ours(server, *words, folder=tmp_path, environment={variable: "default"}).status != 0


@pytest.mark.parametrize("words", [ONE, ("-i",)])
def test_an_option_that_no_connection_string_has_is_told_as_by_pgbench(
    server: NativeTestServer, words: tuple[str, ...]
) -> None:
    theirs, mine = both(server, *words, "host=/x nosuch=1")
    assert (mine.status, mine.complaints) == (theirs.status, theirs.complaints)


def test_a_question_that_the_server_refuses_is_told_in_a_sentence(server: NativeTestServer) -> None:
    with (
        pytest.raises(PgbenchError, match="canceling statement due to statement timeout"),
        errors_told(),
        server.query_connection() as connection,
    ):
        connection.execute("set statement_timeout = '10ms'; select pg_sleep(10)")


def test_the_first_of_several_hosts_that_takes_writes_is_used(server: NativeTestServer) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = f"{closed.getsockname()[1]},{server.port}"
        hosts = f"host=127.0.0.1,{server.folder} port={ports} dbname=postgres user=postgres"
        for attributes in ("read-write", "any", "primary"):
            theirs, mine = both(server, *ONE, f"{hosts} target_session_attrs={attributes}")
            assert (mine.status, theirs.status) == (0, 0), mine.errors
        for attributes in ("read-only", "standby"):
            theirs, mine = both(server, *ONE, f"{hosts} target_session_attrs={attributes}")
            assert mine.status == theirs.status == 1
            assert mine.complaints[-2:] == theirs.complaints[-2:]


@contextmanager
def misbehaving(
    server: NativeTestServer, folder: Path, answer: Callable[[socket.socket], None]
) -> Iterator[None]:
    """A socket in a folder through which the server is reached, until a client asks for MARK."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / ".s.PGSQL.5432"))
    listener.listen(50)
    target = f"{server.folder}/.s.PGSQL.{server.port}"

    def serve(client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as upstream, suppress(OSError):
            upstream.connect(target)
            threading.Thread(target=copy, args=(upstream, client), daemon=True).start()
            while data := client.recv(65536):
                if MARK in data:
                    answer(client)
                    return
                upstream.sendall(data)

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _shut(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_RDWR)


def _talk_nonsense(client: socket.socket) -> None:
    client.sendall(random.Random(36).randbytes(5000))
    time.sleep(0.2)


def _send_half(client: socket.socket) -> None:
    client.sendall(b"T\0\0\0\x20\0\x01half a row description")
    client.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer", [_shut, _talk_nonsense, _send_half])
def test_a_server_that_breaks_the_protocol_aborts_its_clients(
    server: NativeTestServer, tmp_path: Path, answer: Callable[[socket.socket], None]
) -> None:
    (tmp_path / "x.sql").write_text("select 1;\nselect 4711;\n")
    words = ("-n", "-c", "3", "-t", "5", "-f", "x.sql")
    with misbehaving(server, tmp_path, answer):
        place = {"PGHOST": str(tmp_path), "PGPORT": "5432"}
        if answer is not _talk_nonsense:
            theirs, mine = both(server, *words, environment=place, folder=tmp_path)
            assert (sorted(mine.complaints), mine.shape) == (sorted(theirs.complaints), theirs.shape)
        else:
            mine = ours(server, *words, environment=place, folder=tmp_path)
    assert mine.status == 2 and "Traceback" not in mine.errors
    for client in range(3):
        assert re.search(rf"client {client} (script 0 )?aborted in command 1 .", mine.errors), mine.errors
    assert "number of transactions actually processed: 0/15" in mine.output


def test_a_server_that_stalls_is_left_with_ctrl_c(server: NativeTestServer, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text("select 4711;\n")
    asked = threading.Event()

    def stall(client: socket.socket) -> None:
        asked.set()
        client.recv(1)

    with misbehaving(server, tmp_path, stall):
        run = subprocess.Popen(
            [*OURS, "-n", "-T", "1", "-f", "x.sql"],
            env=libpq_environment(server, {"PGHOST": str(tmp_path), "PGPORT": "5432"}),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert asked.wait(60)
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 130 and "Traceback" not in errors
