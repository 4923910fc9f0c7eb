"""`compare --workload replay:DIR`: a captured load played on copies, and a verdict for each statement."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import whole_tool
from native_servers import SCALE, NativeTestServer, started_server
from pgassay.traffic import manifest
from server.traffic.captures import Proxy, proxied

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
TRANSACTIONS = 4 * 40
FACTOR = "cursor_tuple_fraction=0.1,0.2"


@pytest.fixture(scope="module")
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("server")
    with whole_tool.prepared_home() as folder:
        yield folder


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same load on pgbench's data of two sizes: `small` as the trials have them, and `large`."""
    folder = tmp_path_factory.mktemp("captures")
    with started_server() as server:
        _captured(server, folder / "large")
        arguments = ["-h", str(server.folder), "-p", str(server.port), "-U", "postgres"]
        server.run("pgbench", "-i", "-q", "-s", "1", *arguments)
        _captured(server, folder / "small")
    assert SCALE > 1
    return folder


def _captured(server: NativeTestServer, folder: Path) -> None:
    with proxied(server.parameters(), folder) as proxy:
        _pgbench(server, proxy)
        proxy.end()
    manifest.write(folder, manifest.begun("proxy", 0, None, {}, []))


def _pgbench(server: NativeTestServer, proxy: Proxy) -> None:
    command = [server.bin / "pgbench", "-n", "-h", "127.0.0.1", "-p", str(proxy.port), "-U", "postgres"]
    words = ["-c", "4", "-t", "40", "-M", "prepared", "postgres"]
    subprocess.run([*command, *words], check=True, capture_output=True)


def compared(workload: str, out: Path, home: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    words = ["compare", FACTOR, "--workload", workload, "--blocks", "1", "--seed", "7", "--json"]
    finished = whole_tool.run(*words, *whole_tool.SMALL, *whole_tool.build(), "--out", out, home=home)
    return whole_tool.result_of(finished), whole_tool.trials(out)


def test_as_fast_as_the_order_allows_the_rate_is_compared_and_each_statement_has_a_line(
    home: Path, captures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result, trials = compared(f"replay:{captures}/small,speed=max", out, home)
    assert [trial["status"] for trial in trials] == ["ok"] * 3
    for trial in trials:
        replayed = trial["load"]["replayed"]
        assert (replayed["diverged"], replayed["sessions_lost"]) == (0, 0)
        assert trial["load"]["transactions"] == replayed["statements"] > 7 * TRANSACTIONS
        # Each trial met the data as the one before it did: what it wrote was taken back.
        assert trial["verification"]["wal_bytes"] > 0
        assert {each["calls"] for each in replayed["families"] if each["name"].startswith("UPDATE")} == {
            TRANSACTIONS
        }
    plans = json.loads(next(out.glob("trials/*/attempt-*/plans.json")).read_bytes())
    updated = {name: plan["Plan"] for name, plan in plans.items() if name.startswith("UPDATE")}
    assert {plan["Node Type"] for plan in updated.values()} == {"ModifyTable"} and len(updated) == 3
    assert "$" in json.dumps(updated) and not plans.keys() & {"BEGIN", "END"}
    assert result["metric"]["unit"] == "statements/s" and result["blocks"] == 1
    families = {each["name"] for each in result["statements"]}
    assert {"BEGIN", "END"} <= families and any("pgbench_tellers" in name for name in families)
    for statement in result["statements"]:
        assert [arm["verdict"] for arm in statement["arms"]] == ["control", "inconclusive"]
        assert all(arm["median"] > 0 for arm in statement["arms"])
    shown = whole_tool.run("report", out, home=home).stdout
    assert "Differences from the capture" in shown
    assert "Latency of statements" in shown and "not cold" not in shown
    assert "Differences from the capture" in (out / "report.html").read_text("utf-8")


@pytest.mark.slow
def test_a_volume_is_sized_for_captured_traffic_and_the_prediction_measured(
    home: Path, captures: Path, tmp_path: Path, require: Callable[..., None]
) -> None:
    """Tenths of a second of a load on small data: the words and the folder; no time is judged."""
    require("loop")
    require("fuse")
    words = ["size", "--workload", f"replay:{captures}/small,speed=max", "--scale", "1", "--cache", "cold"]
    words += [*whole_tool.build(), "--slow-down", "1000%", "--volume", "gp3,size=100GiB", "--prove"]
    finished = whole_tool.run(*words, "--json", "--quiet", "--out", str(tmp_path / "sized"), home=home)
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout)
    (group,) = result["groups"]
    assert group["unit"] == "statement" and group["recommended"] == ["gp3,size=100GiB"]
    statements = {
        trial["load"]["replayed"]["statements"] for trial in whole_tool.valid_trials(tmp_path / "sized")
    }
    assert {each["units"] for each in group["recordings"]} == statements
    assert all(each["log_writes"] > 0 for each in group["recordings"])
    assert [check["storage"] for check in group["checks"] if check["is_fair"]] == ["gp3,size=100GiB"]
    assert any("sessions of a replay wait for each other" in each for each in result["warnings"])
    assert "a statement" in result["sentences"][0]


def test_a_replay_at_its_own_speed_says_nothing_of_volumes(
    home: Path, captures: Path, tmp_path: Path
) -> None:
    finished = whole_tool.run("size", "--workload", f"replay:{captures}/small", home=home, cwd=tmp_path)
    told = whole_tool.assert_one_sentence(finished, 2)
    assert "takes as long on every volume that keeps up" in told and "replay:DIR,speed=max" in told


@pytest.mark.slow
def test_the_functions_of_a_replay_are_told_per_statement(
    home: Path, captures: Path, tmp_path: Path, require: Callable[..., None]
) -> None:
    require("perf")
    words = ("compare", FACTOR, "--workload", f"replay:{captures}/small,speed=max", "--blocks", "1")
    more = ("--profile", "--profile-rounds", "1", "--json", "--out", tmp_path / "out")
    result = whole_tool.result_of(
        whole_tool.run(*words, *whole_tool.SMALL, *whole_tool.build(), *more, home=home)
    )
    found = result["profile"]
    assert (found["unit"], found["rounds"]) == ("statement", 1)
    assert all(arm["samples"] > 0 for arm in found["arms"])
    # All time of a trial is of the statements that it replayed.
    trials = whole_tool.valid_trials(tmp_path / "out" / "profile")
    assert {trial["load"]["transactions"] for trial in trials} == {
        trials[0]["load"]["replayed"]["statements"]
    }
    for arm in found["arms"]:
        us = arm["samples"] / found["rate_hz"] / trials[0]["load"]["transactions"] * 1e6
        assert arm["us"] == pytest.approx(us, rel=1e-6)


def test_at_a_pace_the_latency_from_the_intended_start_is_compared(
    home: Path, captures: Path, tmp_path: Path
) -> None:
    result, trials = compared(f"replay:{captures}/small,speed=2", tmp_path / "out", home)
    assert [trial["status"] for trial in trials] == ["ok"] * 3
    assert (result["metric"]["name"], result["metric"]["unit"]) == ("mean latency", "ms")
    for trial in trials:
        load = trial["load"]
        assert load["replayed"]["behind_ms"]["p50"] >= 0
        assert 0 < load["latency_ms"]["p50"] <= load["latency_ms"]["max"]


def test_other_data_than_the_capture_s_are_told_by_the_first_trial(
    home: Path, captures: Path, tmp_path: Path
) -> None:
    words = ["compare", FACTOR, "--workload", f"replay:{captures}/large,speed=max", "--max-time", "1m"]
    refused = whole_tool.run(
        *words, *whole_tool.SMALL, *whole_tool.build(), "--out", tmp_path / "out", home=home
    )
    assert refused.returncode == 1
    assert "1 % is allowed" in refused.stderr and re.search(
        r"(UPDATE|SELECT) 1 then, \1 0 now", refused.stderr
    )


def test_a_remote_server_is_refused(capsys: Any, captures: Path) -> None:
    workload = f"replay:{captures}/small"
    words = ["compare", "work_mem=4MB,8MB", "--workload", workload, "--server", "host=nowhere"]
    refused = whole_tool.run_here(capsys, *words)
    assert refused.returncode == 2 and "restored before every run" in refused.stderr
