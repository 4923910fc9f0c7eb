"""The options of storages: their text, the field of a StorageSpec that each is, and sizes in words.

    path                    a folder
    size                    4GB, 512MB, …
    read_ahead              kB, or with a unit
    read_mb_s, write_mb_s   MiB per second
    read_iops, write_iops   requests per second
    wal                     the storage of pg_wal; it stands last, and what follows is that storage's

A comma or a backslash in a text is written with a backslash before it. A kind may have keys of its own.
Units of sizes are PostgreSQL's: kB, MB, GB, TB by 1024; KiB, MiB, GiB and TiB are other names for them.
A limit of 1 is 1 MiB/s, 1,048,576 bytes per second, which reports tell as 1.05 MB/s: their rates are in
powers of 1000.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from pgassay.errors import UsageError
from pgassay.model.storage import StorageSpec
from pgassay.value_syntax.paths import typed_path
from pgassay.value_syntax.quantities import BYTES_OF, size_bytes

MEGABYTE = 1024 * 1024
# What the block-I/O controller can enforce on any kind that has a block device.
LIMIT_KEYS = ("read_mb_s", "write_mb_s", "read_iops", "write_iops")
# Beyond every disk: the kernel's own bounds lie above it.
_RATE_MAX = 10**9
# What follows it is a storage of its own.
WAL = "wal"


def describe(spec: StorageSpec, keys: Sequence[str], leading_key: str | None = None) -> str:
    """The text of a storage whose kind has these keys, in their order; one may stand without its name."""
    parts = []
    own = dict(spec.own)
    for key in keys:
        value = getattr(spec, FIELDS[key][0]) if key in FIELDS else own.get(key)
        if value is not None:
            name = "" if key == leading_key else f"{key}="
            parts.append(name + _format(key, value))
    return spec.kind + (":" + ",".join(parts) if parts else "")


def format_bytes(value: int) -> str:
    """A size in the largest unit that divides it: '4GB', '1536MB', '1000B'."""
    for unit in ("TB", "GB", "MB", "kB"):
        if value and value % BYTES_OF[unit] == 0:
            return f"{value // BYTES_OF[unit]}{unit}"
    return f"{value}B"


def readable_bytes(value: int) -> str:
    """A size for a sentence, rounded: '3.7 GB'."""
    for unit in ("TB", "GB", "MB", "kB"):
        if abs(value) >= BYTES_OF[unit]:
            return f"{value / BYTES_OF[unit]:.1f} {unit}"
    return f"{value} B"


def readable_rate(bytes_per_s: float) -> str:
    """A limit for a sentence, in 10⁶ bytes as all rates, and as limits are given: '67.1 MB/s (64 MiB/s)'."""
    return f"{bytes_per_s / 1e6:.3g} MB/s ({bytes_per_s / MEGABYTE:.3g} MiB/s)"


def split_wal(text: str) -> tuple[str, str | None]:
    """The options of the data's storage, and the text after `wal=`, which stands last; None without one."""
    index, begins_part = 0, True
    while index < len(text):
        if begins_part and text[index:].lstrip().startswith(f"{WAL}="):
            before = text[:index].rstrip().removesuffix(",")
            return before, text[index:].lstrip().removeprefix(f"{WAL}=")
        begins_part = text[index] == ","
        index += 2 if text[index] == "\\" else 1
    return text, None


def _size(key: str, value: str, text: str) -> int:
    found = size_bytes(value, f"'{text}': {key}")
    if found <= 0:
        raise UsageError(f"'{key}={value}' in '{text}' must be above 0, e.g. {key}=4GB.")
    return found


def _read_ahead(key: str, value: str, text: str) -> int:
    return read_ahead_kb(value, f"'{text}': {key}")


def read_ahead_kb(text: str, where: str) -> int:
    """Whole kB of a read-ahead, `128` or `128kB`; raises UsageError naming `where`."""
    found = size_bytes(text, where, default_unit="kB", example="128kB")
    if found % 1024:
        raise UsageError(f"{where}: '{text}' is not whole kB: write for example 128kB")
    return found // 1024


def _rate(key: str, value: str, text: str) -> float:
    try:
        rate = float(value)
    except ValueError:
        rate = math.nan
    if not (rate <= _RATE_MAX and round(rate * MEGABYTE) >= 1):
        raise UsageError(f"'{key}={value}' in '{text}' is not a rate: type MiB per second, e.g. {key}=125.")
    return rate


def _count(key: str, value: str, text: str) -> int:
    digits = value.strip()
    # Python refuses to make a number of thousands of digits.
    if not digits.isdecimal() or len(digits) > 18 or not 1 <= int(digits) <= _RATE_MAX:
        raise UsageError(
            f"'{key}={value}' in '{text}' is not a rate: type requests per second, e.g. {key}=3000."
        )
    return int(digits)


def _path(key: str, value: str, text: str) -> str:
    if "\0" in value:
        raise UsageError(f"The {key} in '{text}' holds a null character: type a folder.")
    # Absolute, so that a resumed experiment finds it from any folder.
    return str(typed_path(value).absolute())


def _format(key: str, value: Any) -> str:
    if key == "size":
        return format_bytes(value)
    if isinstance(value, str):
        return value.replace("\\", "\\\\").replace(",", "\\,")
    if isinstance(value, float) and value.is_integer() and value < 2**53:
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)


FIELDS: dict[str, tuple[str, Callable[[str, str, str], Any]]] = {
    "path": ("path", _path),
    "size": ("size_bytes", _size),
    "read_ahead": ("read_ahead_kb", _read_ahead),
    "read_mb_s": ("read_mb_s", _rate),
    "write_mb_s": ("write_mb_s", _rate),
    "read_iops": ("read_iops", _count),
    "write_iops": ("write_iops", _count),
}
