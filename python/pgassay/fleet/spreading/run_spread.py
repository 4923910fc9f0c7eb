"""A spread experiment, new or resumed: from the machines' facts to the result."""

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.planning.provisioned_servers import default_cache
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.results_folder import new_folder
from pgassay.factors import registry as factors
from pgassay.factors import sql
from pgassay.fleet.agent_requests import Document, Fleet, FleetMachine, MachineLostError
from pgassay.fleet.spreading import spread_plan as plans
from pgassay.fleet.spreading.cell_assignment import lines_of_plan, spread_cells
from pgassay.fleet.spreading.coordinate import Coordinator, PollingPace, request_of
from pgassay.fleet.spreading.data_transfer import DataSharing
from pgassay.fleet.spreading.machine_command import machine_command
from pgassay.fleet.spreading.machine_differences import WARM, check_shared_hosts, differences
from pgassay.fleet.spreading.member import Member, facts_of
from pgassay.model.machines.combined import CombinedResult
from pgassay.model.machines.spread import SpreadExperiment
from pgassay.model.workload import WorkloadSpec
from pgassay.options.evidence import BLOCKS_DEFAULT
from pgassay.record.experiment_lock import held, is_held
from pgassay.terminal.fleet import FleetView
from pgassay.words import duration_rounded, join, plural, size
from pgassay.workloads.registry import parse_workload

# How long the doctor watches a machine's noise before the first trial.
_NOISE_S = 2.0
_THREADS_MAX = 32


@dataclass(frozen=True)
class SpreadRequest:
    """What was typed: `words` after `pgassay compare`, the whole `command`, and the fleet's file."""

    compare: CompareRequest
    words: tuple[str, ...]
    command: tuple[str, ...]
    fleet_file: Path
    until_decided: bool = True
    spread: Literal["blocks", "cells"] = "blocks"


def run_spread(
    request: SpreadRequest, fleet: Fleet, view: FleetView, pace: PollingPace | None = None
) -> tuple[Path, CombinedResult]:
    """Run a comparison on all machines of a fleet; its folder and its result.

    Raises UsageError before anything is measured, and as `Coordinator.run`.
    """
    compare = request.compare
    workloads = _workloads(compare)
    cache = compare.cache or default_cache(workloads[0])
    words = machine_command(request.words)
    # What reads from memory alone is not concerned with the disk, and probing takes some seconds.
    with_storage = cache not in WARM or any(workload.writes for workload in workloads)
    facts = _gather_facts(fleet.machines(), view, with_storage=with_storage)
    plan = plans.new_plan(
        command=request.command,
        words=words.words,
        files=words.files,
        fleet_file=request.fleet_file,
        seed=compare.seed,
        # As one machine has at most, for all of them.
        blocks_max=compare.blocks if compare.blocks is not None else BLOCKS_DEFAULT,
        time_max_s=compare.max_time_s,
        until_decided=request.until_decided,
        decided_rest=request.spread == "cells" and compare.blocks is None and request.until_decided,
        facts=facts,
        counts_as={machine.name: machine.counts_as for machine in fleet.machines()},
    )
    check_shared_hosts(plan.machines, workloads, cache)
    folder = new_folder(compare.out, f"fleet {' '.join(compare.factors)}")
    if request.spread == "cells":
        try:
            plan = spread_cells(plan, _members(folder, plan, fleet), view)
        except BaseException:
            # Nothing is kept of what could not begin.
            shutil.rmtree(folder, ignore_errors=True)
            raise
    _say_plan(plan, view)
    plans.write(folder, plan)
    return folder, _coordinated(folder, plan, fleet, view, pace, shares_data=True)


def resume_spread(
    folder: Path,
    fleet: Fleet,
    view: FleetView,
    *,
    blocks_max: int | None = None,
    time_max_s: float | None = None,
    pace: PollingPace | None = None,
) -> CombinedResult:
    """Go on with the machines that are there, after having brought home what was finished meanwhile.

    Raises UsageError where the folder holds no such experiment, another process coordinates it, or the fleet
    has none of its machines.
    """
    plan = plans.read(folder)
    wider = {"blocks_max": blocks_max, "time_max_s": time_max_s}
    plan = plan.model_copy(update={name: value for name, value in wider.items() if value is not None})
    if blocks_max is not None:
        plan = plan.model_copy(update={"until_decided": False})
    return _coordinated(folder.resolve(), plan, fleet, view, pace)


def _coordinated(
    folder: Path,
    plan: SpreadExperiment,
    fleet: Fleet,
    view: FleetView,
    pace: PollingPace | None,
    *,
    shares_data: bool = False,
) -> CombinedResult:
    if is_held(folder):
        raise UsageError(f"{folder} is coordinated by another process: wait until that has ended")
    members = _members(folder, plan, fleet)
    missing = [machine.name for machine in plan.machines if machine.name not in members]
    if not members:
        raise UsageError(f"the fleet lacks {join(missing)}: name their fleet's file with --fleet")
    if missing:
        view.message(f"the fleet no longer has {join(missing)}: it continues without")
    with held(folder):
        # Not before: a resume that is refused leaves the plan as it was.
        plans.write(folder, plan)
        if shares_data:
            sharing = DataSharing(plan, members, view, (pace or PollingPace()).copy_s)
            copies = sharing.run(partial(request_of, plan))
            plan = plan.model_copy(update={"copies": copies})
            plans.write(folder, plan)
        return Coordinator(folder, plan, members, view, pace).run()


def _members(folder: Path, plan: SpreadExperiment, fleet: Fleet) -> dict[str, Member]:
    """Of the plan's machines those that the fleet has, by their names."""
    there = {machine.name: machine for machine in fleet.machines()}
    return {
        machine.name: Member(there[machine.name], folder, machine.runs)
        for machine in plan.machines
        if machine.name in there
    }


def _workloads(request: CompareRequest) -> list[WorkloadSpec]:
    """All that arms run; raises UsageError for a factor or a workload that can't be meant."""
    found = [factors.parse_factor(text) for text in request.factors]
    levels = sql.levels_of(found)
    if levels:
        return [parse_workload(f"{sql.NAME}:{level}") for level in levels]
    return [parse_workload(request.workload)]


def _gather_facts(
    machines: Sequence[FleetMachine], view: FleetView, *, with_storage: bool
) -> dict[str, Document]:
    """What each machine says of itself, all at once; raises UsageError where none answers."""
    probed = " and probing their disks" if with_storage else ""
    view.message(f"asking {plural(len(machines), 'machine')} what they are{probed}")

    def asked(machine: FleetMachine) -> Document | str:
        try:
            return facts_of(machine, noise_s=_NOISE_S, with_storage=with_storage)
        except MachineLostError:
            return f"{machine.name} does not answer: it takes no part"
        except MeasurementError as error:
            return f"{machine.name} takes no part: {error}"

    found = {}
    with ThreadPoolExecutor(min(_THREADS_MAX, max(1, len(machines)))) as pool:
        for machine, answer in zip(machines, pool.map(asked, machines), strict=True):
            if isinstance(answer, str):
                view.message(answer)
            else:
                found[machine.name] = answer
                if answer.get("missing"):
                    view.message(f"how fast {machine.name} is could not all be read: {answer['missing']}")
    if not found:
        raise UsageError("no machine of the fleet answers: check it with pgassay fleet status")
    return found


def _say_plan(plan: SpreadExperiment, view: FleetView) -> None:
    hosts = {machine.counts_as or machine.host for machine in plan.machines}
    names = [machine.name for machine in plan.machines]
    of = f" of {plural(len(hosts), 'host')}" if len(hosts) < len(names) else ""
    if plan.grid is not None:
        view.message(
            f"{join(names)}{of}: each runs strata of its own, at most {plural(plan.blocks_max, 'block')} of "
            f"each, {duration_rounded(plan.time_max_s)} each machine"
        )
        for line in lines_of_plan(plan):
            view.message(line)
    else:
        view.message(
            f"{join(names)}{of}: each runs all arms in blocks of its own, at most "
            f"{plural(plan.blocks_max, 'block')} together, {duration_rounded(plan.time_max_s)} each"
        )
    if len(hosts) < len(names) and plan.grid is None:
        view.message("workers of one host count as one machine")
    unlike = differences(plan.machines)
    for line in unlike:
        view.message(f"the machines differ in {line}")
    if not unlike and len(names) > 1:
        view.message("no facts differ between the machines")
    sent = sum(file.bytes for file in plan.files.values())
    if sent:
        view.message(
            f"{plural(len(plan.files), 'file')} ({size(sent)}) are copied to each, with their checksums"
        )
