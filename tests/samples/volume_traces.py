"""Files of traces, made by hand, and volumes: a second writer of the format of crates/native/README.md."""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pgassay.model.volumes.offer import Distribution, Latency, Stripes, VolumeModel
from pgassay.sizing.attached import Attached
from pgassay.sizing.recordings import Measured

# issue and completion in ns from time 0, kind (r, w or f), first byte, bytes
Request = tuple[int, int, str, int, int]


def write_trace(
    path: Path, requests: Sequence[Request], *, clock_ns: int = 0, overhead_ns: int = 0, lost: int = 0
) -> Path:
    """Write a file of one chunk, in the order in which the requests were done; returns its name."""
    payload = b""
    last_issue, last_end = 0, 0
    for issue_ns, done_ns, kind, offset, length in sorted(requests, key=lambda each: each[1]):
        payload += _number(_folded(issue_ns - last_issue) * 4 + "rwf".index(kind))
        payload += _number(done_ns - issue_ns)
        last_issue = issue_ns
        if kind != "f":
            payload += _number(_folded(offset - last_end)) + _number(length)
            last_end = offset + length
    counts = struct.pack("<QQ", len(requests), lost)
    path.write_bytes(
        b"PGAtrace"
        + struct.pack("<IIQQ", 1, 0, clock_ns, overhead_ns)
        + b"CHNK"
        + struct.pack("<III", len(payload), len(requests), zlib.crc32(payload))
        + payload
        + b"DONE"
        + counts
        + struct.pack("<I", zlib.crc32(counts))
    )
    return path


def one_client(count: int, latency_ns: int, computing_ns: int, length: int = 8192) -> list[Request]:
    """Random reads one at a time, with so much computing after each."""
    cycle = latency_ns + computing_ns
    places = [number * 7919 % 100_003 * length for number in range(count)]
    return [
        (number * cycle, number * cycle + latency_ns, "r", place, length)
        for number, place in enumerate(places)
    ]


def constant(latency_ms: float) -> VolumeModel:
    """A volume without limits, whose every request takes as long."""
    one = Distribution(median_ns=latency_ms * 1e6, sigma=0.0, bytes_per_second=None)
    return VolumeModel(
        name=f"{latency_ms} ms",
        stripes=Stripes(count=1, width_bytes=1 << 18),
        limiters=(),
        latency=Latency(read=one, write=one, flush=one),
    )


def alone(latency_ms: float) -> Attached:
    """The same for data and WAL."""
    return Attached(constant(latency_ms))


def recorded_on(
    latency_ns: int,
    requests: Sequence[Request],
    folder: Path,
    *,
    elapsed_ns: int,
    units: int,
    trial: int = 0,
    has_trace: bool = True,
    **others: Any,
) -> Measured:
    """A trial on a volume of constant latency, with its trace in the folder; `others`: of `Measured`."""
    return Measured(
        trial=trial,
        attempt=1,
        storage=f"constant {latency_ns}",
        model=constant(latency_ns / 1e6).model_dump(mode="json"),
        elapsed_s=elapsed_ns / 1e9,
        units=units,
        parts=((0, elapsed_ns),),
        processors=1.0,
        trace=write_trace(folder / f"{trial}.trace", requests) if has_trace else None,
        **others,
    )


def _folded(number: int) -> int:
    return number * 2 if number >= 0 else -number * 2 - 1


def _number(value: int) -> bytes:
    made = bytearray()
    while value >= 128:
        made.append(value % 128 + 128)
        value //= 128
    return bytes([*made, value])
