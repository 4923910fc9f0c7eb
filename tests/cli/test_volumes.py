"""`pgassay volumes` as its user types it: the list, volumes, a file of one's own, fio's figures, refusals."""

import contextlib
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from pydantic import BaseModel

import whole_tool
from pgassay.cli import main
from pgassay.model.volumes import catalogue

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "volumes.md"
RECORDED = ROOT / "tests" / "samples" / "fio"


def run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    with contextlib.chdir(folder):
        return whole_tool.run("volumes", *words, env=whole_tool.environment(folder, COLUMNS="100"))


def test_the_documented_lines_run(tmp_path: Path) -> None:
    for name in ("depth1.json", "depth32.json"):
        shutil.copy(RECORDED / name, tmp_path)
    # The one that mounts has a server's test of its own.
    lines = re.findall(r"^\$ pgassay volumes(?! mount)(.*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(lines) >= 6
    for line in lines:
        finished = run(tmp_path, *shlex.split(line))
        assert finished.returncode == 0, finished.stderr
        assert finished.stdout or (tmp_path / "mine.toml").is_file()


def test_the_documented_file_is_used_from_the_home(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "volumes.toml").write_text(block)
    document = json.loads(run(tmp_path, "cheap,size=500GiB", "gp3,size=100GiB", "--json").stdout)
    assert document["catalogue"]["files"] == [str(tmp_path / "volumes.toml")]
    cheap, gp3 = document["volumes"]
    assert cheap["price"]["per_month"] == 25.0 and cheap["price"]["currency"] == "EUR"
    assert cheap["limits"][0]["rate_per_s"] == 1500 and cheap["limits"][0]["burst_s"] == 600
    assert gp3["latency"]["median_ms"] == 0.9
    assert "compared with the providers' documents on" in run(tmp_path, "cheap,size=10GiB").stdout


def test_a_volume_is_explained_in_words(tmp_path: Path) -> None:
    finished = run(tmp_path, "gp2,size=100GiB", "instance=m6g.large")
    assert finished.returncode == 0
    shown = " ".join(finished.stdout.split())
    assert "operations 300 a second 3,000 a second 33 min 20 s 5 h 00 min" in shown
    assert (
        "instance operations 3,600 a second 20,000 a second 30 min 00 s full again every 24 h 00 min" in shown
    )
    assert "300 a second, 2.344 MiB/s from then on (limit: operations)" in shown
    assert "the catalogue has no price for m6g.large; without it 100 GiB at 0.1 = 10.00" in shown
    shown = " ".join(
        run(tmp_path, "gp3,size=700GiB,iops=10000,throughput=500,instance=r7i.2xlarge").stdout.split()
    )
    assert (
        "492.32 USD a month (us-east-1, prices as of 2026-11): 700 GiB at 0.08 = 56.00; 7000 IOPS above"
        in shown
    )


def test_a_load_is_simulated(tmp_path: Path) -> None:
    words = (
        "gp3,size=100GiB",
        "gp2,size=33GiB,credits=empty",
        "--simulate",
        "depth=32,duration=20s",
        "--json",
    )
    fast, slow = json.loads(run(tmp_path, *words).stdout)["simulated"]
    assert fast["p50_ms"] == pytest.approx(32 / 3, rel=0.01) and fast["ended_s"] is None
    assert slow["requests_per_s"] == pytest.approx(100, rel=0.02) and slow["ended_s"] == 0


def test_a_fitted_volume_can_be_named(tmp_path: Path) -> None:
    files = [str(RECORDED / f"{name}.json") for name in ("depth1", "depth32", "depth64")]
    fitted = run(tmp_path, "fit", *files, "--name", "mine", "--size", "40GiB", "--output", "mine.toml")
    assert fitted.returncode == 0, fitted.stderr
    (volume,) = json.loads(run(tmp_path, "mine", "--catalogue", "mine.toml", "--json").stdout)["volumes"]
    assert volume["limits"][0]["rate_per_s"] == round(
        json.loads(Path(files[2]).read_text())["jobs"][0]["read"]["iops"]
    )
    assert volume["spec"]["size_gib"] == 40
    again = run(tmp_path, "fit", *files, "--output", "mine.toml")
    assert again.returncode == 2 and "can't write mine.toml (File exists)" in again.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gp3,size=20GiB,iops=20000"], "gp3 gives at most 500 IOPS per GiB: 20GiB allows 10000"),
        (["nothing"], "There is no volume 'nothing' in the catalogue"),
        (["\x1b[2J"], "There is no volume"),
        (["--simulate", "depth=2"], "--simulate needs a volume"),
        (["gp2,size=1GiB", "--simulate", "depth=0"], "depth: '0' is not a whole number from 1"),
        (["gp2,size=1GiB", "--name", "x"], "--name needs 'pgassay volumes fit'"),
        (["gp2,size=1GiB", "--closest"], "--closest needs 'pgassay volumes mount'"),
        (["fit", "x.json", "--used", "1GB"], "--used needs 'pgassay volumes mount'"),
        (["mount", "gp2,size=1GiB", "x", "--name", "y"], "--name needs 'pgassay volumes fit'"),
        (
            ["mount", "gp2,size=1GiB", "x", "--simulate", "depth=2"],
            "--simulate cannot be used with 'pgassay volumes mount'",
        ),
        (["fit"], "needs fio's output"),
        (["fit", "nothing.json"], "can't read nothing.json"),
        (["fit", "x.json", "--json"], "leave --json out"),
        (["fit", "x.json", "--size", "0GiB"], "is not a whole number of GiB from 1 to"),
        (["fit", "x.json", "--size", "1.5GiB"], "is not a whole number of GiB from 1 to"),
        (["fit", "x.json", "--size", "9999999999TB"], "is not a whole number of GiB from 1 to"),
        (["--catalogue", "none.toml"], "can't read none.toml"),
    ],
)
def test_what_can_t_be_done_is_said_in_a_sentence(tmp_path: Path, words: list[str], said: str) -> None:
    finished = run(tmp_path, *words)
    assert finished.returncode == 2
    assert said in finished.stderr
    assert "Traceback" not in finished.stderr and finished.stderr.count("\n") == 1


def test_every_option_and_key_of_a_file_is_documented() -> None:
    page = PAGE.read_text("utf-8")
    words = set(re.findall(r"`([^`\n]+)`", page))
    models = [
        value
        for value in vars(catalogue).values()
        if isinstance(value, type) and issubclass(value, BaseModel) and value.__module__ == catalogue.__name__
    ]
    assert len(models) > 8
    keys = {field.alias or name for model in models for name, field in model.model_fields.items()}
    assert not sorted(key for key in keys if key not in words)
    commands = next(action for action in main.parser()._actions if isinstance(action.choices, dict))
    assert isinstance(commands.choices, dict)
    known = {name for action in commands.choices["volumes"]._actions for name in action.option_strings}
    lines = [line for line in page.splitlines() if line.startswith("| `--")]
    rows = {name for line in lines for name in re.findall(r"`(--[a-z-]+)`", line.split(" | ")[0])}
    assert rows == known - {"-h", "--help"}
