"""Where output goes: to nobody where standard output is closed, in colours where they are wanted."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

import tune_samples
import whole_tool
from pgassay.cli.main import main
from pgassay.record import layout
from pgassay.record.holding import held

ROOT = Path(__file__).resolve().parents[2]
PLAN = """\
Seq Scan on t  (cost=0.00..1.00 rows=10 width=4) (actual time=0.010..8.000 rows=10 loops=1)
Execution Time: 9.600 ms
"""


@pytest.mark.parametrize(
    "words", [["explain", "plan.txt"], ["report", "none"], ["list"], ["volumes"], ["--help"]]
)
def test_a_closed_standard_output_is_no_failure_of_ours(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "plan.txt").write_text(PLAN)
    finished = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *whole_tool.COMMAND, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
    )
    assert finished.returncode == (2 if words[0] == "report" else 0), finished.stderr
    assert "Traceback" not in finished.stderr and "Error" not in finished.stderr
    # Nothing was written into a file that took the number of the closed one.
    assert [each.name for each in tmp_path.iterdir()] == ["plan.txt"]
    assert (tmp_path / "plan.txt").read_text() == PLAN


@pytest.mark.parametrize("no_colour", ["", "1"])
def test_no_color_is_obeyed(tmp_path: Path, no_colour: str) -> None:
    (tmp_path / "plan.txt").write_text(PLAN)
    ours, theirs = pty.openpty()
    environment = os.environ | {"NO_COLOR": no_colour, "TERM": "xterm", "PYTHONPATH": str(ROOT / "python")}
    command = [*whole_tool.COMMAND, "explain", str(tmp_path / "plan.txt")]
    subprocess.run(command, stdout=theirs, check=True, env=environment, timeout=60)
    shown = os.read(ours, 1_000_000).decode()
    os.close(ours)
    os.close(theirs)
    assert "Seq Scan" in shown
    assert ("\x1b[" in shown) is (not no_colour)


def test_a_result_that_is_at_work_is_not_called_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tune"
    folder.mkdir()
    # As it stands from the beginning of the proof on.
    answer = tune_samples.answer().model_copy(update={"interrupted": True})
    (folder / layout.TUNE_FILE).write_text(answer.model_dump_json(by_alias=True))
    with held(folder):
        assert main(["list", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "at work" in shown and "interrupted" not in shown
    assert main(["list", str(tmp_path)]) == 0
    assert "interrupted" in capsys.readouterr().out
