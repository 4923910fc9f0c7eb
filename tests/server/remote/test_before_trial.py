"""`--before-trial`: a command before each trial starts the server anew, and the record says what it did."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest

import whole_tool
from remote_servers import DATABASE, HOST, PASSWORD, USER, RemoteTestServer

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
STATEMENT = "-- name: one\nSELECT 1;\n"


def restart(server: RemoteTestServer) -> str:
    """A shell command that starts the server anew, as its account."""
    words = [str(server.bin / "pg_ctl"), "-D", str(server.folder / "data"), "-w", "-m", "fast"]
    words += ["-l", str(server.log), "restart"]
    if not server.account:
        return shlex.join(words)
    ids = (f"--reuid={server.account['user']}", f"--regid={server.account['group']}", "--clear-groups")
    return shlex.join(["setpriv", *ids, *words])


def compare(
    server: RemoteTestServer, command: str, home: Path, folder: Path, *words: str
) -> "subprocess.CompletedProcess[str]":
    file = folder / "one.sql"
    file.write_text(STATEMENT)
    words = ("work_mem=4MB,8MB", "--server", server.uri(), "--workload", f"sql:{file}", *words)
    words = (*words, "--before-trial", command, "--blocks", "1", "--details", "--out", str(folder / "out"))
    environment = whole_tool.environment(home, PGPASSWORD="another s3cret")
    return whole_tool.run("compare", *words, env=environment)


def test_every_trial_begins_with_a_server_started_anew(
    server: RemoteTestServer, home: Path, tmp_path: Path
) -> None:
    note = tmp_path / "variables"
    command = f"env >> {note}; {restart(server)}"
    finished = compare(server, command, home, tmp_path)
    assert finished.returncode == 0, finished.stderr
    result = whole_tool.result_of(whole_tool.run("report", tmp_path / "out", "--json"))
    assert result["cache"] == "restarted"
    trials = whole_tool.trials(tmp_path / "out")
    assert len(trials) == 3
    for trial in trials:
        done = trial["facts"]["before_trial"]
        assert (done["exit_status"], done["restarted"]) == (0, True)
        assert done["seconds"] > 0 and done["waited_s"] >= 0
        assert trial["facts"]["cache"] == {"state": "restarted"}
    variables = note.read_text()
    assert "PGASSAY_ARM_WORK_MEM=4MB" in variables and "PGASSAY_ARM_WORK_MEM=8MB" in variables
    assert f"PGASSAY_SERVER=host={HOST} port={server.port} dbname={DATABASE} user={USER}" in variables
    assert "s3cret" not in variables
    stored = (tmp_path / "out" / "experiment.json").read_text()
    assert json.loads(stored)["protocol"]["before_trial"] == command
    assert "s3cret" not in stored


@pytest.mark.slow
def test_a_command_that_starts_nothing_leaves_the_caches_as_they_were(
    server: RemoteTestServer, home: Path, tmp_path: Path
) -> None:
    finished = compare(server, "true", home, tmp_path)
    assert finished.returncode == 0, finished.stderr
    for trial in whole_tool.trials(tmp_path / "out"):
        assert trial["facts"]["before_trial"]["restarted"] is False
        assert trial["facts"]["cache"] == {"state": "as-is"}
        assert any("was not restarted" in line for line in trial["warnings"])


def test_a_command_that_fails_fails_the_trial_in_a_sentence(
    server: RemoteTestServer, home: Path, tmp_path: Path
) -> None:
    """What it says of the password is not repeated."""
    key = tmp_path / "key"
    key.write_text(f"no key for {PASSWORD}")
    finished = compare(server, f"cat {key} >&2; exit 7", home, tmp_path)
    assert finished.returncode == 1
    said = finished.stdout + finished.stderr
    assert "the command of --before-trial ended with 7 (no key for ***)" in said.replace("\n", " ")
    kept = [file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert not [content for content in kept if b"s3cret" in content]
    for trial in whole_tool.trials(tmp_path / "out"):
        assert trial["status"] == "failed"
        assert trial["facts"]["before_trial"]["exit_status"] == 7


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--before-trial", " "), "--before-trial is empty"),
        (("--before-trial", "true", "--between", "neutral"), "--between neutral"),
        (("--before-trial", "true", "--cache", "as-is"), "is called restarted"),
        (("--cache", "restarted"), "add --before-trial"),
        (("--before-trial", f"psql postgresql://x:{PASSWORD}@y"), "--before-trial contains the password"),
        (("--vcpus", "2,4"), "2 numbers for 1 server"),
        (("--vcpus", "two"), "not a number of processors"),
        (("--set", "io_method=io_uring"), "compare sync with worker"),
    ],
)
def test_what_can_t_be_done_is_one_sentence(
    words: tuple[str, ...], told: str, server: RemoteTestServer, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    same = ("work_mem=4MB,8MB", "--server", server.uri(), "--out", tmp_path / "out")
    finished = whole_tool.run_here(capsys, "compare", *same, *words)
    complaint = whole_tool.assert_one_sentence(finished, 2)
    assert told in complaint
    assert "s3cret" not in complaint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--vcpus", "2"), "--vcpus needs --server or server="),
        (("--before-trial", "true"), "--before-trial needs --server or server="),
        (("--cache", "restarted"), "running servers"),
    ],
)
def test_a_server_of_pgassay_s_own_needs_none_of_it(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    finished = whole_tool.run_here(capsys, "compare", "work_mem=4MB,8MB", *words)
    assert said in whole_tool.assert_one_sentence(finished, 2)
