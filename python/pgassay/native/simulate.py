"""Requests against models of volumes, simulated by the native binary's command `simulate`."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from pgassay.native.process import NativeProcess


class PatternSpec(TypedDict):
    """A closed loop: `depth` requests are on their way; those that are done within `duration_s` count.

    `order` is "random" or "sequential"; `flush_after`: a client flushes after so many of its writes.
    """

    depth: int
    request_bytes: int
    order: str
    duration_s: float
    span_bytes: NotRequired[int]
    write_share: NotRequired[float]
    flush_after: NotRequired[int]


class TraceSpec(TypedDict):
    """Recorded requests as columns: `kind` has a letter each, r, w or f.

    `arrival_ns` counts from the beginning, or, where `after` has the number of an earlier request, from when
    that one is done.
    """

    arrival_ns: Sequence[int]
    kind: str
    offset: Sequence[int]
    length: Sequence[int]
    after: NotRequired[Sequence[int | None]]


class RecordedSpec(TypedDict):
    """A file that an imitated volume recorded, and the stretches of it that count, by CLOCK_MONOTONIC.

    `wal_path`: that of the volume of the WAL, where it has one of its own.
    `processors`: how many those had who computed between requests; it need not be whole. `clients`: how many
    there were, and `cpu_s`: how long processors were busy with it in seconds, where that is known. `commits`:
    how often the clients committed, `passing_on_ns`: what it takes to write what waits for a log, once the
    write before is done; where that is known. `processors_min`: as many of them were had at least, as what
    others took is known. `lock_waits`: how many clients waited for another's transaction to end, on average;
    `lock_chance`: with which chance a transaction needs a lock that a certain other one holds, where another
    recording shows it. `parts`: pairs of from and until, in their order; without any all of it counts.
    """

    path: str
    wal_path: NotRequired[str | None]
    processors: float
    clients: NotRequired[int]
    cpu_s: NotRequired[float]
    commits: NotRequired[int]
    passing_on_ns: NotRequired[int | None]
    processors_min: NotRequired[float]
    lock_waits: NotRequired[float]
    lock_chance: NotRequired[float | None]
    parts: NotRequired[Sequence[tuple[int, int]]]


class BesideSpec(TypedDict):
    """Of a recording of two volumes: the model of the WAL's, and that of an instance whose limits both share.

    None: there is none. The volumes' own models have not these limits.
    """

    wal: Mapping[str, object]
    instance: Mapping[str, object] | None


class RecordedFacts(TypedDict):
    """What was recorded, and inferred (`Facts` of crates/volume/src/simulate/recorded/dependencies.rs).

    `issued`: how many requests that are waited for had been issued by the ends of 200 equal stretches of the
    recorded time, after a 0.
    """

    reads: int
    writes: int
    flushes: int
    bytes: int
    elapsed_s: float
    write_back: int
    log_writes: int
    lanes: int
    computing_s: float
    passing_on_us: float
    lock_chance: float
    lost: int
    is_complete: bool
    issued: list[int]


class SimulatedSeries(TypedDict):
    """What was done in each interval from time 0, by the time of completion."""

    interval_s: float
    requests: list[int]
    bytes: list[int]
    latency_s: list[float]


class CreditsLeft(TypedDict):
    """The credits of a limiter at the end; `ended_s`: when they first ended, else None."""

    limiter: str
    volume: int | None
    unit: str
    left: int
    capacity: int
    ended_s: float | None


class Simulated(TypedDict):
    """The figures of one model (`Simulated` of crates/volume/src/simulate/figures.rs).

    `latency_ms`: mean, p50, p90, p99, p99.9 and max, from arrival to completion; None where nothing was done.
    `milestones_s`, of a recording: when the ends of 200 equal stretches of its time were reached, after a 0.
    """

    model: str
    elapsed_s: float
    requests: int
    flushes: int
    operations: int
    bytes: int
    requests_per_s: float
    bytes_per_s: float
    latency_ms: dict[str, float] | None
    queued_ms: float
    series: SimulatedSeries
    credits: list[CreditsLeft]
    milestones_s: NotRequired[list[float]]


def simulate(
    models: Sequence[Mapping[str, object]],
    *,
    pattern: PatternSpec | None = None,
    trace: TraceSpec | None = None,
    interval_s: float = 1.0,
    seed: int = 1,
    threads: int = 2,
) -> list[Simulated]:
    """The figures of each model under the pattern or the trace, of which one is given; in their order.

    Args:
        models: documents of `model.volumes.offer.VolumeModel`.
        interval_s: the length of an interval of the series.
        seed: decides the latencies and the pattern, for all models alike.
        threads: how many models are simulated at once.

    Raises:
        StatementError: a model, the pattern or the trace makes no sense.
        MeasurementError: the native process ended.
        UsageError: there is no native binary of this version.
    """
    work = {"pattern": pattern} if trace is None else {"trace": trace}
    return _simulate(models, work, interval_s, seed, threads)[1]


def replay(
    models: Sequence[Mapping[str, object]],
    recorded: RecordedSpec,
    *,
    beside: Sequence[BesideSpec] = (),
    interval_s: float = 1.0,
    seed: int = 1,
    threads: int = 2,
) -> tuple[RecordedFacts, list[Simulated]]:
    """What was recorded, and how long it would take on each model, in their order.

    `beside`: of a recording of two volumes, for each model of the data's what is beside it.
    `elapsed_s` of an answer is that of all parts, with the computing at their end. Raises as `simulate`.
    """
    facts, answers = _simulate(models, {"recorded": recorded}, interval_s, seed, threads, beside)
    if facts is None:
        raise AssertionError("a recording comes before its answers")
    return facts, answers


def _simulate(
    models: Sequence[Mapping[str, object]],
    work: Mapping[str, object],
    interval_s: float,
    seed: int,
    threads: int,
    beside: Sequence[BesideSpec] = (),
) -> tuple[RecordedFacts | None, list[Simulated]]:
    facts: RecordedFacts | None = None
    with NativeProcess("simulate") as process:
        document = {
            "models": models,
            "work": work,
            "interval_s": interval_s,
            "seed": seed,
            "threads": threads,
        }
        process.send(document | ({"beside": beside} if beside else {}))
        if "recorded" in work:
            facts = process.receive()["recorded"]
        answers: list[Simulated] = [process.receive()["simulated"] for _ in models]
    return facts, answers
