"""Who computed and who waited for locks while a load was recorded: samplers' files whose answer is known."""

from pathlib import Path
from typing import Any

import pytest

import report_examples as examples
from pgassay.model.trial import LoadObservation
from pgassay.record.columns import to_parquet
from pgassay.record.experiment import StoredTrial
from pgassay.sizing.processor_use import cpu_s, lock_waits, processors, processors_min
from pgassay.workloads.registry import parse_workload

SECOND = 10**9
PARTS = ((100 * SECOND, 110 * SECOND),)
CLIENTS = 4


def of_a_load(folder: Path, **changes: Any) -> tuple[StoredTrial, Any, Any]:
    """Ten seconds, two of them warm-up: the server computed for 6 s, the clients for 1.6 s of the eight."""
    made = examples.stored(levels=["sync"], blocks=1)
    load = LoadObservation(transactions=100, elapsed_s=8.0, errors=0, client_cpu_s=1.6)
    record = made.trials[0].record.model_copy(
        update={"statements": (), "load": load, "server_cpu_s": 6.0, **changes}
    )
    arm = made.experiment.arms[0]
    workload = parse_workload(f"tpcb:clients={CLIENTS},duration=8s,warmup=2s")
    arm = arm.model_copy(update={"spec": arm.spec.model_copy(update={"workload": workload})})
    (folder / "observations").mkdir(parents=True)
    machine = made.experiment.environment.machine.model_copy(update={"cores_usable": 2})
    environment = made.experiment.environment.model_copy(update={"machine": machine})
    return (
        StoredTrial(record, {}, folder),
        arm,
        made.experiment.model_copy(update={"environment": environment}),
    )


def write(folder: Path, sampler: str, columns: dict[str, list[Any]]) -> None:
    (folder / "observations" / f"{sampler}.parquet").write_bytes(
        to_parquet(columns, sampler=sampler, version=1)
    )


def host_cpu(from_s: int, until_s: int, used: float, stolen: float) -> dict[str, list[Any]]:
    """A machine that uses so many processors, and lends others."""
    times = list(range(from_s, until_s + 1))
    columns: dict[str, list[Any]] = {"clock_ns": [at * SECOND for at in times]}
    for name in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"):
        rate = {"user": used * 0.75, "system": used * 0.25, "steal": stolen}.get(name, 0.0)
        columns[name] = [at * rate for at in times]
    return columns


def test_clients_compute_in_their_warmup_too(tmp_path: Path) -> None:
    trial, arm, experiment = of_a_load(tmp_path)
    assert cpu_s(trial.record, arm) == pytest.approx(6.0 + 1.6 * 10 / 8)
    assert processors(trial.record, arm, experiment, 8.0) == 2.0
    unknown = trial.record.model_copy(update={"server_cpu_s": None})
    assert cpu_s(unknown, arm) == 0.0


@pytest.mark.parametrize(("from_s", "until_s"), [(90, 120), (101, 109)])
def test_what_others_took_of_the_processors_is_what_the_load_did_not_use(
    tmp_path: Path, from_s: int, until_s: int
) -> None:
    trial, arm, experiment = of_a_load(tmp_path)
    assert processors_min(trial, arm, experiment, PARTS) == 0.0
    # 1.1 used and 0.1 stolen, of which the load took 0.8.
    write(tmp_path, "host_cpu", host_cpu(from_s, until_s, 1.1, 0.1))
    assert processors_min(trial, arm, experiment, PARTS) == pytest.approx(2.0 - 0.4)
    capped = arm.model_copy(update={"spec": arm.spec.model_copy(update={"cpus": 1.0})})
    assert processors_min(trial, capped, experiment, PARTS) == 0.0


def test_those_who_wait_for_a_lock_are_counted_by_looks(tmp_path: Path) -> None:
    trial, _, _ = of_a_load(tmp_path)
    assert lock_waits(trial, PARTS) == 0.0
    rows: list[tuple[Any, ...]] = []
    for second in range(95, 115):
        window = (second * SECOND, (second + 1) * SECOND)
        for pid in range(CLIENTS):
            # Of twenty looks at the first two clients each, so many found it waiting for a row; none outside.
            waiting = (3, 1, 0, 0)[pid] if 100 <= second < 110 else 20
            rows.append((*window, pid, "backend", "Lock", ("transactionid", "tuple")[pid % 2], waiting))
            rows.append((*window, pid, "backend", "LWLock", "WALWrite", 12))
            rows.append((*window, pid, "backend", "Lock", "extend", 20 - 12 - min(waiting, 8)))
        rows.append((*window, 99, "autovacuum", "Lock", "transactionid", 40))
    names = ("from_ns", "clock_ns", "pid", "kind", "wait_event_type", "wait_event", "samples")
    write(tmp_path, "waits", {name: [row[place] for row in rows] for place, name in enumerate(names)})
    assert lock_waits(trial, PARTS) == pytest.approx(4 / 20)
    statements = StoredTrial(trial.record.model_copy(update={"load": None}), {}, tmp_path)
    assert lock_waits(statements, PARTS) == 0.0


def test_a_container_has_no_more_processors_than_its_cap(tmp_path: Path) -> None:
    trial, arm, experiment = of_a_load(tmp_path)
    assert processors(trial.record, arm, experiment, 8.0) == 2
    limits = experiment.environment.limits.updated(cpus=1.5)
    environment = experiment.environment.model_copy(update={"limits": limits})
    capped = experiment.model_copy(update={"environment": environment})
    assert processors(trial.record, arm, capped, 8.0) == 1.5
