"""`pgassay explain` as its user types it: files, standard input, logs with several plans, refusals."""

import contextlib
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import whole_tool
from pgassay.cli import main

ROOT = Path(__file__).resolve().parents[2]
PLAN = """\
Sort  (cost=2.00..3.00 rows=10 width=4) (actual time=9.000..9.500 rows=10 loops=1)
  Sort Key: x
  Sort Method: quicksort  Memory: 25kB
  ->  Seq Scan on t  (cost=0.00..1.00 rows=10 width=4) (actual time=0.010..8.000 rows=10 loops=1)
        Filter: (x > 5)
        Rows Removed by Filter: 99990
Planning Time: 0.100 ms
Execution Time: 9.600 ms
"""
LOGGED = "2026-11-21 10:00:00 UTC [1] LOG:  duration: {ms}.000 ms  plan:\n\tQuery Text: SELECT {ms}\n\t"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the documents' command lines name, and where they are run."""
    document = {"Plan": {"Node Type": "Seq Scan", "Relation Name": "t", "Actual Loops": 1, "Actual Rows": 10}}
    body = PLAN.partition("Planning Time")[0].strip().replace("\n", "\n\t")
    for name in ("plan.txt", "before.txt"):
        (tmp_path / name).write_text(PLAN)
    for name in ("after.json", "plan.json"):
        (tmp_path / name).write_text(json.dumps([document]))
    log = "".join(LOGGED.format(ms=ms) + body + "\n" for ms in (1, 2, 3))
    (tmp_path / "postgresql.log").write_text(log)
    return tmp_path


def run(folder: Path, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    """What is given on standard input goes to a process that need not be started anew but for that."""
    if not given:
        with contextlib.chdir(folder):
            return whole_tool.run("explain", *words, env=whole_tool.environment(COLUMNS="100"))
    return subprocess.run(
        [*whole_tool.COMMAND, "explain", *words],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python"), "COLUMNS": "100"},
    )


def documented() -> list[str]:
    """The command lines of explain.md's first block."""
    text = (ROOT / "docs" / "explain.md").read_text("utf-8")
    return re.findall(r"^\$ pgassay explain (.+)$", text, re.MULTILINE)


def test_the_documented_lines_run(folder: Path) -> None:
    lines = documented()
    assert len(lines) >= 4
    for line in lines:
        words, _, given = line.partition(" < ")
        finished = run(folder, *shlex.split(words), given=(folder / given).read_text() if given else "")
        assert finished.returncode == 0, finished.stderr
        assert finished.stdout


def test_a_plan_is_shown_with_its_nodes_own_time(folder: Path) -> None:
    finished = run(folder, "plan.txt")
    assert finished.returncode == 0
    assert "Executed in 9.60 ms: nodes 9.50 ms, unattributed 100 µs (1.0 %)" in finished.stdout
    assert re.search(r"8\.00 ms +84 % #+ +-> Seq Scan on t  #1", finished.stdout)
    assert "\x1b" not in finished.stdout
    piped = run(folder, "-", given=PLAN)
    assert piped.stdout == finished.stdout


def test_a_log_is_listed_and_its_plans_chosen(folder: Path) -> None:
    listed = run(folder, "postgresql.log")
    assert "postgresql.log has 3 plans" in listed.stdout
    assert listed.stdout.count("SELECT") == 3
    assert "Executed in 2.00 ms" in run(folder, "postgresql.log", "--plan", "2").stdout
    assert run(folder, "postgresql.log", "--plan", "all").stdout.count("Seq Scan on t  #1") == 3
    pair = run(folder, "postgresql.log", "--plan", "1,3").stdout
    assert "Both plans have the same nodes." in pair
    assert "Executed in 1.00 ms (A) and 3.00 ms (B)." in pair
    document = json.loads(run(folder, "postgresql.log", "--json").stdout)
    assert [plan["execution_ms"] for plan in document["plans"]] == [1.0, 2.0, 3.0]
    assert document["beside"] is None


def test_a_page_is_written_beside_the_output(folder: Path) -> None:
    finished = run(folder, "before.txt", "after.json", "--html", "plans.html", "--markdown")
    assert "Both plans have the same nodes" not in finished.stdout
    assert "Only in A: Sort." in finished.stdout
    assert "Seq Scan on t" in (folder / "plans.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing.txt"], "can't read nothing.txt (No such file or directory)"),
        (["."], ". has no experiment: name a folder that has an experiment.json"),
        (["bad\x1b[2J.txt"], "can't read bad\\x1b[2J.txt"),
        (["-", "-"], "standard input can only be read once"),
        (["plan.txt", "--plan", "2"], "--plan 2: plan.txt has 1"),
        (["plan.txt", "--plan", "first"], "is not the number of a plan"),
        (["plan.txt", "postgresql.log"], "postgresql.log has 3 plans: choose one from each file with --plan"),
        (["plan.txt", "--html", "/nowhere/page.html"], "its folder does not exist, create it first"),
    ],
)
def test_what_can_t_be_done_is_said_in_a_sentence(folder: Path, words: list[str], said: str) -> None:
    finished = run(folder, *words, given="no plan" if "-" in words else "")
    assert finished.returncode == 2
    assert said in finished.stderr
    assert "Traceback" not in finished.stderr
    assert "\x1b" not in finished.stderr


def test_bytes_that_are_no_text_are_refused_or_read(folder: Path) -> None:
    (folder / "random").write_bytes(bytes(range(256)) * 100)
    (folder / "latin").write_bytes(PLAN.replace("on t", 'on "größe"').encode("latin-1"))
    (folder / "utf-16").write_text(PLAN, encoding="utf-16")
    assert run(folder, "random").returncode == 2
    assert run(folder, "latin").returncode == run(folder, "utf-16").returncode == 0


def test_every_option_is_documented() -> None:
    page = (ROOT / "docs" / "explain.md").read_text("utf-8")
    commands = next(action for action in main.parser()._actions if isinstance(action.choices, dict))
    assert isinstance(commands.choices, dict)
    known = {name for action in commands.choices["explain"]._actions for name in action.option_strings}
    lines = [line for line in page.splitlines() if line.startswith("| `--")]
    rows = {name for line in lines for name in re.findall(r"`(--[a-z-]+)`", line.split(" | ")[0])}
    assert rows == known - {"-h", "--help"}
