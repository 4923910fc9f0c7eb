"""`pgassay fleet` as its user types it wrongly: one sentence each, before anything is started."""

import subprocess
import sys
from pathlib import Path

import pytest

import whole_tool

Capture = pytest.CaptureFixture[str]
TRUSTED = ["start", "--trust-cluster", "--scheduler", "tls://host:8786"]
SLIPS = {
    "no file": (["status"], ["there is no", "pgassay fleet start", "--file"]),
    "no file to stop": (["stop"], ["there is no", "fleet.toml"]),
    "nothing to start again": (["start"], ["fleet.toml", "--local N", "--ssh", "--scheduler"]),
    "none": (["start", "--local", "0"], ["--local: '0'", "1 or more"]),
    "an option for ssh": (["start", "--ssh=-oProxyCommand=true"], ["is not a host", "host1,host2"]),
    "a path": (["start", "--ssh", "host1,../host2"], ["'../host2' is not a host"]),
    "an empty one": (["start", "--ssh", "host1,"], ["'' is not a host"]),
    "twice": (["start", "--ssh", "host1,me@host1"], ["names host1 twice"]),
    "without TLS": (["start", "--trust-cluster", "--scheduler", "tcp://host:8786"], ["tls://HOST:PORT"]),
    "without trust": (["start", "--scheduler", "tls://host:8786"], ["--trust-cluster", "unpickles"]),
    "without certificates": (TRUSTED, ["--ca FILE"]),
    "of ssh": (["start", "--local", "2", "--listen", "10.0.0.1"], ["--listen needs --ssh"]),
    "of a cluster": (["start", "--local", "2", "--ca", "x"], ["--ca needs --scheduler"]),
    "of start": (["stop", "--local", "2"], ["--local needs 'pgassay fleet start'"]),
    "of status": (["stop", "--json"], ["--json needs 'pgassay fleet status'"]),
    "no port": (["start", "--local", "1", "--port", "70000"], ["--port 70000", "use 1 to 65534"]),
    "no port for a worker": (["start", "--local", "3", "--port", "65533"], ["use 1 to 65532"]),
    "no port there": (["start", "--ssh", "host1,host2", "--port", "65535"], ["use 1 to 65534"]),
    "a port again": (["start", "--port", "8786"], ["--port needs --local or --ssh"]),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_of_the_fingers(
    slip: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words, told = SLIPS[slip]
    complaint = whole_tool.assert_one_sentence(whole_tool.run_here(capsys, "fleet", *words), 2)
    for word in told:
        assert word in complaint
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words", [["fleet", "status"], ["compare", "work_mem=1MB,2MB", "--fleet", "fleet.toml"]]
)
def test_without_dask_it_says_what_to_install(words: list[str], tmp_path: Path) -> None:
    """As where pgassay was installed without the extra: there is no such module."""
    script = (
        "import importlib.util as util, sys\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'distributed' else find(name, *more)\n"
        f"from pgassay.cli.main import main; sys.exit(main({words!r}))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=whole_tool.environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pip install 'pgassay[fleet]'" in whole_tool.assert_one_sentence(finished, 2)


def test_the_member_is_asked_by_documents_only(tmp_path: Path) -> None:
    for text, told in (
        ("hello?", "not by hand"),
        ("[]", "not by hand"),
        ('{"operation": "run"}', "not an operation"),
    ):
        finished = subprocess.run(
            [*whole_tool.COMMAND, "fleet", "member"],
            env=whole_tool.environment(tmp_path),
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        assert told in finished.stdout
