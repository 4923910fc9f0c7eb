"""The block device's counters, as the kernel keeps them (Documentation/block/stat.rst)."""

from pgassay.environment.device import counters
from pgassay.environment.storage.base import BlockDevice


class DeviceSampler:
    """Cumulative reads, bytes and times of one device; rates are differences of rows."""

    name = "device"
    version = 1
    columns: tuple[str, ...] = (
        "reads",
        "read_bytes",
        "read_ms",
        "writes",
        "write_bytes",
        "write_ms",
        "weighted_ms",
    )

    def __init__(self, device: BlockDevice) -> None:
        """Watch `device`."""
        self._device = device

    def available(self) -> bool:
        """Whether the data lie on a block device that the kernel counts for."""
        return self._device.name is not None

    def sample(self) -> tuple[float, ...]:
        """The counters now."""
        now = counters(self._device)
        return tuple(float(getattr(now, name)) for name in self.columns)
