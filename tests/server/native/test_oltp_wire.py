"""oltp_read_only on the wire and in the server's log beside sysbench's own, on one server."""

import math
import os
import re
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from native_servers import NativeTestServer, started_server
from pgassay.native.load import run_load
from pgassay.native.process import StatementError
from wire_recorder import PORT, Bind, Message, Other, Parse, Recorder, recording_of

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
TABLES, ROWS = 3, 2000
# (options of both, sysbench's name of the protocol, ours)
CASES = {
    "defaults": ({}, "auto", "prepared"),
    "simple": ({}, "disable", "simple"),
    "other counts": (
        {"point_selects": 2, "simple_ranges": 3, "sum_ranges": 0, "order_ranges": 2, "range_size": 17},
        "auto",
        "prepared",
    ),
    "no transaction": ({"skip_trx": True, "distinct_ranges": 2}, "auto", "prepared"),
}
# Of the ids: the centre as it is drawn, its first quarter, the lower half of the table without them.
PARTS = ((994, 1012), (989, 993), (1, 988))
PER_TRANSACTION = {"defaults": 16, "simple": 16, "other counts": 10, "no transaction": 15}


@pytest.fixture(scope="module")
def server(require: Callable[..., None]) -> Iterator[NativeTestServer]:
    require("server", "sysbench")
    with started_server() as server:
        sysbench(server.folder, server.port, {}, "auto", "prepare")
        yield server


@pytest.fixture
def recorder(server: NativeTestServer) -> Iterator[Recorder]:
    with recording_of(server) as recorder:
        yield recorder


def sysbench(
    folder: Path,
    port: int,
    options: dict[str, Any],
    mode: str,
    command: str,
    *more: str,
    name: str = "sysbench",
) -> str:
    """Run it to its end; its session is called `name` and logs all its statements."""
    words = [
        "sysbench",
        "oltp_read_only",
        "--db-driver=pgsql",
        "--rand-type=uniform",
        "--pgsql-user=postgres",
    ]
    words += [f"--pgsql-host={folder}", f"--pgsql-port={port}", "--pgsql-db=postgres", f"--db-ps-mode={mode}"]
    given = {"tables": TABLES, "table_size": ROWS} | options
    words += [f"--{key}={('on' if value is True else value)}" for key, value in given.items()]
    environment = os.environ | {"PGAPPNAME": name, "PGOPTIONS": "-c log_statement=all"}
    run = subprocess.run(
        [*words, *more, command], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def load(
    folder: Path,
    port: int,
    options: dict[str, Any],
    protocol: str,
    connect: dict[str, Any] | None = None,
    duration_s: float = 0.2,
) -> dict[str, Any]:
    """Our own."""
    parameters = {"host": str(folder), "port": port, "user": "postgres", "dbname": "postgres"} | (
        connect or {}
    )
    spec = {"connect": parameters, "script": "oltp_read_only", "clients": 1, "threads": 1, "seed": 3}
    spec |= {"oltp_read_only": {"tables": TABLES, "table_size": ROWS} | options}
    return run_load(spec | {"protocol": protocol, "duration_s": duration_s, "warmup_s": 0.0})


def anonymous(sql: str) -> str:
    """A statement without the number of its table and without literal values."""
    return re.sub(r"(?<==)\d+|(?<= )\d+", "#", re.sub(r"sbtest\d+", "sbtest", sql))


def prepared(messages: list[Message]) -> dict[str, Parse]:
    return {message.name: message for message in messages if isinstance(message, Parse)}


def shape(messages: list[Message]) -> list[Any]:
    """What was sent after the statements were prepared, without values, names and tables."""
    statements = prepared(messages)
    shapes: list[Any] = []
    last = max((place for place, message in enumerate(messages) if isinstance(message, Parse)), default=-1)
    running = messages[last + 1 :]
    if last >= 0:
        assert running[0] == Other("S", b"")
        running = running[1:]
    for message in running:
        if isinstance(message, Bind):
            sql = anonymous(statements[message.statement].sql)
            shapes.append((sql, len(message.values), message.formats, message.result_formats))
        elif isinstance(message, Other):
            shapes.append((message.tag, anonymous(message.body.decode())))
    return shapes


def values(messages: list[Message]) -> list[list[int]]:
    """The parameters of every statement that has any, in either protocol."""
    found = []
    for message in messages:
        if isinstance(message, Bind):
            found.append([int(value) for value in message.values])
        elif isinstance(message, Other) and message.tag == "Q":
            found.append([int(text) for text in re.findall(rb"(?<==)\d+|(?<= )\d+", message.body)])
    return [numbers for numbers in found if numbers]


@pytest.mark.parametrize("case", sorted(CASES))
def test_what_is_sent_is_what_sysbench_sends(recorder: Recorder, case: str) -> None:
    """Texts, types of parameters, formats, order and number of messages of each transaction."""
    options, mode, protocol = CASES[case]
    sysbench(recorder.folder, PORT, options, mode, "run", "--events=20", "--time=0", "--threads=1")
    record = load(recorder.folder, PORT, options, protocol)
    theirs, ours = recorder.messages()
    transactions = record["transactions"] + record["late_transactions"]
    their_prepared, our_prepared = (
        [(statement.sql, statement.types) for statement in prepared(messages).values()]
        for messages in (theirs, ours)
    )
    assert our_prepared == their_prepared
    their_shape, our_shape = shape(theirs), shape(ours)
    assert their_shape[-1] == our_shape[-1] == ("X", "")
    # One message for a simple query; Bind, Describe, Execute, Sync for a prepared statement.
    length = PER_TRANSACTION[case] * (1 if protocol == "simple" else 4)
    assert our_shape[:length] == their_shape[:length]
    assert their_shape[:-1] == their_shape[:length] * 20
    assert our_shape[:-1] == our_shape[:length] * transactions
    assert transactions > 0
    for numbers in values(ours) + values(theirs):
        assert 1 <= numbers[0] <= ROWS
        assert numbers[1:] in ([], [numbers[0] + options.get("range_size", 100) - 1])


def test_groups_stay_on_a_table_as_sysbench_s_do(recorder: Recorder) -> None:
    """The ten point selects of a transaction ask one table, the ranges after them any."""
    sysbench(recorder.folder, PORT, {}, "auto", "run", "--events=150", "--time=0", "--threads=1")
    load(recorder.folder, PORT, {}, "prepared", duration_s=1.0)
    distances = []
    for messages in recorder.messages():
        statements = prepared(messages)
        binds = [statements[message.statement].sql for message in messages if isinstance(message, Bind)]
        tables = [
            [re.findall(r"sbtest(\d+)", sql) for sql in binds[at : at + 16]]
            for at in range(0, len(binds), 16)
        ]
        assert all(len({tuple(found) for found in transaction[1:11]}) == 1 for transaction in tables)
        moved = [transaction[1] != transaction[11] for transaction in tables]
        distances.append((sum(moved) / len(moved) - 2 / 3) / math.sqrt(2 / 9 / len(moved)))
        assert len(moved) >= 20
    # Two of three tables are others; in standard deviations of the share.
    assert all(abs(distance) < 5 for distance in distances)


def test_the_special_distribution_asks_for_the_same_ids(recorder: Recorder) -> None:
    """The share of the ids in the centre and around it, of ours and of sysbench's."""
    words = ("run", "--events=150", "--time=0", "--threads=1", "--rand-type=special")
    sysbench(recorder.folder, PORT, {}, "auto", *words)
    load(recorder.folder, PORT, {"distribution": "special"}, "prepared", duration_s=1.0)
    shares, variance = [], 0.0
    for messages in recorder.messages():
        ids = [numbers[0] for numbers in values(messages)]
        shares.append([sum(low <= each <= high for each in ids) / len(ids) for low, high in PARTS])
        assert len(ids) >= 14 * 20
        variance += 0.25 / len(ids)
    # Five standard deviations of the difference of two shares.
    assert shares[0] == pytest.approx(shares[1], abs=5 * math.sqrt(variance))
    assert all(0.65 < centre < 0.93 and lower_quarter < 0.06 for centre, lower_quarter, _ in shares)


def statements_logged(server: NativeTestServer, name: str) -> list[str]:
    """What the server says it ran, one line each, without names, tables and values."""
    lines = [line.strip() for line in server.logged(name)]
    ran = [re.sub(r"LOG:  (execute) \S+:", r"LOG:  \1:", line) for line in lines if line.startswith("LOG:  ")]
    return [anonymous(line) for line in ran if re.match(r"LOG:  (execute|statement):", line)]


@pytest.mark.parametrize(("mode", "protocol"), [("auto", "prepared"), ("disable", "simple")])
def test_the_server_logs_the_same(server: NativeTestServer, mode: str, protocol: str) -> None:
    # Nothing that an earlier try left in the log has these names.
    their_name, our_name = (f"{whose}-{secrets.token_hex(4)}" for whose in ("theirs", "ours"))
    sysbench(
        *(server.folder, server.port, {}, mode, "run", "--events=5", "--time=0", "--threads=1"),
        name=their_name,
    )
    connect = {"application_name": our_name, "options": "-c log_statement=all"}
    record = load(server.folder, server.port, {}, protocol, connect)
    theirs, ours = statements_logged(server, their_name), statements_logged(server, our_name)
    assert len(theirs) == 5 * 16
    assert len(ours) == 16 * (record["transactions"] + record["late_transactions"])
    # On a busy machine the moment of the load may have room for fewer than five transactions.
    assert ours and ours[: len(theirs)] == theirs[: len(ours)]


def test_a_missing_table_is_named(server: NativeTestServer) -> None:
    with pytest.raises(StatementError, match='relation "sbtest4" does not exist') as caught:
        load(server.folder, server.port, {"tables": 4}, "prepared")
    assert caught.value.sqlstate == "42P01"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tables": 0}, "tables is 0"),
        ({"distribution": "normal"}, "normal"),
        ({"range": 1}, "unknown field"),
    ],
)
def test_options_that_can_not_be_run_are_refused(
    server: NativeTestServer, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(StatementError, match=sentence):
        load(server.folder, server.port, options, "prepared")
