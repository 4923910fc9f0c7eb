"""Real builds: what they answer, that they run, and that each gate is observed as it is."""

import ctypes
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgassay.cli.commands import builds as builds_command
from pgassay.environment.builds.inspect import accepts_io_uring
from pgassay.environment.builds.io_uring_gates import (
    DEFAULT_CONNECTIONS,
    OTHER_DESCRIPTORS,
    OTHER_SLOTS,
    io_uring_gate,
)
from pgassay.environment.builds.registry import ORIGINS, resolve
from pgassay.environment.home import account
from pgassay.model.build import Build, BuildListing
from pgassay.report.listings import builds_page

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

IO_URING_SETUP = 425
START_TIMEOUT_S = 120.0
# Ends with the gate as JSON; what is limited or filtered is so in the child alone.
GATE_PROGRAM = (
    "from pgassay.environment.builds.registry import resolve\n"
    "from pgassay.environment.builds.io_uring_gates import io_uring_gate\n"
    "gate = io_uring_gate(resolve('18'))\n"
    "print('null' if gate is None else gate.model_dump_json())\n"
)


@pytest.fixture
def build(require: Callable[..., None]) -> Build:
    require("io_uring")
    return resolve("18")


@pytest.fixture
def cluster(build: Build) -> Iterator[Path]:
    """A folder with a fresh data directory `data`, owned by the servers' account."""
    folder = Path(tempfile.mkdtemp(prefix="pgassay-builds-"))
    owner = account()
    if owner is not None:
        os.chown(folder, owner.uid, owner.gid)
    initdb = [f"{build.bin_directory}/initdb", "-D", folder / "data", "-A", "trust", "-U", "postgres", "-N"]
    subprocess.run(initdb, **as_account(), capture_output=True, check=True)
    yield folder
    shutil.rmtree(folder)


def as_account() -> dict[str, object]:
    owner = account()
    options: dict[str, object] = {"stdin": subprocess.DEVNULL, "cwd": "/"}
    if owner is not None:
        options |= {"user": owner.uid, "group": owner.gid, "extra_groups": []}
    return options


def try_server(build: Build, cluster: Path, open_files: int | None = None) -> tuple[bool, str]:
    """Start a server with io_uring, ask it its method and stop it: (it ran, answer or log)."""
    log = cluster / "log"

    def limit() -> None:
        if open_files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))

    command = [
        f"{build.bin_directory}/postgres",
        "-D",
        cluster / "data",
        "-k",
        cluster,
        "-c",
        "listen_addresses=",
    ]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*command, "-c", "io_method=io_uring"],
            **as_account(),
            stdout=stream,
            stderr=stream,
            preexec_fn=limit,
        )
    question = [f"{build.bin_directory}/psql", "-h", cluster, "-U", "postgres", "-At", "-c", "SHOW io_method"]
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline:
            answer = subprocess.run([*question, "postgres"], capture_output=True, text=True, check=False)
            if answer.returncode == 0:
                return True, answer.stdout.strip()
            time.sleep(0.1)
        return False, log.read_text()
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(START_TIMEOUT_S)


def gate_in_child(before: Callable[[], None]) -> dict[str, str] | None:
    result = subprocess.run(
        [sys.executable, "-c", GATE_PROGRAM],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=before,
    )
    return json.loads(result.stdout)


def test_server_with_io_uring_runs(build: Build, cluster: Path) -> None:
    assert io_uring_gate(build) is None
    assert try_server(build, cluster) == (True, "io_uring")


def test_open_files_gate_agrees_with_the_server(build: Build, cluster: Path) -> None:
    needed = DEFAULT_CONNECTIONS + OTHER_SLOTS + OTHER_DESCRIPTORS

    def limited(number: int) -> Callable[[], None]:
        return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))

    gate = gate_in_child(limited(needed - 20))
    assert gate is not None
    assert gate["name"] == "limits"
    assert f"is {needed - 20}" in gate["reason"]
    ran, log = try_server(build, cluster, needed - 20)
    assert not ran
    assert "file descriptors" in log or "Too many open files" in log
    assert gate_in_child(limited(needed)) is None
    assert try_server(build, cluster, needed) == (True, "io_uring")


def deny_io_uring_setup() -> None:
    """Install a seccomp filter that answers EPERM to io_uring_setup(2) (linux/seccomp.h, linux/filter.h)."""
    load, jump_equal, answer = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | 1
    program = b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (load, 0, 0, 0),
            (jump_equal, 0, 1, IO_URING_SETUP),
            (answer, 0, 0, refuse),
            (answer, 0, 0, allow),
        )
    )
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    library = ctypes.CDLL(None, use_errno=True)
    set_no_new_privileges, set_seccomp, mode_filter = 38, 22, 2
    assert library.prctl(set_no_new_privileges, 1, 0, 0, 0) == 0
    assert library.prctl(set_seccomp, mode_filter, ctypes.c_char_p(header)) == 0


def test_seccomp_is_told_from_the_kernel_settings(build: Build) -> None:
    gate = gate_in_child(deny_io_uring_setup)
    assert gate is not None
    assert gate["name"] == "kernel"
    assert "seccomp" in gate["reason"]
    assert build.has_io_uring


def test_build_says_what_it_is(build: Build) -> None:
    assert build.major == 18
    assert build.version.startswith("18.")
    assert len(build.binary_sha256) == 64
    assert "--with-liburing" in build.configure
    assert build.cflags
    assert {"pg_buffercache", "pg_prewarm", "pg_stat_statements", "pg_visibility"} <= set(build.extensions)


def test_older_server_has_the_build_gate(require: Callable[..., None]) -> None:
    require("server")
    older = [found for origin in ORIGINS for found in origin.builds() if found.major < 18]
    if not older:
        pytest.skip("no server older than 18 at hand")
    gate = io_uring_gate(older[0])
    assert gate is not None
    assert gate.name == "build"
    assert not accepts_io_uring(Path(older[0].bin_directory), older[0].major)


def test_path_origin_takes_the_folder_or_the_one_above(build: Build) -> None:
    named = resolve(build.bin_directory)
    assert (named.origin, named.version) == ("path", build.version)
    assert resolve(str(Path(build.bin_directory).parent)).bin_directory == build.bin_directory
    assert resolve(f"{build.origin}:{build.version}") == build


def test_command_lists_them(build: Build, capsys: pytest.CaptureFixture[str]) -> None:
    listings = builds_command.list_builds()
    table = builds_page(listings, major_min=16).terminal()
    line = next(line for line in table.splitlines() if build.bin_directory in line)
    assert line.split() == [build.origin, build.version, build.bin_directory, "yes"]
    assert builds_command.run(arguments(action=None)) == 0
    document = json.loads(capsys.readouterr().out)
    assert build.bin_directory in [entry["path"] for entry in document["builds"]]
    assert builds_command.run(arguments(action="install", version=[f"{build.origin}:18"])) == 0
    assert json.loads(capsys.readouterr().out)["builds"][0]["path"] == build.bin_directory


def test_what_is_too_old_is_told_and_not_offered() -> None:
    old = BuildListing(origin="installed", version="15.18", path="/old/bin", io_uring=False)
    shown = builds_page([old], major_min=16).terminal()
    assert "Too old to be measured: 15.18. pgassay measures 16 and newer." in shown
    assert all(not each.obtainable or int(each.version) >= 16 for each in builds_command.list_builds())


def arguments(**fields: object) -> object:
    import argparse

    return argparse.Namespace(json=True, **fields)
