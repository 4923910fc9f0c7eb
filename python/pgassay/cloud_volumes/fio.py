"""What fio measured, read from its JSON (`fio --output-format=json`, and json+)."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import cast

from pgassay.errors import UsageError

BYTES_MAX = 64 * 1024**2
_SIZE = re.compile(r"(\d{1,15})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_FACTOR = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}

Document = Mapping[str, object]


@dataclass(frozen=True)
class FioInterval:
    """What was done in a stretch of time."""

    seconds: float
    operations: float
    bytes: float


@dataclass(frozen=True)
class FioRun:
    """One direction of one job. `depth`: requests on their way at once, of all processes that ran then;
    `is_one_by_one`: its engine had one instead of the depth that was asked for. `is_buffered`: it went
    through the page cache.

    `latency_ns`: percentile (0 to 100) → from before the submission to the completion; `flush_ns`: the median
    of its fsync or fdatasync, None where it made none. `both_iops` and `both_bytes_per_s` are of reads and
    writes together, of all that ran at once. `series`: of each interval that fio told (`--status-interval`)
    the seconds, and the operations and bytes of the same.
    """

    file: str
    job: str
    direction: str
    is_random: bool
    request_bytes: int
    depth: int
    iops: float
    bytes_per_s: float
    both_iops: float
    both_bytes_per_s: float
    latency_ns: Mapping[float, float]
    flush_ns: float | None
    size_bytes: int | None
    series: tuple[FioInterval, ...] = ()
    is_one_by_one: bool = False
    is_buffered: bool = False


def read_fio(path: Path) -> list[FioRun]:
    """The runs of a file with their figures.

    Raises:
        UsageError: it can't be read, or is not what fio writes as JSON.
    """
    try:
        with path.open("rb") as opened:
            content = opened.read(BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"can't read {path} ({error.strerror}): name fio's JSON output") from error
    if len(content) > BYTES_MAX:
        raise UsageError(f"{path} has more than {BYTES_MAX // 1024**2} MB: fio's JSON output is smaller")
    try:
        documents = _documents(content.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is not JSON of fio ({error}): run fio with --output-format=json --output={path.name}"
        ) from error
    if not all("fio version" in document for document in documents):
        raise UsageError(f"{path} is JSON, but not of fio: run fio with --output-format=json")
    # Each tells all from the beginning of its run, so the last tells the whole.
    shared = _table(documents[-1], "global options")
    told = [_jobs(document) for document in documents]
    runs = [
        run
        for group in _at_once(told[-1])
        for run in _runs_of(
            [told[-1][index] for index in group],
            shared,
            path.name,
            _series([[each[index] for index in group] for each in told if len(each) > group[-1]]),
        )
    ]
    if not runs:
        raise UsageError(
            f"{path} holds no read and no write that took time: run fio with --rw=randread or another pattern"
        )
    return runs


def _at_once(jobs: Sequence[Document]) -> list[list[int]]:
    """The numbers of those that ran together, which are of one group; a `stonewall` begins another one.

    Without group_reporting fio tells of each process by itself, with its share of what the volume gave.
    """
    groups: dict[object, list[int]] = {}
    for index, job in enumerate(jobs):
        number = job.get("groupid")
        groups.setdefault(number if isinstance(number, int) else ("alone", index), []).append(index)
    return list(groups.values())


def _documents(text: str) -> list[Document]:
    """All documents of a file; with --status-interval fio writes one after the other."""
    decoder = json.JSONDecoder()
    documents: list[Document] = []
    # Warnings of fio stand before the document.
    start = max(text.find("{"), 0)
    while start >= 0:
        document, end = decoder.raw_decode(text, start)
        if not isinstance(document, dict):
            raise ValueError("it is not an object")
        documents.append(document)
        start = text.find("{", end)
    return documents


def _jobs(document: Document) -> list[Document]:
    jobs = document.get("jobs")
    return [job for job in jobs if isinstance(job, dict)] if isinstance(jobs, list) else []


def _series(told: Sequence[Sequence[Document]]) -> tuple[FioInterval, ...]:
    """The intervals between what fio told of jobs that ran at once; none where it told once."""
    totals = [(0.0, 0.0, 0.0)]
    for jobs in told:
        done = _done(jobs)
        totals.append(
            (
                max(_number(each, "runtime") for each in done) / 1000,
                sum(_number(each, "total_ios") for each in done),
                sum(_number(each, "io_bytes") for each in done),
            )
        )
    intervals = tuple(
        FioInterval(after[0] - before[0], after[1] - before[1], after[2] - before[2])
        for before, after in pairwise(totals)
        if after[0] > before[0] and after[1] >= before[1] and after[2] >= before[2]
    )
    return intervals if len(told) > 1 else ()


def _done(jobs: Sequence[Document]) -> list[Document]:
    return [_table(job, name) for job in jobs for name in ("read", "write")]


def _runs_of(
    jobs: Sequence[Document], shared: Document, file: str, series: tuple[FioInterval, ...]
) -> Iterator[FioRun]:
    """What jobs that ran at once tell, each of them by itself."""
    options = [{**shared, **_table(job, "job options")} for job in jobs]
    # One alone tells of all its processes together.
    processes = _count(options[0].get("numjobs")) if len(jobs) == 1 else 1
    asked = [_count(each.get("iodepth")) for each in options]
    is_one_by_one = [_is_one_by_one(job) for job in jobs]
    depth = sum(1 if one else each for each, one in zip(asked, is_one_by_one, strict=True)) * processes
    both_iops = sum(_number(each, "iops") for each in _done(jobs))
    both_bytes_per_s = sum(_bandwidth(each) for each in _done(jobs))
    for job, given, each, one in zip(jobs, options, asked, is_one_by_one, strict=True):
        pattern = str(given.get("rw") or given.get("readwrite") or "read")
        for name in ("read", "write"):
            request_bytes = _request_bytes(given, name)
            if request_bytes is None or request_bytes <= 0:
                continue
            table = _table(job, name)
            if min(_number(table, "total_ios"), _number(table, "iops"), _bandwidth(table)) <= 0:
                continue
            yield FioRun(
                file=file,
                job=str(job.get("jobname", "")),
                direction=name,
                is_random=pattern.startswith("rand"),
                request_bytes=request_bytes,
                depth=depth,
                iops=_number(table, "iops"),
                bytes_per_s=_bandwidth(table),
                both_iops=both_iops,
                both_bytes_per_s=both_bytes_per_s,
                latency_ns=_latency(table),
                flush_ns=_percentiles(_table(_table(job, "sync"), "lat_ns")).get(50.0),
                size_bytes=size_of(str(given.get("size", ""))),
                series=series,
                is_one_by_one=one and each > 1,
                is_buffered=_is_buffered(given),
            )


def _request_bytes(given: Document, direction: str) -> int | None:
    """The size of a read or a write: of two the first is that of reads; fio's default if it is left out."""
    sizes = str(given.get("bs") or given.get("blocksize") or "4k").split(",")
    return size_of(sizes[min(1, len(sizes) - 1) if direction == "write" else 0] or "4k")


def _is_one_by_one(job: Document) -> bool:
    """Whether there was never more than one request in flight: a synchronous engine ignores iodepth."""
    levels = _table(job, "iodepth_level")
    return bool(levels) and not any(_number(levels, level) for level in levels if level != "1")


def _is_buffered(given: Document) -> bool:
    """Whether fio read and wrote through the page cache, as it does unless it is told otherwise."""
    return str(given.get("direct", "0")) == "0" and str(given.get("buffered", "1")) != "0"


def _latency(table: Document) -> dict[float, float]:
    """Of the whole request where fio has it, else of its completion, with the mean of its submission."""
    whole = _percentiles(_table(table, "lat_ns"))
    if whole:
        return whole
    submission = _number(_table(table, "slat_ns"), "mean")
    return {share: value + submission for share, value in _percentiles(_table(table, "clat_ns")).items()}


def _percentiles(table: Document) -> dict[float, float]:
    found = {}
    for share, value in _table(table, "percentile").items():
        try:
            at, ns = float(share), float(cast(float, value))
        except (TypeError, ValueError):
            continue
        if 0 < at < 100 and math.isfinite(ns) and ns > 0:
            found[at] = ns
    return found


def _bandwidth(table: Document) -> float:
    """Bytes per second; fio before 3.0 has kB alone."""
    return _number(table, "bw_bytes") or _number(table, "bw") * 1024


def _table(document: Document, key: str) -> Document:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def _number(document: Document, key: str) -> float:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    number = float(value) if abs(value) < 1e18 else 0.0
    return number if math.isfinite(number) and number > 0 else 0.0


def _count(value: object) -> int:
    text = str(value)
    return max(1, int(text)) if text.isdecimal() and len(text) < 7 else 1


def size_of(text: str) -> int | None:
    """Bytes of fio's '8k' or '1m', by 1024; None where it is no such size."""
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(match[1]) * _FACTOR[match[2].lower()]
