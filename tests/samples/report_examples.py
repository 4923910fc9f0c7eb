"""Experiments and results for the tests of the reports: made of the models, without a server."""

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pgassay.model.arm import Arm, ArmSpec, DatasetSpec
from pgassay.model.build import Build
from pgassay.model.experiment import Contrast, Experiment, Protocol, StatisticalContract
from pgassay.model.result import ArmResult, CompareResult, StatementResult, TwinResult
from pgassay.model.storage import StorageSpec
from pgassay.model.trial import StatementObservation, TrialRecord
from pgassay.model.workload import Metric, Statement, WorkloadSpec
from pgassay.record.experiment import StoredExperiment, StoredTrial

METRIC = Metric(name="total elapsed time", unit="s", better="lower")
HOSTILE = '"><script>alert(1)</script>'
STATEMENTS = ("count_accounts", "sum_abalance", "count_filler")
_START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def spec(settings: dict[str, str]) -> ArmSpec:
    """An arm's description with the given settings."""
    build = Build(origin="apt", version="18.6", major=18, bin_directory="/opt/pg/18/bin", has_io_uring=True)
    statements = tuple(Statement(name=name, sql=f"SELECT {name}") for name in STATEMENTS)
    workload = WorkloadSpec(
        text="full-scan",
        family="full-scan",
        kind="statements",
        metric=METRIC,
        writes=False,
        statements=statements,
    )
    return ArmSpec(
        build=build,
        storage=StorageSpec(),
        dataset=DatasetSpec(scale=100),
        settings=settings,
        workload=workload,
    )


def arms(levels: list[str], strata: list[str], factor: str = "io_method") -> tuple[Arm, ...]:
    """Arms of a grid of `factor` within strata (levels of 'clients'), each with a twin of its control."""
    made: list[Arm] = []
    for stratum in strata:
        for level in levels:
            own = {factor: level} | ({"clients": stratum} if stratum else {})
            made.append(
                Arm(
                    id=f"arm-{len(made):03d}",
                    name=" ".join(f"{name}={value}" for name, value in own.items()),
                    levels=own,
                    stratum=f"clients={stratum}" if stratum else "",
                    role="control" if level == levels[0] else "arm",
                    spec=spec({factor: level, "shared_buffers": "1GB"}),
                )
            )
        control = next(arm for arm in reversed(made) if arm.role == "control")
        made.append(control.model_copy(update={"id": f"arm-{len(made):03d}", "role": "twin", "data_copy": 1}))
    return tuple(made)


def scan_plan(table: str, *, index: bool = False, condition: str = "(abalance > 0)") -> list[dict[str, Any]]:
    """An EXPLAIN (FORMAT JSON) answer: an aggregate over a parallel scan."""
    scan: dict[str, Any] = {
        "Node Type": "Index Only Scan" if index else "Seq Scan",
        "Parallel Aware": True,
        "Relation Name": table,
        "Alias": table,
        "Plan Rows": 4166667,
        "Filter": condition,
    }
    if index:
        scan["Index Name"] = f"{table}_pkey"
    gather = {"Node Type": "Gather", "Workers Planned": 2, "Plan Rows": 2, "Plans": [scan]}
    return [{"Plan": {"Node Type": "Aggregate", "Strategy": "Plain", "Plan Rows": 1, "Plans": [gather]}}]


def stored(
    *,
    levels: list[str] | None = None,
    strata: list[str] | None = None,
    blocks: int = 12,
    failing: frozenset[int] = frozenset(),
    reason: str = "the server was killed: signal 9",
    statement_names: tuple[str, ...] = STATEMENTS,
    title: str = "io_method on a cold full scan",
    differing_plans: bool = False,
    folder: Path = Path("/results/2026-03-01-io_method"),
    stopped: str = "decided",
) -> StoredExperiment:
    """An experiment of whole blocks; a trial whose number is in `failing` has a failed first attempt."""
    levels = levels if levels is not None else ["sync", "worker", "io_uring"]
    members = arms(levels, strata or [""])
    draws = random.Random(7)
    trials: list[StoredTrial] = []
    clock = _START
    number = 0
    for block in range(blocks):
        order = list(members)
        draws.shuffle(order)
        for position, arm in enumerate(order):
            attempts = 2 if number in failing else 1
            for attempt in range(1, attempts + 1):
                failed = attempt < attempts
                trials.append(
                    _trial(
                        number,
                        attempt,
                        block,
                        position,
                        arm,
                        levels,
                        clock,
                        draws,
                        failed,
                        reason,
                        statement_names,
                        differing_plans,
                    )
                )
                clock += timedelta(seconds=9)
            number += 1
    contrasts = tuple(
        Contrast(
            arm_id=arm.id,
            control_id=_of(members, arm, "control"),
            twin_id=_of(members, arm, "twin"),
            stratum=arm.stratum,
        )
        for arm in members
        if arm.role == "arm"
    )
    experiment = Experiment(
        pgassay_version="0.1.0",
        created_at=_START.isoformat(),
        command=(
            "pgassay",
            "compare",
            f"io_method={','.join(levels)}",
            "--workload",
            "full-scan",
            "--scale",
            "100",
        ),
        title=title,
        arms=members,
        contrasts=contrasts,
        contract=StatisticalContract(metric=METRIC, contrasts=max(1, len(contrasts))),
        protocol=Protocol(cache="cold-each"),
        environment={
            "hostname": "db-lab",
            "kernel": "6.18.0",
            "cores_online": 2,
            "cpu": {"model": "Xeon", "governor": None},
        },
    )
    return StoredExperiment(folder, experiment, tuple(trials), stopped, 640.0)


def _of(members: tuple[Arm, ...], arm: Arm, role: str) -> str:
    return next(other.id for other in members if other.role == role and other.stratum == arm.stratum)


def _trial(
    number,
    attempt,
    block,
    position,
    arm,
    levels,
    clock,
    draws,
    failed,
    reason,
    statement_names,
    differing_plans,
) -> StoredTrial:
    speed = 1 + 0.2 * levels.index(next(iter(arm.levels.values())))
    observations = tuple(
        StatementObservation(
            name=name,
            elapsed_s=0.6 / speed * math.exp(draws.gauss(0, 0.02)),
            rows=1,
            cold=True,
            aio=index > 0,
            postgres_read_bytes=1_343_488_000,
            postgres_hit_bytes=40_960,
            device_read_bytes=1_343_000_000 - index * 1000,
            server_cpu_s=0.4,
        )
        for index, name in enumerate(statement_names)
    )
    record = TrialRecord(
        number=number,
        attempt=attempt,
        block=block,
        position=position,
        arm_id=arm.id,
        status="failed" if failed else "ok",
        reason=reason if failed else "",
        started_at=clock.isoformat(),
        ended_at=(clock + timedelta(seconds=8)).isoformat(),
        wall_s=8.0,
        host="db-lab",
        boot_id="b00",
        canary_s=0.05,
        statements=() if failed else observations,
        steal_s=0.0,
        facts={
            "settings": {"shared_buffers": "1GB", "max_connections": "100"} | arm.spec.settings,
            "data_checksums": True,
            "read_ahead_kb": 128,
            "postmaster_pid": 1000 + number,
        },
        verification={"blocks_dirtied": 0, "wal_bytes": 0},
    )
    plans = {
        name: scan_plan(
            "pgbench_accounts", index=index == 0 or (differing_plans and index == 1 and position == 0)
        )
        for index, name in enumerate(statement_names)
    }
    return StoredTrial(
        record=record, plans=plans, folder=Path(f"/results/trials/{number:06d}/attempt-{attempt}")
    )


def arm_result(experiment: StoredExperiment, arm: Arm, **changes: Any) -> ArmResult:
    """A plausible result of one arm: 20 % faster per step of its level."""
    values = tuple(
        sum(statement.elapsed_s for statement in trial.record.statements)
        for trial in experiment.trials
        if trial.record.arm_id == arm.id and trial.record.status == "ok"
    )
    first = experiment.experiment.arms[0]
    steps = (
        [other.levels for other in experiment.experiment.arms].index(arm.levels)
        if arm.levels != first.levels
        else 0
    )
    ratio = 1 + 0.2 * (steps % 7)
    is_control = arm.role == "control"
    fields: dict[str, Any] = {
        "name": arm.name,
        "levels": arm.levels,
        "ratio": 1.0 if is_control else ratio,
        "interval": (1.0, 1.0) if is_control else (ratio * 0.96, ratio * 1.04),
        "verdict": "control" if is_control else "faster",
        "meaningful": not is_control,
        "trials": len(values),
        "failures": 0,
        "median": sorted(values)[len(values) // 2] if values else None,
        "values": values,
        "stratum": arm.stratum,
    }
    return ArmResult(**(fields | changes))


def result(experiment: StoredExperiment, **changes: Any) -> CompareResult:
    """A result as the analysis makes it, with every arm but the twins."""
    members = tuple(arm_result(experiment, arm) for arm in experiment.experiment.arms if arm.role != "twin")
    blocks = len({trial.record.block for trial in experiment.trials})
    fields: dict[str, Any] = {
        "schema": 1,
        "folder": str(experiment.folder),
        "workload": "full-scan",
        "metric": METRIC,
        "control": members[0].name,
        "margin": 0.03,
        "alpha": 0.05,
        "blocks": blocks,
        "stopped": experiment.stopped,
        "arms": members,
        "twin": TwinResult(ratio=1.004, interval=(0.985, 1.022), ok=True),
        "statements": tuple(
            StatementResult(name=name, cold=True, aio=index > 0, arms=members)
            for index, name in enumerate(STATEMENTS)
        ),
        "verdict": "io_method=worker is 20 % faster than io_method=sync (between 15 % and 25 %, 12 blocks).",
        "cache": "cold-each",
        "family": "2 comparisons with io_method=sync",
    }
    return CompareResult.model_validate(fields | changes)


def lying_twin() -> TwinResult:
    """A twin that differs from the control."""
    return TwinResult(ratio=1.3, interval=(1.2, 1.4), ok=False, evidence=5000.0)
