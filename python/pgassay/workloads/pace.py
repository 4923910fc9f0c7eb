"""When transactions of a load begin: `rate=`, `arrivals=`, `curve=` and `latency_limit=`, or `think=`."""

import csv
import math
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.model.workload import Arrivals, LoadSpec, Metric, Pace
from pgassay.value_syntax import quantities

OPTIONS = ("rate", "arrivals", "curve", "latency_limit", "think")
RATE_MAX = 1e7
POINTS_MAX = 1_000_000
CURVE_BYTES_MAX = 64 * 1024 * 1024
MEAN_LATENCY = Metric(name="mean latency", unit="ms", better="lower", latency="mean")
_PART = re.compile(r"(?P<first>[^/.]+(?:\.\d+)?)(?:\.\.(?P<last>[^/]+?))?(?:/(?P<for>.+))?")
_SPEED = re.compile(r"(?P<path>.+)@(?P<speed>\d{1,9}(?:\.\d{1,6})?)")
_WHERE = "workload option rate"
# What may be written behind a rate as if it were one of that unit.
_UNITS = frozenset({*quantities.SECONDS_OF, "sec", "second", "minute", "hour"})
# As csv has it; no number is as long.
_FIELD_CHARACTERS_MAX = 131_072


def curve_duration(options: Mapping[str, str]) -> str | None:
    """How long a curve lasts, as a duration that is typed; None without one. Raises UsageError."""
    if "curve" not in options:
        return None
    # As a duration is typed, without an exponent.
    lasts_s = min(_curve(options["curve"])[-1][0], quantities.FOREVER_S)
    return f"{lasts_s:.12f}".rstrip("0").rstrip(".") + "s"


def placed_curve(typed: str, place: Callable[[str], str]) -> str:
    """The value of `curve=` with its file where `place` says; it is given the file as typed."""
    match = _SPEED.fullmatch(typed)
    path = match["path"] if match else typed
    return f"{place(path)}{typed.removeprefix(path)}" if path else typed


def with_pace(load: LoadSpec, options: Mapping[str, str], where: str = "workload option") -> LoadSpec:
    """The load with what these options say of when its transactions are due; raises UsageError."""
    arrivals = options.get("arrivals")
    if "rate" in options and "curve" in options:
        raise UsageError(
            "workload options rate and curve both say when transactions are due: leave one of them out"
        )
    pace = load.pace
    if "rate" in options:
        pace = Pace(text=options["rate"], rates=rates_of(options["rate"], f"{where} rate"))
    elif "curve" in options:
        pace = Pace(text=options["curve"], rates=_curve(options["curve"]))
    if arrivals is not None:
        if pace is None:
            raise UsageError(
                f"{where} arrivals: the rate is missing: add rate=1000 to the workload (the levels of a "
                "factor rate replace it)"
            )
        pace = pace.model_copy(update={"arrivals": _arrivals(arrivals, where)})
    elif pace is not None and load.pace is not None:
        pace = pace.model_copy(update={"arrivals": load.pace.arrivals})
    limit_ms = load.latency_limit_ms
    if "latency_limit" in options:
        limit_ms = 1e3 * latency_s(options["latency_limit"], f"{where} latency_limit", most=1e6)
    think_s = load.think_s
    if "think" in options:
        think_s = quantities.seconds(options["think"], f"{where} think", most=86400, example="50ms")
    if pace is not None and think_s:
        raise UsageError(
            f"{where} think: rate= or curve= already says when transactions start: leave one of them out"
        )
    return load.model_copy(update={"pace": pace, "latency_limit_ms": limit_ms, "think_s": think_s})


def latency_s(text: str, where: str, most: float) -> float:
    """Seconds of a latency, with its unit: a number alone is milliseconds to pgbench, and seconds here.

    Raises UsageError for one without, and for what is not above 0 or above `most`.
    """
    typed = text.strip()
    found = quantities.seconds(typed, where, least=1e-6, most=most, example="20ms")
    if _is_number(typed):
        raise UsageError(f"{where}: '{typed}' has no unit: write {typed}ms, or {typed}s for seconds")
    return found


def option_of(pace: Pace) -> str:
    """By which option a pace was typed: "rate" or "curve"."""
    try:
        return "rate" if rates_of(pace.text) == pace.rates else "curve"
    except UsageError:
        return "curve"


def rates_of(text: str, where: str = _WHERE) -> tuple[tuple[float, float], ...]:
    """`2000`, `500..5000/60s`, `500/30s+2000/30s+2000..500/1m`: the points of a curve of rates.

    Each part is a rate or goes from one to another in a straight line, for as long as it says; the last may
    leave that out where its rate stays. Raises UsageError.
    """
    points: list[tuple[float, float]] = []
    seconds, parts = 0.0, text.split("+")
    for number, part in enumerate(parts, start=1):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"{where}: '{part}' is not a rate: {_EXAMPLES}")
        first = _rate(match["first"], where)
        last = first if match["last"] is None else _rate(match["last"], where)
        points.append((seconds, first))
        if match["for"] is not None:
            if match["for"].strip() in _UNITS:
                raise UsageError(
                    f"{where}: '{part.strip()}' has a unit, and behind the / stands how long the rate lasts: "
                    f"{_EXAMPLES}"
                )
            seconds += quantities.seconds(match["for"], where, least=0.001, example="500..5000/60s")
            points.append((seconds, last))
        elif number < len(parts) or match["last"] is not None:
            raise UsageError(f"{where}: '{part}' has no duration: write {part.strip()}/60s")
    if all(rate == 0 for _, rate in points):
        raise UsageError(f"{where}: every rate is 0, so no transaction would run: {_EXAMPLES}")
    return tuple(points)


_EXAMPLES = "write transactions a second as 2000, a ramp as 500..5000/60s, steps as 500/30s+2000/30s"


def _rate(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= RATE_MAX:
        raise UsageError(f"{where}: '{text.strip()}' is not a rate from 0 to {RATE_MAX:.0f}: {_EXAMPLES}")
    return value


def _arrivals(text: str, where: str) -> Arrivals:
    if text == "poisson":
        return "poisson"
    if text == "constant":
        return "constant"
    raise UsageError(f"{where} arrivals: '{text}' is not known: write poisson or constant")


def _curve(typed: str) -> tuple[tuple[float, float], ...]:
    """The points of a CSV file of seconds and rates; `FILE@288` goes through them 288 times as fast."""
    match = _SPEED.fullmatch(typed.strip())
    path, speed = Path(match["path"] if match else typed.strip()), float(match["speed"]) if match else 1.0
    if not speed > 0:
        raise UsageError(f"workload option curve: a speed of {speed:g} stands still: write {path}@288")
    points: list[tuple[float, float]] = []
    is_named = False
    for line, row in _rows(path):
        if not row or row[0].lstrip().startswith("#"):
            continue
        try:
            seconds, rate = (float(cell) for cell in row)
        except ValueError as error:
            if not (points or is_named) and len(row) == 2 and not _is_number(row[0]):
                is_named = True
                continue  # names of the columns
            raise UsageError(f"{path}, line {line}: write two numbers, seconds,rate") from error
        if not (math.isfinite(seconds) and seconds >= 0 and 0 <= rate <= RATE_MAX):
            raise UsageError(f"{path}, line {line}: seconds are from 0 on, a rate from 0 to {RATE_MAX:.0f}")
        if not math.isfinite(seconds / speed):
            raise UsageError(
                f"{path}, line {line}: the curve never ends at a speed of {speed:g}: leave it out"
            )
        points.append((seconds / speed, rate))
    if len(points) < 2 or len(points) > POINTS_MAX:
        raise UsageError(
            f"{path} has {len(points)} points: a curve has 2 to {POINTS_MAX}, seconds,rate on each line"
        )
    if any(later[0] < earlier[0] for earlier, later in pairwise(points)):
        raise UsageError(f"{path}: the times are not in order: sort the lines by time")
    if all(rate == 0 for _, rate in points) or points[-1][0] <= 0:
        raise UsageError(f"{path}: no transaction would ever run: give rates above 0 for some time")
    return tuple(points)


def _is_number(cell: str) -> bool:
    try:
        return not math.isnan(float(cell))
    except ValueError:
        return False


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows of a CSV file with the numbers of their lines; raises UsageError."""
    instead = "name a CSV file of seconds,rate"
    try:
        # A pipe would never answer, and /dev/zero never end.
        if path.exists() and not path.is_file():
            raise UsageError(f"the curve {path} is not a regular file: {instead}")
        if path.stat().st_size > CURVE_BYTES_MAX:
            raise UsageError(f"{path} is larger than 64 MB: keep one line for each minute or second")
        # Whoever read a server's log in this process has raised it.
        csv.field_size_limit(_FIELD_CHARACTERS_MAX)
        reader = csv.reader(path.read_text("utf-8-sig").splitlines())
        return [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise UsageError(f"{path} is no CSV file ({error}): write seconds,rate on each line") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None)
        why = why or ("it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error)
        raise UsageError(f"can't read the curve {path!s:.200} ({why}): {instead}") from error
