"""What the storage tests share: a private home that servers' accounts reach, its remains, small disks."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pgassay.environment.cleanup.removal import loop_devices_of
from pgassay.environment.home import account, home, home_path
from pgassay.environment.linux.mounts import mounts

MB = 1 << 20
NOBODY = 65534
# What the machine can imitate is measured in the first home that asks: three seconds, and the same in all.
CEILING = "volume-ceiling.json"
# More than any volume of the tests asks for; where a busy machine came below it, the next home measures anew.
AMPLE_READS_PER_S = 20_000
_ceilings: list[bytes] = []


@contextmanager
def private_home() -> Iterator[Path]:
    """A fresh home below /tmp (pytest's own folders are closed to other accounts).

    Programs that the machine's real home has unpacked already are used from there, and what an earlier home
    of this process measured of the machine is known.
    """
    tools = home_path() / "tools"
    before = os.environ.get("PGASSAY_HOME")
    folder = Path(tempfile.mkdtemp(prefix="pgassay-test-"))
    folder.chmod(0o755)
    os.environ["PGASSAY_HOME"] = str(folder)
    try:
        if tools.is_dir():
            (folder / "tools").symlink_to(tools)
        for ceiling in _ceilings[:1]:
            (folder / CEILING).write_bytes(ceiling)
        yield home()
        with suppress(FileNotFoundError):
            ceiling = (folder / CEILING).read_bytes()
            if json.loads(ceiling)["random_reads_per_s"] >= AMPLE_READS_PER_S:
                _ceilings.append(ceiling)
    finally:
        if before is None:
            del os.environ["PGASSAY_HOME"]
        else:
            os.environ["PGASSAY_HOME"] = before
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def tiny_file_system(folder: Path, size_mb: int) -> Iterator[Path]:
    """An ext4 of its own on a loop device, mounted at folder/tiny."""
    image, point = folder / "tiny.img", folder / "tiny"
    point.mkdir()
    with image.open("wb") as file:
        file.truncate(size_mb * MB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, point], check=True)
    try:
        point.chmod(0o755)
        yield point
    finally:
        subprocess.run(["umount", point], check=True)


def fill(folder: Path) -> Path:
    """Take all the space there is; the file that takes it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for block in (MB, 4096, 1):
            with suppress(OSError):
                while True:
                    file.write(b"x" * block)
    return ballast


def frozen_directory(folder: Path, relation_mb: int = 64) -> Path:
    """Something that looks like a frozen data directory, with one relation of random bytes."""
    for name in ("base/5", "global", "pg_wal"):
        (folder / name).mkdir(parents=True)
    with (folder / "base/5/16384").open("wb") as file:
        for _ in range(relation_mb):
            file.write(os.urandom(MB))
    (folder / "base/5/1259").write_bytes(os.urandom(8192))
    (folder / "global/pg_control").write_bytes(os.urandom(8192))
    (folder / "pg_wal/000000010000000000000001").write_bytes(os.urandom(16 * MB))
    folder.chmod(0o700)
    return folder


def as_nobody(work: Callable[[], object], *, enter: Path | None = None) -> str:
    """Run `work` in a forked child as the account nobody, in the cgroup `enter`; return repr of its result.

    Forked, because that account may not be able to read this Python or the project.
    """
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if enter is not None:
                (enter / "cgroup.procs").write_text(str(os.getpid()))
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            account.cache_clear()
            sys.executable = "/usr/bin/python3"
            os.write(writable, repr(work()).encode())
            status = 0
        finally:
            if status:
                os.write(writable, traceback.format_exc().encode())
            os._exit(status)
    os.close(writable)
    with os.fdopen(readable) as answer:
        text = answer.read()
    assert os.waitpid(child, 0)[1] == 0, text
    return text


@contextmanager
def home_of_nobody() -> Iterator[Path]:
    """A home that belongs to nobody."""
    with private_home() as folder:
        own = folder.with_name(f"{folder.name}-nobody")
        own.mkdir(mode=0o755)
        os.chown(own, NOBODY, NOBODY)
        os.environ["PGASSAY_HOME"] = str(own)
        try:
            yield own
        finally:
            shutil.rmtree(own)


def assert_nothing_left(folder: Path) -> None:
    """No mount, loop device, cgroup or registry entry of this home is left."""
    assert [mount.point for mount in mounts() if mount.point.is_relative_to(folder)] == []
    for image in [*folder.glob("images/*"), *folder.glob("data/*.xfs")]:
        assert loop_devices_of(image) == []
    assert list((folder / "registry").iterdir()) == []
    assert cgroups_of(os.getpid()) == []


def cgroups_of(pid: int) -> list[str]:
    """The cgroups that the process with this pid of this pid namespace made."""
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    roots = [str(mount.point) for mount in mounts() if mount.kind in ("cgroup", "cgroup2")]
    command = ["find", *roots, "-type", "d", "-name", f"pgassay-*-{namespace}-{pid}"]
    return subprocess.run(command, capture_output=True, text=True).stdout.split() if roots else []


@contextmanager
def folder_of_others() -> Iterator[Path]:
    """A folder of somebody else's that everybody may write to, with a secret in it."""
    made = Path(tempfile.mkdtemp(prefix="pgassay-others-", dir="/tmp"))
    made.chmod(0o777)
    (made / "secret").write_text("of others")
    try:
        yield made
    finally:
        shutil.rmtree(made)
