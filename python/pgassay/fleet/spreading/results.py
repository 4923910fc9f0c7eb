"""Where a spread experiment stands: what came home, combined, and whether that ends it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from pgassay.analysis.machines.combine import combine
from pgassay.analysis.machines.gather import MachineDescription
from pgassay.errors import UsageError
from pgassay.fleet.spreading.machine_differences import facts_by_machine
from pgassay.fleet.spreading.spread_plan import REMEDY
from pgassay.model.base import Frozen
from pgassay.model.machines.combined import CombinedResult
from pgassay.model.machines.spread import SpreadExperiment
from pgassay.model.machines.spread_grid import CellsResult
from pgassay.record import layout
from pgassay.record.documents import read_model, write_file
from pgassay.record.experiment import StoredExperiment, load, load_state

LOOKS_FILE = "looks.json"
LOOKS_FORMAT = 1


class FleetLooks(Frozen):
    """looks.json: by the id of a run how many of its trials were home at each look."""

    format: int = LOOKS_FORMAT
    runs: dict[str, tuple[int, ...]] = Field(default_factory=dict)

    @property
    def count(self) -> int:
        """The looks that found something new."""
        return max((len(counts) for counts in self.runs.values()), default=0)

    def with_look(self, trials: Mapping[str, int]) -> "FleetLooks":
        """One look more; the same where nothing new is home. trials: by the id of each run."""
        known = {run: counts[-1] if counts else 0 for run, counts in self.runs.items()}
        if all(known.get(run, 0) >= count for run, count in trials.items()):
            return self
        runs = {}
        for run in {**self.runs, **trials}:
            # One that was not there at earlier looks had no trial then.
            counts = self.runs.get(run, (0,) * self.count)
            runs[run] = (*counts, max(trials.get(run, 0), known.get(run, 0)))
        return FleetLooks(runs=runs)


def read_looks(folder: Path) -> FleetLooks:
    """Those of a folder; none where nobody looked yet. Raises UsageError where the file is damaged."""
    path = folder / LOOKS_FILE
    return read_model(path, FleetLooks, LOOKS_FORMAT, REMEDY) if path.is_file() else FleetLooks()


def write_looks(folder: Path, looks: FleetLooks) -> None:
    """Write it whole, before the look decides anything; raises MeasurementError."""
    write_file(folder / LOOKS_FILE, (looks.model_dump_json() + "\n").encode())


def machine_descriptions(
    plan: SpreadExperiment, folder: Path, looks: FleetLooks
) -> dict[Path, MachineDescription]:
    """By the folder of each run how its machine is called, what it said of itself, and what was looked at."""
    facts = facts_by_machine(plan.machines)
    return {
        folder / run.folder: MachineDescription(
            machine.name,
            facts.get(machine.name, {}),
            looks.runs.get(run.id, (0,) * looks.count),
            machine.counts_as,
        )
        for machine in plan.machines
        for run in machine.runs
    }


def combined(
    plan: SpreadExperiment,
    folder: Path,
    experiments: Sequence[StoredExperiment],
    looks: FleetLooks,
    *,
    is_final: bool,
    stopped: str = "running",
    warnings: Iterable[str] = (),
) -> CombinedResult:
    """The result of what came home; raises UsageError as `combine`, and where nothing did."""
    if not experiments:
        raise UsageError(
            f"{folder} holds no experiment of any machine, since none had started: run pgassay resume "
            f"{folder}"
        )
    found = combine(
        experiments, machine_descriptions(plan, folder, looks), least=1, is_final=is_final, grid=plan.grid
    )
    return found.model_copy(update={"stopped": stopped, "warnings": (*found.warnings, *warnings)})


def stored_result(plan: SpreadExperiment, folder: Path) -> CombinedResult:
    """The result of a folder, from nothing but what is in it; raises UsageError."""
    homes = [folder / run.folder for machine in plan.machines for run in machine.runs]
    experiments = [load(home) for home in homes if (home / layout.EXPERIMENT_FILE).is_file()]
    stopped, _, warnings = load_state(folder)
    looks = read_looks(folder)
    return combined(plan, folder, experiments, looks, is_final=True, stopped=stopped, warnings=warnings)


def home_of_absent(
    plan: SpreadExperiment, folder: Path, present: Collection[str]
) -> dict[str, StoredExperiment]:
    """By the id of its run what came home from machines that the fleet has no more: it counts still."""
    return {
        run.id: replace(load(folder / run.folder), stopped="interrupted")
        for machine in plan.machines
        if machine.name not in present
        for run in machine.runs
        if (folder / run.folder / layout.EXPERIMENT_FILE).is_file()
    }


def blocks_done(result: CombinedResult) -> int:
    """The complete blocks of all machines, of the comparison that has fewest.

    Where strata were spread: of each undecided stratum on its machine, of an anchor on each machine.
    """
    if result.cells is not None:
        return _cells_done(result, result.cells)
    return min((arm.these_machines.blocks for arm in result.arms), default=0)


def _cells_done(result: CombinedResult, cells: CellsResult) -> int:
    if not all(stratum.blocks for stratum in cells.strata):
        return 0
    found = [
        row.blocks
        for arm in result.arms
        for row in result.machines
        if (row.arm, row.stratum) == (arm.name, arm.stratum)
        and arm.stratum in cells.anchors
        and arm.these_machines.verdict == "inconclusive"
    ]
    found += [
        arm.these_machines.blocks
        for arm in result.arms
        if arm.stratum not in cells.anchors and arm.these_machines.verdict == "inconclusive"
    ]
    return min(found, default=0)


def is_settled(result: CombinedResult) -> bool:
    """Whether the question of these machines is answered for every arm.

    Where no single effect fits the machines, the answer is what each has for itself: it takes their verdicts.
    """
    if result.cells is not None and not all(stratum.blocks for stratum in result.cells.strata):
        return False
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


def why_all_ended(ended: Collection[str], *, is_something_left: bool) -> str:
    """Why an experiment ends whose machines have all ended, for these reasons, or failed.

    is_something_left: a stratum whose machine is away can still be resumed.
    """
    if not ended:
        return "failed"
    if not set(ended) <= {"blocks", "decided"}:
        return "max-time"
    if is_something_left:
        return "interrupted"
    return "decided" if set(ended) == {"decided"} else "blocks"
