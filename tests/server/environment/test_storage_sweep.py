"""A process is killed with everything in its hands: the next start leaves nothing of it."""

import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgassay.environment.builds.registry import resolve
from pgassay.environment.cleanup import registry, removal
from pgassay.environment.home import account
from pgassay.environment.linux.mounts import mounted_at
from pgassay.environment.server.server_processes import mapped_segments, processes_of
from storage_fixtures import assert_nothing_left, cgroups_of, frozen_directory, private_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

# Holds a mount, a loop device, a changed read-ahead, a cgroup, a folder, and a server on all of it.
HOLDER = """
import os, subprocess, sys, tempfile
from pathlib import Path
from pgassay.environment.cleanup import registry
from pgassay.environment.cgroup.group import Cgroup
from pgassay.environment.home import account
from pgassay.storage.parse import parse_storage
from pgassay.storage.registry import provide

bin_directory, source = Path(sys.argv[1]), Path(sys.argv[2])
volume = provide(parse_storage("loop:size=512MB,read_ahead=256,read_iops=5000"), 100 << 20)
working = volume.clone(source, "key", 0)
scratch = Path(tempfile.mkdtemp(prefix="pgassay-"))
registry.register("folder", path=str(scratch))
os.chown(scratch, account().uid, account().gid)
group = Cgroup.create("server", volume.limits_cgroup())
registry.register("server", data_directory=str(working))
volume.mark(working, clean=False)
command = [bin_directory / "postgres", "-D", working, "-k", scratch, "-c", "listen_addresses="]
log = open(scratch / "log", "w")
process = subprocess.Popen(
    [*group.join_command(account().uid, account().gid), *map(str, command)],
    stdout=log, stderr=log, cwd="/", start_new_session=True,
)
print(process.pid, volume.root, scratch, volume.device.name, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def bin_directory(require: Callable[..., None]) -> Path:
    require("server")
    return Path(resolve().bin_directory)


@pytest.fixture
def home(bin_directory: Path, require: Callable[..., None]) -> Iterator[Path]:
    # A build is looked for in the machine's real home, before the private one replaces it.
    del bin_directory
    require("loop")
    with private_home() as folder:
        yield folder
        assert_nothing_left(folder)


def initdb(bin_directory: Path, folder: Path) -> Path:
    owner = account()
    assert owner is not None
    folder.mkdir(mode=0o700)
    os.chown(folder, owner.uid, owner.gid)
    subprocess.run(
        [bin_directory / "initdb", "-D", folder, "-A", "trust", "-N", "--no-instructions"],
        check=True,
        capture_output=True,
        user=owner.uid,
        group=owner.gid,
        extra_groups=[],
        cwd="/",
    )
    return folder


def wait_for_server(data_directory: Path, log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if log.exists() and "ready to accept connections" in log.read_text():
            return
        time.sleep(0.05)
    pytest.fail(f"no server in {data_directory}: {log.read_text() if log.exists() else ''}")


def has_ended(pid: int) -> bool:
    """Gone, or a zombie that init has not collected yet."""
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_nothing_is_left_of_a_killed_process(
    home: Path, bin_directory: Path, require: Callable[..., None]
) -> None:
    require("cgroup-limits")
    source = initdb(bin_directory, home / "data" / "frozen")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(bin_directory), str(source)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    pid, root, scratch, disk = holder.stdout.readline().split()
    working = Path(root) / "key" / "copy-0"
    wait_for_server(working, Path(scratch) / "log")
    assert int(pid) in processes_of(working)
    assert pwd.getpwuid(Path(f"/proc/{pid}").stat().st_uid).pw_name != "root"
    assert registry.sweep() == []  # its owner is alive
    assert len(processes_of(working)) > 3

    segments = mapped_segments(processes_of(working))
    assert segments
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    sentences = registry.sweep()

    for part in (
        "Stopped the server",
        "Unmounted",
        "read-ahead",
        "Detached",
        "Removed the cgroup",
        "Removed the folder",
    ):
        assert any(part in sentence for sentence in sentences), (part, sentences)
    assert len(sentences) == 6
    assert all(f"left by process {holder.pid}." in sentence for sentence in sentences)
    assert has_ended(int(pid))
    assert mounted_at(Path(root)) == []
    assert not Path(scratch).exists()
    assert cgroups_of(holder.pid) == []
    assert removal.loop_devices_of(next(home.glob("images/*"))) == []
    assert Path(f"/sys/block/{disk}/queue/read_ahead_kb").read_text().strip() != "256"
    assert not any(Path(segment).exists() for segment in segments)
    assert registry.sweep() == []


def test_a_server_that_does_not_stop_is_killed(home: Path, bin_directory: Path) -> None:
    owner = account()
    assert owner is not None
    folder = initdb(bin_directory, home / "data" / "server")
    command = [bin_directory / "postgres", "-D", folder, "-k", folder, "-c", "listen_addresses="]
    log = folder.parent / "log"
    with log.open("w") as opened:
        server = subprocess.Popen(
            command, stdout=opened, stderr=opened, cwd="/", user=owner.uid, group=owner.gid, extra_groups=[]
        )
    wait_for_server(folder, log)
    # A stopped postmaster can't take its children along.
    os.kill(server.pid, signal.SIGSTOP)
    removal._QUIT_TIMEOUT_S, before = 0.5, removal._QUIT_TIMEOUT_S
    try:
        assert removal.kill_server(folder)
    finally:
        removal._QUIT_TIMEOUT_S = before
    assert server.wait() == -signal.SIGKILL
    assert processes_of(folder) == []
    shared = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    assert [line for line in shared if int(line.split()[4]) == server.pid] == []
    assert not removal.kill_server(folder)
    registry.sweep()


def test_a_reused_pid_is_not_killed(home: Path) -> None:
    folder = home / "data" / "server"
    folder.mkdir()
    bystander = subprocess.Popen(["sleep", "600"], cwd=folder)
    try:
        (folder / "postmaster.pid").write_text(f"{bystander.pid}\n{folder}\n")
        assert not removal.kill_server(folder)
        assert bystander.poll() is None
        registry.sweep()
    finally:
        bystander.kill()
        bystander.wait()


def test_foreign_mounts_stay(home: Path, tmp_path: Path) -> None:
    frozen_directory(home / "frozen", 1)
    point = home / "data" / "mounted"
    point.mkdir()
    subprocess.run(["mount", "--bind", str(tmp_path), str(point)], check=True)
    try:
        script = (
            "import os, sys\nfrom pgassay.environment.cleanup import registry\n"
            "registry.register('mount', path=sys.argv[1])\nregistry.register('folder', path=sys.argv[1])\n"
            "os._exit(0)\n"
        )
        subprocess.run([sys.executable, "-c", script, str(point)], check=True)
        sentences = registry.sweep()
        assert any("is not a loop device" in sentence for sentence in sentences)
        assert any("unmount it first" in sentence for sentence in sentences)
        assert mounted_at(point)
        assert tmp_path.is_dir()
    finally:
        subprocess.run(["umount", str(point)], check=True)
    assert len(registry.sweep()) == 1  # the folder, now that nothing is mounted in it
    assert not point.exists()
