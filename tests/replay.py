"""An experiment whose trials are replayed: outcomes drawn from a seed, by trial and attempt alone."""

import random
import time
from collections.abc import Collection
from pathlib import Path

from pgassay.design.arms import apply_levels, build_arms, choose_control, combinations
from pgassay.design.schedule import planned_design
from pgassay.experiment.running.loop import RunLimits, run_experiment
from pgassay.factors.registry import parse_factors
from pgassay.model.arm import ArmSpec, DatasetSpec
from pgassay.model.build import Build
from pgassay.model.experiment import Experiment, Protocol, StatisticalContract
from pgassay.model.storage import StorageSpec
from pgassay.model.trial import StatementObservation, TrialRecord, TrialSpec, TrialStatus
from pgassay.progress import NullProgress
from pgassay.record.experiment import TrialWriter, load, write_experiment
from pgassay.workloads.registry import parse_workload

START = "2026-01-01T00:00:00+00:00"


def new_experiment(
    folder: Path, seed: int, *, writes_blocks: bool = False, typed: str = "work_mem=1MB,2MB,4MB"
) -> Path:
    """Plan these factors, as typed, on a full scan and write it to `folder`; returns the folder.

    writes_blocks: what a block is made of is written down, as of today's experiments.
    """
    workload = parse_workload("full-scan:only=sum+read-table")
    base = ArmSpec(
        build=Build(origin="apt", version="18.6", major=18, bin_directory="/usr/lib/postgresql/18/bin"),
        storage=StorageSpec(),
        dataset=DatasetSpec(),
        settings={"shared_buffers": "1GB"},
        workload=workload,
    )
    factors = parse_factors(typed.split())
    specs = [(levels, apply_levels(factors, levels, base)) for levels in combinations(factors)]
    arms, contrasts = build_arms(factors, choose_control(factors, None), specs, seed)
    contract = StatisticalContract(metric=workload.metric, seed=seed, contrasts=len(contrasts))
    experiment = Experiment(
        pgassay_version="0",
        created_at=START,
        command=("pgassay", "compare", *typed.split()),
        title="replayed",
        arms=arms,
        contrasts=contrasts,
        contract=contract,
        protocol=Protocol(cache="cold-each"),
        **({"design": planned_design(arms, is_crossed=False)} if writes_blocks else {}),
    )
    write_experiment(folder, experiment)
    return folder


class Replay:
    """A TrialRunner without a server; `ran` lists (number, attempt) in the order they were asked for.

    `failing` names the attempts that fail; without it `failing_fraction` of them do, drawn from the seed.
    """

    def __init__(
        self,
        seed: int,
        *,
        sleep_s: float = 0.0,
        failing: Collection[tuple[int, int]] | None = None,
        failing_fraction: float = 0.0,
        interrupted_at: int | None = None,
        wall_s: float = 1.0,
        spread: float = 0.05,
        speed_up: float = 1.0,
        failing_arms: Collection[str] = (),
    ) -> None:
        """`speed_up`: how much faster every arm but the control and its twin is.

        `failing_arms`: the names or ids of those whose trials all fail.
        """
        self.failing_arms = failing_arms
        self.seed = seed
        self.sleep_s = sleep_s
        self.failing = failing
        self.failing_fraction = failing_fraction
        self.interrupted_at = interrupted_at
        self.wall_s = wall_s
        self.spread = spread
        self.speed_up = speed_up
        self.ran: list[tuple[int, int]] = []

    def __call__(self, spec: TrialSpec, folder: Path) -> tuple[Path, TrialRecord]:
        """Write the trial's folder in two steps, with a pause in which a kill may hit."""
        if self.interrupted_at == len(self.ran):
            raise KeyboardInterrupt
        self.ran.append((spec.number, spec.attempt))
        record = self._record(spec)
        writer = TrialWriter(folder, spec.number, spec.attempt)
        writer.add("server.log", b"replayed\n")
        writer.add("plans.json", b'{"sum": {"Plan": {"Node Type": "Seq Scan"}}}\n')
        time.sleep(self.sleep_s)
        writer.finish(record)
        return writer.final, record

    def _record(self, spec: TrialSpec) -> TrialRecord:
        draw = random.Random(f"replay {self.seed} {spec.number} {spec.attempt}")
        status = self._status(spec, draw)
        speed = self.speed_up if spec.arm.role == "arm" else 1.0
        statements = tuple(
            StatementObservation(
                name=statement.name,
                elapsed_s=draw.lognormvariate(0, self.spread) / speed,
                rows=1,
                cold=True,
                aio=True,
            )
            for statement in spec.arm.spec.workload.statements
        )
        return TrialRecord(
            number=spec.number,
            attempt=spec.attempt,
            block=spec.block,
            position=spec.position,
            arm_id=spec.arm.id,
            status=status,
            reason="" if status == "ok" else "as recorded",
            started_at=START,
            ended_at=START,
            wall_s=self.wall_s,
            host="recorded",
            boot_id="recorded",
            statements=statements if status == "ok" else (),
        )

    def _status(self, spec: TrialSpec, draw: random.Random) -> TrialStatus:
        if {spec.arm.id, spec.arm.name} & {*self.failing_arms}:
            return "failed"
        if self.failing is not None:
            return "failed" if (spec.number, spec.attempt) in self.failing else "ok"
        if draw.random() >= self.failing_fraction:
            return "ok"
        return draw.choice(("failed", "invalid"))


def recorded(folder: Path, blocks: int = 2) -> Path:
    """A whole experiment on disk, with plans, ended at its limit of blocks."""
    new_experiment(folder, seed=7)
    runner = Replay(seed=1)
    run_experiment(load(folder), runner, RunLimits(blocks, 600.0), NullProgress())
    return folder
