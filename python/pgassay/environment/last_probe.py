"""The last probe of each device, kept in home()/probes, so that a comparison can say how near it came."""

import hashlib
import json
import os
import re
from pathlib import Path

from pydantic import ValidationError

from pgassay.environment.home import home
from pgassay.environment.linux import device as devices
from pgassay.environment.linux.device import BlockDevice
from pgassay.model.probe import ProbeResult

# Of LVM and of software RAID too, which the kernel numbers as it finds them.
_IDENTITIES = (
    *("wwid", "device/wwid", "serial", "device/serial", "loop/backing_file"),
    *("dm/uuid", "md/uuid"),
)
_SYS_BLOCK = Path("/sys/block")
_SIGNS = re.compile(r"[^A-Za-z0-9_-]")


def device_key(device: BlockDevice) -> str | None:
    """A name for the disk that stays when the kernel numbers it anew; None where there is no block device.

    The kernel's name of the disk with a hash of its identifier, where it has one, and its size.
    """
    if device.name is None:
        return None
    disk = devices.disk_of(device)
    assert disk.name is not None
    folder = _SYS_BLOCK / disk.name
    known = [_read(folder / name) for name in _IDENTITIES]
    identity = next((each for each in known if each), disk.name)
    digest = hashlib.sha256(f"{identity} {devices.size_bytes(disk)}".encode()).hexdigest()[:12]
    return f"{_SIGNS.sub('-', disk.name)}-{digest}"


def keep(device: BlockDevice, document: str) -> Path | None:
    """Keep a probe's JSON document as the last of its device; None where there is no device to name."""
    key = device_key(device)
    if key is None:
        return None
    folder = home() / "probes"
    folder.mkdir(exist_ok=True)
    file = folder / f"{key}.json"
    partial = file.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text(document, encoding="utf-8")
    partial.replace(file)
    return file


def last_probe(device: BlockDevice) -> ProbeResult | None:
    """The last probe of the device that holds a folder; None when there was none that can be read."""
    key = device_key(device)
    file = home() / "probes" / f"{key}.json"
    if key is None or not file.is_file():
        return None
    return read_document(file)


def read_document(file: Path) -> ProbeResult | None:
    """A document of `pgassay probe --json` (also of `--compare`, then its new result); None if it is none."""
    try:
        document: object = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(document, dict) and "result" in document:
            document = document["result"]
        return ProbeResult.model_validate(document)
    except (OSError, ValueError, ValidationError):
        return None


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
