"""Where a spread experiment stands: what came home, combined, and whether that ends it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pgassay.analysis.machines.combine import combine
from pgassay.analysis.machines.gather import Told
from pgassay.errors import UsageError
from pgassay.fleet.spreading.alike import facts_by_machine
from pgassay.model.machines.combined import CombinedResult
from pgassay.model.machines.spread import SpreadExperiment
from pgassay.record.read import StoredExperiment, load, load_state


def told_of(plan: SpreadExperiment, folder: Path) -> dict[Path, Told]:
    """By the folder of each run how its machine is called, and what it said of itself."""
    facts = facts_by_machine(plan.machines)
    return {
        folder / run.folder: Told(machine.name, facts.get(machine.name, {}))
        for machine in plan.machines
        for run in machine.runs
    }


def combined(
    plan: SpreadExperiment,
    folder: Path,
    experiments: Sequence[StoredExperiment],
    *,
    is_final: bool,
    stopped: str = "running",
    warnings: Iterable[str] = (),
) -> CombinedResult:
    """The result of what came home; raises UsageError as `combine`, and where nothing did."""
    if not experiments:
        raise UsageError(
            f"{folder} holds no experiment of any machine, since none had begun: type pgassay resume {folder}"
        )
    found = combine(experiments, told_of(plan, folder), least=1, is_final=is_final)
    return found.model_copy(update={"stopped": stopped, "warnings": (*found.warnings, *warnings)})


def stored_result(plan: SpreadExperiment, folder: Path) -> CombinedResult:
    """The result of a folder, from nothing but what is in it; raises UsageError."""
    homes = [folder / run.folder for machine in plan.machines for run in machine.runs]
    experiments = [load(home) for home in homes if (home / "experiment.json").is_file()]
    stopped, _, warnings = load_state(folder)
    return combined(plan, folder, experiments, is_final=True, stopped=stopped, warnings=warnings)


def blocks_done(result: CombinedResult) -> int:
    """The complete blocks of all machines, of the comparison that has fewest."""
    return min((arm.these_machines.blocks for arm in result.arms), default=0)


def is_settled(result: CombinedResult) -> bool:
    """Whether the question of these machines is answered for every arm.

    Where no single effect fits the machines, the answer is what each has for itself: it takes their verdicts.
    """
    own: Mapping[tuple[str, str], list[bool]] = {
        (arm.name, arm.stratum): [
            machine.verdict != "inconclusive"
            for machine in result.machines
            if (machine.arm, machine.stratum) == (arm.name, arm.stratum)
        ]
        for arm in result.arms
    }
    return bool(result.arms) and all(
        arm.these_machines.verdict != "inconclusive"
        or (
            arm.these_machines.machines > 1
            and arm.these_machines.ratio is None
            and all(own[arm.name, arm.stratum])
        )
        for arm in result.arms
    )
