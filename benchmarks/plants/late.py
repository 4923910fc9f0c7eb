"""A disk that answers late, but as many reads at a time as are asked, below the volumes of a plant.

A file system of one file (benchmarks/late), a loop device on it, XFS on that, and in it the images of
pgassay's volumes. Limits of a control group make a ceiling, never a latency.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pgassay.environment.debian import tool
from pgassay.native.binary import binary
from plants.base import Outside

# What stands in a plant's words for the folder on the disk.
FOLDER = "LATE_FOLDER"
_SIZE_BYTES = 2 << 30
_START_S = 10.0


def program() -> Path:
    """Where cargo puts the file system's program."""
    return binary().with_name("pgassay-late-disk")


def late_disk(latency_ms: float) -> Outside:
    """A folder in which every read of a file takes so long at least, however many are on their way."""

    @contextmanager
    def mounted(home: Path) -> Iterator[Mapping[str, str]]:
        with ExitStack() as undone:
            place = home / "late"
            place.mkdir()
            undone.callback(shutil.rmtree, place)
            yield {FOLDER: str(_made(place, latency_ms, undone))}

    return mounted


def _made(place: Path, latency_ms: float, undone: ExitStack) -> Path:
    backing, below, folder = place / "backing", place / "below", place / "disk"
    below.mkdir()
    folder.mkdir()
    with backing.open("wb") as file:
        file.truncate(_SIZE_BYTES)
    _run(str(tool("mkfs.xfs")), "-q", "-s", "size=4096", str(backing))
    latency_us = round(latency_ms * 1000)
    serving = subprocess.Popen([program(), backing, below, str(latency_us)])
    undone.callback(serving.wait)
    undone.callback(subprocess.run, ["umount", "--lazy", below], check=False)
    disk = below / "disk"
    deadline = time.monotonic() + _START_S
    while not disk.exists():
        if serving.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("The late disk did not start; what it said stands above.")
        time.sleep(0.01)
    loop = _run("losetup", "--find", "--show", "--direct-io=on", "--sector-size", "4096", str(disk))
    undone.callback(_run, "losetup", "--detach", loop)
    _run("mount", "-t", "xfs", "-o", "noatime", loop, str(folder))
    undone.callback(_run, "umount", str(folder))
    return folder


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
