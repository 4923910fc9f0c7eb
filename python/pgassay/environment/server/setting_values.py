"""Comparing a setting's value as typed with the value a server shows, as the server itself reads it.

Follows parse_int, parse_real, parse_bool and convert_to_base_unit of src/backend/utils/misc/guc.c
and src/backend/utils/adt/bool.c.
"""

import math
import re
from dataclasses import dataclass

MEMORY_UNITS_BYTES = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
TIME_UNITS_US = {"us": 1, "ms": 1000, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
TRUE_WORDS, FALSE_WORDS = ("true", "yes", "on", "1"), ("false", "no", "off", "0")

# The value that lets the server choose, so that it shows another one.
AUTOMATIC = {
    "wal_buffers": -1,
    "io_max_concurrency": -1,
    "commit_timestamp_buffers": 0,
    "subtransaction_buffers": 0,
    "transaction_buffers": 0,
}
# Words that an enumeration accepts but shows as another.
SYNONYMS = {
    ("wal_level", "archive"): "replica",
    ("wal_level", "hot_standby"): "replica",
    ("wal_compression", "on"): "pglz",
}
_NUMBER = re.compile(r"\s*([+-]?(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?))\s*")
_BASE_UNIT = re.compile(r"(\d*)([A-Za-z]+)")
# SHOW prints a real number with six digits.
REAL_TOLERANCE = 1e-5


@dataclass(frozen=True)
class SettingFact:
    """What pg_settings says of a setting; `value`, `min`, `max` and `boot_value` are in `unit`."""

    name: str
    context: str
    vartype: str
    unit: str | None
    value: str | None
    min: str | None
    max: str | None
    enumvals: tuple[str, ...]
    boot_value: str | None

    def shown(self) -> str:
        """Return the value with its unit, e.g. 1024kB for 128 units of 8kB."""
        match = _BASE_UNIT.fullmatch(self.unit or "")
        if match is None or self.value is None or not self.value.lstrip("-").isdecimal():
            return f"{self.value or ''}{self.unit or ''}"
        return f"{int(self.value) * int(match[1] or 1)}{match[2]}"

    def accepted(self) -> str:
        """Return what may be given, in words; '' for a text."""
        if self.enumvals:
            return "one of " + ", ".join(self.enumvals)
        if self.vartype == "bool":
            return "on or off"
        if self.min is not None and self.max is not None:
            unit = f" in units of {self.unit}" if self.unit else ""
            return f"a number from {self.min} to {self.max}{unit}"
        return ""


def equal_value(name: str, wanted: str, effective: str, fact: SettingFact) -> bool:
    """Whether the server's value (as SHOW or pg_settings gives it) is the one that was asked for.

    True as well when `wanted` lets the server choose (wal_buffers=-1). False for a value that
    cannot be read as the setting's type.
    """
    if fact.vartype == "bool":
        truth = parse_bool(wanted)
        return truth is not None and truth == parse_bool(effective)
    if fact.vartype in ("integer", "real"):
        return _equal_number(name, wanted, effective, fact)
    if fact.vartype == "enum":
        return _enumeration_word(name, wanted) == _enumeration_word(name, effective)
    return _words(wanted) == _words(effective)


def parse_bool(text: str) -> bool | None:
    """Return what a word means, None for no Boolean; unique beginnings count, as in PostgreSQL."""
    word = text.strip().casefold()
    # 'o' alone could begin both on and off.
    if not word or word == "o":
        return None
    if any(known.startswith(word) for known in TRUE_WORDS):
        return True
    if any(known.startswith(word) for known in FALSE_WORDS):
        return False
    return None


def parse_number(text: str, base_unit: str | None) -> float | None:
    """Return a number in `base_unit` (e.g. '8kB', 'ms', None), None when it cannot be one.

    A bare number is in the base unit already. A fraction of a unit is rounded to a whole number
    of the next smaller unit first, as PostgreSQL does ('30.1GB' is a whole number of MB).
    """
    match = _NUMBER.match(text)
    if match is None:
        return None
    value, unit = _to_float(match[1]), text[match.end() :].strip()
    if not unit:
        return value
    scales = next((table for table in (MEMORY_UNITS_BYTES, TIME_UNITS_US) if unit in table), None)
    parsed = _BASE_UNIT.fullmatch(base_unit or "")
    if scales is None or parsed is None or parsed[2] not in scales:
        return None
    amount = value * scales[unit]
    smaller = max((scale for scale in scales.values() if scale < scales[unit]), default=None)
    if smaller is not None and value != math.floor(value):
        amount = _round_half_even(amount / smaller) * smaller
    return amount / (int(parsed[1] or 1) * scales[parsed[2]])


def _equal_number(name: str, wanted: str, effective: str, fact: SettingFact) -> bool:
    asked, held = parse_number(wanted, fact.unit), parse_number(effective, fact.unit)
    if asked is None or held is None:
        return False
    if AUTOMATIC.get(name) == asked:
        return True
    if fact.vartype == "integer":
        return _round_half_even(asked) == _round_half_even(held)
    return math.isclose(asked, held, rel_tol=REAL_TOLERANCE, abs_tol=1e-12)


def _enumeration_word(name: str, text: str) -> str:
    word = text.strip().casefold()
    truth = parse_bool(word) if word in (*TRUE_WORDS, *FALSE_WORDS) else None
    if truth is not None:
        word = "on" if truth else "off"
    return SYNONYMS.get((name, word), word)


def _words(text: str) -> list[str]:
    return [word.strip().strip('"').casefold() for word in text.split(",")]


def _to_float(text: str) -> float:
    digits = text.lstrip("+-")
    sign = -1.0 if text.startswith("-") else 1.0
    if digits[:2] in ("0x", "0X"):
        return sign * int(digits, 16)
    # strtol with base 0 reads a leading zero as octal.
    if re.fullmatch(r"0[0-7]+", digits):
        return sign * int(digits, 8)
    return sign * float(digits)


def _round_half_even(value: float) -> int:
    return round(value)
