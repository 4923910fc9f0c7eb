"""Runs a load by the native generator and takes its observation."""

import base64
from collections.abc import Callable
from typing import Protocol

from pgassay.environment.server.pooler import Pooler
from pgassay.environment.server.sessions import ConnectionParameters
from pgassay.errors import MeasurementError
from pgassay.model.arm import ArmSpec
from pgassay.model.trial import LoadKind, LoadObservation, OpenLoop
from pgassay.model.workload import ConnectionUse, LoadStatement, Outage
from pgassay.native.load import (
    ConnectionRecord,
    LoadProgress,
    LoadRecord,
    StatementRecord,
    load_document,
    run_load,
)
from pgassay.record import layout
from pgassay.record.columns import to_parquet
from pgassay.record.observations import stddev_ms
from pgassay.trial.measure import micro_benchmarks
from pgassay.trial.measure.histogram_log import histogram_log, line_of
from pgassay.trial.observe.pooler import PoolerSampler
from pgassay.trial.observe.runner import SamplerRunner
from pgassay.trial.trial_state import Observation

# How often a pooler is asked what it did.
_POOLER_INTERVAL_S = 0.2


class Connectable(Protocol):
    """A server, or what stands before it, that says how to connect to it."""

    def parameters(self) -> ConnectionParameters:
        """Connection parameters with the arm's session settings."""


def document_of(server: Connectable, spec: ArmSpec, seed: int) -> dict[str, object]:
    """What the native generator reads on its standard input (`crates/native/README.md`)."""
    load = spec.workload.load
    if load is None:
        raise AssertionError("a load workload has a load")
    return load_document(server.parameters(), load, scale=spec.dataset.scale, seed=seed)


def run(
    server: Connectable, spec: ArmSpec, seed: int, on_progress: Callable[[LoadProgress], None]
) -> Observation:
    """Run the load once; raises MeasurementError when a connection or a transaction fails for good."""
    return _through_pooler(server, spec, lambda reached: _run(reached, spec, seed, on_progress))


def _through_pooler(
    server: Connectable, spec: ArmSpec, measure: Callable[[Connectable], Observation]
) -> Observation:
    """Measure on the server, or through the arm's pooler, which runs as long as that takes and is observed.

    Raises MeasurementError when the pooler does not start.
    """
    if spec.pooler is None:
        return measure(server)
    with Pooler(spec.pooler, spec.workload.connections, server.parameters()) as pooler:
        sampler = PoolerSampler(pooler)
        with SamplerRunner([sampler], _POOLER_INTERVAL_S) as runner:
            observation = measure(pooler)
    if observation.load is not None and observation.clock_ns is not None:
        use = sampler.use_between(*observation.clock_ns)
        observation.load = observation.load.model_copy(update={"pooler": use})
    observation.warnings += runner.warnings
    observation.files |= {
        f"{layout.OBSERVATIONS_FOLDER}/{name}": content for name, content in runner.files().items()
    }
    return observation


def _run(
    server: Connectable, spec: ArmSpec, seed: int, on_progress: Callable[[LoadProgress], None]
) -> Observation:
    if spec.workload.is_series:
        return micro_benchmarks.run(server.parameters(), spec, seed, on_progress)
    document, load = document_of(server, spec, seed), spec.workload.load
    host = load.host if load is not None else ""
    if host and str(server.parameters()["host"]).startswith("/"):
        raise MeasurementError(
            f"client=ssh:{host}: the server is reached by a Unix socket, which is on this machine only: "
            "name the server by host=NAME in its connection string"
        )
    record = run_load(document, on_progress, host=host)
    names = [script.name for script in spec.workload.load.scripts] if spec.workload.load else []
    return Observation(
        load=_observed(record, names),
        clock_ns=(record["start_ns"], record["end_ns"]),
        files={
            layout.HISTOGRAM_FILE: base64.b64decode(record["histogram"]),
            layout.HISTOGRAM_LOG_FILE: _histogram_log(record, names).encode("utf-8"),
            f"{layout.OBSERVATIONS_FOLDER}/load_seconds.parquet": _seconds(record),
        },
    )


def _observed(record: LoadRecord, names: list[str]) -> LoadObservation:
    latencies, histogram = record["per_second_latency_ms"], base64.b64decode(record["histogram"])
    opened = record["open_loop"]
    if opened is not None:
        figures = {name: value for name, value in opened.items() if name != "from_send_histogram"}
    return LoadObservation(
        transactions=record["transactions"],
        elapsed_s=record["elapsed_s"],
        errors=record["errors"],
        client_cpu_s=record["client_cpu_s"],
        per_second=tuple(int(count) for count in record["per_second"]),
        per_second_mean_ms=tuple(latencies["mean"]),
        per_second_p99_ms=tuple(latencies["p99"]),
        latency_ms=record["latency_ms"] | {"stddev": stddev_ms(histogram)},
        warmup_transactions=record["warmup_transactions"],
        late_transactions=record["late_transactions"],
        own_delay_ms=record["own_delay_ms"],
        client_idle_s=record["client_idle_s"],
        client_run_queue_s=record["client_run_queue_s"],
        threads=record["threads"],
        over_limit=record["over_limit"],
        kinds=tuple(
            LoadKind(name=name, transactions=kind["transactions"], latency_ms=kind["latency_ms"])
            for name, kind in zip(names, record["kinds"], strict=False)
        ),
        open_loop=None if opened is None else OpenLoop.model_validate(figures),
        failures={state: found["count"] for state, found in record["states"].items()},
        failure_examples={state: found["example"] for state, found in record["states"].items()},
        connections=_connections(record["connections"]),
        statements=tuple(
            LoadStatement(
                name=_place(each), text=each["text"], executions=each["count"], latency_ms=each["latency_ms"]
            )
            for each in record["statements"]
        ),
    )


def _place(statement: StatementRecord) -> str:
    return f"{statement['script']}:{statement['line']}" if statement["script"] else ""


def _connections(record: ConnectionRecord | None) -> ConnectionUse | None:
    if record is None:
        return None
    return ConnectionUse(
        opened=record["opened"],
        opening_ms=record["opening_ms"],
        wait_ms=record["wait_ms"],
        lost=record["lost"],
        refused={state: found["count"] for state, found in record["refused"].items()},
        refused_examples={state: found["example"] for state, found in record["refused"].items()},
        abandoned=record["abandoned"],
        outages=tuple(Outage.model_validate(each) for each in record["outages"]),
    )


def _seconds(record: LoadRecord) -> bytes:
    latencies, opened = record["per_second_latency_ms"], record["open_loop"]
    columns: dict[str, list[int] | list[float | None]] = {
        "second": list(range(1, len(record["per_second"]) + 1)),
        "transactions": list(record["per_second"]),
        "latency_mean_ms": latencies["mean"],
        "latency_p99_ms": latencies["p99"],
    }
    if opened is not None:
        columns |= {"due": list(opened["per_second_due"]), "queue": list(opened["per_second_queue"])}
    return to_parquet(columns, sampler="load_seconds", version=2 if opened is None else 3)


def _histogram_log(record: LoadRecord, names: list[str]) -> str:
    """All histograms of the load in HdrHistogram's log format (version 1.3), in microseconds.

    Each line is tagged with what it is of, and says when it began, how long it lasted, and its greatest value
    in milliseconds.
    """
    whole_s, opened = record["elapsed_s"], record["open_loop"]
    lines = [
        line_of("all", 0, whole_s, record["latency_ms"]["max"], record["histogram"]),
        line_of("own-delay", 0, whole_s, record["own_delay_ms"]["max"], record["own_delay_histogram"]),
    ]
    if opened is not None:
        slowest = opened["from_send_ms"]["max"]
        lines.append(line_of("from-send", 0, whole_s, slowest, opened["from_send_histogram"]))
    for name, kind in zip(names, record["kinds"], strict=False):
        lines.append(line_of(f"script:{name}", 0, whole_s, kind["latency_ms"]["max"], kind["histogram"]))
    for number, each in enumerate(record["statements"], start=1):
        tag, slowest = f"statement:{_place(each) or number}", each["latency_ms"]["max"]
        lines.append(line_of(tag, 0, whole_s, slowest, each["histogram"]))
    waits = record["connections"]
    if waits is not None:
        slowest = waits["wait_ms"]["max"]
        lines.append(line_of("connection-wait", 0, whole_s, slowest, waits["wait_histogram"]))
    slowest_ms = record["per_second_latency_ms"]["max"]
    for second, histogram in enumerate(record["per_second_histogram"]):
        if histogram:
            lines.append(
                line_of("second", second, min(1.0, whole_s - second), slowest_ms[second] or 0.0, histogram)
            )
    return histogram_log(lines)
