"""The text of a storage and its meaning: `loop:size=4GB,read_ahead=128,read_mb_s=125`.

    KIND[:key=value,…]      host | loop
    path                    a folder; a comma or a backslash in it is written with a backslash before it
    size                    4GB, 512MB, … (loop)
    read_ahead              kB, or with a unit (loop)
    read_mb_s, write_mb_s   MB per second
    read_iops, write_iops   requests per second

Units are PostgreSQL's: kB, MB, GB, TB by 1024, so 1 MB/s is 1,048,576 bytes per second.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pgassay.errors import UsageError
from pgassay.model.storage import StorageSpec

MEGABYTE = 1024 * 1024
_UNITS = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
_UNIT_OF = {unit.lower(): factor for unit, factor in _UNITS.items()}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_LIMIT_KEYS = ("read_mb_s", "write_mb_s", "read_iops", "write_iops")
_KEYS = {"host": ("path", *_LIMIT_KEYS), "loop": ("size", "read_ahead", *_LIMIT_KEYS, "path")}


def parse_storage(text: str) -> StorageSpec:
    """Return the storage that `text` describes; raises UsageError naming the part that is wrong."""
    kind, colon, rest = text.partition(":")
    kind = kind.strip()
    if kind not in _KEYS:
        raise UsageError(
            f"Unknown storage '{kind}' in '{text}': the kinds are {' and '.join(sorted(_KEYS))}, "
            "e.g. --storage loop:size=4GB,read_ahead=128."
        )
    if colon and not rest:
        raise UsageError(f"Nothing follows the colon in '{text}': type '{kind}' or '{kind}:key=value'.")
    values: dict[str, Any] = {}
    for part in _split(rest) if rest else []:
        key, equals, value = part.partition("=")
        key = key.strip()
        _check_key(kind, key, text)
        if not equals or not value:
            raise UsageError(f"The storage option '{key}' in '{text}' has no value: type {key}=….")
        field, convert = _FIELDS[key]
        if field in values:
            raise UsageError(f"The storage option '{key}' stands twice in '{text}': leave one out.")
        values[field] = convert(key, value, text)
    return StorageSpec(kind=kind, **values)


def describe(spec: StorageSpec) -> str:
    """The text that `parse_storage` turns into `spec` again."""
    parts = []
    for key in _KEYS[spec.kind]:
        value = getattr(spec, _FIELDS[key][0])
        if value is not None:
            parts.append(f"{key}={_format(key, value)}")
    return spec.kind + (":" + ",".join(parts) if parts else "")


def format_bytes(value: int) -> str:
    """A size in the largest unit that divides it: '4GB', '1536MB', '1000B'."""
    for unit in ("TB", "GB", "MB", "kB"):
        if value and value % _UNITS[unit] == 0:
            return f"{value // _UNITS[unit]}{unit}"
    return f"{value}B"


def readable_bytes(value: int) -> str:
    """A size for a sentence, rounded: '3.7 GB'."""
    for unit in ("TB", "GB", "MB", "kB"):
        if abs(value) >= _UNITS[unit]:
            return f"{value / _UNITS[unit]:.1f} {unit}"
    return f"{value} B"


def _check_key(kind: str, key: str, text: str) -> None:
    if key in _KEYS[kind]:
        return
    if key == "read_ahead":
        raise UsageError(
            f"'read_ahead' in '{text}' would change the device that the whole machine uses: "
            "give pgassay a device of its own with loop:read_ahead=…."
        )
    if key == "size":
        raise UsageError(f"'size' in '{text}' means nothing for a folder: type loop:size=… for an image.")
    raise UsageError(
        f"Unknown storage option '{key}' in '{text}': for {kind} there are {', '.join(_KEYS[kind])}."
    )


def _split(rest: str) -> list[str]:
    parts = [""]
    index = 0
    while index < len(rest):
        if rest[index] == "\\" and index + 1 < len(rest):
            index += 1
            parts[-1] += rest[index]
        elif rest[index] == ",":
            parts.append("")
        else:
            parts[-1] += rest[index]
        index += 1
    return parts


def _bytes(key: str, value: str, text: str, default_unit: str = "") -> int:
    match = _QUANTITY.fullmatch(value.strip())
    unit = (match[2] or default_unit) if match else ""
    if match is None or unit.lower() not in _UNIT_OF:
        raise UsageError(
            f"'{key}={value}' in '{text}' is no size: type a number and kB, MB, GB or TB, e.g. 4GB."
        )
    return (
        round(float(match[1]) * _UNIT_OF[unit.lower()])
        if "." in match[1]
        else int(match[1]) * _UNIT_OF[unit.lower()]
    )


def _size(key: str, value: str, text: str) -> int:
    size_bytes = _bytes(key, value, text)
    if size_bytes <= 0:
        raise UsageError(f"'{key}={value}' in '{text}' must be more than nothing, e.g. {key}=4GB.")
    return size_bytes


def _read_ahead(key: str, value: str, text: str) -> int:
    size_bytes = _bytes(key, value, text, default_unit="kB")
    if size_bytes % 1024:
        raise UsageError(f"'{key}={value}' in '{text}' must be whole kB, e.g. {key}=128.")
    return size_bytes // 1024


def _rate(key: str, value: str, text: str) -> float:
    try:
        rate = float(value)
    except ValueError:
        rate = math.nan
    if not (math.isfinite(rate) and round(rate * MEGABYTE) >= 1):
        raise UsageError(f"'{key}={value}' in '{text}' is no rate: type MB per second, e.g. {key}=125.")
    return rate


def _count(key: str, value: str, text: str) -> int:
    if not value.strip().isdecimal() or int(value) < 1:
        raise UsageError(
            f"'{key}={value}' in '{text}' is no rate: type requests per second, e.g. {key}=3000."
        )
    return int(value)


def _path(key: str, value: str, text: str) -> str:
    if "\0" in value:
        raise UsageError(f"The {key} in '{text}' holds a null character: type a folder.")
    # Absolute, so that a resumed experiment finds it from any folder.
    return str(Path(value).expanduser().absolute())


def _format(key: str, value: Any) -> str:
    if key == "size":
        return format_bytes(value)
    if key == "path":
        return str(value).replace("\\", "\\\\").replace(",", "\\,")
    if isinstance(value, float) and value.is_integer() and value < 2**53:
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)


_FIELDS: dict[str, tuple[str, Callable[[str, str, str], Any]]] = {
    "path": ("path", _path),
    "size": ("size_bytes", _size),
    "read_ahead": ("read_ahead_kb", _read_ahead),
    "read_mb_s": ("read_mb_s", _rate),
    "write_mb_s": ("write_mb_s", _rate),
    "read_iops": ("read_iops", _count),
    "write_iops": ("write_iops", _count),
}
