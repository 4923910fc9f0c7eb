"""What can't be done as typed: exit status 2, one sentence on standard error that says what to type."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import replay
import whole_tool
from pgassay.cli import main
from pgassay.errors import UsageError
from pgassay.record.experiment import load

Capture = pytest.CaptureFixture[str]

# What is typed after `pgassay compare`, and words that the sentence must hold.
AT_ONCE = {
    "no level": (["io_method"], ["'io_method'", "io_method=sync,worker"]),
    "one level": (["work_mem=1MB"], ["work_mem", "add a second level"]),
    "a level twice": (["work_mem=1MB,1MB"], ["given twice", "once"]),
    "an empty level": (["work_mem=1MB,,2MB"], ["empty", "write"]),
    "a factor twice": (["work_mem=1MB,2MB", "work_mem=3MB,4MB"], ["work_mem", "twice"]),
    "workload": (["work_mem=1MB,2MB", "--workload", "tpc-h"], ["tpc-h", "tpcb"]),
    "workload option": (["work_mem=1MB,2MB", "--workload", "tpcb:client=3"], ["client", "clients"]),
    "workload value": (["work_mem=1MB,2MB", "--workload", "tpcb:clients=many"], ["clients", "many"]),
    "statement of full-scan": (["work_mem=1MB,2MB", "--workload", "full-scan:only=nix"], ["nix", "sum"]),
    "no SQL file": (["work_mem=1MB,2MB", "--workload", "sql:nowhere.sql"], ["nowhere.sql", "readable"]),
    "clients of statements": (["clients=1,2"], ["clients", "select-only"]),
    "storage": (["work_mem=1MB,2MB", "--storage", "nvme"], ["nvme", "loop"]),
    "storage option": (["work_mem=1MB,2MB", "--storage", "loop:speed=3"], ["speed", "read_mb_s"]),
    "storage value": (["work_mem=1MB,2MB", "--storage", "loop:size=huge"], ["size", "huge"]),
    "a text that steers a terminal": (["work_mem=1MB,2MB", "--storage", "nv\x1b[2Jme"], ["nv\\x1b[2Jme"]),
    "cache state": (["work_mem=1MB,2MB", "--cache", "hot"], ["hot", "warm-buffers"]),
    "control": (["work_mem=1MB,2MB", "--control", "work_mem=9MB"], ["9MB", "work_mem=1MB,2MB"]),
    "scale 0": (["work_mem=1MB,2MB", "--scale", "0"], ["--scale: '0'", "from 1 to 100000"]),
    "scale word": (["work_mem=1MB,2MB", "--scale", "big"], ["big", "digits"]),
    "blocks 0": (["work_mem=1MB,2MB", "--blocks", "0"], ["--blocks: '0'", "from 1 to 10000"]),
    "rounds of a profile": (
        ["work_mem=1MB,2MB", "--profile", "--profile-rounds", "201"], ["--profile-rounds", "from 1 to 200"]
    ),
    "margin": (["work_mem=1MB,2MB", "--margin", "90%"], ["--margin", "use 0.001"]),
    "alpha": (["work_mem=1MB,2MB", "--alpha", "0"], ["--alpha", "use 0.0001"]),
    "time": (["work_mem=1MB,2MB", "--max-time", "soon"], ["soon", "90s"]),
    "build": (["work_mem=1MB,2MB", "--pg", "11"], ["11", "pgassay builds"]),
    "build origin": (["work_mem=1MB,2MB", "--pg", "brew:18"], ["brew", "apt"]),
    "build path": (["work_mem=1MB,2MB", "--pg", "/nowhere/bin"], ["/nowhere/bin"]),
    "set without value": (["work_mem=1MB,2MB", "--set", "jit"], ["--set jit", "NAME=VALUE"]),
    "set and factor": (["work_mem=1MB,2MB", "--set", "work_mem=3MB"], ["work_mem", "factor"]),
    "read_ahead of the host": (["read_ahead=128,256"], ["read_ahead", "--storage loop"]),
    "checksums": (["checksums=on,yes"], ["checksums=yes", "checksums=on,off"]),
    "WAL segments": (["wal_segsize=16MB,3MB"], ["wal_segsize=3MB", "a power of two"]),
    "baseline": (["version=17,18", "--baseline", "own"], ["--baseline", "own", "shipped"]),
    "baseline of a running server": (
        ["work_mem=1MB,2MB", "--server", "host=/nowhere", "--baseline", "shipped"],
        ["--baseline cannot be used with --server", "leave --baseline out"],
    ),
    "checksums of a running server": (
        ["checksums=on,off", "--server", "host=/nowhere"],
        ["checksums= cannot be used with --server"],
    ),
    "no fleet": (["work_mem=1MB,2MB", "--fleet", "/nowhere.toml"], ["/nowhere.toml", "pgassay fleet start"]),
    "a plan of a fleet": (["work_mem=1MB,2MB", "--fleet", "f.toml", "--plan"], ["--plan cannot be"]),
    "cells without a fleet": (["work_mem=1MB,2MB", "--spread", "cells"], ["--spread needs --fleet"]),
    "cells of one stratum": (
        ["work_mem=1MB,2MB", "--fleet", "f.toml", "--spread", "cells"],
        ["there is one stratum", "clients=1,8", "leave --spread out"],
    ),
    "cells chosen by hand": (
        ["io_method=sync,worker", "clients=1,8", "--fleet", "f.toml", "--spread", "cells", "--stratum=x"],
        ["--stratum", "leave it out"],
    ),
    "a file that is not a workload": (["work_mem=1MB,2MB", "--workload", "my.sql"], ["sql:my.sql"]),
    "the benchmark's name": (["work_mem=1MB,2MB", "--workload", "pgbench"], ["tpcb", "select-only"]),
    "option of the workload": (["work_mem=1MB,2MB", "--clients", "3"], ["--clients", "tpcb:clients="]),
    "pgbench's script": (["work_mem=1MB,2MB", "-f", "x.sql"], ["pgbench:file=", "sql:FILE"]),
    "pgbench's rate": (["work_mem=1MB,2MB", "-R", "500"], ["tpcb:clients=8,rate=500"]),
    "option of pgbench": (["work_mem=1MB,2MB", "-s", "3"], ["-s", "--scale N"]),
    "setting as an option": (["jit=on,off", "--work_mem=8MB"], ["--work_mem", "--set work_mem=VALUE"]),
    "nearly an option": (["work_mem=1MB,2MB", "--scal", "3"], ["--scal", "did you mean --scale?"]),
    "option of another command": (["work_mem=1MB,2MB", "--png", "x"], ["--png", "pgassay report"]),
    "unknown option": (["work_mem=1MB,2MB", "--nix"], ["--nix", "pgassay compare --help"]),
    "option without its value": (["work_mem=1MB,2MB", "--scale"], ["--scale needs a value", "N"]),
    "word of a list": (["work_mem=1MB,2MB", "--covariate", "x"], ["'x'", "none, canary, memory, disk"]),
    "no factor": (["--scale", "3"], ["needs NAME=LEVEL,LEVEL", "as in 'pgassay compare io_method="]),
    "a file instead of factors": (["sorts.toml", "--scale", "3"], ["pgassay run sorts.toml"]),
    "no factor behind the options": (["work_mem=1MB,2MB", "--scale", "3", "jit"], ["'jit' is not a factor"]),
}  # fmt: skip

# Only a server of that build can tell.
BY_A_SERVER = {
    "setting": (["wrk_mem=1MB,2MB"], ["wrk_mem", "work_mem"]),
    "level": (["io_method=sync,uring"], ["io_method=uring", "worker"]),
    "value out of range": (["io_workers=3,99"], ["io_workers=99", "32"]),
    "one value twice": (
        ["work_mem=4MB,64MB,4096kB"],
        ["work_mem=4MB and work_mem=4096kB are the same value"],
    ),
    "one word twice": (["jit=on,off,true"], ["jit=on and jit=true are the same value"]),
    "set": (["work_mem=1MB,2MB", "--set", "shared_bufers=1GB"], ["shared_bufers", "shared_buffers"]),
    "value of set": (["work_mem=1MB,2MB", "--set", "jit=perhaps"], ["jit=perhaps", "on"]),
    "pinned setting": (["port=5432,5433"], ["port"]),
    "initdb setting": (["block_size=8192,16384"], ["block_size", "leave it out"]),
    "checksums as a setting": (["data_checksums=on,off"], ["data_checksums", "checksums=on,off"]),
    "too little WAL": (
        ["wal_segsize=16MB,64MB", "--set", "min_wal_size=80MB"],
        ["min_wal_size=80MB", "min_wal_size=128MB"],
    ),
}


# These are looked at after the build was chosen.
AFTER_THE_BUILD = {
    "clients of statements", "storage", "storage option", "storage value", "read_ahead of the host",
}  # fmt: skip


def refused(words: list[str], told: list[str], out: Path, capsys: Capture) -> None:
    finished = whole_tool.run_here(capsys, "compare", *words, "--out", out)
    complaint = whole_tool.assert_one_sentence(finished, 2)
    for word in told:
        assert word in complaint
    assert not out.exists(), "a refused experiment leaves no folder"


@pytest.mark.parametrize("slip", AT_ONCE)
def test_a_slip_of_the_fingers(
    slip: str, tmp_path: Path, capsys: Capture, require: Callable[..., None]
) -> None:
    if slip in AFTER_THE_BUILD:
        require("build")
    refused(*AT_ONCE[slip], tmp_path / "out", capsys)


@pytest.mark.server
@pytest.mark.shares_machine
@pytest.mark.parametrize(("words", "told"), BY_A_SERVER.values(), ids=BY_A_SERVER)
def test_what_a_build_refuses(
    words: list[str], told: list[str], tmp_path: Path, capsys: Capture, require: Callable[..., None]
) -> None:
    require("server", "io_uring")
    refused(words, told, tmp_path / "out", capsys)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["comapre"], "did you mean compare?"),
        (["xyz"], "use compare, tune,"),
        (["report"], "'pgassay report' needs FOLDER"),
        (["report", "a", "b"], "'b' is one word too many: 'pgassay report' takes FOLDER and options"),
        (["report", "a", "--json", "--markdown"], "leave one of them out"),
        (
            ["upgrade", "dbname=shop", "--to", "18", "--workload", "sql:a.sql", "--statements", "5"],
            "--statements cannot be used with --workload, whose statements are all run",
        ),
        (["clean", "a"], "takes only options"),
        (["fleet", "begin"], "ACTION can't be 'begin': use start, status, stop"),
        (["builds", "instal"], "did you mean install?"),
        (["completion", "ksh"], "use bash, zsh, fish"),
        (["diagnose", "dbname=x", "--duration", "5"], "has no option --duration: it has --seconds, --vcpus"),
        (["gate"], "needs GATE.toml, --baseline, as in 'pgassay gate gate.toml --baseline"),
        (["doctor", "--require", "flux"], "--require flux is not known"),
    ],
)  # fmt: skip
def test_a_slip_of_any_command(words: list[str], told: str, capsys: Capture) -> None:
    assert told in whole_tool.assert_one_sentence(whole_tool.run_here(capsys, *words), 2)


def test_no_word_at_all_shows_the_help(capsys: Capture) -> None:
    finished = whole_tool.run_here(capsys)
    assert finished.returncode == 2
    assert finished.stderr.startswith("usage: pgassay")
    assert "pgassay doctor" in finished.stderr


def test_factors_may_stand_behind_options() -> None:
    words = ["compare", "jit=on,off", "--scale", "3", "work_mem=1MB,2MB", "--json", "clients=1,2"]
    chosen = main.parser().parse_args(words)
    assert chosen.factors == ["jit=on,off", "work_mem=1MB,2MB", "clients=1,2"]
    assert (chosen.scale, chosen.json) == (3, True)
    folders = main.parser().parse_args(["combine", "a", "--json", "b"]).folders
    assert folders == [Path("a"), Path("b")]


def test_a_folder_with_something_in_it(tmp_path: Path, capsys: Capture, require: Callable[..., None]) -> None:
    require("build")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("do not lose me")
    finished = whole_tool.run_here(capsys, "compare", "work_mem=1MB,2MB", "--out", tmp_path / "out")
    assert "is not empty: name a new folder" in whole_tool.assert_one_sentence(finished, 2)
    assert (tmp_path / "out" / "thesis.txt").read_text() == "do not lose me"


def test_a_folder_that_is_a_file(tmp_path: Path, capsys: Capture, require: Callable[..., None]) -> None:
    require("build")
    (tmp_path / "out").write_text("a file")
    finished = whole_tool.run_here(capsys, "compare", "work_mem=1MB,2MB", "--out", tmp_path / "out")
    assert "name a new folder" in whole_tool.assert_one_sentence(finished, 2)


@pytest.mark.parametrize("command", ["report", "resume"])
def test_a_folder_without_an_experiment(command: str, tmp_path: Path, capsys: Capture) -> None:
    finished = whole_tool.run_here(capsys, command, tmp_path)
    assert "has no experiment" in whole_tool.assert_one_sentence(finished, 2)


@pytest.mark.parametrize("command", ["report", "resume"])
@pytest.mark.parametrize("file", ["experiment.json", "trial.json", "state.json"])
def test_a_folder_of_a_newer_version(command: str, file: str, tmp_path: Path, capsys: Capture) -> None:
    folder = replay.recorded(tmp_path / "results")
    newer = next(folder.rglob(file))
    content = json.loads(newer.read_bytes()) | {"format": 99, "new_key": "of the future"}
    newer.write_text(json.dumps(content))
    before = sorted(path for path in folder.rglob("*"))
    complaint = whole_tool.assert_one_sentence(whole_tool.run_here(capsys, command, folder), 2)
    assert str(newer) in complaint
    assert "written by a newer pgassay" in complaint
    assert "install" in complaint
    assert sorted(path for path in folder.rglob("*")) == before


@pytest.mark.parametrize("file", ["experiment.json", "trial.json", "state.json", "plans.json"])
def test_a_damaged_file(file: str, tmp_path: Path, capsys: Capture) -> None:
    """Named with the remedy, whatever is in it: nothing, other bytes, JSON that says something else."""
    folder = replay.recorded(tmp_path / "results")
    damaged = next(folder.rglob(file))
    for content in (b"", b"[1]", b'{"format": 1, "stopped": 7, "arms": 3}', b"\xff"):
        damaged.write_bytes(content)
        with pytest.raises(UsageError) as raised:
            load(folder)
        assert str(damaged) in str(raised.value)
        assert re.search("restore it from a copy|was not written by pgassay", str(raised.value))
    complaint = whole_tool.assert_one_sentence(whole_tool.run_here(capsys, "report", folder), 2)
    assert str(damaged) in complaint


def test_an_experiment_of_another_machine_is_reported_and_not_continued(
    tmp_path: Path, capsys: Capture
) -> None:
    folder = replay.recorded(tmp_path / "results")
    assert whole_tool.run_here(capsys, "report", folder, "--json").returncode == 0
    finished = whole_tool.run_here(capsys, "resume", folder, "--blocks", "5")
    assert "was measured on another machine" in whole_tool.assert_one_sentence(finished, 2)


def test_a_folder_of_results_that_cannot_be_written(capsys: Capture, require: Callable[..., None]) -> None:
    require("build")
    finished = whole_tool.run_here(capsys, "compare", "work_mem=1MB,2MB", "--out", "/proc/pgassay-results")
    assert "name another folder with --out" in whole_tool.assert_one_sentence(finished, 2)


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    finished = whole_tool.run(
        "compare", "work_mem=1MB,2MB", "--out", tmp_path / "out", home=tmp_path / "file" / "home"
    )
    assert "PGASSAY_HOME" in whole_tool.assert_one_sentence(finished, 2)


def test_no_apt_on_path(tmp_path: Path) -> None:
    """What is there still works; what would need apt says what to do instead."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name in ("sh", "env", "umount", "mount", "losetup", "find", "ldd", "uname"):
        for parent in ("/usr/bin", "/usr/sbin"):
            if (Path(parent) / name).exists():
                (bin_folder / name).symlink_to(Path(parent) / name)
    with whole_tool.private_home() as home:
        variables = whole_tool.environment(home, PATH=str(bin_folder))
        listed = whole_tool.run("builds", env=variables)
        assert listed.returncode == 0, listed.stderr
        complaint = whole_tool.assert_one_sentence(
            whole_tool.run("builds", "install", "apt:18", env=variables), 2
        )
        assert "apt" in complaint
        refusal = whole_tool.run("compare", "work_mem=1MB,2MB", "--pg", "18", env=variables)
        complaint = whole_tool.assert_one_sentence(refusal, 2)
        assert "pgassay builds install" in complaint


def test_standard_output_that_is_full(tmp_path: Path) -> None:
    folder = replay.recorded(tmp_path / "results")
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device, not a path of the project
        process = whole_tool.start("report", folder, "--json", stdout=full)
        assert process.wait(300) == 1
    assert process.stderr is not None
    complaint = process.stderr.read()
    process.stderr.close()
    assert "Traceback" not in complaint
    assert "free some space" in complaint


def test_standard_output_that_is_closed(tmp_path: Path) -> None:
    """`pgassay report … | head -1` is no error."""
    folder = replay.recorded(tmp_path / "results")
    reading, writing = os.pipe()
    process = whole_tool.start("report", folder, stdout=writing)
    os.close(writing)
    os.close(reading)
    assert process.wait(300) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
