"""A build that is replaced under an experiment: the run ends, `resume` refuses until the old one is back."""

import json
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from whole_tool import wait_for

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.fixture
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("server")
    with whole_tool.prepared_home() as folder:
        yield folder


class Copied:
    """A copy of the build that tests use, whose `postgres` can be another one and the planned one again."""

    def __init__(self, below: Path) -> None:
        bin_folder = Path(resolve("18").bin_directory)
        is_debian = bin_folder.parts[-4:-2] == ("lib", "postgresql")
        # Debian has what is shared in a tree of its own, beside that of the programs.
        root = bin_folder.parents[3] if is_debian else bin_folder.parent
        self.folder = below / bin_folder.relative_to(root)
        self.folder.mkdir(parents=True)
        beside = [folder for folder in bin_folder.parent.iterdir() if folder != bin_folder]
        for entry in [*beside, *([root / "share"] if is_debian else [])]:
            (below / entry.relative_to(root)).symlink_to(entry)
        for program in ("postgres", "initdb"):
            shutil.copy2(bin_folder / program, self.folder / program)
        self.postgres, self._planned = self.folder / "postgres", self.folder / "planned"
        shutil.copy2(self.postgres, self._planned)

    def replace(self) -> None:
        """Put another binary in its place, as an upgrade does: it runs as well, and is not the same."""
        changed = self.folder / "changed"
        shutil.copy2(self._planned, changed)
        with changed.open("ab") as file:
            file.write(b"another build")
        changed.rename(self.postgres)

    def restore(self) -> None:
        shutil.copy2(self._planned, self.folder / "again")
        (self.folder / "again").rename(self.postgres)


def started(pg: Copied, folder: Path, home: Path) -> "subprocess.Popen[str]":
    """An experiment that starts a server for each trial, with a block and a trial more recorded."""
    statements = folder / "count.sql"
    statements.write_text("SELECT count(*) FROM pgbench_branches;\n")
    words = ["compare", "shared_buffers=32MB,64MB", "--workload", f"sql:{statements}", "--pg", pg.folder]
    words += ["--scale", "1", "--cache", "as-is", "--plans", "off", "--observe", "off", "--quiet"]
    running = whole_tool.start(*map(str, words), "--out", str(folder / "out"), home=home)
    wait_for(lambda: len(whole_tool.trials(folder / "out")) >= 4, "a block and a trial", process=running)
    return running


@pytest.mark.slow
def test_resume_refuses_a_binary_that_was_replaced_until_it_is_back(tmp_path: Path, home: Path) -> None:
    pg, out = Copied(home / "copied"), tmp_path / "out"
    running = started(pg, tmp_path, home)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=whole_tool.TIMEOUT_S)
    recorded = whole_tool.trials(out)
    pg.replace()
    complaint = whole_tool.assert_one_sentence(whole_tool.run("resume", out, "--quiet", home=home), 2)
    assert f"{pg.postgres} is a different binary now" in complaint
    assert "put that one back and type 'pgassay resume', or start a new experiment" in complaint
    assert whole_tool.trials(out) == recorded
    pg.restore()
    resumed = whole_tool.run("resume", out, "--blocks", "2", "--json", "--quiet", home=home)
    assert whole_tool.result_of(resumed)["blocks"] >= 2
    assert whole_tool.trials(out)[: len(recorded)] == recorded


@pytest.mark.slow
def test_a_binary_that_is_replaced_meanwhile_ends_the_run_with_its_blocks_intact(
    tmp_path: Path, home: Path
) -> None:
    pg, out = Copied(home / "copied"), tmp_path / "out"
    running = started(pg, tmp_path, home)
    pg.replace()
    said = running.communicate(timeout=whole_tool.TIMEOUT_S)
    finished = subprocess.CompletedProcess((), running.returncode, *said)
    assert f"{pg.postgres} is a different binary now" in whole_tool.assert_one_sentence(finished, 1)
    recorded = whole_tool.trials(out)
    assert {trial["status"] for trial in recorded} == {"ok"}, "no trial is blamed for it"
    assert json.loads((out / "state.json").read_bytes())["stopped"] == "failed"
    whole_tool.assert_one_sentence(whole_tool.run("resume", out, "--quiet", home=home), 2)
    pg.restore()
    blocks = len(recorded) // 3 + 1
    resumed = whole_tool.run("resume", out, "--blocks", str(blocks), "--json", "--quiet", home=home)
    assert whole_tool.result_of(resumed)["blocks"] == blocks
    assert whole_tool.trials(out)[: len(recorded)] == recorded
