"""An imitated volume that fails: its image is full, its image answers errors, its process hangs."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path

import pytest

from pgassay.environment.home import account
from pgassay.environment.linux.mounts import mounts
from pgassay.environment.linux.processes import process_stat
from pgassay.environment.linux.settle import sync_tree
from pgassay.errors import MeasurementError
from pgassay.native.volume import VolumeServer
from pgassay.storage import volume as imitated
from pgassay.storage.imitated_device import ServedImage
from pgassay.storage.parse import parse_storage
from storage_fixtures import MB, assert_nothing_left, fill, private_home, tiny_file_system

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
VOLUME = "volume:gp3,size=100GiB"
IMAGE_BYTES = 512 * MB


@contextmanager
def served_on_a_disk(size_mb: int) -> Iterator[tuple[imitated.ImitatedVolume, Path]]:
    """A volume whose image is a file on a disk of its own; and that disk."""
    with private_home() as home, tiny_file_system(home, size_mb) as disk:
        (home / "images").symlink_to(disk)
        spec, loaded = parse_storage(VOLUME), imitated.catalogue()
        root = home / "data" / "work" / "volume"
        served = ServedImage(root, IMAGE_BYTES, 64 * MB, account(), on_host=True)
        server = served.server.pid
        try:
            model = imitated.model_for(spec, loaded)
            yield imitated.ImitatedVolume(spec, served, model, loaded, None), disk
        finally:
            served.remove()
        assert process_stat(server) is None
        assert [mount.point for mount in mounts() if mount.point.is_relative_to(home)] == [disk]
        assert list((home / "registry").iterdir()) == []


def transfer(file: Path, count: int, *, writes: bool = False) -> None:
    """So many MB read or written around the page cache, from the file's beginning."""
    buffer = mmap(-1, MB)
    opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    try:
        for place in range(count):
            work = os.pwritev if writes else os.preadv
            work(opened, [buffer], place * MB)
    finally:
        os.close(opened)


@pytest.fixture
def needed(require: Callable[..., None]) -> None:
    require("loop", "fuse", "root")


@pytest.mark.usefixtures("needed")
def test_a_full_disk_below_the_image_is_said() -> None:
    with served_on_a_disk(700) as (volume, disk):
        fill(disk)
        said = pytest.raises(MeasurementError, match=r"answered [0-9,]+ requests? with: No space left")
        with said, volume.measured():
            transfer(volume.root / "file", 64, writes=True)


@pytest.mark.usefixtures("needed")
def test_an_error_of_the_image_is_said() -> None:
    with served_on_a_disk(700) as (volume, _):
        file = volume.root / "file"
        transfer(file, 8, writes=True)
        sync_tree(volume.root)
        server = volume._served.server.pid
        # What a disk with a broken surface answers: the image lost its second half while it is in use.
        files = Path(f"/proc/{server}/fd").iterdir()
        (image,) = [each for each in files if str(each.readlink()).endswith("/image (deleted)")]
        os.truncate(image, MB)
        said = pytest.raises(MeasurementError, match=r"answered [0-9,]+ requests? with: Input/output error")
        with said, volume.measured():
            transfer(file, 8)


@pytest.mark.usefixtures("needed")
def test_a_process_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kernel's way out of such a file system, while all who use the volume wait."""

    class Impatient(VolumeServer):
        def __init__(self, folder: Path, **options: object) -> None:
            super().__init__(folder, **options, look_s=0.5)  # type: ignore[arg-type]  # handed on

    monkeypatch.setattr("pgassay.storage.imitated_device.VolumeServer", Impatient)
    with private_home() as home:
        volume = imitated.VolumeKind().provide(parse_storage(VOLUME), 64 * MB)
        try:
            file = volume.root / "file"
            transfer(file, 8, writes=True)
            ended = pytest.raises(MeasurementError, match="serves the imitated volume has ended")
            with ended, volume.measured():
                server = volume._served.server.pid
                os.kill(server, signal.SIGSTOP)
                # In the kernel, where no signal reaches it, until the volume is given up.
                with pytest.raises(OSError):
                    transfer(file, 8)
        finally:
            volume.remove()
        assert process_stat(server) is None
        assert_nothing_left(home)
