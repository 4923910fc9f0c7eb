"""Runs a load by the native generator and takes its observation."""

import base64
from collections.abc import Callable
from typing import Protocol

from pgassay.environment.server.sessions import ConnectionParameters
from pgassay.model.arm import ArmSpec
from pgassay.model.trial import LoadObservation
from pgassay.native.load import LoadProgress, run_load
from pgassay.record import layout
from pgassay.record.columns import to_parquet
from pgassay.record.observations import stddev_ms
from pgassay.trial.state import Observation


class Connectable(Protocol):
    """A server that says how to connect to it."""

    def parameters(self) -> ConnectionParameters:
        """Connection parameters with the arm's session settings."""


def load_document(server: Connectable, spec: ArmSpec, seed: int) -> dict[str, object]:
    """What the native generator reads on its standard input (ARCHITECTURE.md, "Python ↔ native")."""
    load = spec.workload.load
    if load is None:
        raise AssertionError("a load workload has a load")
    oltp = load.oltp_read_only
    scripts = [script.model_dump() for script in load.scripts]
    return {
        "connect": server.parameters(),
        **({"scripts": scripts, "variables": load.variables} if scripts else {"script": load.script}),
        **({"scale": spec.dataset.scale} if oltp is None else {"oltp_read_only": oltp.model_dump()}),
        "clients": load.clients,
        "threads": load.threads,
        "protocol": load.protocol,
        "duration_s": load.duration_s,
        "warmup_s": load.warmup_s,
        "seed": seed,
    }


def run(
    server: Connectable, spec: ArmSpec, seed: int, on_progress: Callable[[LoadProgress], None]
) -> Observation:
    """Run the load once; raises MeasurementError when a connection or a transaction fails for good."""
    record = run_load(load_document(server, spec, seed), on_progress)
    per_second = tuple(int(count) for count in record["per_second"])
    latencies, histogram = record["per_second_latency_ms"], base64.b64decode(record["histogram"])
    load = LoadObservation(
        transactions=record["transactions"],
        elapsed_s=record["elapsed_s"],
        errors=record["errors"],
        client_cpu_s=record["client_cpu_s"],
        per_second=per_second,
        per_second_mean_ms=tuple(latencies["mean"]),
        per_second_p99_ms=tuple(latencies["p99"]),
        latency_ms=record["latency_ms"] | {"stddev": stddev_ms(histogram)},
        warmup_transactions=record["warmup_transactions"],
        late_transactions=record["late_transactions"],
    )
    seconds = to_parquet(
        {
            "second": list(range(1, len(per_second) + 1)),
            "transactions": list(per_second),
            "latency_mean_ms": latencies["mean"],
            "latency_p99_ms": latencies["p99"],
        },
        sampler="load_seconds",
        version=2,
    )
    return Observation(
        load=load,
        clock_ns=(record["start_ns"], record["end_ns"]),
        files={
            layout.HISTOGRAM_FILE: histogram,
            f"{layout.OBSERVATIONS_FOLDER}/load_seconds.parquet": seconds,
        },
    )
