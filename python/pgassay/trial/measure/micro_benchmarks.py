"""Runs a series of micro-benchmarks one after the other, each for its part of the time."""

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pgassay.environment.server.sessions import ConnectionParameters
from pgassay.model.arm import ArmSpec
from pgassay.model.trial import LoadKind, LoadObservation, StatementObservation
from pgassay.native.load import LoadProgress, LoadRecord, load_document, run_load
from pgassay.record import layout
from pgassay.record.observations import moments_us
from pgassay.trial.measure.histogram_log import histogram_log, line_of
from pgassay.trial.trial_state import Observation

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

_PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)


def run(
    parameters: ConnectionParameters, spec: ArmSpec, seed: int, on_progress: Callable[[LoadProgress], None]
) -> Observation:
    """Each benchmark of the workload's series for an equal part of its duration, after one warm-up.

    The mean latency of each becomes the time of the statement that has its name, and so has a verdict of its
    own. Raises MeasurementError when a connection or a statement fails for good.
    """
    names = spec.workload.load.sysbench.series if spec.workload.load and spec.workload.load.sysbench else ()
    records = list(_records(parameters, spec, names, seed, on_progress))
    statements = [
        StatementObservation(
            name=name,
            elapsed_s=record["latency_ms"]["mean"] / 1e3,
            rows=0,
            cold=False,
            aio=False,
            failures={state: found["count"] for state, found in record["states"].items()},
        )
        for name, record in zip(names, records, strict=True)
    ]
    whole, own = (_merged(records, key) for key in ("histogram", "own_delay_histogram"))
    log = [("all", whole), ("own-delay", own)]
    log += [
        (f"script:{name}", _decoded(record["histogram"])) for name, record in zip(names, records, strict=True)
    ]
    elapsed_s = sum(record["elapsed_s"] for record in records)
    return Observation(
        statements=statements,
        load=_observed(names, records, whole, own),
        clock_ns=(records[0]["start_ns"], records[-1]["end_ns"]),
        files={
            layout.HISTOGRAM_FILE: base64.b64decode(whole.encode()),
            layout.HISTOGRAM_LOG_FILE: histogram_log(
                line_of(tag, 0, elapsed_s, found.get_max_value() / 1e3, found.encode().decode())
                for tag, found in log
            ).encode(),
        },
    )


def _records(
    parameters: ConnectionParameters,
    spec: ArmSpec,
    names: Sequence[str],
    seed: int,
    on_progress: Callable[[LoadProgress], None],
) -> Iterator[LoadRecord]:
    load = spec.workload.load
    if load is None or load.sysbench is None:
        raise AssertionError("a series is a load of sysbench's")
    part_s, before = load.duration_s / len(names), 0
    for place, name in enumerate(names):
        part = load.model_copy(
            update={
                "sysbench": load.sysbench.model_copy(update={"script": name, "series": ()}),
                "duration_s": part_s,
                # What the first one needs, the others find done.
                "warmup_s": 0.0 if place else load.warmup_s,
            }
        )

        def tell(progress: LoadProgress, before: int = before) -> None:
            on_progress({**progress, "second": before + progress["second"]})

        record = run_load(load_document(parameters, part, scale=1, seed=seed + place), tell)
        before += round(part.duration_s + part.warmup_s)
        yield record


def _observed(
    names: Sequence[str], records: Sequence[LoadRecord], whole: "HdrHistogram", own: "HdrHistogram"
) -> LoadObservation:
    figures = [record["latency_ms"] for record in records]
    delays = [record["own_delay_ms"] for record in records]
    return LoadObservation(
        transactions=sum(record["transactions"] for record in records),
        elapsed_s=sum(record["elapsed_s"] for record in records),
        errors=sum(record["errors"] for record in records),
        failure_examples={
            state: found["example"] for record in records for state, found in record["states"].items()
        },
        client_cpu_s=sum(record["client_cpu_s"] for record in records),
        latency_ms=_figures(whole, figures) | {"stddev": moments_us(whole)[1] / 1e3},
        own_delay_ms=_figures(own, delays),
        warmup_transactions=records[0]["warmup_transactions"],
        late_transactions=sum(record["late_transactions"] for record in records),
        client_idle_s=sum(record["client_idle_s"] for record in records),
        client_run_queue_s=sum(record["client_run_queue_s"] for record in records),
        threads=records[0]["threads"],
        kinds=tuple(
            LoadKind(name=name, transactions=record["transactions"], latency_ms=record["latency_ms"])
            for name, record in zip(names, records, strict=True)
        ),
    )


def _figures(merged: "HdrHistogram", of_each: Sequence[dict[str, float]]) -> dict[str, float]:
    """Those of a load's latencies, in milliseconds; mean to the histogram's three digits, ends exact."""
    least, most = min(each["min"] for each in of_each), max(each["max"] for each in of_each)
    found = {"mean": moments_us(merged)[0] / 1e3, "min": least, "max": most}
    for percentile in _PERCENTILES:
        value_ms = merged.get_value_at_percentile(percentile) / 1e3
        found[f"p{percentile:g}"] = min(max(value_ms, least), most)
    return found


def _decoded(histogram: str) -> "HdrHistogram":
    from hdrh.histogram import HdrHistogram

    return HdrHistogram.decode(histogram)


def _merged(records: Sequence[LoadRecord], key: str) -> "HdrHistogram":
    histograms = [str(record[key]) for record in records]  # type: ignore[literal-required]
    merged = _decoded(histograms[0])
    for histogram in histograms[1:]:
        merged.add(_decoded(histogram))
    return merged
