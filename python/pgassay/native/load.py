"""A load of many clients, run and timed by the native binary's command `load`."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypedDict

from pgassay.model.workload import LoadSpec, SysbenchOptions
from pgassay.native.other_host import ClockOfHost
from pgassay.native.process import ErrorsOfState, NativeProcess, StatementError


class LoadProgress(TypedDict):
    """One second of a load: its number from the start (warm-up included, from 1), and what it had.

    `queue`: transactions that were due and had not begun at its end, or waited for a connection; 100,000
    stands for as many and more.
    """

    second: int
    warmup: bool
    transactions: int
    errors: int
    p50_ms: float | None
    p99_ms: float | None
    queue: int


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


class StatementRecord(TypedDict):
    """The latencies of one statement, from its send to its answer; `line` 0 and no `script` of our own."""

    script: str
    line: int
    text: str
    count: int
    latency_ms: dict[str, float]
    histogram: str


class OutageRecord(TypedDict):
    """A stretch in which no transaction ended and connections were lost, by the measured interval's clock."""

    from_s: float
    length_s: float
    is_over: bool


class ConnectionRecord(TypedDict):
    """What became of connections that are shared, closed or opened again."""

    opened: int
    opening_ms: dict[str, float]
    wait_ms: dict[str, float]
    wait_histogram: str
    lost: int
    refused: dict[str, ErrorsOfState]
    abandoned: int
    outages: list[OutageRecord]


class PartialRecord(TypedDict):
    """What was counted of a load that a failure ended; `elapsed_s` 0 where the warm-up was not over."""

    elapsed_s: float
    transactions: int
    errors: int
    states: dict[str, ErrorsOfState]
    latency_ms: dict[str, float]


class LoadRecord(TypedDict):
    """What a load measured after its warm-up; CLOCK_MONOTONIC nanoseconds.

    `latency_ms`: mean, min, max and percentiles by name ("p99"), from when a transaction was due; in a closed
    loop from when it began. `histogram`: base64 of a compressed V2 HdrHistogram of microseconds.
    `late_transactions`: begun before the end of the measured interval, ended after it, not counted in it; its
    latency counts. `own_delay_ms`: what of each latency the load generator itself added, as far as it sees.
    `client_run_queue_s`, `client_idle_s`: for how long its threads together were ready to run and had no
    processor, and had nothing to do.
    `states`: those errors by SQLSTATE. `over_limit`: how many took longer than the limit.
    `kinds`: by script, where there are several. `statements`: of its transactions, where these have several.
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
    statements: list[StatementRecord]
    connections: ConnectionRecord | None
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
        **({"idle_in_transaction_s": load.idle_in_transaction_s} if load.idle_in_transaction_s else {}),
        **_connections_document(load),
        **({} if load.latency_limit_ms is None else {"latency_limit_ms": load.latency_limit_ms}),
    }


def _connections_document(load: LoadSpec) -> dict[str, object]:
    found = {"pool": load.pool, "lifetime_s": load.lifetime_s, "reconnects": load.reconnects or None}
    named = {name: value for name, value in found.items() if value is not None}
    return {"connections": named} if named else {}


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
    host: str = "",
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
        host: where it runs, as ssh knows it; '' for here. Instants of the record are of our clock even so.

    Raises:
        StatementError: a server that can't be reached or refuses, or a statement that fails for good; its
            message says what was measured until then.
        UsageError: there is no native binary of this version.
    """
    partial: PartialRecord | None = None
    warmup_s = spec.get("warmup_s", 0.0)
    clock = ClockOfHost(warmup_s if isinstance(warmup_s, int | float) else 0.0)
    with NativeProcess("load", cpu_affinity, host=host) as process:
        process.send(spec)
        while True:
            try:
                document = process.receive()
            except StatementError as error:
                raise _with_partial(error, partial) from None
            if "partial" in document:
                partial = document["partial"]
                continue
            if "record" in document:
                record: LoadRecord = document["record"]
                break
            clock.told(document["progress"]["second"], time.monotonic_ns())
            if on_progress is not None:
                on_progress(document["progress"])
            if on_progress_of is not None:
                on_progress_of(process.pid, document["progress"])
    if host:
        offset_ns = clock.offset_ns(record["start_ns"])
        record["start_ns"] += offset_ns
        record["end_ns"] += offset_ns
    return record


def _with_partial(error: StatementError, partial: PartialRecord | None) -> StatementError:
    """The error, with what was measured before it."""
    if partial is None:
        return error
    if partial["elapsed_s"] > 0:
        failed = f" and {partial['errors']:,} failed" if partial["errors"] else ""
        until = (
            f"{partial['transactions']:,} transactions had ended{failed} in the {partial['elapsed_s']:.1f} s "
            "that were measured until then"
        )
    else:
        until = "the warm-up was not over"
    return StatementError(f"{error.message} ({until})", error.sqlstate, error.detail, error.hint)
