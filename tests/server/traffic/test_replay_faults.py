"""A replay against what goes wrong: servers that die or lie, a full disk, a damaged capture.

It ends, says why in a sentence, and leaves nothing. The servers that lie are made up; all others are real.
"""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import whole_tool
from native_servers import NativeTestServer, started_server
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.traffic.replay_result import ReplayResult
from pgassay.traffic import manifest
from pgassay.traffic.replaying import ReplayRequest, replay
from server.traffic.captures import proxied
from storage_fixtures import fill, tiny_file_system

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
SESSIONS, TURNS, PAUSE_S = 4, 30, 0.05


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four sessions that write a row each 50 ms for a second and a half."""
    folder = tmp_path_factory.mktemp("faults") / "c"
    with started_server() as server:
        _execute(server, "CREATE TABLE notes (id bigserial, text text)")
        with proxied(server.parameters(), folder) as proxy:

            def write(number: int) -> None:
                with proxy.connect() as client:
                    for turn in range(TURNS):
                        text = f"{number} {turn}" * 200
                        client.execute("INSERT INTO notes (text) VALUES (%s)", (text,))
                        time.sleep(PAUSE_S)

            _at_once(write, SESSIONS)
            proxy.end()
    manifest.write(folder, manifest.begun("proxy", 0, None, {}, []))
    return folder


@pytest.fixture
def server() -> Iterator[NativeTestServer]:
    with started_server() as found:
        _execute(found, "CREATE TABLE notes (id bigserial, text text)")
        yield found


def _execute(server: NativeTestServer, *statements: str) -> None:
    with server.query_connection() as session:
        for each in statements:
            session.execute(each.encode())


def _at_once(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def dsn(server: NativeTestServer) -> str:
    return f"host={server.folder} port={server.port} user=postgres dbname=postgres"


def played(connection: str, folder: Path, on_progress: Any = None, **changes: Any) -> ReplayResult:
    request = ReplayRequest(folder=folder, connection=connection, allow_writes="postgres", **changes)
    return replay(request, lambda _: None, on_progress or (lambda _: None))


# --- A server that dies.


def test_a_server_that_is_restarted_in_the_middle_costs_its_sessions_and_no_more(
    server: NativeTestServer, captured: Path
) -> None:
    restarted = threading.Event()

    def restart(_: object) -> None:
        if not restarted.is_set():
            restarted.set()
            data = str(server.folder / "data")
            server.run("pg_ctl", "-D", data, "-w", "-m", "fast", "-l", str(server.log), "restart")

    # Slowly, so that the first word of progress, after a second, comes in the middle.
    result = played(dsn(server), captured, restart, speed=0.5)
    assert restarted.is_set() and not result.is_valid
    assert result.sessions_lost == SESSIONS
    # One that sends after its server's last word may lose that word: the kernel answers with a reset.
    told = ("terminating connection", "the connection was lost")
    assert all(any(words in why for words in told) for why in result.failures), result.failures
    assert 0 < result.replayed < result.statements
    example = result.families[0].example
    assert example is not None and any(words in example.now for words in told)
    rows = server.query("SELECT count(*) FROM notes")[0]
    assert result.replayed - 1 <= rows + result.diverged


def test_a_server_that_goes_for_good_is_told_and_the_exit_status_is_3(
    server: NativeTestServer, captured: Path
) -> None:
    words = ("replay", captured, dsn(server), "--allow-writes", "postgres", "--speed", "0.5")
    process = whole_tool.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None and process.stdout is not None
        assert "Ctrl-C ends the replay" in process.stderr.readline()
        server.run("pg_ctl", "-D", str(server.folder / "data"), "-w", "-m", "immediate", "stop")
        shown = process.stdout.read()
        assert process.wait(60) == 3, process.stderr.read()
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    assert "Not valid" in shown and "lost:" in shown


def test_a_server_that_is_not_there_is_one_sentence(server: NativeTestServer, captured: Path) -> None:
    words = ("replay", captured, "host=127.0.0.1 port=1 user=u dbname=d", "--allow-writes", "d")
    finished = whole_tool.run(*words)
    assert finished.returncode in (1, 2) and finished.stderr.count("\n") == 1
    assert "Traceback" not in finished.stderr and server.port


def test_refused_connections_midway_are_counted(server: NativeTestServer, captured: Path) -> None:
    _execute(server, "ALTER DATABASE postgres CONNECTION LIMIT 2", "CREATE ROLE plain LOGIN")
    _execute(server, "GRANT ALL ON notes, notes_id_seq TO plain")
    result = played(dsn(server).replace("user=postgres", "user=plain"), captured, speed=None)
    assert not result.is_valid and result.sessions_lost >= SESSIONS - 2
    assert any("too many connections" in why for why in result.failures)


# --- A full disk.


def test_a_full_disk_of_the_server_is_told_by_its_error(require: Callable[..., None], captured: Path) -> None:
    require("loop")
    with started_server() as server, tiny_file_system(server.folder, 20) as small:
        space = small / "space"
        space.mkdir()
        if server.account:
            os.chown(space, server.account["user"], server.account["group"])
        _execute(server, f"CREATE TABLESPACE small LOCATION '{space}'")
        _execute(server, "CREATE TABLE notes (id bigserial, text text) TABLESPACE small")
        _execute(server, "ALTER TABLE notes ALTER text SET STORAGE PLAIN")
        fill(small)
        result = played(dsn(server), captured, speed=None)
        _execute(server, "DROP TABLE notes", "DROP TABLESPACE small")
    assert not result.is_valid and result.sessions_lost == 0
    example = result.families[0].example
    assert example is not None and example.captured == "INSERT 0 1"
    assert "error 53100" in example.now and "No space left on device" in example.now


# --- Servers that lie: made up, since no real one does.


@contextmanager
def liar(server: NativeTestServer, says: bytes | None, after: int) -> Iterator[str]:
    """Passes on what client and real server say, until a session has sent so many messages; then lies.

    says: what comes then instead of the server's answer; None: nothing more, and the connection stays open.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(32)
        stop = threading.Event()

        def serve(client: socket.socket) -> None:
            with client, socket.socket(socket.AF_UNIX) as upstream:
                upstream.connect(str(server.folder / f".s.PGSQL.{server.port}"))
                threading.Thread(target=_pass_on, args=(upstream, client), daemon=True).start()
                count = 0
                with suppress(OSError):
                    while data := client.recv(65536):
                        count += b"INSERT" in data
                        if count > after:
                            break
                        upstream.sendall(data)
                    if count > after:
                        client.sendall(says or b"")
                        stop.wait(30 if says is None else 0.2)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    threading.Thread(target=serve, args=(peer,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield _at(listener)
        finally:
            stop.set()
            listener.shutdown(socket.SHUT_RDWR)


def _at(listener: socket.socket) -> str:
    port = listener.getsockname()[1]
    return f"host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=disable"


def _pass_on(upstream: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while data := upstream.recv(65536):
            client.sendall(data)


LIES = {
    "garbage": bytes(range(256)) * 8,
    "zeros": b"\0" * 5000,
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a length below its own": b"D\0\0\0\x01xxxx",
    "a message of 2 GiB that ends": b"D\x7f\xff\xff\xff" + b"x" * 200_000,
    "rows that were never asked for": b"D\0\0\0\x0a\0\x01\0\0\0\0" * 1000,
    "ready without an end": b"Z\0\0\0\x05I" * 50,
    "an error without a code": b"E\0\0\0\x09MSFAT",
}


# What is no message, one that ends too early, and one that is out of place.
SOME_LIES = ("garbage", "a message of 2 GiB that ends", "ready without an end")


@pytest.mark.parametrize(
    "lie", [name if name in SOME_LIES else pytest.param(name, marks=pytest.mark.slow) for name in LIES]
)
def test_a_server_that_sends_what_is_no_answer_is_given_up(
    server: NativeTestServer, captured: Path, lie: str
) -> None:
    begun = time.monotonic()
    with liar(server, LIES[lie], after=1) as connection:
        result = played(connection, captured, speed=None, silent_s=2.0)
    assert time.monotonic() - begun < 40
    assert not result.is_valid
    assert result.replayed < result.statements or result.diverged


def test_a_server_that_says_nothing_more_is_waited_for_no_longer_than_was_said(
    server: NativeTestServer, captured: Path
) -> None:
    begun = time.monotonic()
    with liar(server, None, after=1) as connection:
        result = played(connection, captured, speed=None, silent_s=2.0)
    assert time.monotonic() - begun < 40
    assert result.failures == {"the server stopped answering": SESSIONS} and not result.is_valid


def test_a_server_that_never_lets_in_is_given_up(server: NativeTestServer, captured: Path) -> None:
    # The first connections are pgassay's own, which reads the catalogs.
    begun = time.monotonic()
    with _silent_after(server, 2) as connection:
        result = played(connection, captured, speed=None, silent_s=2.0)
    assert time.monotonic() - begun < 40
    assert result.sessions_lost == SESSIONS and result.replayed == 0


@contextmanager
def _silent_after(server: NativeTestServer, count: int) -> Iterator[str]:
    """A door to a real server that opens so often, and then accepts without a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(32)
        held: list[socket.socket] = []

        def accept() -> None:
            with suppress(OSError):
                for number in range(1000):
                    peer, _ = listener.accept()
                    held.append(peer)
                    if number < count:
                        upstream = socket.socket(socket.AF_UNIX)
                        held.append(upstream)
                        upstream.connect(str(server.folder / f".s.PGSQL.{server.port}"))
                        for pair in ((upstream, peer), (peer, upstream)):
                            threading.Thread(target=_pass_on, args=pair, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield _at(listener)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for each in held:
                each.close()


# --- A damaged capture.


def copied(captured: Path, folder: Path, content: bytes) -> Path:
    folder.mkdir()
    (folder / "manifest.json").write_bytes((captured / "manifest.json").read_bytes())
    (folder / "sessions-000001.pgcap").write_bytes(content)
    return folder


def test_a_capture_that_was_cut_off_is_played_as_far_as_it_goes(
    server: NativeTestServer, captured: Path, tmp_path: Path
) -> None:
    whole = (captured / "sessions-000001.pgcap").read_bytes()
    folder = copied(captured, tmp_path / "cut", whole[: len(whole) - 30])
    result = played(dsn(server), folder, speed=None)
    assert result.diverged == 0 and 0 < result.statements <= SESSIONS * TURNS
    assert any("is incomplete" in note for note in result.notes)
    assert not any("is incomplete" in note for note in played(dsn(server), captured, speed=None).notes)


@pytest.mark.parametrize(
    "place",
    ["magic", "middle", *(pytest.param(name, marks=pytest.mark.slow) for name in ("version", "first block"))],
)
def test_a_capture_with_other_bytes_is_refused_or_ends_there(
    server: NativeTestServer, captured: Path, tmp_path: Path, place: str
) -> None:
    damaged = bytearray((captured / "sessions-000001.pgcap").read_bytes())
    at = {"magic": 0, "version": 8, "first block": 40, "middle": len(damaged) // 2}[place]
    damaged[at] ^= 0xFF
    folder = copied(captured, tmp_path / "damaged", bytes(damaged))
    finished = whole_tool.run("replay", folder, dsn(server), "--allow-writes", "postgres", "--speed", "max")
    assert "Traceback" not in finished.stderr
    if finished.returncode == 2:
        assert "damaged" in whole_tool.assert_one_sentence(finished, 2)
    else:
        assert "is incomplete" in finished.stdout and finished.returncode in (0, 3)


def test_an_empty_or_unreadable_capture_is_one_sentence(server: NativeTestServer, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    with pytest.raises(UsageError, match="holds no capture"):
        played(dsn(server), folder)
    (folder / "sessions-000001.pgcap").write_bytes(b"")
    with pytest.raises(UsageError):
        played(dsn(server), folder)


# --- Who plays.


def test_a_player_that_is_killed_leaves_no_session(server: NativeTestServer, captured: Path) -> None:
    def kill(_: object) -> None:
        for child in _children():
            os.kill(child, signal.SIGKILL)

    with pytest.raises(MeasurementError, match="was killed"):
        played(dsn(server), captured, kill, speed=0.5)
    deadline = time.monotonic() + 10
    while _sessions(server) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _sessions(server) == 0


def _children() -> list[int]:
    """The players that this process has started."""
    lists = [(task / "children").read_text().split() for task in Path("/proc/self/task").iterdir()]
    found = [int(each) for pids in lists for each in pids]
    return [pid for pid in found if "pgassay-native" in Path(f"/proc/{pid}/comm").read_text()]


def _sessions(server: NativeTestServer) -> int:
    with psycopg.connect(dsn(server), autocommit=True) as session:
        row = session.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' "
            "AND pid <> pg_backend_pid()"
        ).fetchone()
    return int(row[0]) if row else 0


def test_ctrl_c_ends_it_with_what_was_played(server: NativeTestServer, captured: Path) -> None:
    words = ("replay", captured, dsn(server), "--allow-writes", "postgres", "--speed", "0.2")
    process = whole_tool.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None and process.stdout is not None
        assert "Ctrl-C ends the replay" in process.stderr.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        shown = process.stdout.read()
        assert process.wait(30) == 3
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    assert "Stopped before its end" in shown and _sessions(server) == 0
