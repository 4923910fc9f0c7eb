"""Files of traces, made by hand, and volumes: a second writer of the format of crates/native/README.md.

Also an experiment as it lies on a disk that has such a trace, and what a size says of it.
"""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import report_examples as examples
from pgassay.cloud_volumes.catalogue import load_catalogue
from pgassay.cloud_volumes.explain import explain
from pgassay.model.storage import StorageSpec
from pgassay.model.trial import TrialFacts
from pgassay.model.volumes.offer import Distribution, Latency, Stripes, VolumeModel
from pgassay.model.volumes.size import SizeResult
from pgassay.record.experiment import StoredExperiment
from pgassay.sizing.candidates import candidates
from pgassay.sizing.recordings import MeasuredRecording
from pgassay.sizing.server_volumes import Attached
from pgassay.sizing.size import Wanted, size

LOADED = load_catalogue()
# What each statement of the experiment reads, how long each page takes, and what is computed after it.
COUNT = 2000
LATENCY_NS, COMPUTING_NS = 1_000_000, 400_000
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
) -> MeasuredRecording:
    """A trial on a volume of constant latency, with its trace in the folder; `others`: of `Measured`."""
    return MeasuredRecording(
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


def stored(folder: Path, *, has_trace: bool = True) -> StoredExperiment:
    """Three statements of which each reads pages, on two volumes: an experiment as it lies on a disk."""
    made = examples.stored(levels=["volume:unlimited", "volume:gp3,size=100GiB"], blocks=1)
    elapsed_ns = COUNT * (LATENCY_NS + COMPUTING_NS)
    trials = []
    for trial in made.trials:
        place = folder / f"{trial.record.number}"
        (place / "observations").mkdir(parents=True)
        is_recorded = trial.record.arm_id == made.experiment.arms[0].id
        if has_trace and is_recorded:
            write_trace(
                place / "observations" / "volume.trace", one_client(3 * COUNT, LATENCY_NS, COMPUTING_NS)
            )
        model = constant(1.0) if is_recorded else explain(["gp3,size=100GiB"], LOADED).volumes[0].model
        statements = tuple(
            each.model_copy(
                update={
                    "clock_ns": (place_in * elapsed_ns, (place_in + 1) * elapsed_ns),
                    "elapsed_s": elapsed_ns / 1e9,
                }
            )
            for place_in, each in enumerate(trial.record.statements)
        )
        facts = TrialFacts.model_validate({"storage": {"volume": {"model": model.model_dump(mode="json")}}})
        record = trial.record.model_copy(update={"facts": facts, "statements": statements})
        trials.append(type(trial)(record, trial.plans, place))
    arms = tuple(
        arm.model_copy(
            update={
                "levels": {"storage": arm.levels["io_method"]},
                "spec": arm.spec.model_copy(update={"storage": StorageSpec(kind="volume"), "settings": {}}),
            }
        )
        for arm in made.experiment.arms
    )
    experiment = made.experiment.model_copy(update={"arms": arms})
    return StoredExperiment(folder=folder, experiment=experiment, trials=tuple(trials))


def sized(folder: Path, *volumes: str, slow_down: float = 0.1) -> SizeResult:
    """What is said of these volumes for 100 GiB."""
    offers = candidates(LOADED, 100, volumes=volumes)
    return size(stored(folder), offers, Wanted(slow_down=slow_down, size_gib=100), LOADED)
