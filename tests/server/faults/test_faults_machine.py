"""What a machine may refuse: a second run at once, root's rights, io_uring by each of its gates."""

import ctypes
import json
import os
import pwd
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest

import whole_tool

pytestmark = pytest.mark.server
IO_URING_SETUP = 425  # the same on every architecture (include/uapi/asm-generic/unistd.h)
EPERM = 1
COMPARE = ("compare", "io_method=sync,io_uring", "--workload", "full-scan:only=sum", "--blocks", "1")


def cold() -> tuple[str, ...]:
    """A comparison of one cold scan; finds the build when it is called, for there may be none."""
    return (
        "compare", "io_method=sync,worker", "--workload", "full-scan:only=sum", "--cache", "cold-each",
        *whole_tool.SMALL, *whole_tool.build(), "--blocks", "1", "--json",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.shares_machine
def test_two_runs_at_once(tmp_path: Path, require: Callable[..., None]) -> None:
    """The second refuses with --no-wait, and otherwise waits, says for whom, and then runs."""
    require("server")
    endless, quick = tmp_path / "endless.sql", tmp_path / "quick.sql"
    endless.write_text("SELECT pg_sleep(3600);\n")
    quick.write_text("SELECT 1;\n")
    words = ["compare", "work_mem=1MB,2MB", "--cache", "as-is", *whole_tool.SMALL, "--max-time", "3h"]
    words += ["--blocks", "1", "--json", "--workload"]
    first = whole_tool.start(*words, f"sql:{endless}", "--out", tmp_path / "first")
    second = None
    try:
        whole_tool.wait_for((tmp_path / "first" / "experiment.json").exists, "the first run", process=first)
        refused = whole_tool.run(*words, f"sql:{quick}", "--no-wait", "--out", tmp_path / "refused")
        complaint = whole_tool.assert_one_sentence(refused, 2)
        assert str(first.pid) in complaint
        assert "--no-wait" in complaint or "wait" in complaint
        assert not (tmp_path / "refused").exists()
        assert whole_tool.run("list", tmp_path).returncode == 0  # reading needs no lock
        second = whole_tool.start(*words, f"sql:{quick}", "--out", tmp_path / "second")
        assert second.stderr is not None
        waiting = next(line for line in second.stderr if "measuring on this host" in line)
        assert f"process {first.pid} is measuring on this host: waiting for it" in waiting
        assert not (tmp_path / "second").exists()
    finally:
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=whole_tool.TIMEOUT_S)
        if second is not None:
            output, second_said = second.communicate(timeout=whole_tool.TIMEOUT_S)
    assert first.returncode == 130, said
    assert second.returncode == 0, second_said
    assert json.loads(output)["blocks"] == 1


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the servers' account can reach; pytest's own can't be."""
    folder = Path(tempfile.mkdtemp(prefix="pgassay-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def seen_by_all(*folders: Path) -> Iterator[list[Path]]:
    """The folders mounted where any account can reach them, wherever they lie."""
    place = Path(tempfile.mkdtemp(prefix="pgassay-test-", dir="/tmp"))
    place.chmod(0o755)
    points = [place / str(number) for number in range(len(folders))]
    try:
        for folder, point in zip(folders, points, strict=True):
            point.mkdir()
            subprocess.run(["mount", "--bind", folder, point], check=True)
        yield points
    finally:
        for point in points:
            subprocess.run(["umount", point], check=False)
            point.rmdir()
        place.rmdir()


@pytest.mark.shares_machine
def test_a_user_without_rights(require: Callable[..., None]) -> None:
    """The whole of compare as `nobody`: the same cold rules, proved the same way."""
    require("server", "cold-cache", "root", "loop")
    owner = pwd.getpwnam("nobody")
    own = Path(tempfile.mkdtemp(prefix="pgassay-test-", dir="/tmp"))
    os.chown(own, owner.pw_uid, owner.pw_gid)
    libraries = Path(jsonschema.__file__).parents[1]
    try:
        with seen_by_all(whole_tool.ROOT, libraries, Path(sys.base_prefix)) as (checkout, packages, python):
            interpreter = python / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
            finished = subprocess.run(
                [interpreter, *whole_tool.COMMAND[1:], *cold(), "--out", own / "out"],
                capture_output=True,
                text=True,
                check=False,
                timeout=whole_tool.TIMEOUT_S,
                stdin=subprocess.DEVNULL,
                cwd=own,
                user=owner.pw_uid,
                group=owner.pw_gid,
                extra_groups=[],
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONHOME": str(python),
                    "LD_LIBRARY_PATH": str(python / "lib"),
                    "PYTHONPATH": f"{checkout / 'python'}:{packages}:{checkout / 'tests' / 'beside_others'}",
                    "PGASSAY_HOME": str(own / "home"),
                },
            )
        result = whole_tool.result_of(finished)
        assert result["blocks"] == 1
        recorded = whole_tool.valid_trials(own / "out")
        assert len(recorded) == 3
        for record in recorded:
            assert record["facts"]["cache"]["resident_bytes"] == 0
            [statement] = record["statements"]
            assert statement["cold"]
            assert statement["device_read_bytes"] >= 0.9 * statement["postgres_read_bytes"] > 10_000_000
        assert {path.owner() for path in own.rglob("*")} == {"nobody"}
        assert whole_tool.servers_below(own) == []
        assert list((own / "home" / "registry").iterdir()) == []
    finally:
        shutil.rmtree(own)


def forbid_io_uring() -> None:
    """A seccomp filter: io_uring_setup(2) answers EPERM, as in many containers (seccomp(2))."""
    load, jump_equal, give = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | EPERM
    program = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (load, 0, 0, 0),  # the number of the system call
            (jump_equal, 0, 1, IO_URING_SETUP),
            (give, 0, 0, refuse),
            (give, 0, 0, allow),
        )
    )
    buffer = ctypes.create_string_buffer(program)
    filters = struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer))
    library = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    if library.prctl(no_new_privileges, 1, 0, 0, 0) or library.prctl(set_seccomp, filter_mode, filters, 0, 0):
        os._exit(99)


def few_open_files() -> None:
    """Fewer descriptors than io_uring's one ring for each process slot needs."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (90, 90))


GATES = {
    "kernel": (forbid_io_uring, r"seccomp|io_uring_disabled"),
    "limits": (few_open_files, r"ulimit|LimitNOFILE|open files"),
}


@pytest.mark.shares_machine
@pytest.mark.parametrize("gate", GATES)
def test_io_uring_refused_by_the_kernel_or_the_limits(
    gate: str, tmp_path: Path, require: Callable[..., None]
) -> None:
    require("server", "io_uring", "root")
    hinder, remedy = GATES[gate]
    words = [*COMPARE, *whole_tool.SMALL, "--cache", "warm-pages", "--out", tmp_path / "out"]
    finished = whole_tool.run(*words, preexec_fn=hinder)
    complaint = whole_tool.assert_one_sentence(finished, 2)
    assert f"refused by the gate '{gate}'" in complaint
    assert re.search(remedy, complaint)
    assert not (tmp_path / "out").exists()


@pytest.mark.shares_machine
@pytest.mark.slow
@pytest.mark.parametrize("gate", ["build", "kernel"])
def test_the_refused_arm_is_dropped_when_asked_for(
    gate: str, tmp_path: Path, open_folder: Path, require: Callable[..., None]
) -> None:
    """With a third level left to compare; the report keeps saying what was skipped and why."""
    require("server", "io_uring", "root")
    hindered = {"preexec_fn": GATES["kernel"][0]} if gate == "kernel" else {}
    levels, options = ("io_method=sync,worker,io_uring", [])
    if gate == "build":
        stub = build_without_io_uring(open_folder)
        options = ["--pg", str(stub)]
    words = ["compare", levels, *COMPARE[2:], *whole_tool.SMALL, "--cache", "warm-pages", *options, "--json"]
    refused = whole_tool.run(*words, "--out", tmp_path / "refused", **hindered)
    assert f"refused by the gate '{gate}'" in whole_tool.assert_one_sentence(refused, 2)
    finished = whole_tool.run(*words, "--skip-unavailable", "--out", tmp_path / "out", **hindered)
    result = whole_tool.result_of(finished)
    assert [arm["name"] for arm in result["arms"]] == ["io_method=sync", "io_method=worker"]
    [skipped] = result["skipped"]
    assert skipped.startswith("io_method=io_uring was skipped")
    assert f"gate '{gate}'" in skipped


def build_without_io_uring(folder: Path) -> Path:
    """A bin folder whose server answers as one that was compiled without liburing; else the real one."""
    real = Path(whole_tool.build()[1])
    stub = folder / "bin"
    stub.mkdir()
    refusal = (
        'FATAL:  invalid value for parameter "io_method": "io_uring"\nHINT:  Available values: sync, worker.'
    )
    for program in real.iterdir():
        script = stub / program.name
        script.write_text(
            '#!/bin/sh\ncase "$*" in *io_method=io_uring*) '
            f"printf '%s\\n' '{refusal}' >&2; exit 1;; esac\n"
            f'exec {program} "$@"\n'
        )
        script.chmod(0o755)
    return stub
