"""What is mounted where, from /proc/self/mountinfo (documented in proc(5))."""

import re
from dataclasses import dataclass
from pathlib import Path

_MOUNTINFO = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """One mounted file system: `device` is "major:minor", `source` what was mounted (/dev/…)."""

    device: str
    point: Path
    root: str
    kind: str
    source: str
    options: frozenset[str]


def mounts() -> list[Mount]:
    """All mounts this process sees, in the order they were made; empty where there is no /proc."""
    if not _MOUNTINFO.exists():
        return []
    return [_parse(line) for line in _MOUNTINFO.read_text("utf-8", "surrogateescape").splitlines()]


def mount_of(path: Path) -> Mount | None:
    """The mount that holds `path`: the last one made at the longest prefix of the resolved path."""
    resolved = path.resolve()
    candidates = [mount for mount in mounts() if resolved.is_relative_to(mount.point)]
    if not candidates:
        return None
    deepest = max(len(mount.point.parts) for mount in candidates)
    return [mount for mount in candidates if len(mount.point.parts) == deepest][-1]


def mounted_at(point: Path) -> list[Mount]:
    """The mounts made exactly at `point` (more than one when they are stacked)."""
    return [mount for mount in mounts() if mount.point == point]


def _parse(line: str) -> Mount:
    before, _, after = line.partition(" - ")
    fields = before.split(" ")
    kind, source, super_options = [*after.split(" "), "", "", ""][:3]
    return Mount(
        device=fields[2],
        point=Path(_unescape(fields[4])),
        root=_unescape(fields[3]),
        kind=kind,
        source=_unescape(source),
        options=frozenset(fields[5].split(",")) | frozenset(super_options.split(",")),
    )


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)
