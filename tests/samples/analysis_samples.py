"""Stored experiments for the tests of the analysis: real models, simulated trials."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pgassay.model.arm import Arm, ArmSpec, DatasetSpec
from pgassay.model.build import Build
from pgassay.model.experiment import Contrast, Experiment, Protocol, StatisticalContract
from pgassay.model.storage import StorageSpec
from pgassay.model.trial import LoadObservation, StatementObservation, TrialRecord
from pgassay.model.workload import LoadSpec, Metric, Statement, WorkloadSpec
from pgassay.record.experiment import StoredExperiment, StoredTrial

SCAN_PLAN: dict[str, Any] = {
    "Plan": {
        "Node Type": "Aggregate",
        "Total Cost": 10.5,
        "Plans": [{"Node Type": "Seq Scan", "Relation Name": "pgbench_accounts", "Plan Rows": 100}],
    }
}
Noise = Callable[[int, str], float]


def workload(statements: int) -> WorkloadSpec:
    """Statements q1 to qn, or a load when there are none."""
    if not statements:
        metric = Metric(name="throughput", unit="transactions/s", better="higher")
        return WorkloadSpec(
            text="tpcb", family="tpcb", kind="load", metric=metric, writes=True, load=LoadSpec(script="tpcb")
        )
    metric = Metric(name="total elapsed time", unit="s", better="lower")
    return WorkloadSpec(
        text="full-scan",
        family="full-scan",
        kind="statements",
        metric=metric,
        writes=False,
        statements=tuple(Statement(name=f"q{number}", sql="select 1") for number in range(1, statements + 1)),
    )


def experiment(
    *, statements: int = 2, arms: int = 1, twin: bool = True, strata: tuple[str, ...] = ("",), **contract: Any
) -> Experiment:
    """A control, `arms` arms and a twin per stratum; their ids say nothing of their levels."""
    work = workload(statements)
    build = Build(origin="apt", version="18.1", major=18, bin_directory="/opt/bin")
    made: list[Arm] = []
    contrasts: list[Contrast] = []
    for place, stratum in enumerate(strata):
        ids = [f"s{place}-{number}" for number in range(arms + 2)]
        for number in range(arms + 1):
            level = "sync" if number == 0 else f"method{number}"
            settings = {"io_method": level}
            spec = ArmSpec(
                build=build, storage=StorageSpec(), dataset=DatasetSpec(), settings=settings, workload=work
            )
            name = f"io_method={level} {stratum}".strip()
            role = "arm" if number else "control"
            made.append(
                Arm(id=ids[number], name=name, levels=settings, stratum=stratum, role=role, spec=spec)
            )
        control = made[-arms - 1]
        if twin:
            made.append(control.model_copy(update={"id": ids[-1], "role": "twin", "data_copy": 1}))
        contrasts += [
            Contrast(
                arm_id=ids[number], control_id=ids[0], twin_id=ids[-1] if twin else None, stratum=stratum
            )
            for number in range(1, arms + 1)
        ]
    return Experiment(
        pgassay_version="0.1.0",
        created_at="2026-01-01T00:00:00+00:00",
        command=("pgassay", "compare"),
        title="test",
        arms=tuple(made),
        contrasts=tuple(contrasts),
        contract=StatisticalContract(metric=work.metric, contrasts=len(contrasts), **contract),
        protocol=Protocol(cache="cold"),
    )


def record(
    plan: Experiment, number: int, block: int, arm_id: str, speed: float, **changes: Any
) -> TrialRecord:
    """A valid trial whose every figure is 1/speed seconds per statement, or 100·speed transactions/s."""
    work = plan.arms[0].spec.workload
    fields: dict[str, Any] = {
        "number": number,
        "attempt": 1,
        "block": block,
        "position": number % len(plan.arms),
        "arm_id": arm_id,
        "status": "ok",
        "started_at": "",
        "ended_at": "",
        "wall_s": 12.0,
        "host": "host",
        "boot_id": "boot",
        "canary_s": 0.1,
        "server_cpu_s": 0.5 / speed,
        "statements": tuple(
            StatementObservation(
                name=item.name, elapsed_s=1 / speed, rows=1, cold=True, aio=item.name != "q1"
            )
            for item in work.statements
        ),
    }
    if work.load is not None:
        fields["load"] = LoadObservation(
            transactions=round(100_000 * speed), elapsed_s=1000.0, errors=0, client_cpu_s=1.0
        )
    return TrialRecord(**{**fields, **changes})


def stored(plan: Experiment, records: list[TrialRecord], stopped: str = "running") -> StoredExperiment:
    """The experiment with these trials, all with the same plan for every statement."""
    plans = {item.name: SCAN_PLAN for item in plan.arms[0].spec.workload.statements}
    folder = Path("/results/test")
    trials = tuple(StoredTrial(item, plans, folder) for item in records)
    return StoredExperiment(folder, plan, trials, stopped)


def simulate(
    plan: Experiment,
    blocks: int,
    effects: dict[str, float] | None = None,
    *,
    spread: float = 0.01,
    seed: int = 1,
) -> list[TrialRecord]:
    """Trials in random order within blocks; `effects` are log ratios by arm id."""
    random = np.random.default_rng(seed)
    ids = [arm.id for arm in plan.arms]
    records = []
    for block in range(blocks):
        shared = 0.1 * random.standard_normal()
        for arm_id in random.permutation(ids):
            log_speed = shared + spread * random.standard_normal() + (effects or {}).get(str(arm_id), 0.0)
            records.append(record(plan, len(records), block, str(arm_id), float(np.exp(log_speed))))
    return records


def simulate_moving(
    plan: Experiment, blocks: int, arm: str, effects: tuple[float, float]
) -> list[TrialRecord]:
    """As `simulate`, with one effect (a log ratio) in the first half of the blocks, another in the second."""
    half = blocks // 2
    first, second = (simulate(plan, half, {arm: effect}, seed=3 + int(effect > 0)) for effect in effects)
    return first + [
        item.model_copy(update={"number": item.number + len(first), "block": item.block + half})
        for item in second
    ]
