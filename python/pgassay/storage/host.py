"""The kind `host`: a folder on a file system that the machine has already."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pgassay.environment.home import account, closed_folder, home
from pgassay.environment.linux import device
from pgassay.environment.linux.device import BlockDevice
from pgassay.environment.linux.mounts import mount_of
from pgassay.errors import UsageError
from pgassay.model.storage import StorageSpec
from pgassay.storage.base import StorageKind
from pgassay.storage.cgroup_limits import limits_for
from pgassay.storage.copied_folders import CopiedVolume
from pgassay.storage.file_copies import copy_real, extents_of_largest, free_bytes, make_folder, tree_bytes
from pgassay.storage.storage_options import LIMIT_KEYS, describe, readable_bytes
from pgassay.storage.working_copies import WorkingCopies

OWN_FOLDER = "host"
FOLDER_NAME = "pgassay-data"


class HostKind(StorageKind):
    """Working copies in a folder where the user points, or in pgassay's own."""

    name = "host"
    keys = ("path", *LIMIT_KEYS)
    refusals: ClassVar[dict[str, str]] = {
        "read_ahead": "would change the device that the whole machine "
        "uses: give pgassay its own device with loop:read_ahead=….",
        "size": "can't be used with a folder: write loop:size=… for an image.",
    }

    def capability(self) -> str | None:
        """Always available: any machine has a folder."""
        return None

    def provide(self, spec: StorageSpec, bytes_needed: int) -> "HostVolume":
        """Use the folder; raises UsageError naming what is wrong with it."""
        if spec.read_ahead_kb is not None:
            raise UsageError(
                "A read-ahead on host storage would change the device that the whole machine uses: give "
                f"pgassay its own device with --storage loop:read_ahead={spec.read_ahead_kb}."
            )
        if spec.size_bytes is not None:
            raise UsageError("A folder has no size of its own: leave size out, or use --storage loop:size=….")
        root = _own_folder() if spec.path is None else _folder_at(Path(spec.path))
        volume = HostVolume(spec, root)
        volume.limits_cgroup()
        _check_space(volume.copies, bytes_needed)
        return volume


class HostVolume(CopiedVolume):
    """A folder where the user points, or pgassay's own: the data lie on the file system that is there."""

    def __init__(self, spec: StorageSpec, root: Path) -> None:
        super().__init__(WorkingCopies(root, account()))
        self.spec = spec
        self.root = root
        self.device: BlockDevice = device.device_of(root)

    def activate(self) -> None:
        """Nothing to do: the device is the user's and stays as it is."""

    def clone(self, source: Path, key: str, copy: int) -> Path:
        """A copy that was touched gets back only the files that were written."""
        working = self.copies.path(key, copy)
        self.cloned.add(working)
        if self.copies.is_whole(working, source) or self.copies.is_running(working):
            return working
        self.copies.prepare_folders(key)
        self.copies.make_room(max(0, tree_bytes(source) - tree_bytes(working)), keep=key)
        self.copies.make_equal(working, source, copy_real)
        return working

    def reset(self, working: Path, source: Path) -> None:
        self.copies.make_equal(working, source, copy_real)

    def facts(self) -> Mapping[str, object]:
        mount = mount_of(self.root)
        return {
            "kind": "host",
            "storage": describe(self.spec, HostKind.keys),
            "file_system": mount.kind if mount else None,
            "mount_options": sorted(mount.options) if mount else [],
            "device": device.facts(self.device),
            "limits": dict(self.limits_cgroup()),
            "extents": extents_of_largest(self.made()),
        }

    def limits_cgroup(self) -> Mapping[str, str]:
        if not self.spec.is_limited:
            return {}
        if self.device.name is None:
            raise UsageError(
                f"Rate limits need a block device and {self.root} has none (tmpfs, overlay or network): "
                "point host:path=… at a folder on a disk, or use --storage loop:…."
            )
        return limits_for(self.spec, device.disk_of(self.device))

    def remove(self) -> None:
        """Nothing to remove: the working copies stay for the next experiment."""


def _own_folder() -> Path:
    work = home() / "data" / "work"
    make_folder(work, account())
    folder = work / OWN_FOLDER
    make_folder(folder, account())
    return folder


def _folder_at(path: Path) -> Path:
    if not path.is_dir():
        raise UsageError(
            f"The folder {path} of --storage host:path=… does not exist: make it or choose another."
        )
    owner = account()
    if owner is not None and (closed := closed_folder(path.resolve(), owner)) is not None:
        raise UsageError(
            f"The account {owner.name}, which runs the servers, cannot enter {closed} on the way to {path}: "
            "choose a folder that it can reach."
        )
    folder = path.resolve() / FOLDER_NAME
    try:
        make_folder(folder, owner)
    except OSError as error:
        raise UsageError(
            f"Can't make {folder}: {error.strerror}; choose a folder that this account may write to."
        ) from error
    return folder


def _check_space(copies: WorkingCopies, bytes_needed: int) -> None:
    available = free_bytes(copies.root) + copies.reusable_bytes()
    if available < bytes_needed:
        raise UsageError(
            f"The data need {readable_bytes(bytes_needed)} at {copies.root} and "
            f"{readable_bytes(available)} are "
            "available: free some space, use a smaller --scale, or point --storage host:path=… elsewhere."
        )
