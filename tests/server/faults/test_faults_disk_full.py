"""No space left: while the data are loaded, and while trials are recorded."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import whole_tool
from storage_fixtures import fill, tiny_file_system

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


def words_of(out: Path, *more: str) -> list[str]:
    return [
        "compare", "work_mem=1MB,2MB", "--workload", "full-scan:only=sum", "--cache", "as-is",
        "--restart", "each",
        *whole_tool.SMALL, *whole_tool.build(), "--blocks", "3", "--seed", "3", "--out", str(out), *more,
    ]  # fmt: skip


@pytest.mark.parametrize("size_mb", [60, 150])
def test_while_the_data_are_loaded(size_mb: int, tmp_path: Path, require: Callable[..., None]) -> None:
    """Too little for a cluster, or for the data: said in a sentence; with space it works, nothing is left."""
    require("server", "loop", "root")
    before = whole_tool.socket_folders()
    with whole_tool.private_home() as parent, tiny_file_system(parent, size_mb) as home:
        finished = whole_tool.run(*words_of(tmp_path / "out"), home=home)
        assert finished.returncode in (1, 2), finished.stderr
        assert "Traceback" not in finished.stderr
        complaint = finished.stderr.strip().splitlines()[-1]
        assert complaint.startswith("pgassay: ")
        assert "space" in complaint or "needs" in complaint
        assert "free" in complaint or "PGASSAY_HOME" in complaint
        assert not (tmp_path / "out" / "experiment.json").exists()
        assert whole_tool.leftovers(home, before, []) == []
        left = [path.name for path in (home / "data").glob("snapshots/*") if path.suffix != ".lock"]
        assert left == []


@pytest.mark.slow
def test_while_trials_are_recorded(tmp_path: Path, require: Callable[..., None]) -> None:
    """What was recorded is whole; after space is freed, resume goes on from there."""
    require("server", "loop", "root")
    before = whole_tool.socket_folders()
    with whole_tool.prepared_home() as home, tiny_file_system(tmp_path, 8) as tiny:
        out = tiny / "results"
        process = whole_tool.start(*words_of(out, "--json"), home=home)
        second = out / "trials" / "000001" / "attempt-1" / "trial.json"
        whole_tool.wait_for(second.exists, "the second trial", process=process)
        # Held meanwhile: it could come to its end before the space is taken.
        process.send_signal(signal.SIGSTOP)
        ballast = fill(tiny)
        process.send_signal(signal.SIGCONT)
        output, said = process.communicate(timeout=whole_tool.TIMEOUT_S)
        assert process.returncode == 1, said
        assert output == ""
        assert "Traceback" not in said
        complaint = said.strip().splitlines()[-1]
        assert complaint.startswith("pgassay: no space left to record")
        assert "pgassay resume" in complaint
        assert whole_tool.leftovers(home, before, [process.pid]) == []
        kept = whole_tool.trials(out)
        assert len(kept) >= 2
        assert all(record["status"] == "ok" for record in kept)
        still_full = whole_tool.run("resume", out, "--json", "--quiet", home=home)
        assert "no space left" in whole_tool.assert_one_sentence(still_full, 1)
        assert whole_tool.trials(out) == kept
        ballast.unlink()
        result = whole_tool.result_of(whole_tool.run("resume", out, "--json", "--quiet", home=home))
        assert result["blocks"] == 3
        assert whole_tool.trials(out)[: len(kept)] == kept
        assert not list(out.rglob("*.tmp"))
        assert json.loads((out / "state.json").read_bytes())["stopped"] == "blocks"


def test_while_the_report_is_written(tmp_path: Path, require: Callable[..., None]) -> None:
    """The verdict is printed all the same."""
    require("root", "loop")
    import replay

    with tiny_file_system(tmp_path, 8) as tiny:
        folder = replay.recorded(tiny / "results")
        fill(tiny)
        finished = whole_tool.run("report", folder, "--json")
        assert finished.returncode in (0, 2)
        assert "Traceback" not in finished.stderr
        if finished.returncode == 2:
            assert "--html" in finished.stderr
