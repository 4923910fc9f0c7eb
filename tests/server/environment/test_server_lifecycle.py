"""A server's life on the real program: start, use, reload, stop, and every rude end."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from pgassay.environment.cgroup.group import Cgroup
from pgassay.environment.cleanup import registry
from pgassay.environment.home import account
from pgassay.environment.server import private_server, server_processes
from pgassay.environment.server.private_server import Server, ServerStartError
from pgassay.environment.server.sessions import control
from pgassay.errors import MeasurementError, UsageError
from server_helpers import (
    TINY_SETTINGS,
    answer_of,
    best_build,
    child,
    empty_cluster,
    kill_child,
    own_home,
    socket_folders,
)

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
BURN = "SELECT sum(sqrt(i)) FROM generate_series(1, 2000000) AS i"


@pytest.fixture(scope="module")
def build():
    return best_build()


@pytest.fixture(scope="module")
def home(build):
    assert build  # found in the machine's home, before this one replaces it
    with own_home() as folder:
        yield folder


@pytest.fixture(scope="module")
def data(build, home):
    return empty_cluster(build, home / "data" / "lifecycle")


@pytest.fixture(autouse=True)
def nothing_left(data, home):
    yield
    assert server_processes.processes_of(data) == []
    assert socket_folders(home) == []
    assert list((home / "registry").glob("*.json")) == []


def show(running, name):
    with control(running) as session:
        return session.execute("SELECT current_setting(%s)", (name,)).fetchone()[0]


def test_runs_privately_and_leaves_nothing(build, data):
    running = Server(build, data, TINY_SETTINGS)
    running.start()
    try:
        folder = running.socket_directory.stat()
        assert stat.S_IMODE(folder.st_mode) == 0o700
        assert folder.st_uid == (account().uid if account() else os.geteuid())
        with control(running) as session:
            row = session.execute(
                "SELECT current_user, inet_server_addr(), current_setting('listen_addresses')"
            )
            assert row.fetchone() == ("postgres", None, "")
            roles = "SELECT usename, application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"
            assert session.execute(roles).fetchone() == ("postgres", "pgassay control")
        assert running.is_running()
        assert running.pid in running.process_ids()
        assert Path(f"/proc/{running.pid}").stat().st_uid == folder.st_uid
    finally:
        running.stop()
    assert not running.is_running()
    assert not running.socket_directory.exists()
    assert "database system is shut down" in running.log_tail()
    running.stop()


def test_settings_are_taken_as_typed(build, data):
    awkward = "it's 100% \\ %m "
    with Server(build, data, {**TINY_SETTINGS, "log_line_prefix": awkward, "work_mem": "1.5GB"}) as running:
        assert show(running, "log_line_prefix") == awkward
        assert show(running, "work_mem") == "1536MB"
        assert show(running, "shared_buffers") == "16MB"
    assert (data / "postgresql.auto.conf").read_text().count("\n") <= 2


def test_log_is_appended_and_the_tail_is_of_this_start(build, data, tmp_path):
    log = tmp_path / "server.log"
    for _ in range(2):
        with Server(build, data, TINY_SETTINGS, log_path=log) as running:
            assert running.log_tail(100).count("ready to accept connections") == 1
    assert log.read_text().count("ready to accept connections") == 2


def test_reload_changes_what_needs_no_restart(build, data):
    with Server(build, data, {**TINY_SETTINGS, "work_mem": "4MB"}) as running:
        pid = running.pid
        running.reload({"work_mem": "9MB", "log_checkpoints": "off"})
        assert (show(running, "work_mem"), show(running, "log_checkpoints")) == ("9MB", "off")
        assert show(running, "shared_buffers") == "16MB"
        running.reload({"work_mem": "10MB"})
        assert (show(running, "work_mem"), show(running, "log_checkpoints")) == ("10MB", "off")
        assert running.pid == pid


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shared_buffers": "32MB"}, "restart"),
        ({"work_mem": "lots"}, "work_mem"),
        ({"no_such_setting": "1"}, "no_such_setting"),
        ({"port": "5433"}, "is set by pgassay"),
        ({"work_mem": "1MB\nport = 1"}, "more than one line"),
    ],
)
def test_reload_refuses_and_keeps_the_old(build, data, change, words):
    with Server(build, data, {**TINY_SETTINGS, "work_mem": "5MB"}) as running:
        with pytest.raises(UsageError, match=words):
            running.reload(change)
        running.reload({"log_checkpoints": "off"})
        assert show(running, "work_mem") == "5MB"
        assert show(running, "shared_buffers") == "16MB"


def test_killed_postmaster_is_noticed_and_recovered_from(build, data):
    running = Server(build, data, TINY_SETTINGS)
    running.start()
    session = control(running)
    session.execute("CREATE TABLE survivor AS SELECT 42 AS answer")
    segments = server_processes.mapped_segments(running.process_ids())
    assert segments and all(Path(path).exists() for path in segments)
    os.kill(running.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while running.is_running() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not running.is_running()
    running.stop()
    assert not any(Path(path).exists() for path in segments)
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")
    with Server(build, data, TINY_SETTINGS) as again, control(again) as session:
        assert session.execute("SELECT answer FROM survivor").fetchone() == (42,)
        assert "not properly shut down" in again.log_tail(50)
        session.execute("DROP TABLE survivor")


def test_kill_is_a_crash(build, data):
    running = Server(build, data, TINY_SETTINGS)
    running.start()
    segments = server_processes.mapped_segments(running.process_ids())
    running.kill()
    assert not running.is_running()
    assert not any(Path(path).exists() for path in segments)
    with Server(build, data, TINY_SETTINGS) as again:
        assert "not properly shut down" in again.log_tail(50)


def test_stop_ends_a_server_that_does_not_answer(build, data, monkeypatch):
    monkeypatch.setattr(private_server, "FORCED_STOP_TIMEOUT_S", 0.5)
    running = Server(build, data, TINY_SETTINGS)
    running.start()
    session = control(running)
    os.kill(running.pid, signal.SIGSTOP)
    running.stop(timeout_s=0.3)
    assert not running.is_running()
    session.close()


def test_stop_does_not_wait_for_an_open_transaction(build, data):
    running = Server(build, data, TINY_SETTINGS)
    running.start()
    session = control(running)
    session.execute("BEGIN")
    session.execute("SELECT 1")
    running.stop()
    assert "fast shutdown request" in running.log_tail(50)
    assert "immediate shutdown request" not in running.log_tail(50)
    session.close()


def test_body_that_fails_stops_the_server(build, data):
    with pytest.raises(ZeroDivisionError), Server(build, data, TINY_SETTINGS) as running:
        _ = 1 / 0
    assert not running.is_running()


def test_orphan_of_a_killed_owner_is_swept(build, data):
    def own_and_wait():
        Server(build, data, TINY_SETTINGS).start()
        time.sleep(600)

    pid, pipe = child(own_and_wait)
    deadline = time.monotonic() + 120
    while not _is_ready(data) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _is_ready(data)
    kill_child(pid, pipe)
    assert server_processes.processes_of(data)
    with pytest.raises(MeasurementError, match="Another server"):
        Server(build, data, TINY_SETTINGS).start()
    assert server_processes.processes_of(data), "a refused start must not end the other server"
    sentences = registry.sweep()
    assert any("Stopped the server" in sentence for sentence in sentences)
    assert any("Removed the folder" in sentence for sentence in sentences)


def _is_ready(data):
    file = data / "postmaster.pid"
    return file.exists() and "ready" in file.read_text()


def test_two_servers_at_once(build, data, home):
    other = empty_cluster(build, home / "data" / "other")
    with Server(build, data, TINY_SETTINGS) as first, Server(build, other, TINY_SETTINGS) as second:
        with control(first) as session:
            session.execute("CREATE TABLE only_here ()")
        with control(second) as session:
            assert session.execute("SELECT to_regclass('only_here')").fetchone() == (None,)
        second.kill()
        with control(first) as session:
            session.execute("DROP TABLE only_here")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"work_mem": "lots"}, 'invalid value for parameter "work_mem": "lots"'),
        ({"work_mem": "1kB"}, "outside the valid range"),
        ({"shared_bufers": "1GB"}, 'unrecognized configuration parameter "shared_bufers"'),
        ({"shared_preload_libraries": "no_such_library"}, "install the extension for this build"),
        ({"shared_buffers": "7TB"}, "lower shared_buffers"),
    ],
)
def test_refused_start_quotes_the_server(build, data, settings, words):
    running = Server(build, data, {**TINY_SETTINGS, **settings})
    with pytest.raises(ServerStartError) as caught:
        running.start()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not running.is_running()


def test_start_on_what_is_no_cluster(build, home):
    with pytest.raises(MeasurementError, match="not a PostgreSQL data directory"):
        Server(build, home / "data" / "missing", TINY_SETTINGS).start()


def test_start_on_the_data_of_another_major(build, data):
    version = data / "PG_VERSION"
    was = version.read_text()
    version.write_text("14\n")
    try:
        with pytest.raises(MeasurementError, match="made by PostgreSQL 14"):
            Server(build, data, TINY_SETTINGS).start()
    finally:
        version.write_text(was)


def test_start_on_a_folder_open_to_others(build, data):
    data.chmod(0o755)
    try:
        with pytest.raises(MeasurementError, match="0700 and owned by the account"):
            Server(build, data, TINY_SETTINGS).start()
    finally:
        data.chmod(0o700)


def test_start_without_the_program(build, data):
    gone = build.model_copy(update={"bin_directory": "/nonexistent/bin"})
    with pytest.raises(UsageError, match="--pg"):
        Server(gone, data, TINY_SETTINGS).start()


def test_start_that_takes_too_long(build, data):
    running = Server(build, data, TINY_SETTINGS)
    with pytest.raises(MeasurementError, match="not ready after 0 s"):
        running.start(timeout_s=0.0)
    assert not running.is_running()


def test_start_that_ends_before_the_lock_file_is_written(build, data, monkeypatch):
    """PostgreSQL refuses to start beside an empty one, whoever left it."""
    lock_file = data / "postmaster.pid"

    def ends_there(self, _timeout_s):
        while not (lock_file.exists() and lock_file.stat().st_size):
            time.sleep(0.005)
        os.kill(self.pid, signal.SIGSTOP)
        os.truncate(lock_file, 0)
        raise MeasurementError("not ready")

    with monkeypatch.context() as patch:
        patch.setattr(Server, "_wait_until_ready", ends_there)
        with pytest.raises(MeasurementError, match="not ready"):
            Server(build, data, TINY_SETTINGS).start()
    assert not lock_file.exists()
    with Server(build, data, TINY_SETTINGS) as again:
        assert again.is_running()


def test_cpu_seconds_count_living_and_dead_children(build, data):
    with Server(build, data, TINY_SETTINGS) as running:
        before = running.server_cpu_seconds()
        with control(running) as session:
            begun = time.monotonic()
            session.execute(BURN)
            elapsed_s = time.monotonic() - begun
            alive = running.server_cpu_seconds() - before
        time.sleep(0.3)
        dead = running.server_cpu_seconds() - before
    # One busy backend; on a loaded machine it may have had only a part of a core.
    assert 0.05 < alive <= elapsed_s + 0.5
    assert alive - 0.05 <= dead <= alive + 0.5


def test_cpu_seconds_of_the_control_group(build, data, require):
    require("cgroup-limits")
    group = Cgroup.create("lifecycle", {})
    try:
        with Server(build, data, TINY_SETTINGS, cgroup=group) as running:
            assert running.pid in group.pids()
            outside = set(running.process_ids()) - group.pids()
            assert outside & set(running.process_ids()) == set()
            if account() is not None:
                assert Path(f"/proc/{running.pid}").stat().st_uid == account().uid
            before = running.server_cpu_seconds()
            with control(running) as session:
                session.execute(BURN)
            assert running.server_cpu_seconds() - before > 0.05
        assert group.pids() == set()
    finally:
        group.remove()


def test_the_user_s_libpq_variables_do_not_matter(build, data, monkeypatch):
    for name, value in {
        "PGHOST": "/nonexistent",
        "PGPORT": "1",
        "PGSERVICE": "no-such-service",
        "PGOPTIONS": "-c work_mem=64kB",
        "PGDATABASE": "nowhere",
        "PGUSER": "nobody",
    }.items():
        monkeypatch.setenv(name, value)
    with Server(build, data, {**TINY_SETTINGS, "work_mem": "7MB"}) as running:
        assert show(running, "work_mem") == "7MB"
        assert os.environ["PGSERVICE"] == "no-such-service"


def test_a_stranger_cannot_connect_even_through_an_open_folder(build, data, require):
    require("root")
    with Server(build, data, TINY_SETTINGS) as running:
        parameters = running.connection_parameters()

        def attempt():
            try:
                psycopg.connect(
                    host=parameters["host"], port=5432, user="postgres", dbname="postgres"
                ).close()
            except psycopg.OperationalError as error:
                return str(error)
            return "connected"

        assert "Permission denied" in answer_of(*child(attempt, user="nobody"))
        running.socket_directory.chmod(0o711)
        (running.socket_directory / ".s.PGSQL.5432").chmod(0o777)
        assert "Peer authentication failed" in answer_of(*child(attempt, user="nobody"))


def test_io_uring_gets_the_hard_limit_of_open_files(build, data):
    script = (
        "import resource; h = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, h));"
        "from pathlib import Path; from pgassay.environment.server.private_server import Server;"
        "from pgassay.model.build import Build; import sys;"
        "b = Build.model_validate_json(sys.argv[1]);"
        "s = Server(b, Path(sys.argv[2]), {'shared_buffers': '16MB'}); s.start();"
        "line = [l for l in open(f'/proc/{s.pid}/limits') if 'open files' in l][0].split();"
        "s.stop(); print(line[3], h, resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    argv = [sys.executable, "-c", script, build.model_dump_json(), str(data)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    soft, hard, own = done.stdout.split()
    assert (soft, own) == (hard, "64")
