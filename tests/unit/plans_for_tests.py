"""A plan of an experiment without a machine, for tests of design, schedule and record."""

from pgassay.design.arms import apply_levels, build_arms, choose_control, combinations
from pgassay.factors.registry import parse_factors
from pgassay.model.arm import Arm, ArmSpec, DatasetSpec
from pgassay.model.build import Build
from pgassay.model.experiment import Contrast, Experiment, Protocol, StatisticalContract
from pgassay.model.storage import StorageSpec
from pgassay.model.trial import StatementObservation, TrialRecord, TrialSpec, TrialStatus
from pgassay.workloads.registry import parse_workload


def base_spec(workload: str = "full-scan") -> ArmSpec:
    """An arm's description on a build that is never started."""
    return ArmSpec(
        build=Build(origin="installed", version="18.4", major=18, bin_directory="/nowhere/bin"),
        storage=StorageSpec(),
        dataset=DatasetSpec(scale=1),
        settings={"shared_buffers": "1GB"},
        workload=parse_workload(workload),
    )


def make_arms(
    texts: list[str], *, workload: str = "full-scan", control: str | None = None, seed: int = 7
) -> tuple[tuple[Arm, ...], tuple[Contrast, ...]]:
    """The arms and contrasts of these factors."""
    factors = parse_factors(texts)
    base = base_spec(workload)
    specs = [(levels, apply_levels(factors, levels, base)) for levels in combinations(factors)]
    return build_arms(factors, choose_control(factors, control), specs, seed)


def make_experiment(texts: list[str], *, seed: int = 7, blocks: int = 6) -> Experiment:
    """A whole plan."""
    arms, contrasts = make_arms(texts, seed=seed)
    contract = StatisticalContract(
        metric=arms[0].spec.workload.metric, seed=seed, blocks_max=blocks, contrasts=len(contrasts)
    )
    return Experiment(
        pgassay_version="0", created_at="2026-01-01T00:00:00+00:00", command=("pgassay", "compare"),
        title="test", arms=arms, contrasts=contrasts, contract=contract, protocol=Protocol(cache="cold-each"),
    )  # fmt: skip


def make_record(spec: TrialSpec, status: TrialStatus = "ok", elapsed_s: float = 1.0) -> TrialRecord:
    """A record of a trial that took `elapsed_s`."""
    statement = StatementObservation(name="count", elapsed_s=elapsed_s, rows=1, cold=True, aio=False)
    return TrialRecord(
        number=spec.number, attempt=spec.attempt, block=spec.block, position=spec.position,
        arm_id=spec.arm.id, status=status, reason="" if status == "ok" else "it failed",
        started_at="2026-01-01T00:00:00+00:00", ended_at="2026-01-01T00:00:01+00:00", wall_s=elapsed_s,
        host="here", boot_id="boot", statements=(statement,) if status == "ok" else (),
    )  # fmt: skip
