"""A load's client on another host, by a stand-in for ssh that runs the command here, from an empty home."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from native_servers import PASSWORD, SCALE, NativeTestServer, started_server
from pgassay.errors import UsageError
from pgassay.native import other_host
from pgassay.native.load import run_load
from pgassay.native.process import StatementError

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
# Notes how it was called, and fails as ssh does for a host that is not there.
STAND_IN = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
echo "$2 $3" >> "{notes}"
[ "$2" = away ] && {{ echo "ssh: connect to host away port 22: No route to host" >&2; exit 255; }}
export HOME="{home}"
unset XDG_CACHE_HOME
exec sh -c "$3"
"""


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as server:
        yield server


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs, notes = tmp_path / "programs", tmp_path / "notes"
    programs.mkdir()
    (tmp_path / "home").mkdir()
    program = programs / "ssh"
    program.write_text(STAND_IN.format(notes=notes, home=tmp_path / "home"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    other_host._install.cache_clear()
    return notes


def spec(server: NativeTestServer, **changes: Any) -> dict[str, Any]:
    tcp = {"host": "127.0.0.1", "user": "by_scram", "password": PASSWORD, "application_name": "there"}
    usual = {"script": "select-only", "scale": SCALE, "clients": 2, "threads": 1, "protocol": "prepared"}
    times = {"duration_s": 1.9, "warmup_s": 0.5, "seed": 7}
    return {"connect": server.parameters(**tcp), **usual, **times, **changes}


def test_the_record_comes_home_on_our_clock(server: NativeTestServer, notes: Path, tmp_path: Path) -> None:
    seconds: list[Any] = []
    before_ns = time.monotonic_ns()
    record = run_load(spec(server), on_progress=seconds.append, host="db@client1")
    assert record["transactions"] > 0 and len(seconds) == 2
    assert before_ns < record["start_ns"] < record["end_ns"] < time.monotonic_ns()
    assert record["end_ns"] - record["start_ns"] == 1_900_000_000
    (copy,) = (tmp_path / "home" / ".cache" / "pgassay").iterdir()
    assert copy.stat().st_mode & 0o777 == 0o755
    called = notes.read_text()
    assert called.startswith("db@client1 ") and "load" in called and PASSWORD not in called
    # The copy is there now: it is asked for no more.
    other_host._install.cache_clear()
    times = copy.stat().st_mtime_ns
    run_load(spec(server, duration_s=0.2), host="db@client1")
    assert copy.stat().st_mtime_ns == times
    # A clock of another origin is told from when its seconds were told.
    clock = other_host.ClockOfHost(0.5)
    for second, at_ns in ((1, 11_000_900), (2, 1_011_000_100), (3, 2_011_005_000)):
        clock.told(second, at_ns + 10**9)
    assert clock.offset_ns(500_000_000) == 11_000_100


@pytest.mark.usefixtures("notes")
def test_what_fails_there_is_told(server: NativeTestServer) -> None:
    with pytest.raises(UsageError, match=r"client=ssh:away: ssh failed \(.*No route to host\)"):
        run_load(spec(server), host="away")
    wrong = spec(server)
    wrong["connect"]["password"] = "wrong"
    with pytest.raises(StatementError, match="password authentication failed"):
        run_load(wrong, host="there")
