"""Every script of sysbench's on the wire beside sysbench's own, on one server."""

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from native_servers import NativeTestServer, started_server
from pgassay.native.process import StatementError
from pgassay.native.sysbench_commands import run_sysbench
from wire_recorder import PORT, Bind, Message, Other, Parse, Recorder, recording_of

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
TABLES, ROWS, EVENTS = 3, 2000, 30


@dataclass(frozen=True)
class Case:
    """A script, its options by the native names, and how it is run."""

    script: str
    options: dict[str, Any] = field(default_factory=dict)
    is_simple: bool = False
    events: int = EVENTS
    database: str = "postgres"


CASES = {
    "read only": Case("oltp_read_only"),
    "no ranges": Case("oltp_read_only", {"range_selects": False, "skip_trx": True}),
    "read write": Case("oltp_read_write"),
    "read write simple": Case("oltp_read_write", is_simple=True),
    "write only": Case("oltp_write_only"),
    "other counts": Case(
        "oltp_write_only", {"index_updates": 3, "non_index_updates": 2, "delete_inserts": 2, "skip_trx": True}
    ),
    "point select": Case("oltp_point_select", {"point_selects": 7}),
    "update index": Case("oltp_update_index"),
    "updates index": Case("oltp_update_index", {"index_updates": 3}),
    "update non index": Case("oltp_update_non_index"),
    "update non index simple": Case("oltp_update_non_index", is_simple=True),
    "insert": Case("oltp_insert"),
    "insert with ids": Case("oltp_insert", {"auto_inc": False}),
    "delete": Case("oltp_delete"),
    "points": Case("select_random_points"),
    "points simple": Case("select_random_points", {"random_points": 3}, is_simple=True),
    "ranges": Case("select_random_ranges"),
    "other ranges": Case("select_random_ranges", {"number_of_ranges": 2, "delta": 9}, is_simple=True),
    "bulk": Case("bulk_insert", events=80_000, database="bulk"),
}


@pytest.fixture(scope="module")
def server(require: Callable[..., None]) -> Iterator[NativeTestServer]:
    require("server", "sysbench")
    with started_server() as server:
        server.run("createdb", "-h", str(server.folder), "-p", str(server.port), "-U", "postgres", "bulk")
        sysbench(server.folder, server.port, Case("oltp_read_write"), "prepare")
        yield server


@pytest.fixture
def recorder(server: NativeTestServer) -> Iterator[Recorder]:
    with recording_of(server) as recorder:
        yield recorder


def sysbench(folder: Path, port: int, case: Case, *words: str) -> str:
    """sysbench's own, to its end."""
    given = {key: ("on" if value else "off") if isinstance(value, bool) else value
             for key, value in case.options.items()}  # fmt: skip
    if case.script != "bulk_insert":
        given |= {"tables": TABLES, "table_size": ROWS}
    command = ["sysbench", case.script, "--db-driver=pgsql", "--rand-type=uniform"]
    command += [f"--pgsql-host={folder}", f"--pgsql-port={port}"]
    command += ["--pgsql-user=postgres", f"--pgsql-db={case.database}", *words]
    command += [f"--{key}={value}" for key, value in given.items()]
    command.append(f"--db-ps-mode={'disable' if case.is_simple else 'auto'}")
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def ours(folder: Path, port: int, case: Case, **more: Any) -> Any:
    """The same by the native binary."""
    options = {"script": case.script, "tables": TABLES, "table_size": ROWS, **case.options}
    spec: dict[str, Any] = {
        "connect": {"host": str(folder), "port": port, "user": "postgres", "dbname": case.database},
        "sysbench": options,
        "connections": 1,
        "threads": 1,
        "protocol": "simple" if case.is_simple else "prepared",
        "seed": 5,
        "events": case.events,
    }
    return run_sysbench(spec | more, lambda: None, lambda _: None)


def without_values(sql: str) -> str:
    """A statement without the number of its table; whole numbers as #, digits of texts as 9."""
    sql = re.sub(r"'[^']*'", lambda found: re.sub(r"\d", "9", found.group()), sql)
    return re.sub(r"(?<![\w$'9-])-?\d+(?!\d*[-'])", "#", re.sub(r"sbtest\d+", "sbtest", sql))


def pattern(value: bytes) -> str:
    """A parameter: a whole number as #, digits of a text as 9."""
    text = value.decode()
    return "#" if re.fullmatch(r"-?\d+", text) else re.sub(r"\d", "9", text)


def prepared(messages: list[Message]) -> dict[str, Parse]:
    return {message.name: message for message in messages if isinstance(message, Parse)}


def sent(messages: list[Message], case: Case) -> list[Any]:
    """What was sent after the statements were prepared, without values, names and tables."""
    statements = prepared(messages)
    found: list[Any] = []
    last = max((place for place, message in enumerate(messages) if isinstance(message, Parse)), default=-1)
    # The Sync behind what is prepared.
    for message in messages[last + 2 if last >= 0 else 0 :]:
        if isinstance(message, Bind):
            sql = without_values(statements[message.statement].sql)
            values = [pattern(value) for value in message.values]
            found.append((sql, values, message.formats, message.result_formats))
        elif isinstance(message, Other):
            body = message.body.decode()
            found.append((message.tag, body if case.script == "bulk_insert" else without_values(body)))
    return found


def values(messages: list[Message]) -> list[int]:
    """All whole numbers that were sent as parameters."""
    binds = [message for message in messages if isinstance(message, Bind)]
    return [int(value) for bind in binds for value in bind.values if re.fullmatch(rb"-?\d+", value)]


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_is_sent_is_what_sysbench_sends(server: NativeTestServer, recorder: Recorder, name: str) -> None:
    """Texts, types of parameters, formats, order and number of messages of all events."""
    case = CASES[name]
    if case.database == "bulk":
        # What an attempt that failed has left would be met by the same keys.
        sysbench(server.folder, server.port, case, "cleanup")
        sysbench(server.folder, server.port, case, "prepare")
    sysbench(recorder.folder, PORT, case, "run", f"--events={case.events}", "--time=0")
    if case.database == "bulk":
        sysbench(server.folder, server.port, case, "cleanup")
        sysbench(server.folder, server.port, case, "prepare")
    record = ours(recorder.folder, PORT, case)
    assert record["events"] == case.events
    # sysbench asks the server's version first, by a connection of its own.
    theirs, mine = (messages for messages in recorder.messages() if len(messages) > 1)
    assert [(each.sql, each.types) for each in prepared(mine).values()] == [
        (each.sql, each.types) for each in prepared(theirs).values()
    ]
    their_messages, our_messages = sent(theirs, case), sent(mine, case)
    assert their_messages[-1] == our_messages[-1] == ("X", "")
    assert our_messages == their_messages
    assert len(our_messages) > 2
    if "with ids" not in name:
        assert all(0 <= value <= ROWS + 100 for value in values(mine) + values(theirs))


@pytest.fixture
def fresh(server: NativeTestServer) -> None:
    """All rows are there."""
    for command in ("cleanup", "prepare"):
        sysbench(server.folder, server.port, Case("oltp_read_write"), command)


@pytest.mark.usefixtures("fresh")
def test_the_report_counts_as_sysbench_does(server: NativeTestServer) -> None:
    """Reads, writes and others of as many events, each by what the server answered."""
    case = Case("oltp_read_write", {"skip_trx": True})
    output = sysbench(server.folder, server.port, case, "run", "--events=40", "--time=0")
    record = ours(server.folder, server.port, case, events=40)
    for name, count in record["queries"].items():
        found = re.search(rf"^ +{name}: +(\d+)$", output, re.MULTILINE)
        assert found is not None and int(found[1]) == count, output
    assert record["queries"] == {"read": 40 * 14, "write": 40 * 4, "other": 0}


def test_a_delete_that_finds_no_row_is_no_write(server: NativeTestServer) -> None:
    with server.query_connection() as connection:
        connection.execute("begin; delete from sbtest1; delete from sbtest2; delete from sbtest3; commit")
    record = ours(server.folder, server.port, Case("oltp_delete"), events=10)
    assert record["queries"] == {"read": 0, "write": 0, "other": 10}


@pytest.mark.usefixtures("fresh")
def test_events_that_meet_another_s_row_are_begun_again(server: NativeTestServer) -> None:
    """Deletes and inserts of one row by several connections: duplicates or deadlocks, by their SQLSTATE."""
    case = Case("oltp_write_only", {"tables": 1, "table_size": 2, "skip_trx": True})
    record = ours(server.folder, server.port, case, events=400, connections=8)
    assert record["events"] == 400
    assert set(record["errors"]) <= {"23505", "40P01"} and record["errors"]["23505"]["count"] > 0
    assert sum(each["events"] for each in record["connections"]) == 400
    assert len(record["connections"]) == 8


def test_a_missing_table_is_named(server: NativeTestServer) -> None:
    with pytest.raises(StatementError, match='relation "sbtest4" does not exist') as caught:
        ours(server.folder, server.port, Case("oltp_read_write", {"tables": 4}))
    assert caught.value.sqlstate == "42P01"


def test_a_rate_is_kept_and_what_is_due_is_counted(server: NativeTestServer) -> None:
    """More is due than can be done by one connection that waits: the rest is counted, not lost."""
    seen: list[Any] = []
    spec = {
        "connect": server.parameters(),
        "sysbench": {"script": "oltp_point_select", "tables": TABLES, "table_size": ROWS},
        "connections": 2,
        "threads": 1,
        "protocol": "prepared",
        "seed": 5,
        "duration_s": 2.2,
        "rate": 300,
        "report_interval_s": 1,
        "percentile": 99,
    }
    record = run_sysbench(spec, lambda: None, seen.append)
    # Poisson arrivals: 660 expected, a standard deviation of 26.
    assert 500 < record["events"] + record["queued"] < 820
    assert record["from_due_ms"] is not None and record["from_due_ms"]["max"] >= record["latency_ms"]["max"]
    assert len(seen) == 2 and sum(each["events"] for each in seen) <= record["events"]
    assert all(each["percentile_ms"] > 0 for each in seen)
