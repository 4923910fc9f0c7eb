"""Options of a workload as typed: `tpcb:clients=20,duration=60s`."""

import re

from pgassay.errors import UsageError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str, what: str) -> float:
    """Seconds of `10`, `10s`, `90ms`, `5m` or `1h`; raises UsageError naming `what`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{what}: '{text}' is not a duration: write for example 30s, 5m or 1h")
    seconds = float(match.group(1)) * _SECONDS[match.group(2)]
    if seconds > 30 * 86400:
        raise UsageError(f"{what}: {text} is longer than 30 days: write a shorter duration")
    return seconds


def parse_whole(text: str, what: str, low: int, high: int) -> int:
    """A whole number within [low, high]; raises UsageError naming `what`."""
    if not re.fullmatch(r"\d{1,12}", text.strip()) or not low <= int(text) <= high:
        raise UsageError(f"{what}: '{text}' is not a whole number from {low} to {high}: write one")
    return int(text)


def parse_options(text: str, family: str, known: tuple[str, ...]) -> dict[str, str]:
    """The options after the colon; raises UsageError for an unknown or repeated one."""
    options: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or name not in known:
            listing = ", ".join(known) if known else "none"
            raise UsageError(f"workload {family} has no option '{part}': its options are {listing}")
        if name in options:
            raise UsageError(f"workload {family}: option {name} is given twice: give it once")
        options[name] = value.strip()
    return options
