"""Durations, sizes, fractions and counts as typed; one grammar for every option, factor and key of a file.

    duration    90, 90s, 5 m, 1.5h, 2d, 90ms, 500us; a number without a unit is seconds
    size        4GB, 512 MB, 64kB, 100GiB; the units are PostgreSQL's, by 1024: GB and GiB are the same
    fraction    0.03 or 3%
    processors  2 or 0.5

Raises UsageError: `where` names the option or key, and the sentence ends in what to type.
"""

import math
import re

from pgassay.errors import UsageError

_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)\s*([a-zµ]*)")
SECONDS_OF = {
    "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0,
}  # fmt: skip
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]*)")
BYTES_OF = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
_BYTES_OF = {unit.lower(): factor for unit, factor in BYTES_OF.items()}
_BYTES_OF |= {f"{unit[0].lower()}ib": factor for unit, factor in BYTES_OF.items() if unit != "B"}
_PROCESSORS = re.compile(r"\d{1,5}(\.\d{1,3})?")
_WHOLE = re.compile(r"\d{1,15}")
# Clients of a load, or of statements, wherever their number is typed.
CLIENTS_MAX = 5000
FOREVER_S = 10 * 365 * 86_400.0


def seconds(
    text: str, where: str = "", *, least: float = 0.0, most: float = FOREVER_S, example: str = "90s, 5m or 1h"
) -> float:
    """Seconds of a duration within [least, most]; `example`: what the message says to write."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or match[2] not in SECONDS_OF:
        raise UsageError(f"{_at(where)}'{text}' is not a duration: write for example {example}")
    found = float(match[1]) * SECONDS_OF[match[2]]
    if not least <= found <= most:
        bound = f"less than {_plain(least)}" if found < least else f"more than {_plain(most)}"
        raise UsageError(f"{_at(where)}'{text}' is {bound}: write for example {example}")
    return found


def size_bytes(text: str, where: str = "", *, default_unit: str | None = None, example: str = "4GB") -> int:
    """Bytes of a size; a number without a unit is refused where no `default_unit` is given ("B", "kB", …)."""
    match = _SIZE.fullmatch(text.strip())
    unit = (match[2] or default_unit or "") if match else ""
    if match is None or unit.lower() not in _BYTES_OF:
        units = "GiB or TiB" if example.endswith("iB") else "kB, MB, GB or TB"
        wrong = f"{_at(where)}'{text}' is not a size"
        raise UsageError(f"{wrong}: write a number and {units}, for example {example}")
    factor = _BYTES_OF[unit.lower()]
    return round(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor


def fraction(text: str, where: str = "", *, least: float = -math.inf, most: float = math.inf) -> float:
    """A fraction within [least, most], `0.03` or `3%`."""
    number = text.strip()
    scale = 1.0
    if number.endswith("%"):
        number, scale = number[:-1].strip(), 0.01
    try:
        value = float(number) * scale
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{_at(where)}'{text}' is not a fraction: write 0.03 or 3%")
    if not least <= value <= most:
        raise UsageError(f"{_at(where)}'{text}' is out of range: use {least:g} to {most:g} (3% is 0.03)")
    return value


def whole(text: str, where: str = "", *, least: int = 0, most: int | None = None) -> int:
    """A whole number within [least, most]."""
    typed = text.strip()
    if _WHOLE.fullmatch(typed) and least <= int(typed) and (most is None or int(typed) <= most):
        return int(typed)
    bounds = f"from {least} to {most}" if most is not None else f"of {least} or more"
    raise UsageError(f"{_at(where)}'{text}' is not a whole number {bounds}: write digits only")


def processors(text: str, where: str = "", *, least: float = 0.001) -> float:
    """A number of processors, as 2 or 0.5."""
    typed = text.strip()
    if _PROCESSORS.fullmatch(typed) and float(typed) >= least:
        return float(typed)
    wrong = f"{_at(where)}'{text}' is not a number of processors"
    raise UsageError(f"{wrong}: write {least:g} or more, for example 1 or 0.5")


def _at(where: str) -> str:
    return f"{where}: " if where else ""


def _plain(value_s: float) -> str:
    for unit in ("d", "h", "m", "s", "ms"):
        if value_s >= SECONDS_OF[unit]:
            return f"{value_s / SECONDS_OF[unit]:g}{unit}"
    return f"{value_s / SECONDS_OF['us']:g}us" if value_s else "nothing"
