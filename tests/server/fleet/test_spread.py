"""A comparison over several machines: real agents with real servers, without what connects them."""

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import whole_tool
from direct_machines import PACE, Heard, asked, assert_one_experiment, assert_whole, fleet_of, numbers
from pgassay.fleet.spreading.run_spread import resume_spread, run_spread
from pgassay.record.experiment import load
from pgassay.terminal.fleet import MachineRow

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
WORDS = ("random_page_cost=4,2", "--workload", "select-only:duration=200ms,warmup=0ms", "--seed", "11")


@pytest.fixture(autouse=True)
def needs(require: Callable[..., None]) -> None:
    require("server", "root")


@pytest.mark.slow
def test_two_machines_are_one_experiment(tmp_path: Path) -> None:
    """The shorter one is in test_copied_data.py, where one machine has the data."""
    out, heard = tmp_path / "out", Heard()
    with fleet_of("alpha", "beta") as fleet:
        folder, result = run_spread(asked(*WORDS, "--blocks", "2", out=out), fleet, heard, PACE)
        assert folder == out
        assert_one_experiment(fleet, out, result, heard)


@pytest.mark.slow
def test_a_machine_that_is_lost_takes_nothing_from_the_others_and_comes_back(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with fleet_of("alpha", "beta") as fleet:

        def away(rows: Sequence[MachineRow]) -> None:
            blocks = {row.name: row.blocks for row in rows}
            if blocks["beta"] >= 2:
                fleet["beta"].is_lost = True
            if blocks["alpha"] >= 4:
                fleet["beta"].is_lost = False

        heard = Heard(away)
        result = run_spread(asked(*WORDS, "--blocks", "12", "--all-blocks", out=out), fleet, heard, PACE)[1]
        said = "\n".join(heard.messages)
        assert "beta does not answer: the others continue" in said
        assert "beta is back" in said
        assert result.stopped == "blocks"
    assert_whole(out, result, "alpha", "beta")


@pytest.mark.slow
def test_a_machine_that_stays_away_is_named_and_comes_home_when_resumed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with fleet_of("alpha", "beta") as fleet:

        def away(rows: Sequence[MachineRow]) -> None:
            fleet["beta"].is_lost |= {row.name: row.blocks for row in rows}["beta"] >= 1

        request = asked(*WORDS, "--blocks", "6", "--all-blocks", out=out)
        result = run_spread(request, fleet, Heard(away), PACE)[1]
        assert any("beta did not answer at the end" in line for line in result.warnings)
        before = numbers(out / "machines/beta")
        fleet["beta"].is_lost = False
        starts = [machine.count("start") for machine in fleet.machines()]
        result = resume_spread(out, fleet, Heard(), pace=PACE)
        after = numbers(out / "machines/beta")
        # All blocks were there: nothing was begun again.
        assert result.stopped == "blocks"
        assert [machine.count("start") for machine in fleet.machines()] == starts
        assert resume_spread(out, fleet, Heard(), pace=PACE).arms == result.arms
        assert sorted(path.name for path in (out / "machines").iterdir()) == ["alpha", "beta"]
        assert after[: len(before)] == before
        assert len(after) > len(before)
    assert_whole(out, result, "alpha", "beta")


@pytest.mark.slow
def test_a_worker_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    restarted: list[bool] = []
    with fleet_of("alpha", "beta") as fleet:

        def kill(rows: Sequence[MachineRow]) -> None:
            if not restarted and {row.name: row.blocks for row in rows}["beta"] >= 2:
                restarted.append(True)
                fleet["beta"].restart()

        request = asked(*WORDS, "--blocks", "8", "--all-blocks", out=out)
        result = run_spread(request, fleet, Heard(kill), PACE)[1]
        assert restarted
        assert fleet["beta"].count("start") == 2
        assert result.stopped == "blocks"
    assert_whole(out, result, "alpha", "beta")


class Killed(BaseException):
    """As SIGKILL: nothing is told to anybody."""


@pytest.mark.slow
def test_a_coordinator_that_is_killed_is_resumed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with fleet_of("alpha", "beta") as fleet:

        def kill(rows: Sequence[MachineRow]) -> None:
            if all(row.blocks >= 1 for row in rows):
                raise Killed

        with pytest.raises(Killed):
            run_spread(asked(*WORDS, "--blocks", "8", "--all-blocks", out=out), fleet, Heard(kill), PACE)
        # The machines went on by themselves meanwhile.
        state = fleet["alpha"].request({"operation": "state", "id": runs_of(out)["alpha"]})
        assert state["state"] == "running"
        result = resume_spread(out, fleet, Heard(), pace=PACE)
        assert result.stopped == "blocks"
        assert fleet["alpha"].count("start") == 1
    assert_whole(out, result, "alpha", "beta")


def runs_of(out: Path) -> dict[str, str]:
    plan = json.loads((out / "fleet.json").read_text())
    return {machine["name"]: machine["runs"][0]["id"] for machine in plan["machines"]}


@pytest.mark.slow
def test_a_machine_that_forgot_begins_anew_and_nothing_counts_twice(tmp_path: Path) -> None:
    out = tmp_path / "out"
    forgot: list[bool] = []
    with fleet_of("alpha", "beta") as fleet:

        def forget(rows: Sequence[MachineRow]) -> None:
            if not forgot and {row.name: row.blocks for row in rows}["beta"] >= 2:
                forgot.append(True)
                fleet["beta"].restart()
                subprocess.run(["rm", "-r", fleet["beta"].home / "fleet"], check=True)

        heard = Heard(forget)
        result = run_spread(asked(*WORDS, "--blocks", "8", "--all-blocks", out=out), fleet, heard, PACE)[1]
        assert any("beta has lost its earlier trials" in line for line in heard.messages)
        first, second = load(out / "machines/beta"), load(out / "machines/beta+2")
        assert first.experiment.contract.seed != second.experiment.contract.seed
        assert {machine.name for machine in result.machines} == {"alpha", "beta"}
    assert_whole(out, result, "alpha", "beta")


@contextmanager
def small_home(megabytes: int) -> Iterator[Path]:
    """A prepared home on a disk of its own, which is soon full."""
    with whole_tool.prepared_home() as home:
        runs = home / "fleet"
        runs.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", runs], check=True)
        try:
            yield home
        finally:
            subprocess.run(["umount", runs], check=True)


@pytest.mark.slow
def test_a_disk_that_fills_ends_that_machine_alone(tmp_path: Path) -> None:
    out, heard = tmp_path / "out", Heard()
    with small_home(1) as home, fleet_of("full", "beta", homes=[home]) as fleet:
        request = asked(*WORDS, "--blocks", "24", "--all-blocks", "--max-time", "60s", out=out)
        result = run_spread(request, fleet, heard, PACE)[1]
        assert any("full ended: " in line and "space" in line for line in heard.messages), heard.messages
        assert any("full ended early" in line for line in result.warnings)
        assert result.arms[0].these_machines.blocks >= 2
    assert_whole(out, result, "beta")


@pytest.mark.slow
def test_pods_of_one_node_count_as_one_machine(tmp_path: Path) -> None:
    """Each has a name, an identity, a network and a home of its own, as Kubernetes gives them."""
    out, heard = tmp_path / "out", Heard()
    with fleet_of("pod-a", "pod-b") as fleet:
        for machine, digit in zip(fleet.machines(), "ab", strict=True):
            machine.counts_as = ""
            machine.machine_id = tmp_path / digit
            machine.machine_id.write_text(digit * 32 + "\n")
            machine.restart()
        result = run_spread(asked(*WORDS, "--blocks", "2", out=out), fleet, heard, PACE)[1]
    assert "workers of one host count as one machine" in heard.messages
    recorded = [load(out / "machines" / name).experiment.environment.machine for name in ("pod-a", "pod-b")]
    assert len({machine.machine_id for machine in recorded}) == 2
    assert {machine.hostname for machine in recorded} == {"pod-a", "pod-b"}
    assert result.arms[0].these_machines.machines == 1
    assert {machine.name for machine in result.machines} == {"pod-a and pod-b"}


@pytest.mark.slow
def test_what_no_machine_can_run_is_its_own_sentence(tmp_path: Path) -> None:
    words = ("no_such_setting=1,2", "--workload", "select-only", "--blocks", "2")
    with fleet_of("alpha") as fleet, pytest.raises(Exception, match="no_such_setting"):
        run_spread(asked(*words, out=tmp_path / "out"), fleet, Heard(), PACE)


@pytest.mark.slow
def test_parts_of_one_host_are_refused_what_they_can_t_measure_apart(tmp_path: Path) -> None:
    with fleet_of("alpha") as fleet:
        fleet["alpha"].agent.is_part_of_host = True
        words = ("a=1,2", "--workload", "tpcb")
        with pytest.raises(Exception, match="alpha are parts of one host"):
            run_spread(asked(*words, out=tmp_path / "out"), fleet, Heard(), PACE)
    assert not (tmp_path / "out").exists()
