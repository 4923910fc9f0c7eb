"""What a spread experiment shows while it runs: lines in a file, one table on a terminal."""

import io

import pytest
from rich.console import Console

from pgassay.model.machines.combined import CombinedArm, CombinedResult, CommonEffect, MachineResult
from pgassay.model.workload import Metric
from pgassay.terminal import fleet
from pgassay.terminal.fleet import LiveFleetView, MachineRow, PlainFleetView

ROWS = [
    MachineRow("alpha", "running", 4, "block 4 of at most 9, trial 1: ok 9,000 transactions/s"),
    MachineRow("beta", "lost", 2, ""),
]


def result(blocks: int, ratio: float | None = 1.1) -> CombinedResult:
    these = CommonEffect(
        machines=2,
        blocks=blocks,
        ratio=ratio,
        interval=None if ratio is None else (1.02, 1.2),
        verdict="inconclusive" if ratio is None else "faster",
        withheld=ratio is None,
    )
    return CombinedResult(
        folders=("x",),
        workload="w",
        metric=Metric(name="throughput", unit="transactions/s", better="higher"),
        margin=0.03,
        alpha=0.05,
        arms=(
            CombinedArm(
                name="a=2", levels={"a": "2"}, control="a=1", these_machines=these, machines_like_these=these
            ),
        ),
        machines=(
            MachineResult(
                name="alpha", arm="a=2", blocks=4, ratio=1.2, interval=(0.9, 1.5), verdict="inconclusive"
            ),
        ),
    )


def test_lines_are_printed_when_there_are_more_blocks_and_not_before() -> None:
    stream = io.StringIO()
    view = PlainFleetView(stream)
    for blocks in (0, 4, 4, 6):
        view.standing(ROWS, result(blocks))
    view.message("alpha\x1b[31m is back")
    lines = stream.getvalue().splitlines()
    assert [line.partition(" on ")[0] for line in lines[:2]] == ["after 4 blocks", "after 6 blocks"]
    assert lines[0].endswith("2 machines: a=2: 1.100× (1.020 – 1.200) faster")
    assert len(lines) == 3
    assert "\x1b" not in lines[2]


def test_nothing_is_shown_where_quiet_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with fleet.choose(quiet=True) as view:
        view.message("not to be seen")
        view.standing(ROWS, result(3))
    assert capsys.readouterr() == ("", "")


def test_who_no_longer_reads_does_not_end_the_experiment() -> None:
    class Gone(io.StringIO):
        def write(self, _content: str) -> int:
            raise BrokenPipeError

    view = PlainFleetView(Gone())
    view.message("first")
    view.message("second")


def test_the_table_has_every_machine_and_the_common_effect() -> None:
    stream = io.StringIO()
    view = LiveFleetView(stream)
    view.standing(ROWS, result(6))
    Console(file=stream, width=140).print(view.shown())
    shown = stream.getvalue()
    assert "alpha" in shown
    assert "no answer" in shown
    assert "0.900 – 1.500" in shown
    assert "after 6 blocks on 2 machines: a=2: 1.100×" in shown
    many = [MachineRow(f"m{number}", "running", 0, "") for number in range(40)]
    view.standing(many, None)
    Console(file=stream, width=140).print(view.shown())
    assert "and 10 more machines" in stream.getvalue()


def test_a_withheld_effect_is_called_so() -> None:
    assert fleet.arm_lines(result(5, None))[0].endswith("withheld")
