"""`pgassay tune DSN` interrupted, ended and killed at each of its stages: nothing of it is left anywhere."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import whole_tool
from server_helpers import best_build
from source_servers import GONE_S, SourceServer, source_server
from whole_tool import leftovers, wait_for

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]
# The line of its output with which a stage begins.
STAGES = {
    "dump": "pg_dump reads the tables of",
    "restore": "restoring ",
    "search": "trying candidates on a copy",
    "proof": "block 1 of at most",
}
ANSWERED = {"search", "proof"}
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 130, signal.SIGKILL: -9}


def said_until(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stderr is not None
    for said in process.stderr:
        if line in said:
            return
    raise AssertionError(f"it ended before it said '{line}'")


def stopped(server: SourceServer, home: Path, out: Path, stage: str, number: signal.Signals) -> str:
    """Start it, stop it when it comes to the stage; what it printed."""
    before = whole_tool.socket_folders()
    words = ("tune", server.dsn(), "--statements", "2", "--max-time", "5m", "--out", str(out), "--json")
    process = whole_tool.start(*words, *whole_tool.build(), home=home)
    if stage == "dump":
        said_until(process, "reading the statements of the server")
        holder = server.connection()
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE held")
        wait_for(lambda: server.rows(DUMPING), "a dump that waits for a lock", process=process)
    else:
        said_until(process, STAGES[stage])
    os.kill(process.pid, number)
    printed, said = process.communicate(timeout=200)
    assert process.returncode == STATUS[number], said
    assert "Traceback" not in said
    if stage == "dump":
        # The lock that it waits for is still held.
        wait_for(lambda: not server.rows(DUMPING), "the end of its session", GONE_S)
        holder.close()
    if number == signal.SIGKILL:
        cleaned = whole_tool.run("clean", home=home)
        assert cleaned.returncode == 0, cleaned.stderr
    deadline = time.monotonic() + GONE_S
    while (left := leftovers(home, before, [process.pid])) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == []
    assert not any((home / "dumps").glob("*"))
    # Neither a frozen nor a working copy of the server's data.
    assert not [*(home / "data" / "snapshots").glob("*/pgassay-snapshot.json")]
    assert not [*(home / "data" / "work").rglob("PG_VERSION")]
    return str(printed)


DUMPING = (
    "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgassay tune' AND wait_event_type = 'Lock'"
)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda each: each.name
)
def test_whenever_it_is_stopped_nothing_is_left(number: signal.Signals, tmp_path: Path) -> None:
    with source_server(best_build()) as server, whole_tool.private_home() as home:
        server.fill()
        server.execute("CREATE TABLE held (number int)")
        for stage in STAGES:
            out = tmp_path / stage
            printed = stopped(server, home, out, stage, number)
            server.wait_until_left_alone()
            if number == signal.SIGKILL:
                continue
            if stage in ANSWERED:
                answer = json.loads(printed)
                assert answer["interrupted"] and answer["symptom"]["statements"]
                assert answer == json.loads((out / "tune.json").read_text())
                assert "SELECT" in (out / "statements.sql").read_text()
            else:
                assert printed == "" and not out.exists()
