"""The experiment files of examples/: each says its question, is planned, and some are really run."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import whole_tool
from pgassay.cli import main
from pgassay.environment.linux import free_memory
from pgassay.environment.server.validation import validate_settings
from pgassay.experiment.planning import provisioned_servers
from pgassay.experiment.planning.experiment_file import read_file
from pgassay.experiment.planning.experiment_plan import parse_request, plan
from pgassay.model.build import Build
from pgassay.record.experiment import load

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))


def test_the_examples_were_found() -> None:
    assert len(EXAMPLES) >= 8
    used = " ".join(example.read_text("utf-8") for example in EXAMPLES)
    assert not [sql.name for sql in (ROOT / "examples").glob("*.sql") if sql.name not in used]


def test_examples_have_what_their_published_figures_were_measured_with() -> None:
    def content(name: str) -> dict[str, Any]:
        return tomllib.loads((ROOT / "examples" / f"{name}.toml").read_text("utf-8"))

    # Without an index both ways read all accounts.
    assert any(sql.startswith("CREATE INDEX ") for sql in content("two-ways")["prepare"])
    # More bytes a second need operations to carry them.
    assert any("iops=12000" in each for each in content("volume-throughput")["factors"]["storage"])
    assert "with-published-index.sql" in content("with-index")["factors"]["prepare"]
    # The system's cache would answer the second visit, which it did not in what was published.
    second = content("second-visit")
    assert second.get("set", {}).get("debug_io_direct") == "data" or "memory" in second


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_its_question_and_how_to_read_it(example: Path) -> None:
    comment = example.read_text("utf-8").partition("\n\n")[0]
    assert comment.startswith("# ")
    assert comment.splitlines()[0].endswith("?")
    assert "How to read it" in comment


_held: set[tuple[object, ...]] = set()


def validate_once(build: Build, settings: Mapping[str, str]) -> None:
    """Start a small server only with what it was not started with before: many examples ask for the same."""
    asked = (build.bin_directory, *sorted(settings.items()))
    if asked not in _held:
        validate_settings(build, settings)
        _held.add(asked)


@pytest.mark.server
@pytest.mark.shares_machine
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_planned(
    example: Path, require: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read, judged by small servers and turned into arms, without a warning of its own making."""
    # A machine whose memory a hypervisor takes back is warned of in every cold plan.
    monkeypatch.setattr(free_memory, "_BALLOONS", tmp_path)
    monkeypatch.setattr(provisioned_servers, "validate_settings", validate_once)
    require("server")
    request = read_file(example, None, ("pgassay", "run", str(example)))
    for name, _, levels in (factor.partition("=") for factor in request.factors):
        if name == "version":
            require("versions-" + levels.replace(",", "-"))
    if "volume:" in f"{request.storage} {request.factors}":
        require("loop", "fuse", "cgroup-memory")
    experiment = plan(parse_request(request), lambda _stage, _fraction: None)
    controls = [arm for arm in experiment.arms if arm.role == "control"]
    assert len(controls) == len([arm for arm in experiment.arms if arm.role == "twin"])
    assert len(experiment.contrasts) >= len(controls)
    # These ask, as was published, after I/O methods where they play no part, and are told so; another is told
    # how much WAL it takes.
    expected = {
        "max-wal-size": 1,
        "oltp-read-only-matrix": 1,
        "volume-credits-end": 2,
        "volume-io-method": 2,
    }
    assert len(experiment.warnings) == expected.get(example.stem, 0)
    # The command that repeats it is one that the parser takes.
    main.parser().parse_args(list(experiment.command[1:]))


def shrunk(example: Path, folder: Path) -> Path:
    """The example's file at scale 1, with buffers for that, beside copies of its SQL files."""
    for sql in example.parent.glob("*.sql"):
        (folder / sql.name).write_text(sql.read_text("utf-8"), "utf-8")
    content = re.sub(r"^scale = \d+$", "scale = 1", example.read_text("utf-8"), flags=re.MULTILINE)
    # Every start of a server touches all of its shared memory.
    content = content.replace('shared_buffers = "1GB"', 'shared_buffers = "64MB"')
    content = re.sub(r"duration=\d+s(,warmup=\d+s)?", "duration=300ms,warmup=50ms", content)
    smaller = folder / example.name
    smaller.write_text(f"blocks = 1\nseed = 7\n{content}", "utf-8")
    return smaller


@pytest.mark.server
@pytest.mark.shares_machine
@pytest.mark.parametrize(
    "name",
    [
        "sql-two-settings",
        # Loads, data of an arm's own and cold scans are run by the tests of compare.
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("synchronous-commit", "with-index", "two-ways", "io-method-cold-scan")
        ),
    ],
)
def test_an_example_really_runs(name: str, tmp_path: Path, require: Callable[..., None]) -> None:
    require("server", "cold-cache")
    smaller = shrunk(ROOT / "examples" / f"{name}.toml", tmp_path)
    finished = whole_tool.run("run", str(smaller), "--out", str(tmp_path / "out"), "--json", "--quiet")
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout)
    stored = load(tmp_path / "out")
    assert result["stopped"] == "blocks"
    assert result["blocks"] == 1
    # An attempt that other processes on the machine spoilt is repeated.
    valid = [trial for trial in stored.trials if trial.record.status == "ok"]
    assert len(valid) == len(stored.experiment.arms)
    assert all(arm["trials"] == 1 and arm["values"][0] > 0 for arm in result["arms"])
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    again = whole_tool.run("report", str(tmp_path / "out"), "--json")
    assert json.loads(again.stdout) == result
    documented = set(re.findall(r"[\w.-]+", (ROOT / "docs" / "results-folder.md").read_text("utf-8")))
    for trial in stored.trials:
        assert not [key for key in trial.record.facts if key not in documented]
        assert not [key for key in trial.record.verification if key not in documented]
        files = {path.name for path in trial.folder.rglob("*") if path.is_file()}
        assert files <= documented | {"trial.json", "plans.json", "latency.hdr", "latency.hlog", "server.log"}


@pytest.mark.slow
@pytest.mark.server
def test_the_example_with_a_throttled_disk_runs(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server", "cold-cache", "loop", "cgroup-limits", "root")
    smaller = shrunk(ROOT / "examples" / "io-method-throttled-disk.toml", tmp_path)
    # 13 MB at 13 MB/s: the limit shows as about a second, and a disk without it would take milliseconds.
    content = smaller.read_text("utf-8").replace("size=6GB,", "").replace("read_mb_s=125", "read_mb_s=13")
    smaller.write_text(content, "utf-8")
    finished = whole_tool.run("run", str(smaller), "--out", str(tmp_path / "out"), "--json", "--quiet")
    assert finished.returncode == 0, finished.stderr
    values = [value for arm in json.loads(finished.stdout)["arms"] for value in arm["values"]]
    assert len(values) >= 2
    assert all(value > 0.8 for value in values)


@pytest.mark.slow
@pytest.mark.server
def test_the_example_with_two_read_aheads_runs(tmp_path: Path, require: Callable[..., None]) -> None:
    """Both levels share one device, and every trial finds its own in force."""
    require("server", "cold-cache", "loop", "root")
    smaller = shrunk(ROOT / "examples" / "read-ahead.toml", tmp_path)
    finished = whole_tool.run("run", str(smaller), "--out", str(tmp_path / "out"), "--json", "--quiet")
    assert finished.returncode == 0, finished.stderr
    stored = load(tmp_path / "out")
    arms = {arm.id: arm for arm in stored.experiment.arms}
    asked = [int(arms[trial.record.arm_id].levels["read_ahead"]) for trial in stored.trials]
    held = [trial.record.facts["storage"]["device"]["read_ahead_kb"] for trial in stored.trials]
    assert held == asked
    assert set(asked) == {128, 8192}
