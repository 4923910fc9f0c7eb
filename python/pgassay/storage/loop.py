"""The kind `loop`: an image file with direct I/O, XFS, its own read-ahead, and rate limits.

The frozen data are copied into the image once for each copy number (its base, real blocks of its
own); working copies are made from their base by reflink, so putting one back takes no time, and the
twin's data share nothing with the control's.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from pgassay.environment.home import account, home
from pgassay.environment.linux import device
from pgassay.environment.linux.device import BlockDevice
from pgassay.environment.linux.mounts import mounted_at
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.storage import StorageSpec
from pgassay.storage.base import StorageKind, Volume
from pgassay.storage.cgroup_limits import limits_for
from pgassay.storage.copied_folders import CopiedVolume
from pgassay.storage.file_copies import copy_real, copy_reflink, extents_of_largest, make_folder, tree_bytes
from pgassay.storage.image import (
    SIZE_BYTES_MIN,
    AttachedImage,
    DamagedImageError,
    make_image,
    missing,
    size_for,
    usable_bytes,
)
from pgassay.storage.storage_options import LIMIT_KEYS, describe, format_bytes, readable_bytes
from pgassay.storage.working_copies import WorkingCopies, real_bytes

# What most hosts have, and what cloud disks are measured with; a virtual disk may answer 8192.
READ_AHEAD_KB_DEFAULT = 128
# Room for blocks that a write workload makes its own, and for WAL.
_GROWTH_FACTOR = 2
_WAL_BYTES = 1 << 30

# Volumes that differ in limits or read-ahead only are on one image: the same data at the same place.
_attached: dict[Path, AttachedImage] = {}


class LoopKind(StorageKind):
    """Working copies on an image of pgassay's own."""

    name = "loop"
    keys = ("size", "read_ahead", *LIMIT_KEYS, "path")

    def capability(self) -> str | None:
        return missing()

    def provide(self, spec: StorageSpec, bytes_needed: int) -> "LoopVolume":
        """Make or reuse the image, attach and mount it; see `StorageKind.provide`."""
        return self._provide(spec, bytes_needed, "loop")

    def provide_wal(self, spec: StorageSpec, bytes_needed: int, data: Volume) -> "LoopVolume":
        """The same with an image of its own."""
        del data
        return self._provide(spec, bytes_needed, "loop-wal")

    def _provide(self, spec: StorageSpec, bytes_needed: int, purpose: str) -> "LoopVolume":
        reason = missing()
        if reason is not None:
            raise UsageError(reason)
        if spec.is_limited:
            limits_for(spec, BlockDevice("loop0", 7, 0))  # refuses before anything is made
        image = _image_path(spec, purpose)
        if image not in _attached:
            _prepare_image(spec, image, bytes_needed)
            _attached[image] = _attach(image)
        shared = _attached[image]
        shared.users += 1
        volume = LoopVolume(spec, shared)
        try:
            _check_size(spec, image.stat().st_size, bytes_needed)
            volume.activate()
        except BaseException:
            volume.remove()
            raise
        return volume


class LoopVolume(CopiedVolume):
    """An image file with XFS on a loop device of its own: its read-ahead and its limits are no one else's."""

    def __init__(self, spec: StorageSpec, attached: AttachedImage) -> None:
        super().__init__(WorkingCopies(attached.root, account()))
        self.spec = spec
        self.root = attached.root
        self.device: BlockDevice = attached.device
        self._image = attached
        self._is_removed = False

    @property
    def read_ahead_kb(self) -> int:
        """The read-ahead this volume promises."""
        return READ_AHEAD_KB_DEFAULT if self.spec.read_ahead_kb is None else self.spec.read_ahead_kb

    def activate(self) -> None:
        """Set the device's read-ahead to this volume's."""
        self._image.set_read_ahead_kb(self.read_ahead_kb)

    def clone(self, source: Path, key: str, copy: int) -> Path:
        working, base = self.copies.path(key, copy), self.copies.base_path(key, copy)
        self.cloned.add(working)
        if self.copies.is_running(working):
            return working
        self.copies.prepare_folders(key)
        if not self.copies.is_whole(base, source):
            needed = tree_bytes(source) - tree_bytes(base) + real_bytes(source)
            self.copies.make_room(max(0, needed), keep=key)
            self.copies.make_equal(base, source, copy_real)
        if not self.copies.is_whole(working, base):
            self.copies.make_equal(working, base, copy_reflink)
        return working

    def reset(self, working: Path, source: Path) -> None:
        """The files that were written share their base's blocks again."""
        base = working.with_name(working.name.replace("copy-", "base-"))
        if not self.copies.is_whole(base, source):
            self.copies.make_equal(base, source, copy_real)
        self.copies.make_equal(working, base, copy_reflink)

    def facts(self) -> Mapping[str, object]:
        """What there is, read-ahead, direct I/O and the mount being checked first."""
        found = device.facts(self.device)
        if found["read_ahead_kb"] != self.read_ahead_kb:
            raise MeasurementError(
                f"The read-ahead of /dev/{self.device.name} is {found['read_ahead_kb']} kB instead of "
                f"{self.read_ahead_kb} kB: something changed it; run the trial again."
            )
        if not self._image.has_direct_io():
            raise MeasurementError(
                f"/dev/{self.device.name} lost its direct I/O, so cold reads would come from memory: "
                "put the image on another file system with loop:path=…."
            )
        mounted = mounted_at(self.root)
        if not mounted:
            raise MeasurementError(
                f"{self.root} is no longer mounted: start the experiment again with resume."
            )
        return {
            "kind": "loop",
            "storage": describe(self.spec, LoopKind.keys),
            "file_system": mounted[-1].kind,
            "mount_options": sorted(mounted[-1].options),
            "device": found,
            "image": str(self._image.image),
            "image_bytes": self._image.image.stat().st_size,
            "direct_io": True,
            "backing_device": device.facts(device.device_of(self._image.image)),
            "limits": dict(self.limits_cgroup()),
            "extents": extents_of_largest(self.made()),
        }

    def limits_cgroup(self) -> Mapping[str, str]:
        return limits_for(self.spec, self.device)

    def remove(self) -> None:
        """Unmount and detach when no other volume uses the image; the image stays for the next experiment."""
        if self._is_removed:
            return
        self._is_removed = True
        self._image.users -= 1
        if self._image.users == 0:
            _attached.pop(self._image.image, None)
            self._image.detach()


def _image_path(spec: StorageSpec, purpose: str) -> Path:
    if spec.path is None:
        folder = home() / "images"
        folder.mkdir(exist_ok=True)
    else:
        folder = Path(spec.path).resolve()
        if not folder.is_dir():
            raise UsageError(
                f"The folder {folder} of --storage loop:path=… does not exist: make it or choose another one."
            )
    size = "default" if spec.size_bytes is None else format_bytes(spec.size_bytes)
    return folder / f"pgassay-{purpose}-{size}.xfs"


def _prepare_image(spec: StorageSpec, image: Path, bytes_needed: int) -> None:
    if spec.size_bytes is not None:
        _check_size(spec, spec.size_bytes, bytes_needed)
        if not image.is_file() or image.stat().st_size != spec.size_bytes:
            make_image(image, spec.size_bytes)
    elif not image.is_file() or usable_bytes(image.stat().st_size) < bytes_needed + _WAL_BYTES:
        make_image(image, size_for(bytes_needed * _GROWTH_FACTOR + _WAL_BYTES))


def _check_size(spec: StorageSpec, size_bytes: int, bytes_needed: int) -> None:
    if size_bytes < SIZE_BYTES_MIN:
        raise UsageError(
            f"A loop image of {readable_bytes(size_bytes)} is too small for XFS: "
            f"type loop:size={format_bytes(SIZE_BYTES_MIN)} or more."
        )
    if usable_bytes(size_bytes) < bytes_needed:
        needed, usable = format_bytes(size_for(bytes_needed)), readable_bytes(usable_bytes(size_bytes))
        raise UsageError(
            f"The storage '{describe(spec, LoopKind.keys)}' holds {usable} and the data need "
            f"{readable_bytes(bytes_needed)}: type loop:size={needed} or use a smaller --scale."
        )


def _attach(image: Path) -> AttachedImage:
    owner = account()
    work = home() / "data" / "work"
    make_folder(work, owner)
    # The same place for the same image, so that what is recorded of its files stays true.
    attached = AttachedImage(image, work / f"{image.stem}-{_short_name(image)}", owner)
    try:
        attached.attach()
    except DamagedImageError:
        # Only a cache lies on it: a damaged one (power cut, full host) is made anew, once.
        size_bytes = image.stat().st_size
        make_image(image, size_bytes)
        attached = AttachedImage(image, attached.root, owner)
        attached.attach()
    return attached


def _short_name(image: Path) -> str:
    # Two folders may hold images of one name.
    return hashlib.sha256(str(image.parent).encode()).hexdigest()[:6]
