"""A load of many clients, run and timed by the native binary's command `load`."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypedDict

from pgassay.model.workload import LoadSpec, SysbenchOptions
from pgassay.native.process import ErrorsOfState, NativeProcess


class LoadProgress(TypedDict):
    """One second of a load: its number from the start (warm-up included, from 1), and what it had."""

    second: int
    warmup: bool
    transactions: int
    errors: int


class LatencyBySecond(TypedDict):
    """The mean, the 99th percentile and the longest of each second, in milliseconds; None without any."""

    mean: list[float | None]
    p99: list[float | None]
    max: list[float | None]


class OpenLoopRecord(TypedDict):
    """What became of the arrivals of an open loop that were due in the measured interval.

    `scheduled` is the sum of the next four. `warmup_dropped`: arrivals of the warm-up that had not begun at
    its end. `per_second_queue`: how many had not begun at the end of each second. `from_send_ms`: latencies
    from the send; `held_ms`: for how long the load generator alone held arrivals up.
    """

    scheduled: int
    done: int
    failed: int
    skipped: int
    queued: int
    warmup_dropped: int
    per_second_due: list[int]
    per_second_queue: list[int]
    from_send_ms: dict[str, float]
    held_ms: dict[str, float]
    from_send_histogram: str


class KindRecord(TypedDict):
    """The latencies of one script of several, as those of the whole."""

    transactions: int
    latency_ms: dict[str, float]
    histogram: str


class LoadRecord(TypedDict):
    """What a load measured after its warm-up; CLOCK_MONOTONIC nanoseconds.

    `latency_ms`: mean, min, max and percentiles by name ("p99"), from when a transaction was due; in a closed
    loop from when it began. `histogram`: base64 of a compressed V2 HdrHistogram of microseconds.
    `late_transactions`: begun before the end of the measured interval, ended after it, not counted in it; its
    latency counts. `own_delay_ms`: what of each latency the load generator itself added, as far as it sees.
    `client_run_queue_s`, `client_idle_s`: for how long its threads together were ready to run and had no
    processor, and had nothing to do.
    `states`: those errors by SQLSTATE. `over_limit`: how many took longer than the limit.
    `kinds`: by script, where there are several.
    """

    transactions: int
    elapsed_s: float
    start_ns: int
    end_ns: int
    errors: int
    states: dict[str, ErrorsOfState]
    client_cpu_s: float
    per_second: list[int]
    per_second_latency_ms: LatencyBySecond
    latency_ms: dict[str, float]
    histogram: str
    warmup_transactions: int
    late_transactions: int
    per_second_histogram: list[str]
    own_delay_ms: dict[str, float]
    own_delay_histogram: str
    over_limit: int
    client_run_queue_s: float
    client_idle_s: float
    threads: int
    kinds: list[KindRecord]
    open_loop: OpenLoopRecord | None


def load_document(
    connect: Mapping[str, object], load: LoadSpec, *, scale: int, seed: int
) -> dict[str, object]:
    """What the native generator reads (`crates/native/README.md`): a load on pgbench's data of a scale."""
    oltp, pace = load.oltp_read_only, load.pace
    if load.sysbench is not None:
        data: dict[str, object] = {"sysbench": sysbench_document(load.sysbench)}
    else:
        data = {"scale": scale} if oltp is None else {"oltp_read_only": oltp.model_dump()}
    scripts = [script.model_dump() for script in load.scripts]
    return {
        "connect": connect,
        **({"scripts": scripts, "variables": load.variables} if scripts else {"script": load.script}),
        **data,
        "clients": load.clients,
        "threads": load.threads,
        "protocol": load.protocol,
        "duration_s": load.duration_s,
        "warmup_s": load.warmup_s,
        "seed": seed,
        **({} if pace is None else {"pace": {"arrivals": pace.arrivals, "rates": pace.rates}}),
        **({"think_s": load.think_s} if load.think_s else {}),
        **({} if load.latency_limit_ms is None else {"latency_limit_ms": load.latency_limit_ms}),
    }


def sysbench_document(options: SysbenchOptions) -> dict[str, object]:
    """The options of a script of sysbench's as the native generator reads them."""
    document = options.model_dump(exclude={"series"})
    document["random"] = {"distribution": document.pop("distribution")}
    return document


def run_load(
    spec: Mapping[str, object],
    on_progress: Callable[[LoadProgress], None] | None = None,
    cpu_affinity: Iterable[int] | None = None,
    on_progress_of: Callable[[int, LoadProgress], None] | None = None,
) -> LoadRecord:
    """Runs a load to its end.

    Args:
        spec: connect (as for `SqlSession.connect`), script ("select-only", "tpcb", "simple-update" with
            scale, "oltp_read_only" or "sysbench" with a document of that name: the fields of its options),
            clients, threads, protocol ("prepared", "simple"), duration_s, warmup_s, seed, pace (arrivals,
            rates, drain_s), latency_limit_ms.
        on_progress: called each second. When it raises, the load is ended.
        on_progress_of: the same with the number of the load's process before it.
        cpu_affinity: the CPUs the load generator may run on; all when None.

    Raises:
        StatementError: a server that can't be reached or refuses, or a statement that fails for good.
        UsageError: there is no native binary of this version.
    """
    with NativeProcess("load", cpu_affinity) as process:
        process.send(spec)
        while True:
            document = process.receive()
            if "record" in document:
                record: LoadRecord = document["record"]
                break
            if on_progress is not None:
                on_progress(document["progress"])
            if on_progress_of is not None:
                on_progress_of(process.pid, document["progress"])
    return record
