"""A comparison on a fleet in which everything fails once: scheduler, worker, network, each in the middle."""

import functools
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import fleets
import whole_tool
from pgassay.fleet.cluster.cluster_connection import DaskFleet
from pgassay.record.experiment import load
from whole_tool import wait_for

pytestmark = [pytest.mark.server, pytest.mark.shares_machine, pytest.mark.slow]
SHORT = (
    *("compare", "random_page_cost=4,2", "--workload", "select-only:duration=200ms,warmup=0ms"),
    *("--plans", "off", "--observe", "off", "--blocks", "2", "--json"),
)
NAMES = ("alpha", "beta", "gamma")
BLOCKS = 24
WORDS = (
    *("compare", "random_page_cost=4,2", "--workload", "select-only:duration=1s,warmup=0ms", "--seed", "11"),
    *("--plans", "off", "--observe", "off", "--blocks", str(BLOCKS), "--all-blocks", "--json"),
)


def trials(out: Path, name: str) -> int:
    """How many of a machine's trials have come home."""
    return len(list((out / "machines" / name).glob("trials/*/attempt-*/trial.json")))


def test_nothing_is_lost_counted_twice_or_left(require: Callable[..., None]) -> None:
    require("server", "root")
    with ExitStack() as stack:
        home = stack.enter_context(whole_tool.private_home())
        homes = {name: stack.enter_context(whole_tool.prepared_home()) for name in NAMES}
        machines = stack.enter_context(fleets.machines(home, homes))
        file, out, fleet = home / "fleet.toml", home / "out", functools.partial(machines.fleet, home)
        started = fleet("start", "--ssh", ",".join(NAMES), "--program", fleets.program(home))
        assert started.returncode == 0, started.stderr
        # One kernel runs them all here, as it would run the pods of one node.
        with file.open("a") as toml:
            toml.write("[counts_as]\n" + "".join(f'{name} = "{name}"\n' for name in NAMES))
        words = [*WORDS, *whole_tool.build(), *whole_tool.SMALL, "--fleet", str(file), "--out", str(out)]
        running = whole_tool.start(*words, home=home)
        wait_for(lambda: all(trials(out, name) for name in NAMES), "all have begun", 300, running)

        os.kill(fleets.process_of(home, "scheduler"), signal.SIGKILL)
        again = fleet("start")
        assert again.returncode == 0 and "scheduler at" in again.stderr, again.stderr
        os.kill(fleets.process_of(homes["alpha"], "alpha"), signal.SIGKILL)
        again = fleet("start")
        assert again.returncode == 0 and "worker on alpha" in again.stderr, again.stderr
        machines.part("beta", joined=False)
        with DaskFleet.open(file) as connected:
            wait_for(lambda: "beta" not in connected.find(60), "the scheduler misses beta", 150, running)
        before = {name: trials(out, name) for name in NAMES}
        machines.part("beta", joined=True)
        for name in ("alpha", "beta"):
            wait_for(lambda each=name: trials(out, each) > before[each], f"{name} goes on", 300, running)

        output, said = running.communicate(timeout=whole_tool.TIMEOUT_S)
        assert running.returncode == 0, said
        result = json.loads(output)
        assert {machine["name"] for machine in result["machines"]} == set(NAMES)
        complete = 0
        for name in NAMES:
            stored = load(out / "machines" / name)
            found = [(trial.record.number, trial.record.attempt) for trial in stored.trials]
            assert len(found) == len(set(found)) and {each.record.host for each in stored.trials} == {name}
            complete += next(each["blocks"] for each in result["machines"] if each["name"] == name)
            assert not list((homes[name] / "fleet/runs").iterdir()), "all of it has come home"
        assert complete == result["arms"][0]["these_machines"]["blocks"] >= BLOCKS

        stopped = fleet("stop")
        assert stopped.returncode == 0, stopped.stderr
        for each in (home, *homes.values()):
            assert not fleets.left_of(each) and not whole_tool.servers_below(each)


def test_data_travel_between_machines_and_a_parted_network_only_delays_them(
    require: Callable[..., None],
) -> None:
    """Over Dask and its certificates: alpha has the data, and beta's cable is pulled while they come."""
    require("server", "root")
    with ExitStack() as stack:
        home = stack.enter_context(whole_tool.private_home())
        homes = {name: stack.enter_context(whole_tool.prepared_home()) for name in ("alpha", "beta")}
        (held,) = (path for path in (homes["alpha"] / "data/snapshots").iterdir() if path.is_dir())
        facts = held / "pgassay-snapshot.json"
        facts.write_text(json.dumps(json.loads(facts.read_bytes()) | {"seconds": 3600.0}))
        arrived = homes["beta"] / "data/snapshots" / held.name
        shutil.rmtree(arrived)
        machines = stack.enter_context(fleets.machines(home, homes))
        file, out, fleet = home / "fleet.toml", home / "out", functools.partial(machines.fleet, home)
        started = fleet("start", "--ssh", "alpha,beta", "--program", fleets.program(home))
        assert started.returncode == 0, started.stderr
        try:
            words = [*SHORT, *whole_tool.build(), *whole_tool.SMALL, "--fleet", str(file), "--out", str(out)]
            running = whole_tool.start(*words, home=home)
            partial = f"{held.name}.partial-*"
            wait_for(lambda: list(arrived.parent.glob(f"{partial}/base")), "data on their way", 300, running)
            machines.part("beta", joined=False)
            assert not arrived.exists(), "all of it came before the cable was pulled"
            time.sleep(6)
            machines.part("beta", joined=True)
            _, said = running.communicate(timeout=whole_tool.TIMEOUT_S)
            assert running.returncode == 0, said
            assert "the data are on beta too: " in said
            assert (arrived / "PG_VERSION").is_file() and not list(arrived.parent.glob(partial))
            (copy,) = json.loads((out / "fleet.json").read_text())["copies"]
            assert (copy["source"], copy["machines"]) == ("alpha", ["beta"])
        finally:
            stopped = fleet("stop")
        assert stopped.returncode == 0, stopped.stderr
        for each in (home, *homes.values()):
            assert not fleets.left_of(each) and not whole_tool.servers_below(each)
