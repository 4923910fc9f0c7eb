"""Stored experiments of a load whose trials have real files: histograms and columnar observations."""

import base64
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hdrh.histogram import HdrHistogram

import report_examples as examples
from pgassay.model.experiment import Contrast, Experiment, Protocol, StatisticalContract
from pgassay.model.trial import LoadObservation, TrialRecord
from pgassay.model.workload import LoadSpec, Metric
from pgassay.record.columns import to_parquet
from pgassay.record.experiment import StoredExperiment, TrialWriter, load, write_experiment, write_state

THROUGHPUT = Metric(name="throughput", unit="transactions/s", better="higher")
SECONDS = 6
# 2026-03-01 11:59:58 UTC: the measured part begins two seconds later.
BOOTED_NS = 1_772_366_398 * 1_000_000_000
LOG = """\
2026-03-01 12:00:01.500 GMT [77] LOG:  checkpoint starting: wal
2026-03-01 12:00:02.000 GMT [80] WARNING:  something
2026-03-01 12:00:04.000 GMT [77] LOG:  checkpoint complete: wrote 8 buffers (0.1%); total=2.500 s
"""


def write_load(
    folder: Path, *, strata: list[str], blocks: int = 3, levels: tuple[str, ...] = ("sync", "worker")
) -> StoredExperiment:
    """Write an experiment of a load into the folder and read it back; 'worker' is twice as fast."""
    workload = examples.spec({}).workload.model_copy(
        update={
            "text": "select-only",
            "family": "select-only",
            "kind": "load",
            "metric": THROUGHPUT,
            "statements": (),
            "load": LoadSpec(script="select-only", clients=4, duration_s=SECONDS),
        }
    )
    members = tuple(
        arm.model_copy(update={"spec": arm.spec.model_copy(update={"workload": workload})})
        for arm in examples.arms(list(levels), strata)
    )
    contrasts = tuple(
        Contrast(
            arm_id=arm.id,
            control_id=next(o.id for o in members if o.role == "control" and o.stratum == arm.stratum),
            twin_id=next(o.id for o in members if o.role == "twin" and o.stratum == arm.stratum),
            stratum=arm.stratum,
        )
        for arm in members
        if arm.role == "arm"
    )
    experiment = Experiment(
        pgassay_version="0.1.0",
        created_at="2026-03-01T12:00:00+00:00",
        command=("pgassay", "compare", f"io_method={','.join(levels)}", "--workload", "select-only"),
        title="io_method on select-only",
        arms=members,
        contrasts=contrasts,
        contract=StatisticalContract(metric=THROUGHPUT, contrasts=len(contrasts)),
        protocol=Protocol(cache="warm-pages"),
        environment={"machine": {"hostname": "db-lab", "kernel": "6.18.0", "cpu_model": "Xeon"}},
    )
    write_experiment(folder, experiment)
    draws, number = random.Random(3), 0
    clock = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for block in range(blocks):
        order = list(members)
        draws.shuffle(order)
        for position, arm in enumerate(order):
            speed = 2.0 if arm.levels["io_method"] == "worker" else 1.0
            _write_trial(folder, number, block, position, arm.id, speed, clock, draws)
            clock += timedelta(seconds=10)
            number += 1
    write_state(folder, stopped="decided", seconds_used=60.0)
    return load(folder)


def _write_trial(folder, number, block, position, arm_id, speed, clock, draws) -> None:
    per_second = tuple(round(1000 * speed * draws.uniform(0.97, 1.03)) for _ in range(SECONDS))
    record = TrialRecord(
        number=number,
        attempt=1,
        block=block,
        position=position,
        arm_id=arm_id,
        status="ok",
        started_at=clock.isoformat(),
        ended_at=(clock + timedelta(seconds=8)).isoformat(),
        wall_s=8.0,
        host="db-lab",
        boot_id="b00",
        clock_ns=(2_000_000_000, 2_000_000_000 + SECONDS * 1_000_000_000),
        clock_offset_ns=(BOOTED_NS, BOOTED_NS),
        load=LoadObservation(
            transactions=sum(per_second),
            elapsed_s=SECONDS,
            errors=0,
            client_cpu_s=0.5,
            per_second=per_second,
            per_second_mean_ms=tuple(4000 / count for count in per_second),
            per_second_p99_ms=tuple(12000 / count for count in per_second),
        ),
        facts={"settings": {"shared_buffers": "1GB"}},
    )
    histogram = HdrHistogram(1, 60_000_000, 3)
    for value in range(1, 1001):
        histogram.record_value(round(value * 10 / speed))
    clocks = [1_000_000_000 * second for second in range(1, SECONDS + 3)]
    device = {
        "clock_ns": clocks,
        "read_bytes": [round(second * 100 * 1048576 * speed) for second in range(len(clocks))],
        "write_bytes": [second * 1048576 for second in range(len(clocks))],
    }
    processors = {"clock_ns": clocks} | {
        name: [second * share for second in range(len(clocks))]
        for name, share in (
            ("user", 0.9),
            ("nice", 0.0),
            ("system", 0.3),
            ("irq", 0.0),
            ("softirq", 0.1),
            ("iowait", 0.2),
            ("steal", 0.0),
        )
    }
    writer = TrialWriter(folder, number, 1)
    writer.add("latency.hdr", base64.b64decode(histogram.encode()))
    writer.add("server.log", LOG.encode())
    seconds = {"second": list(range(1, SECONDS + 1)), "transactions": list(per_second)}
    for name, columns in (("device", device), ("host_cpu", processors), ("load_seconds", seconds)):
        writer.add(f"observations/{name}.parquet", to_parquet(columns, sampler=name, version=1))
    writer.finish(record)
