"""Strata of a grid spread over machines: real agents with real servers, without what connects them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import jsonschema
import pytest

import whole_tool
from direct_machines import PACE, Heard, asked, fleet_of
from pgassay.errors import UsageError
from pgassay.fleet.spreading.run_spread import resume_spread, run_spread
from pgassay.model.machines.combined import CombinedResult
from pgassay.record.experiment import load
from pgassay.report import schema
from pgassay.terminal.fleet import MachineRow

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
LOAD = ("--workload", "select-only:duration=200ms,warmup=0ms", "--seed", "11", "--spread", "cells")
WORDS = ("random_page_cost=4,2", "clients=1,2,3", *LOAD)


@pytest.fixture(autouse=True)
def needs(require: Callable[..., None]) -> None:
    require("server", "root")


def strata_of(folder: Path) -> set[str]:
    """The strata that an experiment planned and ran."""
    stored = load(folder)
    ran = {
        arm.id for trial in stored.trials for arm in stored.experiment.arms if arm.id == trial.record.arm_id
    }
    assert ran == {arm.id for arm in stored.experiment.arms}
    return {arm.stratum for arm in stored.experiment.arms}


def assert_reported(out: Path, result: CombinedResult) -> None:
    """What the folder says again is what was said, in the document's form."""
    reported = whole_tool.result_of(whole_tool.run("report", out, "--json"))
    jsonschema.validate(reported, schema.COMBINED.schema(), cls=jsonschema.Draft202012Validator)
    assert result.cells is not None
    assert reported["cells"]["strata"] == [stratum.model_dump(mode="json") for stratum in result.cells.strata]
    assert [arm["these_machines"]["interval"] for arm in reported["arms"]] == [
        None if (ends := arm.these_machines.interval) is None else list(ends) for arm in result.arms
    ]


def test_each_machine_runs_its_strata_and_the_anchor(tmp_path: Path) -> None:
    out, heard = tmp_path / "out", Heard()
    with fleet_of("alpha", "beta") as fleet:
        result = run_spread(asked(*WORDS, "--blocks", "1", out=out), fleet, heard, PACE)[1]
        assert result.stopped == "blocks"
        assert not [path for machine in fleet.machines() for path in (machine.home / "fleet/runs").iterdir()]
    assert strata_of(out / "machines/alpha") == {"clients=1", "clients=2"}
    assert strata_of(out / "machines/beta") == {"clients=1", "clients=3"}
    assert {load(out / "machines" / name).experiment.contract.contrasts for name in ("alpha", "beta")} == {3}
    assert result.cells is not None
    assert [(each.stratum, each.machines) for each in result.cells.strata] == [
        ("clients=1", ("alpha", "beta")),
        ("clients=2", ("alpha",)),
        ("clients=3", ("beta",)),
    ]
    assert [each.blocks for each in result.cells.strata] == [2, 1, 1]
    assert "clients=1 is the anchor: every machine runs it" in heard.messages
    assert any(line.startswith("beta runs clients=3") for line in heard.messages)
    assert_reported(out, result)
    assert "Which machine ran what" in (out / "report.html").read_text()


@pytest.mark.slow
def test_the_strata_of_a_machine_that_stays_away_are_taken_over(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with fleet_of("alpha", "beta") as fleet:

        def away(rows: Sequence[MachineRow]) -> None:
            fleet["beta"].is_lost |= {row.name: row.blocks for row in rows}["beta"] >= 1

        heard = Heard(away)
        result = run_spread(asked(*WORDS, "--blocks", "3", "--all-blocks", out=out), fleet, heard, PACE)[1]
        assert "alpha takes over clients=3, whose machine is not reachable" in heard.messages
        assert result.cells is not None
        assert [each.machines[0] for each in result.cells.strata] == ["alpha"] * 3
        assert all(each.blocks >= 3 for each in result.cells.strata)
        fleet["beta"].is_lost = False
    assert strata_of(out / "machines/alpha+2") == {"clients=3"}
    assert_reported(out, result)


@pytest.mark.slow
def test_the_strata_of_a_machine_that_left_the_fleet_go_on_elsewhere_when_resumed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with fleet_of("alpha", "beta", "gamma") as fleet:
        stopped: list[bool] = []

        def stop(rows: Sequence[MachineRow]) -> None:
            # Long before it has all its blocks.
            if not stopped and {row.name: row.blocks for row in rows}["gamma"] >= 1:
                stopped.append(True)
                raise KeyboardInterrupt

        words = ("random_page_cost=4,2", "clients=1,2,3,4", *LOAD, "--blocks", "2", "--all-blocks")
        with pytest.raises(Exception, match="continue with"):
            run_spread(asked(*words, out=out), fleet, Heard(stop), PACE)
        before = load(out / "machines/gamma").trials

        class Left:
            """The fleet without the machine that ran clients=4."""

            def machines(self) -> Sequence[object]:
                return [fleet["alpha"], fleet["beta"]]

        heard = Heard()
        result = resume_spread(out, Left(), heard, pace=PACE)  # type: ignore[arg-type]  # its machines are these
        assert "the fleet no longer has gamma: it continues without" in heard.messages
        assert any("takes over clients=4" in line for line in heard.messages)
        assert result.cells is not None
        assert all(each.blocks >= 2 for each in result.cells.strata)
        # What came home of it counts still, as the trials of that machine.
        assert load(out / "machines/gamma").trials == before
    assert_reported(out, result)


@pytest.mark.slow
def test_what_can_t_be_spread_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = "--spread cells needs two machines, and alpha is one"
    with fleet_of("alpha") as fleet, pytest.raises(UsageError, match=said):
        run_spread(asked(*WORDS, out=out), fleet, Heard(), PACE)
    assert not out.exists()
    with fleet_of("alpha", "beta") as fleet:
        words = ("no_such_setting=1,2", "clients=1,2", *LOAD)
        with pytest.raises(UsageError, match="no_such_setting"):
            run_spread(asked(*words, out=out), fleet, Heard(), PACE)
        assert not [path for machine in fleet.machines() for path in (machine.home / "fleet/runs").iterdir()]
    assert not out.exists()
