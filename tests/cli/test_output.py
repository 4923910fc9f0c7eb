"""Where output goes: to nobody where standard output is closed, in colours where they are wanted."""

import os
import pty
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tune_samples
import whole_tool
from frozen import archive
from pgassay.cli.main import main
from pgassay.record import layout
from pgassay.record.experiment_lock import held
from project_files import unpack_archive

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


def test_a_report_to_a_closed_standard_output_is_no_failure_of_ours(tmp_path: Path) -> None:
    with tarfile.open(archive.place("equal-copies")) as packed:
        unpack_archive(packed, tmp_path / "equal")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for form in ((), ("--json",), ("--markdown",)):
        finished = subprocess.run(
            ["sh", "-c", 'exec "$@" >&-', "sh", *whole_tool.COMMAND, "report", "equal", *form],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        )
        assert (finished.returncode, finished.stderr) == (0, "")
    # Nothing was written into a file that took the number of the closed one.
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path: after[path] for path in before if path.suffix != ".html"} == {
        path: text for path, text in before.items() if path.suffix != ".html"
    }


@pytest.mark.parametrize("no_colour", ["", "1"])
@pytest.mark.parametrize(
    ("words", "heading"),
    [
        (["explain", "plan.txt"], "Seq Scan"),
        (["report", "equal"], "equal"),
        (["doctor", "--seconds", "0"], "Software"),
    ],
)
def test_no_color_is_obeyed(tmp_path: Path, no_colour: str, words: list[str], heading: str) -> None:
    (tmp_path / "plan.txt").write_text(PLAN)
    with tarfile.open(archive.place("equal-copies")) as packed:
        unpack_archive(packed, tmp_path / "equal")
    ours, theirs = pty.openpty()
    environment = os.environ | {"NO_COLOR": no_colour, "TERM": "xterm", "PYTHONPATH": str(ROOT / "python")}
    # What it prints may be more than a terminal holds that nobody reads.
    with ThreadPoolExecutor(1) as reading:
        shown = reading.submit(_read_terminal, ours)
        subprocess.run(
            [*whole_tool.COMMAND, *words],
            cwd=tmp_path, stdout=theirs, check=False, env=environment, timeout=60,
        )  # fmt: skip
        os.close(theirs)
        text = shown.result(timeout=60)
    assert heading in text
    assert ("\x1b[" in text) is (not no_colour)


def _read_terminal(number: int) -> str:
    """All that is printed to a terminal until its last writer closes it."""
    pieces = []
    try:
        while piece := os.read(number, 65536):
            pieces.append(piece)
    except OSError:
        # Linux's way to say that nobody has the other end any more.
        pass
    os.close(number)
    return b"".join(pieces).decode()


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


def test_the_readme_says_what_may_change_a_running_server_and_which_checks_run() -> None:
    """Of the options by which `compare` writes to somebody's server none is left out."""
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert "never changes a running server" not in text
    promise = text[text.index("Your running servers are only read, unless you give") :]
    options = {
        name
        for name in ("--allow-writes", "--swap", "--before-trial")
        if name in promise[: promise.index("## Limits")]
    }
    help_text = subprocess.run(
        [*whole_tool.COMMAND, "compare", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert options == {"--allow-writes", "--swap", "--before-trial"}
    assert all(name in help_text for name in options)
    line = next(each for each in (ROOT / "README.md").read_text("utf-8").splitlines() if "make test " in each)
    assert "except the slow ones" in line and "test-all" in line
