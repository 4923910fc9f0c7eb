"""Whether free memory stays with this machine or goes back to the hypervisor that lent it.

Where it goes back, whoever uses it next waits until it is there again. A cold scan does, since the page cache
grows: one read 1400 MB/s into memory that was freed just before, and 600 MB/s into memory that had been free
for ten seconds.
"""

from pathlib import Path

# Devices that their driver has taken; VIRTIO_BALLOON_F_REPORTING (include/uapi/linux/virtio_balloon.h).
_BALLOONS = Path("/sys/bus/virtio/drivers/virtio_balloon")
_REPORTING_BIT = 5


def reporting_balloons() -> list[str]:
    """The memory balloons that report free pages to the hypervisor; [] where free memory stays."""
    return [file.parent.name for file in sorted(_BALLOONS.glob("*/features")) if _reports(file)]


def _reports(file: Path) -> bool:
    """Whether a balloon's features, one character for each bit, have VIRTIO_BALLOON_F_REPORTING."""
    try:
        features = file.read_text("ascii").strip()
    except OSError:
        return False
    return features[_REPORTING_BIT : _REPORTING_BIT + 1] == "1"
