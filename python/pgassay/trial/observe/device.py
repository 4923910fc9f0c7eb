"""The block device's counters, as the kernel keeps them (Documentation/block/stat.rst)."""

from pgassay.environment.linux.device import BlockDevice, statistics


class DeviceSampler:
    """Cumulative counters of one device, and its requests in flight, from which all of iostat's columns
    follow.

    Rates are differences of rows; docs/observation.md has iostat's definitions.
    """

    name = "device"
    version = 2
    columns: tuple[str, ...] = (
        *("reads", "reads_merged", "read_bytes", "read_ms"),
        *("writes", "writes_merged", "write_bytes", "write_ms"),
        *("in_flight", "in_flight_ms", "weighted_ms"),
        *("discards", "discards_merged", "discard_bytes", "discard_ms", "flushes", "flush_ms"),
    )

    def __init__(self, device: BlockDevice) -> None:
        self._device = device

    def available(self) -> bool:
        """Whether the data lie on a block device that the kernel counts for."""
        return self._device.name is not None

    def sample(self) -> tuple[float, ...]:
        """The counters now; 0 for those that this kernel does not have."""
        now = statistics(self._device)
        return tuple(now[name] for name in self.columns)
