"""`pgassay probe` on real files: what it says, what it keeps, what it leaves."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest

import probe_samples as samples
import whole_tool
from pgassay.cli.commands import probe
from pgassay.cli.main import parser
from pgassay.environment.cleanup.removal import PROBE_PREFIX
from pgassay.environment.last_probe import device_key, read_document
from pgassay.environment.linux import device as devices
from pgassay.model.probe import Recommendation
from pgassay.probe.analysis.analyse import analyse_probe
from pgassay.record.experiment import load
from pgassay.report import schema
from pgassay.report.probe import probe_page

pytestmark = pytest.mark.server
MB = 1 << 20
# The shortest that measures the ceilings and the works by every method.
SHORT = ("--seconds", "5", "--quiet")


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on the machine's own disk (pytest's may lie in memory)."""
    with whole_tool.private_home() as folder:
        (folder / "disk").mkdir()
        yield folder / "disk"


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_short_probe_says_what_the_device_can_do(disk: Path, tmp_path: Path) -> None:
    device = devices.device_of(disk)
    before_kb = devices.read_ahead_kb(device) if device.name else None
    page = tmp_path / "probe.html"
    finished = whole_tool.run(
        "probe",
        disk,
        *SHORT,
        "--json",
        "--seed",
        "1",
        "--html",
        page,
        "--out",
        tmp_path / "kept",
        home=disk.parent,
        pictures=True,
    )
    assert finished.returncode == 0, finished.stderr
    document = json.loads(finished.stdout)
    jsonschema.validate(document, schema.PROBE.schema(), cls=jsonschema.Draft202012Validator)
    assert document["ceilings"]["sequential_read_mb_s"] > 0
    assert document["ceilings"]["random_read_iops"]["1"] > 0
    assert document["ceilings"]["fdatasync_per_s"] > 0
    assert document["checksum_gb_s"] > 0
    assert {each["method"] for each in document["predictions"]} >= {"sync", "worker"}
    assert all(
        low <= each["time_s"] <= high for each in document["predictions"] for low, high in [each["interval"]]
    )
    assert document["device"]["read_ahead_kb"] == before_kb
    # Nothing of it is left: no file, no changed read-ahead, no entry.
    assert left_in(disk) == []
    assert list((disk.parent / "registry").iterdir()) == []
    assert device.name is None or devices.read_ahead_kb(device) == before_kb
    # What was asked for is there, and can be compared with.
    assert "<svg" in page.read_text() and str(disk) in page.read_text()
    assert left_in(tmp_path / "kept") == ["probe.json", "report.html", "result.json"]
    assert read_document(tmp_path / "kept" / "result.json") is not None
    # So short a probe does not take the place of a whole one.
    assert not (disk.parent / "probes").exists() or device_key(device) is None


@pytest.mark.shares_machine
def test_a_file_is_read_and_nothing_is_written(disk: Path) -> None:
    file = disk / "data"
    file.write_bytes(os.urandom(MB) * 32)
    status = file.stat()
    finished = whole_tool.run("probe", disk, "--file", file, *SHORT, "--json", home=disk.parent)
    assert finished.returncode == 0, finished.stderr
    document = json.loads(finished.stdout)
    assert document["ceilings"]["fdatasync_per_s"] is None
    assert document["ceilings"]["sequential_read_mb_s"] > 0
    assert "read_ahead_kb" not in document["recommend"]
    assert left_in(disk) == ["data"]
    assert (file.stat().st_mtime_ns, file.stat().st_size) == (status.st_mtime_ns, status.st_size)


def files_made(folder: Path) -> list[Path]:
    return [
        file
        for made in folder.glob(f"{PROBE_PREFIX}*")
        for file in made.iterdir()
        if file.stat().st_size > MB
    ]


@pytest.mark.shares_machine
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_probe_leaves_nothing(number: signal.Signals, disk: Path) -> None:
    process = whole_tool.start("probe", disk, "--seconds", "60", "--quiet", home=disk.parent)
    whole_tool.wait_for(lambda: files_made(disk), "its files", process=process)
    process.send_signal(number)
    _, said = process.communicate(timeout=whole_tool.TIMEOUT_S)
    assert process.returncode == 130
    assert said == "pgassay: interrupted; nothing is left running\n"
    assert left_in(disk) == []
    assert list((disk.parent / "registry").iterdir()) == []


@pytest.mark.shares_machine
def test_what_a_killed_probe_left_is_removed_by_the_next_start(disk: Path) -> None:
    process = whole_tool.start("probe", disk, "--seconds", "60", "--quiet", home=disk.parent)
    whole_tool.wait_for(lambda: files_made(disk), "its files", process=process)
    process.kill()
    process.communicate(timeout=whole_tool.TIMEOUT_S)
    # The native process ends with its standard input; what it had made stays.
    assert len(left_in(disk)) == 1
    kept = disk / f"{PROBE_PREFIX}notes"
    kept.mkdir()
    finished = whole_tool.run("clean", home=disk.parent)
    assert finished.returncode == 0, finished.stderr
    assert left_in(disk) == [kept.name]
    assert list((disk.parent / "registry").iterdir()) == []


@pytest.mark.shares_machine
def test_an_old_probe_is_compared(disk: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text(probe_page.page_of(analyse_probe(samples.record(samples.Machine(device_mb_s=1.0)))).json())
    finished = whole_tool.run(
        "probe", disk, "--seconds", "3", "--quiet", "--json", "--compare", old, home=disk.parent
    )
    document = json.loads(finished.stdout)
    ratios = {each["name"]: each for each in document["ratios"]}
    assert ratios.keys() >= {"sequential read", "random read at depth 1", "fdatasync"}
    # Any disk reads more than 1 MB/s.
    assert ratios["sequential read"]["verdict"] == "better"
    assert document["result"]["schema"] == 1 and document["old"] == str(old)


@pytest.mark.shares_machine
def test_an_overlay_is_measured_and_called_so(disk: Path, require: Callable[..., None]) -> None:
    require("root")
    names = ("lower", "upper", "work", "merged")
    for name in names:
        (disk / name).mkdir()
    lower, upper, work, merged = (disk / name for name in names)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    mounted = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, merged], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("no overlay can be mounted here")
    try:
        finished = whole_tool.run("probe", merged, "--seconds", "3", "--quiet", "--json", home=disk.parent)
        assert finished.returncode == 0, finished.stderr
        document = json.loads(finished.stdout)
        assert any("overlay" in line for line in document["warnings"])
        assert left_in(merged) == []
    finally:
        subprocess.run(["umount", merged], check=True)


@pytest.mark.shares_machine
def test_a_recommendation_is_proven_on_servers_below_the_folder(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a simulated probe that recommends sync: what a server makes of that is another thing."""
    monkeypatch.chdir(tmp_path)
    found = analyse_probe(samples.record(samples.Machine()))
    made = Recommendation(value="sync", default="worker", reason="…", knee=None, alternatives=())
    words = ["probe", str(disk), "--prove", "--pg", "18", "--max-time", "5s", "--quiet", "--seed", "3"]
    arguments = parser().parse_args(words)
    arguments.words = ["pgassay", *words]
    build = probe.build_to_prove(arguments)
    assert build is not None and build.major == 18
    proof = probe.prove(arguments, found.model_copy(update={"recommend": {"io_method": made}}), build)
    assert proof.recommended == {"io_method": "sync"} and proof.blocks >= 1
    assert [work.name for work in proof.works] == ["all of it", "cold-scan", "bitmap-scan"]
    assert all(work.ratio for work in proof.works)
    stored = load(tmp_path / proof.folder)
    assert {arm.spec.settings["io_method"] for arm in stored.experiment.arms} == {"sync", "worker"}
    assert all(str(disk) in each.storage for each in stored.experiment.environment.storage.values())
    assert left_in(disk) == []
