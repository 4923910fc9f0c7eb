"""`pgassay diagnose` on real servers: plants are named, idle servers not accused, no secret told."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import psycopg
import pytest

import whole_tool
from native_servers import started_server
from pgassay.analysis.diagnosis.diagnose import diagnose
from pgassay.report import schema
from pgassay.running_server.diagnosis import server_queries
from pgassay.running_server.diagnosis.sampling import APPLICATION, sample
from pgassay.running_server.open_server import open_target
from remote_servers import DATABASE, HOST, PASSWORD, USER, RemoteTestServer

pytestmark = pytest.mark.server
# Each of these would give it away, whatever else has been made of it.
PARTS_OF_THE_PASSWORD = ("s3cret", "pässword", "p%C3%A4")
WATCHER = "watcher"
SESSIONS = 4
# One session at a time has the row, for so long that no busy machine makes up for the wait.
HOT = (
    "UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1",
    "SELECT pg_sleep(0.2)",
)


@pytest.fixture(scope="module")
def server() -> Iterator[RemoteTestServer]:
    with started_server(RemoteTestServer) as server:
        with server.query_connection() as connection:
            connection.execute(f"create role {WATCHER} login in role pg_monitor")
        yield server


@pytest.fixture
def dsn(server: RemoteTestServer) -> str:
    """Of a role that may see everything, by the socket."""
    return f"host={server.folder} port={server.port} dbname={DATABASE} user={WATCHER}"


@pytest.mark.shares_machine
def test_the_wal_that_a_slot_holds_is_seen_by_any_role(server: RemoteTestServer, dsn: str) -> None:
    with server.query_connection() as connection:
        connection.execute("SELECT pg_create_physical_replication_slot('spare', true)")
        try:
            connection.execute("CREATE TABLE held AS SELECT generate_series(1, 1000) AS id")
            with psycopg.connect(dsn) as session:
                (slot,) = server_queries.slots(session)
        finally:
            connection.execute("SELECT pg_drop_replication_slot('spare')")
    assert (slot.name, slot.is_active, slot.wal_status) == ("spare", False, "reserved")
    assert slot.held_bytes is not None and slot.held_bytes > 0


@contextmanager
def hot_row(server: RemoteTestServer) -> Iterator[None]:
    """Sessions that all change one row, each within a transaction that keeps it for a while."""
    ended = threading.Event()

    def change() -> None:
        with psycopg.connect(
            host=str(server.folder), port=server.port, user="postgres", dbname=DATABASE
        ) as session:
            while not ended.is_set():
                for statement in HOT:
                    session.execute(statement)
                session.commit()

    threads = [threading.Thread(target=change) for _ in range(SESSIONS)]
    for thread in threads:
        thread.start()
    try:
        blocked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        whole_tool.wait_for(lambda: server.query(blocked)[0] >= SESSIONS - 2, "sessions that wait")
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def run(*words: str, **variables: str) -> dict[str, Any]:
    """The document of a run, after it was held against the schema; nothing of the password in its output."""
    finished = whole_tool.run("diagnose", *words, "--json", env=whole_tool.environment(**variables))
    document = whole_tool.result_of(finished)
    jsonschema.validate(document, schema.DIAGNOSIS.schema(), cls=jsonschema.Draft202012Validator)
    assert not [part for part in PARTS_OF_THE_PASSWORD if part in finished.stdout + finished.stderr]
    return document


def causes(document: dict[str, Any]) -> tuple[str, set[str]]:
    """The limit and the faults; that this machine is busy is none of the server's."""
    limit, *faults = document["causes"]
    assert limit["kind"] == "limit"
    return limit["cause"], {each["cause"] for each in faults} - {"noise"}


def test_a_hot_row_is_named_with_its_chain(server: RemoteTestServer, dsn: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with hot_row(server):
        document = run(dsn, "--seconds", "3", "--html", str(page))
    assert causes(document) == ("row-locks", set())
    limit = document["causes"][0]
    assert limit["layer"] == "design"
    assert limit["share"] > 0.4
    assert document["server"]["is_local"]
    assert SESSIONS - 1 < document["activity"]["connections_busy"] < SESSIONS + 1
    blocker = document["blockers"][0]
    assert 1 <= blocker["waiting_max"] <= SESSIONS - 1
    assert blocker["chain"][-1] == blocker["pid"]
    assert any("UPDATE pgbench_branches" in each["query"] for each in document["sampled"])
    sampled = document["sampled"][0]
    assert any(event.startswith("Lock:") for each in document["sampled"] for event in each["waits"])
    assert sampled["seconds"] > 0
    cost = document["sampling"]
    parts = cost["tool_cpu_s"] + cost["observer_cpu_s"] + cost["sessions_cpu_s"]
    assert cost["share_of_core"] == pytest.approx(parts / document["seconds"])
    assert min(cost["tool_cpu_s"], cost["observer_cpu_s"], cost["sessions_cpu_s"]) > 0
    backend = next(each for each in document["accounts"] if each["process"] == "backend")
    total_s = sum(item["seconds"] for item in backend["items"]) + backend["residue_s"]
    assert total_s == pytest.approx(backend["wall_s"], rel=1e-6)
    assert "row-locks" in page.read_text("utf-8")


@pytest.mark.slow
def test_looks_alone_name_it_too(server: RemoteTestServer, dsn: str, tmp_path: Path) -> None:
    """As of a server on another machine: neither its processes nor its device are seen."""
    target = replace(open_target(dsn, "DSN", APPLICATION), local=None)
    with hot_row(server):
        found = diagnose(sample(target, 2.0, tmp_path / "interval"))
    assert found.causes[0].cause == "row-locks"
    assert found.activity.server_cpus is None
    assert found.sampling.sessions_cpu_s is None
    assert found.activity.connections_busy == pytest.approx(SESSIONS, abs=1)
    assert not [item for each in found.accounts for item in each.items if item.kind == "cpu"]


def test_an_idle_server_has_no_cause(server: RemoteTestServer, dsn: str) -> None:
    place = {"host": str(server.folder), "port": server.port, "user": "postgres", "dbname": DATABASE}
    with psycopg.connect(autocommit=True, **place) as idle:
        idle.execute("SELECT 1")
        document = run(dsn, "--seconds", "1")
    assert causes(document) == ("unknown", set())
    assert document["causes"][0]["evidence"]["idle_share"] > 0.9
    assert 0.9 <= document["activity"]["connections_idle"] <= 1.1


@pytest.mark.parametrize("is_local", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_transaction_left_open_is_the_application_s_time(
    server: RemoteTestServer, dsn: str, tmp_path: Path, is_local: bool
) -> None:
    """By the accounts as by looks alone, however long it was open."""
    target = open_target(dsn, "DSN", APPLICATION)
    place = {"host": str(server.folder), "port": server.port, "user": "postgres", "dbname": DATABASE}
    with psycopg.connect(**place) as forgotten:
        forgotten.execute("SELECT 1")
        seen = target if is_local else replace(target, local=None)
        found = diagnose(sample(seen, 2.0, tmp_path / "interval"))
    assert found.causes[0].cause == "client-bound"
    assert found.causes[0].evidence["idle_in_transaction_s"] == pytest.approx(2.0, abs=0.3)
    assert found.activity.connections_busy == pytest.approx(1, abs=0.1)


@pytest.mark.shares_machine
def test_a_role_without_rights_hears_what_is_missing_and_the_password_is_nowhere(
    server: RemoteTestServer, tmp_path: Path
) -> None:
    passwords = tmp_path / "passwords"
    escaped = PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
    passwords.write_text(f"*:*:{DATABASE}:{USER}:{escaped}\n")
    passwords.chmod(0o600)
    kept = tmp_path / "kept"
    kept.mkdir()
    environment = whole_tool.environment(
        PGPASSFILE=str(passwords), PGSSLROOTCERT=str(server.root), TMPDIR=str(kept)
    )
    address = f"postgresql://{USER}@{HOST}:{server.port}/{DATABASE}"
    with hot_row(server):
        tool = whole_tool.start("diagnose", address, "--seconds", "2", "--json", env=environment)
        children = whole_tool.wait_for(lambda: native_children(tool.pid), "the sampler", process=tool)
        shown = [content for pid in (tool.pid, *children) for content in told_in_proc(pid)]
        output, errors = tool.communicate(timeout=whole_tool.TIMEOUT_S)
    written = [file.read_bytes() for file in kept.rglob("*") if file.is_file()]
    for part in (each.encode() for each in PARTS_OF_THE_PASSWORD):
        assert not [content for content in (*shown, *written) if part in content]
        assert part not in (output + errors).encode()
    document = json.loads(output)
    assert causes(document)[0] == "unknown"
    assert any("GRANT pg_monitor TO" in line and USER in line for line in document["missing"])
    assert document["activity"]["connections_busy"] is None
    assert not list(kept.iterdir())


def native_children(pid: int) -> list[int]:
    """The native processes below a process."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text().startswith("pgassay-native"):
                found.append(int(child))
    return found


def told_in_proc(pid: int) -> list[bytes]:
    """What other accounts, or the same one, can read of a process's arguments and environment."""
    found = []
    for name in ("cmdline", "environ"):
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/{name}").read_bytes())
    return found


@pytest.mark.shares_machine
def test_an_interrupt_ends_it_with_what_was_seen(server: RemoteTestServer, dsn: str) -> None:
    tool = whole_tool.start("diagnose", dsn, "--seconds", "600", "--json")
    looked = (
        f"select count(*) from pg_stat_activity where application_name = '{APPLICATION}' "
        "and state = 'idle' and query like '%row_number()%' and state_change > query_start"
    )
    whole_tool.wait_for(lambda: server.query(looked)[0], "a look", process=tool)
    tool.send_signal(signal.SIGINT)
    output, errors = tool.communicate(timeout=whole_tool.TIMEOUT_S)
    assert tool.returncode == 0, errors
    document = json.loads(output)
    assert document["interrupted"]
    assert document["seconds"] < document["seconds_asked"] == 600


@pytest.mark.shares_machine
def test_its_sessions_can_change_nothing(dsn: str) -> None:
    target = open_target(dsn, "DSN", APPLICATION)
    with target.session(APPLICATION) as session:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            session.execute("UPDATE pgbench_branches SET bbalance = 0")
        settings = ("statement_timeout", "lock_timeout", "default_transaction_read_only", "application_name")
        held = [session.execute(f"SHOW {name}".encode()).fetchone() for name in settings]
    assert held == [("5s",), ("1s",), ("on",), (APPLICATION,)]


@pytest.mark.shares_machine
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("not a connection string",), "is not a connection string"),
        (("host=/nonexistent dbname=bench",), "/nonexistent"),
        (("dbname=bench", "--seconds", "0"), "use 1 to 3600 seconds"),
        (("dbname=bench", "--html", "/nonexistent/page.html"), "its folder does not exist"),
    ],
)
def test_what_can_t_be_done_is_one_sentence(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    finished = whole_tool.run_here(capsys, "diagnose", *words)
    assert said in whole_tool.assert_one_sentence(finished, 2)
