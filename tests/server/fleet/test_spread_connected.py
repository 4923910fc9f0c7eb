"""A comparison over a fleet as its user types it: workers on this machine, Dask between them."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fleets
import whole_tool
from pgassay.record.experiment import load
from whole_tool import wait_for

pytestmark = [
    pytest.mark.server,
    pytest.mark.shares_machine,
    pytest.mark.slow,
    pytest.mark.usefixtures("divisible"),
]
WORKERS = ("local-1", "local-2")


@pytest.fixture
def fleet(home: Path) -> Iterator[Path]:
    path = home / "fleet.toml"
    started = whole_tool.run("fleet", "start", "--local", "2", "--file", path, home=home)
    assert started.returncode == 0, started.stderr
    try:
        yield path
    finally:
        whole_tool.run("fleet", "stop", "--file", path, home=home)
    assert not fleets.left_of(home)


def begun(fleet: Path, home: Path, out: Path, blocks: int) -> "subprocess.Popen[str]":
    """A comparison of which both workers have finished a trial that came home."""
    words = ["compare", "random_page_cost=4,2", "--workload", "select-only:duration=200ms,warmup=0ms"]
    words += [*whole_tool.build(), *whole_tool.SMALL, "--plans", "off", "--observe", "off", "--json"]
    words += ["--fleet", str(fleet), "--out", str(out), "--blocks", str(blocks), "--all-blocks"]
    running = whole_tool.start(*words, home=home)
    homes = [out / "machines" / name for name in WORKERS]
    wait_for(lambda: all(whole_tool.trials(place) for place in homes), "trials at home", process=running)
    return running


def assert_nothing_twice(out: Path, document: dict[str, Any], blocks: int) -> None:
    assert document["stopped"] == "blocks"
    assert document["arms"][0]["these_machines"]["blocks"] >= blocks
    # Workers on one host are one machine.
    assert document["arms"][0]["these_machines"]["machines"] == 1
    for name in WORKERS:
        records = [trial.record for trial in load(out / "machines" / name).trials]
        numbers = [(record.number, record.attempt) for record in records]
        assert numbers and len(numbers) == len(set(numbers))
        # One that was finished twice would have begun twice.
        assert len({record.started_at for record in records}) == len(records)


def test_a_coordinator_that_is_killed_is_resumed(fleet: Path, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    running = begun(fleet, home, out, 8)
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=whole_tool.TIMEOUT_S)
    before = {name: len(load(out / "machines" / name).trials) for name in WORKERS}
    resumed = whole_tool.result_of(whole_tool.run("resume", out, "--json", home=home))
    assert_nothing_twice(out, resumed, 8)
    assert all(len(load(out / "machines" / name).trials) >= count for name, count in before.items())
    again = whole_tool.result_of(whole_tool.run("report", out, "--json", home=home))
    assert again["arms"] == resumed["arms"]


def test_a_scheduler_that_is_killed_and_a_worker_too(fleet: Path, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    running = begun(fleet, home, out, 10)
    os.kill(fleets.process_of(home, "scheduler"), signal.SIGKILL)
    os.kill(fleets.process_of(home, "local-2"), signal.SIGKILL)
    started = whole_tool.run("fleet", "start", "--file", fleet, home=home)
    assert started.returncode == 0, started.stderr
    printed, said = running.communicate(timeout=whole_tool.TIMEOUT_S)
    assert running.returncode == 0, said
    assert_nothing_twice(out, json.loads(printed), 10)


def test_an_interruption_stops_all_and_keeps_what_was_finished(
    fleet: Path, home: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    running = begun(fleet, home, out, 200)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=whole_tool.TIMEOUT_S)
    assert running.returncode == 130
    assert f"continue with 'pgassay resume {out}'" in said
    assert not whole_tool.servers_below(home)
    assert json.loads((out / "state.json").read_text())["stopped"] == "interrupted"


def test_what_parts_of_a_host_can_t_measure_is_refused(fleet: Path, home: Path, tmp_path: Path) -> None:
    words = ["compare", "fsync=on,off", "--workload", "tpcb", "--fleet", fleet, "--out", tmp_path / "out"]
    complaint = whole_tool.assert_one_sentence(whole_tool.run(*words, "--quiet", home=home), 2)
    assert "are parts of one host" in complaint
    assert "tpcb writes" in complaint
    assert not (tmp_path / "out").exists()
