"""An image file with XFS, its loop device with direct I/O, and where it is mounted.

Why so: XFS gives reflinks, direct I/O keeps the host's page cache out of the measurement (a loop
device without it serves "cold" reads from memory), the space is allocated at once so that the image
can't run out of it later, and read-ahead belongs to this device alone.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from pgassay.durable import sync
from pgassay.environment.cleanup import registry, removal
from pgassay.environment.debian import find_tool, has_apt, tool
from pgassay.environment.home import SystemAccount
from pgassay.environment.linux import device
from pgassay.environment.linux.device import BlockDevice
from pgassay.environment.linux.mounts import mounted_at
from pgassay.errors import MeasurementError, UsageError
from pgassay.storage.file_copies import NO_SPACE, free_bytes, make_folder
from pgassay.storage.storage_options import readable_bytes

IMAGE_PATTERN = "pgassay-loop-*.xfs"
SECTOR_BYTES = 4096
# mkfs.xfs refuses less than 300 MB; its log takes 64 MB and its trees about 2 %.
SIZE_BYTES_MIN = 320 * 1024 * 1024
_OVERHEAD_BYTES = 112 * 1024 * 1024
_OVERHEAD_FRACTION = 0.02
# What an image must leave to the rest of the machine on the file system it lies on.
_HOST_SPARE_BYTES = 256 * 1024 * 1024
_MOUNT_OPTIONS = "noatime,nodev,nosuid"


def missing() -> str | None:
    """What this machine lacks for an image, with the remedy; None when nothing."""
    if os.geteuid() != 0:
        return "Loop storage mounts a file system, which only root may: run as root or use --storage host."
    if not Path("/dev/loop-control").exists():
        return (
            "Loop storage needs loop devices and /dev/loop-control is missing: type modprobe loop, "
            "give the container its loop devices, or use --storage host."
        )
    for program in ("losetup", "mount", "umount"):
        if shutil.which(program) is None:
            return f"Loop storage needs the program {program}: install util-linux or use --storage host."
    if not _has_xfs():
        return "Loop storage needs XFS and this kernel has none: use --storage host."
    if find_tool("mkfs.xfs") is None and not has_apt():
        return "Loop storage needs mkfs.xfs: install xfsprogs or use --storage host."
    return None


def usable_bytes(size_bytes: int) -> int:
    """About how much data an image of this size holds."""
    return int(size_bytes * (1 - _OVERHEAD_FRACTION)) - _OVERHEAD_BYTES


def size_for(data_bytes: int) -> int:
    """The size of an image for so much data, in whole 256 MB."""
    step = 256 * 1024 * 1024
    needed = (data_bytes + _OVERHEAD_BYTES) / (1 - _OVERHEAD_FRACTION)
    return max(2 * step, -(-int(needed + 1) // step) * step)


def make_image(image: Path, size_bytes: int) -> None:
    """Make `image` with an empty XFS, its whole space allocated; there whole or not at all.

    Where the space does not suffice, images of other sizes beside it that are not attached give
    way. Raises UsageError with the sizes when it still does not.
    """
    _free_space_for(image, size_bytes)
    unfinished = image.with_name(image.name.replace("pgassay-loop-", "pgassay-unfinished-"))
    unfinished.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            os.posix_fallocate(opened.fileno(), 0, size_bytes)
        command = [str(tool("mkfs.xfs")), "-q", "-f", "-K", "-m", "reflink=1", "-s", f"size={SECTOR_BYTES}"]
        done = subprocess.run([*command, str(unfinished)], capture_output=True, text=True)
        if done.returncode != 0:
            raise MeasurementError(f"mkfs.xfs failed on {unfinished}: {_one_line(done.stderr)}.")
        sync(unfinished)
        unfinished.rename(image)
        sync(image.parent)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise UsageError(_space_message(image, size_bytes)) from error
        raise UsageError(
            f"Can't make the image {image}: {error.strerror}; choose another folder with loop:path=…."
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


class DamagedImageError(MeasurementError):
    """The file system in the image can't be mounted."""


class AttachedImage:
    """An image mounted at `root` through `device`; `users` counts the volumes on it.

    `is_users`: the folder is the user's and stays as it is.
    """

    def __init__(
        self, image: Path, root: Path, owner: SystemAccount | None, *, is_users: bool = False
    ) -> None:
        self._is_users = is_users
        self.image = image
        self.root = root
        self.users = 0
        self._owner = owner
        self._loop_token: registry.CleanupToken | None = None
        self._mount_token: registry.CleanupToken | None = None
        self._read_ahead_token: registry.CleanupToken | None = None
        self._read_ahead_kb_before: int | None = None
        self.device = BlockDevice(None, 0, 0)

    def attach(self, make_file_system: Callable[[Path], None] | None = None) -> None:
        """Attach and, but in a user's folder, mount; leaves nothing behind when it fails.

        `make_file_system` gets the device before.

        Raises UsageError when the image is in use or direct I/O is impossible, DamagedImageError when
        the file system can't be mounted.
        """
        if removal.loop_devices_of(self.image):
            registry.sweep()
        if names := removal.loop_devices_of(self.image):
            raise UsageError(
                f"The image {self.image} is attached to /dev/{names[0]} by another process: "
                f"wait for it to end, or type umount {self.root} and losetup --detach /dev/{names[0]}."
            )
        try:
            self._loop_token = registry.register("loop", backing_file=str(self.image))
            self.device = _attach_loop(self.image)
            if make_file_system is not None:
                make_file_system(Path(f"/dev/{self.device.name}"))
            if not self._is_users:
                self.mount()
        except BaseException:
            self.detach()
            raise

    def mount(self) -> None:
        """Mount it: in the user's folder only once the device's limits stand, for it is used at once."""
        self._mount_token = registry.register("mount", path=str(self.root))
        if not self._is_users:
            make_folder(self.root, self._owner)
        _mount(self.device, self.root)
        if not self._is_users:
            make_folder(self.root, self._owner)

    def set_read_ahead_kb(self, value_kb: int) -> None:
        """Set the device's read-ahead where it differs; given back when the image is detached."""
        before = device.read_ahead_kb(self.device)
        if self._read_ahead_token is None:
            self._read_ahead_kb_before = before
            self._read_ahead_token = registry.register("read_ahead", disk=self.device.name, value_kb=before)
        if before != value_kb:
            device.set_read_ahead_kb(self.device, value_kb)

    def has_direct_io(self) -> bool:
        """Whether the loop device reads and writes the image around the host's page cache."""
        return _has_direct_io(self.device)

    def detach(self) -> None:
        """Unmount and detach; may be called in any state."""
        removal.unmount(self.root)
        if self._mount_token is not None:
            registry.forget(self._mount_token)
        if self._read_ahead_token is not None and self._read_ahead_kb_before is not None:
            removal.restore_read_ahead(str(self.device.name), self._read_ahead_kb_before)
            registry.forget(self._read_ahead_token)
        removal.detach_loop(self.image)
        if self._loop_token is not None:
            registry.forget(self._loop_token)
        if not self._is_users:
            with contextlib.suppress(OSError):
                self.root.rmdir()


def _has_xfs() -> bool:
    if _listed_xfs():
        return True
    # A module that is not loaded yet; loading it is what mount would do.
    if shutil.which("modprobe") is not None:
        subprocess.run(["modprobe", "xfs"], capture_output=True)
    return _listed_xfs()


def _listed_xfs() -> bool:
    try:
        return "xfs" in Path("/proc/filesystems").read_text().split()
    except OSError:
        return False


def _free_space_for(image: Path, size_bytes: int) -> None:
    image.unlink(missing_ok=True)
    wanted = size_bytes + _HOST_SPARE_BYTES
    if free_bytes(image.parent) >= wanted:
        return
    unused = [file for file in image.parent.glob(IMAGE_PATTERN) if not removal.loop_devices_of(file)]
    if free_bytes(image.parent) + sum(file.stat().st_size for file in unused) >= wanted:
        for file in sorted(unused, key=lambda file: file.stat().st_mtime):
            file.unlink()
            if free_bytes(image.parent) >= wanted:
                return
    raise UsageError(_space_message(image, size_bytes))


def _space_message(image: Path, size_bytes: int) -> str:
    return (
        f"The image {image} takes {readable_bytes(size_bytes)} and "
        f"{readable_bytes(free_bytes(image.parent))} are free there "
        f"({readable_bytes(_HOST_SPARE_BYTES)} must stay free): "
        "use a smaller loop:size=…, a smaller --scale, or another folder with path=…."
    )


def _attach_loop(image: Path) -> BlockDevice:
    message = ""
    # Older kernels and some backing devices refuse 4096-byte sectors; direct I/O works with 512 as well.
    for sector in (SECTOR_BYTES, 512):
        command = ["losetup", "--find", "--show", "--direct-io=on", "--sector-size", str(sector), str(image)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            message = _one_line(done.stderr)
            removal.detach_loop(image)
            continue
        attached = _block_device(Path(done.stdout.strip()))
        if _has_direct_io(attached):
            return attached
        message = "the kernel left direct I/O off"
        removal.detach_loop(image)
    raise UsageError(
        f"Can't attach {image} to a loop device with direct I/O ({message}): "
        "put the image on a disk's file system with loop:path=…, or use --storage host."
    )


def _block_device(node: Path) -> BlockDevice:
    number = node.stat().st_rdev
    return BlockDevice(node.name, os.major(number), os.minor(number))


def _has_direct_io(attached: BlockDevice) -> bool:
    return Path(f"/sys/block/{attached.name}/loop/dio").read_text().strip() == "1"


def _mount(attached: BlockDevice, root: Path) -> None:
    command = ["mount", "-t", "xfs", "-o", _MOUNT_OPTIONS, f"/dev/{attached.name}", str(root)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 or not mounted_at(root):
        raise DamagedImageError(
            f"Can't mount the image on /dev/{attached.name} at {root} ({_one_line(done.stderr)}): "
            "see the kernel's log, or use --storage host."
        )


def _one_line(text: str) -> str:
    return " / ".join(line.strip() for line in text.strip().splitlines() if line.strip()).rstrip(".")
