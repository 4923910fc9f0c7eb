"""A volume of one's own, from what fio measured on it: ceilings and a lognormal latency."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from statistics import NormalDist

from pydantic import ValidationError

from pgassay.cloud_volumes.fio import FioRun
from pgassay.errors import UsageError
from pgassay.model.volumes.catalogue import RESERVED, Burst, LatencyEntry, Range, Rate, VolumeEntry

_NAME = re.compile(r"[A-Za-z][\w.-]{0,63}", re.ASCII)
GIB = 1024**3
# Requests up to this size tell operations, from this size on throughput.
SMALL_BYTES = 16 * 1024
LARGE_BYTES = 64 * 1024
# More depth that brings less than this share more has met a ceiling.
CEILING_SHARE = 0.05
# A series is looked at for the end of a burst from so many intervals on, of which each level has some.
INTERVALS_MIN = 12
LEVEL_MIN = 4
# A peak of so many times the base is one: smaller falls may be a neighbour's.
BURST_MIN = 1.25
MIB = 1024**2
# Percentiles that the spread is fitted to: what lies beyond is pauses of the machine, not the volume's habit.
_CENTRE = (5.0, 95.0)
_NORMAL = NormalDist()


@dataclass(frozen=True)
class FittedVolume:
    """An entry for the catalogue, and what must be known about it, a sentence each."""

    name: str
    entry: VolumeEntry
    notes: tuple[str, ...]


def fit(runs: Sequence[FioRun], name: str, size_gib: int | None) -> FittedVolume:
    """The entry of a volume on which fio ran so.

    Latency is that of one small request at a time: the median as it is, and for sigma the slope of the
    logarithms of the percentiles from the 5th to the 95th over normal quantiles (least squares through the
    median). A ceiling is the highest rate of any run, and counts as one where more depth brought less than
    5 % more.

    Raises:
        UsageError: no run has one request at a time, or the name can't be one.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"--name {name}: a name has letters, digits, '.', '_' and '-', and a letter first")
    if name.lower() in RESERVED:
        raise UsageError(
            f"--name {name}: this word has another meaning in the name of a volume: choose another"
        )
    notes: list[str] = []
    try:
        entry = _entry(runs, name, size_gib, notes)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"fio's figures can't be those of a volume ({where}: {first['msg']}): run fio again"
        ) from error
    return FittedVolume(name, entry, tuple(notes))


def _entry(runs: Sequence[FioRun], name: str, size_gib: int | None, notes: list[str]) -> VolumeEntry:
    _doubt(runs, notes)
    latency = _latency(runs, notes)
    small = [run for run in runs if run.request_bytes <= SMALL_BYTES]
    random = [run for run in small if run.is_random]
    if small and not random:
        notes.append(
            "No run of small requests was random: a volume may count adjacent ones as one operation, so that "
            "it may give fewer. Run --rw=randread --bs=8k."
        )
    operations = _rate(random or small, "operations", notes)
    throughput = _rate([run for run in runs if run.request_bytes >= LARGE_BYTES], "throughput", notes)
    if operations is None and throughput is None:
        raise UsageError(
            "fio's runs have requests above 16 KiB and below 64 KiB alone: run --bs=8k and --bs=128k"
        )
    if not any(len(run.series) >= INTERVALS_MIN for run in runs):
        notes.append("No run has a series of intervals, so bursts are not fitted: run --status-interval=1.")
    if size_gib is None:
        sizes = [run.size_bytes for run in runs if run.size_bytes]
        size_gib = max(1, math.ceil(max(sizes, default=GIB) / GIB))
        notes.append(f"The size is that of fio's file, rounded up to {size_gib} GiB: --size says another.")
    files = ", ".join(dict.fromkeys(run.file for run in runs))
    return VolumeEntry(
        provider="own",
        title=f"fitted from fio ({files})",
        throughput_unit="MB/s",
        ranges=(
            Range(
                from_gib=size_gib,
                to_gib=size_gib,
                operations=operations,
                throughput=throughput,
            ),
        ),
        latency=latency,
        sources=(f"{name}-fio",),
        assumed=("operations of up to 256 KiB", "a burst only where fio's run used up its credits"),
    )


def _doubt(runs: Sequence[FioRun], notes: list[str]) -> None:
    """What makes the figures of whole runs others than the volume's."""
    one_by_one, buffered = (
        ", ".join(dict.fromkeys(run.file for run in runs if getattr(run, name)))
        for name in ("is_one_by_one", "is_buffered")
    )
    if one_by_one:
        notes.append(
            f"{one_by_one}: fio had one request in flight at a time instead of --iodepth, as with its "
            "default engine: run --ioengine=libaio."
        )
    if buffered:
        notes.append(
            f"{buffered}: fio went through the page cache, whose figures these may be: run --direct=1."
        )


def to_toml(fitted: FittedVolume, day: date) -> str:
    """The entry as a file for --catalogue, with its notes as comments."""
    entry, name = fitted.entry, fitted.name
    here = entry.ranges[0]
    latency = ", ".join(
        f"{key} = {value:.6g}" for key, value in entry.latency.model_dump(exclude_none=True).items()
    )
    assumed = ", ".join(_quoted(word) for word in entry.assumed)
    lines = [
        *(f"# {_escaped(note)}" for note in fitted.notes),
        "",
        f'[sources."{name}-fio"]',
        f"title = {_quoted(entry.title)}",
        f'read = "{day.isoformat()}"',
        "",
        f'[volumes."{name}"]',
        f'provider = "{entry.provider}"',
        f"title = {_quoted(entry.title)}",
        f'throughput_unit = "{entry.throughput_unit}"',
        f'sources = ["{name}-fio"]',
        f"assumed = [{assumed}]",
        f"latency = {{ {latency} }}",
        "",
        f'[[volumes."{name}".ranges]]',
        f"from_gib = {here.from_gib}",
        f"to_gib = {here.to_gib}",
    ]
    for key, rate in (("operations", here.operations), ("throughput", here.throughput)):
        if rate is not None:
            parts = [f"base = {rate.base:.10g}"]
            if rate.quantum_kib is not None:
                parts.append(f"quantum_kib = {rate.quantum_kib}")
            if rate.burst is not None:
                peak, credits = rate.burst.peak, rate.burst.credits
                parts.append(f"burst = {{ peak = {peak:.10g}, credits = {credits:.10g} }}")
            lines.append(f"{key} = {{ {', '.join(parts)} }}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A basic string of TOML."""
    return '"' + _escaped(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _escaped(text: str) -> str:
    """The text with control characters, which file names may hold, as TOML's escapes."""
    return "".join(f"\\u{ord(sign):04x}" if ord(sign) < 32 or ord(sign) == 127 else sign for sign in text)


def _latency(runs: Sequence[FioRun], notes: list[str]) -> LatencyEntry:
    alone = [run for run in runs if run.depth == 1 and 50.0 in run.latency_ns]
    reads = [run for run in alone if run.direction == "read"]
    # Without reads, writes tell what there is to tell.
    told = reads or alone
    if not told:
        raise UsageError(
            "no run of fio had one request at a time: run it with --iodepth=1 --numjobs=1 as well"
        )
    least = min(run.request_bytes for run in told)
    small = [run for run in told if run.request_bytes == least]
    medians = sorted(run.latency_ns[50.0] for run in small)
    stream = _stream(told)
    sigmas = [_sigma(run) for run in small]
    sigma = sum(each for each, _ in sigmas) / len(sigmas)
    apart = max(error for _, error in sigmas)
    notes.append(
        f"Latency of one request of {least} bytes: a lognormal meets fio's 5th to 95th percentiles "
        f"within {100 * (math.exp(apart) - 1):.0f} %."
    )
    if stream is None:
        notes.append(
            "The time that the bytes of a request take is not fitted: run --iodepth=1 with two sizes."
        )
    if not reads:
        notes.append("There was no read of one request at a time: the latency is that of writes.")
    writes = [run for run in alone if run.direction == "write" and reads]
    flushes = [run.flush_ns for run in alone if run.flush_ns is not None]
    if not flushes:
        notes.append("No run made a flush, so it costs nothing: run --rw=write --fdatasync=1 for its time.")

    def without_transfer(ns: float, request_bytes: int = least) -> float:
        transfer_ns = 0.0 if stream is None else request_bytes / stream * 1e9
        return max(ns - transfer_ns, 1000.0) / 1e6

    return LatencyEntry(
        median_ms=without_transfer(medians[len(medians) // 2]),
        low_ms=without_transfer(medians[0]),
        high_ms=without_transfer(medians[-1]),
        sigma=min(sigma, 3.0),
        stream_mb_s=None if stream is None else stream / 1e6,
        write_median_ms=min(
            (without_transfer(run.latency_ns[50.0], run.request_bytes) for run in writes), default=None
        ),
        flush_ms=min(flushes, default=0.0) / 1e6,
    )


def _sigma(run: FioRun) -> tuple[float, float]:
    """The slope of the percentiles' logarithms over normal quantiles, and the greatest distance from it."""
    median = math.log(run.latency_ns[50.0])
    points = [
        (_NORMAL.inv_cdf(share / 100), math.log(ns) - median)
        for share, ns in run.latency_ns.items()
        if _CENTRE[0] <= share <= _CENTRE[1]
    ]
    squares = sum(z * z for z, _ in points)
    slope = max(0.0, sum(z * log for z, log in points) / squares) if squares else 0.0
    return slope, max(abs(log - slope * z) for z, log in points)


def _stream(alone: Sequence[FioRun]) -> float | None:
    """Bytes per second of one request's transfer, from the least and the greatest size; None where it
    can't be told."""
    first = min(alone, key=lambda run: run.request_bytes)
    last = max(alone, key=lambda run: run.request_bytes)
    more_bytes = last.request_bytes - first.request_bytes
    more_ns = last.latency_ns[50.0] - first.latency_ns[50.0]
    return more_bytes / more_ns * 1e9 if more_bytes > 0 and more_ns > 0 else None


def _rate(runs: Sequence[FioRun], what: str, notes: list[str]) -> Rate | None:
    """The limit that the runs tell, in the unit of the entry: operations, or 10⁶ bytes a second."""
    scale, digits = (1.0, None) if what == "operations" else (1e6, 1)
    quantum = 256 if what == "operations" else None
    bursts = [burst for run in runs if (burst := _burst(run, what)) is not None]
    if not bursts:
        ceiling = _ceiling(runs, what, notes)
        return None if ceiling is None else Rate(base=_rounded(ceiling / scale, digits), quantum_kib=quantum)
    peak, base, credits, end_s = max(bursts)
    # As the catalogue counts credits.
    unit, unit_bytes = ("operations", 1) if what == "operations" else ("MiB", MIB)
    held = _rounded(credits / unit_bytes, digits)
    notes.append(
        f"After {end_s:,.0f} s {what} fell from {_told(peak, what)} to {_told(base, what)}: "
        f"a bucket of {held:,.0f} {unit}, if it was full."
    )
    return Rate(
        base=_rounded(base / scale, digits),
        quantum_kib=quantum,
        burst=Burst(peak=_rounded(peak / scale, digits), credits=held),
    )


def _rounded(value: float, digits: int | None) -> float:
    """So many digits behind the point, or two of what would be nothing then."""
    return round(value, digits) or float(f"{value:.2g}")


def _burst(run: FioRun, what: str) -> tuple[float, float, float, float] | None:
    """Peak, base, credits and the second at which they ended, of a run whose rate fell once and stayed low.

    The two levels are those that leave the least squares. The credits are all that was done beyond the base,
    so that the interval in which they ended counts right.
    """
    done = [interval.operations if what == "operations" else interval.bytes for interval in run.series]
    rates = [amount / interval.seconds for amount, interval in zip(done, run.series, strict=True)]
    if len(rates) < INTERVALS_MIN:
        return None

    def squares(part: Sequence[float]) -> float:
        mean = sum(part) / len(part)
        return sum((rate - mean) ** 2 for rate in part)

    places = range(LEVEL_MIN, len(rates) - LEVEL_MIN + 1)
    place = min(places, key=lambda each: squares(rates[:each]) + squares(rates[each:]))
    # The interval in between is of neither level.
    before, after = sorted(rates[: place - 1]), sorted(rates[place + 1 :])
    peak, base = before[len(before) // 2], after[len(after) // 2]
    is_steady = before[0] > (peak + base) / 2 and after[-1] < (peak + base) / 2
    credits = sum(done) - base * sum(interval.seconds for interval in run.series)
    # Nothing at all is no base, but the end of the work.
    if base <= 0 or peak < base * BURST_MIN or not is_steady or credits <= 0:
        return None
    return peak, base, credits, credits / (peak - base)


def _ceiling(runs: Sequence[FioRun], what: str, notes: list[str]) -> float | None:
    """The highest rate of the runs, in operations or bytes per second."""

    def rate(run: FioRun) -> float:
        return run.both_iops if what == "operations" else run.both_bytes_per_s

    if not runs:
        sizes = "--bs=8k" if what == "operations" else "--bs=128k"
        notes.append(
            f"No run measures {what}, so it has no limit: run {sizes} --iodepth=32 and --iodepth=64."
        )
        return None
    best = max(runs, key=rate)
    less = [run for run in runs if run.depth < best.depth and run.request_bytes == best.request_bytes]
    before = max((rate(run) for run in less), default=None)
    more = [run for run in runs if run.depth > best.depth and run.request_bytes == best.request_bytes]
    if more or (before is not None and rate(best) <= before * (1 + CEILING_SHARE)):
        notes.append(f"More depth brought no more {what}: {_told(rate(best), what)} is the volume's ceiling.")
    elif before is None:
        notes.append(
            f"Only one depth measures {what}, {_told(rate(best), what)}: more depth may bring more; try "
            f"twice {best.depth}."
        )
    else:
        notes.append(
            f"Depth {best.depth} brought {100 * (rate(best) / before - 1):.0f} % more {what} than less: "
            f"{_told(rate(best), what)} may not be the ceiling; try twice as deep."
        )
    return rate(best)


def _told(rate: float, what: str) -> str:
    return f"{rate:,.0f} a second" if what == "operations" else f"{rate / 1e6:,.0f} MB/s"
