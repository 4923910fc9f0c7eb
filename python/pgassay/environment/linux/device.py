"""Block devices: which one is below a folder, what it has done, and how it reads ahead."""

import os
from dataclasses import dataclass, fields
from pathlib import Path

from pgassay.environment.linux.mounts import mount_of
from pgassay.errors import MeasurementError, UsageError

_SECTOR_BYTES = 512  # the unit of /sys/dev/block/*/stat and size, whatever the device's own sector


@dataclass(frozen=True)
class BlockDevice:
    """The device below a folder, as the kernel names it in /proc/diskstats and /sys/dev/block.

    `name` is None where the file system has no block device (tmpfs, overlay, network).
    """

    name: str | None
    major: int
    minor: int


@dataclass(frozen=True)
class DeviceCounters:
    """What a device has done since it appeared; the difference of two is what happened between them.

    `read_ms` and `write_ms` sum the time of all requests, `in_flight_ms` is the time with at least
    one request in flight, `weighted_ms` the sum over time of the requests in flight (divided by the
    elapsed time it is the mean queue depth). Merged requests count once. Source:
    Documentation/block/stat.rst of Linux.
    """

    reads: int
    read_bytes: int
    read_ms: int
    writes: int
    write_bytes: int
    write_ms: int
    in_flight_ms: int
    weighted_ms: int

    def __sub__(self, earlier: "DeviceCounters") -> "DeviceCounters":
        """What was counted between `earlier` and this."""
        return DeviceCounters(
            **{field.name: getattr(self, field.name) - getattr(earlier, field.name) for field in fields(self)}
        )


def device_of(path: Path) -> BlockDevice:
    """The block device (a partition where it is one) of the file system that holds `path`.

    `name` is None where there is none that the kernel shows: tmpfs, overlay, network.
    """
    number = path.stat().st_dev
    major, minor = os.major(number), os.minor(number)
    if major == 0:  # btrfs and some others answer an anonymous number; the mount's source is real
        mount = mount_of(path)
        source = Path(mount.source) if mount else None
        if source is None or not source.is_absolute() or not source.is_block_device():
            return BlockDevice(None, major, minor)
        number = source.stat().st_rdev
        major, minor = os.major(number), os.minor(number)
    link = Path(f"/sys/dev/block/{major}:{minor}")
    return BlockDevice(link.resolve().name if link.exists() else None, major, minor)


def disk_of(device: BlockDevice) -> BlockDevice:
    """The whole disk of a partition (a disk is its own): read-ahead and rate limits belong to it."""
    folder = _folder(device).resolve()
    if not (folder / "partition").exists():
        return device
    major, minor = (folder.parent / "dev").read_text().strip().split(":")
    return BlockDevice(folder.parent.name, int(major), int(minor))


def counters(device: BlockDevice) -> DeviceCounters:
    """The device's counters now; raises MeasurementError where there is no device."""
    values = [int(word) for word in (_folder(device) / "stat").read_text().split()]
    return DeviceCounters(
        reads=values[0],
        read_bytes=values[2] * _SECTOR_BYTES,
        read_ms=values[3],
        writes=values[4],
        write_bytes=values[6] * _SECTOR_BYTES,
        write_ms=values[7],
        in_flight_ms=values[9],
        weighted_ms=values[10],
    )


# Every field of /sys/block/*/stat in its order (Documentation/block/stat.rst); sectors become bytes.
_STATISTICS = (
    *("reads", "reads_merged", "read_bytes", "read_ms"),
    *("writes", "writes_merged", "write_bytes", "write_ms"),
    *("in_flight", "in_flight_ms", "weighted_ms"),
    *("discards", "discards_merged", "discard_bytes", "discard_ms", "flushes", "flush_ms"),
)


def statistics(device: BlockDevice) -> dict[str, float]:
    """All that the kernel counts of the device; `in_flight` is the number of requests at the moment.

    What this kernel does not have (discards before 4.18, flushes before 5.5) is 0. Raises MeasurementError
    where there is no device.
    """
    values = [float(word) for word in (_folder(device) / "stat").read_text().split()]
    values += [0.0] * (len(_STATISTICS) - len(values))
    return {
        name: value * _SECTOR_BYTES if name.endswith("_bytes") else value
        for name, value in zip(_STATISTICS, values, strict=False)
    }


def read_ahead_kb(device: BlockDevice) -> int:
    """How far the kernel reads ahead on the device's disk, in kB."""
    return int(_queue(device, "read_ahead_kb"))


def set_read_ahead_kb(device: BlockDevice, value_kb: int) -> None:
    """Set the read-ahead and check that it holds; raises UsageError when the kernel refuses it."""
    file = _folder(disk_of(device)) / "queue" / "read_ahead_kb"
    try:
        file.write_text(str(value_kb))
    except OSError as error:
        raise UsageError(
            f"Can't set the read-ahead of {device.name} to {value_kb} kB: {error.strerror}; "
            "run as root, or leave read_ahead out."
        ) from error
    actual = read_ahead_kb(device)
    if actual != value_kb:
        raise UsageError(
            f"The kernel set the read-ahead of {device.name} to {actual} kB instead of {value_kb} kB: "
            f"use read_ahead={actual}."
        )


def is_rotational(device: BlockDevice) -> bool:
    """Whether the kernel takes the disk for one with moving parts."""
    return _queue(device, "rotational") == "1"


def scheduler(device: BlockDevice) -> str:
    """The I/O scheduler in force, e.g. 'none' or 'mq-deadline'."""
    words = _queue(device, "scheduler").split()
    return next((word.strip("[]") for word in words if word.startswith("[")), words[0] if words else "none")


def size_bytes(device: BlockDevice) -> int:
    """The size of the device."""
    return int((_folder(device) / "size").read_text()) * _SECTOR_BYTES


def facts(device: BlockDevice) -> dict[str, object]:
    """Name, disk, size and the queue's settings; only {'name': None} where there is no device."""
    if device.name is None:
        return {"name": None}
    return {
        "name": device.name,
        "disk": disk_of(device).name,
        "number": f"{device.major}:{device.minor}",
        "size_bytes": size_bytes(device),
        "read_ahead_kb": read_ahead_kb(device),
        "rotational": is_rotational(device),
        "scheduler": scheduler(device),
    }


def _folder(device: BlockDevice) -> Path:
    if device.name is None:
        raise MeasurementError(
            f"There is no block device below this folder (device number {device.major}:{device.minor}): "
            "point --storage host:path=… at a folder on a disk."
        )
    return Path(f"/sys/dev/block/{device.major}:{device.minor}")


def _queue(device: BlockDevice, name: str) -> str:
    return (_folder(disk_of(device)) / "queue" / name).read_text().strip()
