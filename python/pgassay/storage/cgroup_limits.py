"""From the limits of a storage to the lines of the server's cgroup."""

from pgassay.environment.cgroup.group import io_limits
from pgassay.environment.linux.device import BlockDevice
from pgassay.model.storage import StorageSpec
from pgassay.storage.storage_options import MEGABYTE


def limits_for(spec: StorageSpec, disk: BlockDevice) -> dict[str, str]:
    """Control file → line for `disk`; empty without limits; raises UsageError where impossible."""
    return io_limits(
        disk.major,
        disk.minor,
        read_bytes_s=None if spec.read_mb_s is None else spec.read_mb_s * MEGABYTE,
        write_bytes_s=None if spec.write_mb_s is None else spec.write_mb_s * MEGABYTE,
        read_iops=spec.read_iops,
        write_iops=spec.write_iops,
    )
