"""Whole experiments without a machine: the product's plan, schedule and verdicts; trials that are drawn.

An experiment is planned by `plan`; its trials follow from `next_step`; after each block `progress` says where
it stands, as it does for whoever watches a real run. What a trial would have measured comes from a `Source`.
Nothing is started and nothing is written, so hundreds of experiments run in seconds.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from pgassay.analysis.statistics.contrasts import evidence_of
from pgassay.analysis.statistics.equivalence import equivalence_path, interval_level
from pgassay.analysis.verdicts.compare import InterimResult, analyse, interim_result
from pgassay.analysis.verdicts.dropped_arms import VOIDED_BLOCKS_MAX
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.design.arms import apply_levels, combinations
from pgassay.design.schedule import Step, next_step, records_blocks
from pgassay.environment.datasets.snapshots import key as snapshot_key
from pgassay.experiment.planning import servers as planned_servers
from pgassay.experiment.planning.experiment_plan import parse_candidates, plan
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.planning.servers import Base, Description, Judged, ParsedRequest, PlannedGrid
from pgassay.experiment.running.stopping_rules import decided_arms
from pgassay.factors.base import Factor
from pgassay.factors.registry import parse_factors
from pgassay.model.arm import Arm, ArmSpec, DatasetSpec
from pgassay.model.build import Build
from pgassay.model.experiment import BlockDesign, Decide, Environment, Experiment, StatisticalContract
from pgassay.model.experiment import Protocol as TrialProtocol
from pgassay.model.result import CompareResult, DesignWarning
from pgassay.model.storage import StorageSpec
from pgassay.model.trial import LoadObservation, StatementObservation, TrialRecord, TrialSpec, TrialStatus
from pgassay.model.workload import WorkloadSpec
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.storage.parse import describe as describe_storage
from pgassay.workloads.registry import parse_workload
from simulated_worlds import World

NOWHERE = Path("/nowhere")
START = "2026-01-01T00:00:00+00:00"
WORK = 10**9
NEVER = 10**9
# How many blocks of one comparison are run at once, before it is asked after which of them it may have ended:
# first few, for a difference is found in few, then more.
FIRST_LOOK_BLOCKS, LOOK_AGAIN_BLOCKS = 8, 16
# Of experiments in which rates of errors are counted: most blocks, and the spread of a single trial.
BLOCKS, SPREAD = 24, 0.03
# What is drawn is put into copies of these: validating each trial would take longer than judging it.
TEMPLATE = TrialRecord(
    number=0, attempt=1, block=0, position=0, arm_id="", status="ok", started_at=START, ended_at=START,
    wall_s=1.0, host="simulated", boot_id="simulated",
)  # fmt: skip
LOAD = LoadObservation(transactions=WORK, elapsed_s=1.0, errors=0, client_cpu_s=0.0)
STATEMENT = StatementObservation(name="", elapsed_s=1.0, rows=1, cold=False, aio=False)
RecordOf = Callable[[TrialSpec, str, float], TrialRecord]


class Source(Protocol):
    """Where trials come from: a `World` that draws them, or a recorded stream."""

    def trial(self, spec: TrialSpec, data: str, copy: int) -> tuple[TrialStatus, float]:
        """What the next trial ends as, and its log speed; `data` is what the copy is one of."""


class NoServers:
    """Servers for a plan, none of which is ever started: every level can run on them."""

    messages: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    connections = planned_servers.ServerConnections()

    def __init__(self, factors: tuple[str, ...]) -> None:
        self.factors = factors

    def base(self, factors: tuple[Factor, ...], workload: WorkloadSpec, given: dict[str, str]) -> Base:
        """An arm on a build that lies nowhere."""
        build = Build(origin="installed", version="18.4", major=18, bin_directory="/nowhere/bin")
        dataset, storage = DatasetSpec(), StorageSpec()
        spec = ArmSpec(build=build, storage=storage, dataset=dataset, settings=given, workload=workload)
        return Base(spec, TrialProtocol(cache="warm-pages"), factors)

    def check(self, candidates: object) -> None:
        """Any combination will do."""

    def judge(self, parsed: ParsedRequest, on_stage: object) -> Judged:
        """All can run."""
        del on_stage
        return Judged(parsed.candidates)

    def describe(self, parsed: ParsedRequest, grid: PlannedGrid) -> Description:
        """There is nothing to say."""
        del parsed, grid
        return Description(data="", confounds=(), warnings=(), environment=Environment())


def planned(
    *factors: str,
    seed: int,
    workload: str = "select-only",
    margin: float = 0.03,
    blocks: int = 60,
    decide: Decide = "arms",
    metric: str | None = None,
) -> Experiment:
    """The plan that `compare` would make of these factors without --blocks, with `blocks` as its limit."""
    request = CompareRequest(
        factors=factors,
        workload=workload,
        metric=metric,
        seed=seed,
        margin=margin,
        max_time_s=1e9,
        decide=decide,
        restart="each",
    )
    servers = NoServers(factors)
    parsed_workload = parse_workload(workload)
    base = servers.base(parse_factors(list(factors)), parsed_workload, {})
    candidates = [
        (levels, apply_levels(base.factors, levels, base.spec)) for levels in combinations(base.factors)
    ]
    parsed = parse_candidates(request, servers, parsed_workload, {}, base, candidates)
    made = plan(parsed, lambda _stage, _fraction: None)
    limited = made.contract.model_copy(update={"blocks_max": blocks})
    return made.model_copy(update={"contract": limited})


def arms_of(experiment: Experiment) -> list[Arm]:
    """What is compared with a control."""
    return [arm for arm in experiment.arms if arm.role == "arm"]


def as_before(experiment: Experiment) -> Experiment:
    """The same experiment by the rules of those stored before blocks had a design: the yardstick."""
    contract = experiment.contract
    later = {name: StatisticalContract.model_fields[name].default for name in contract.LATER_FIELDS}
    arms = tuple(
        arm.model_copy(update={"data_copy": 1}) if arm.role == "twin" else arm for arm in experiment.arms
    )
    return experiment.model_copy(
        update={"arms": arms, "contract": contract.model_copy(update=later), "design": BlockDesign()}
    )


@dataclass(frozen=True)
class Ended:
    """An experiment that ended: what is stored of it, and where it stood.
    has_no_direction: no arm's evidence ever was enough for one, so that nothing need be judged to know.
    """

    stored: StoredExperiment
    has_no_direction: bool = False

    @cached_property
    def standing(self) -> InterimResult:
        """Where it stood; computed when somebody asks, since it takes as long as all that came before."""
        return interim_result(self.stored)

    @property
    def trials(self) -> int:
        """All that ran, of every role, repeated attempts included."""
        return len(self.stored.trials)

    def result(self) -> CompareResult:
        """The whole document that a script would get."""
        return analyse(self.stored)

    def warned_kinds(self) -> set[str]:
        """The kinds of the warnings that the design gives rise to."""
        return {each.kind for each in self.result().warnings if isinstance(each, DesignWarning)}

    def directions(self) -> list[str]:
        """The names of the arms that are called faster or slower."""
        if self.has_no_direction:
            return []
        return [arm.name for arm in self.standing.arms if arm.verdict in ("faster", "slower")]


def ran(factors: tuple[str, ...], run: int, noise: str, **world: Any) -> Ended:
    """One experiment of equal arms, at most `BLOCKS` blocks, whose directions are asked for.

    `world` says what is wrong with the machine.
    """
    experiment = planned(*factors, seed=run, blocks=BLOCKS)
    names = frozenset(arm.name for arm in arms_of(experiment))
    if "carry_over" in world:
        world["leaving"] = names
    if "failing" in world:
        world["failing_arms"] = names
    random = np.random.default_rng([77, run])
    return run_whole(experiment, World(noise, SPREAD, random, **world), for_directions=True)


def run_whole(
    experiment: Experiment,
    source: Source,
    *,
    record_of: RecordOf | None = None,
    look_at_each: bool = False,
    until_decided: bool = True,
    for_directions: bool = False,
) -> Ended:
    """Run a plan until all is decided (with `until_decided`), or to its limit of blocks.

    `look_at_each` asks after each trial what is next, and after each block where it stands, as a real run
    does. Less will do: the rest of a block follows from its begin for as long as no trial fails, and where
    the experiment stands is asked only when the evidence of an arm without a verdict says something. As
    long as no arm rests, this is asked of several blocks at once. `for_directions`: where one arm never has
    the evidence for a direction, what else it is called, and when, is not asked.
    """
    make = record_of or load_record
    running = _Running(experiment, source, make, ask_always=look_at_each)
    if not until_decided:
        while running.block():
            pass
        return Ended(running.stored)
    if look_at_each:
        while running.block():
            standing = interim_result(running.stored)
            if standing.decided:
                break
            running.resting = decided_arms(running.stored, standing)
        return Ended(running.stored)
    if len(experiment.contrasts) > 1:
        return _with_resting_arms(running, _Running(experiment, *deepcopy((source, make))))
    moments: list[StoredExperiment] = []
    seen, goes_on = 0, True
    while goes_on:
        goes_on = running.block()
        if goes_on:
            moments.append(running.stored)
        is_time = not for_directions and len(moments) % LOOK_AGAIN_BLOCKS == FIRST_LOOK_BLOCKS
        if not goes_on or is_time:
            study = gather_study(running.stored)
            if for_directions and telling_blocks(study, of="directions") == [NEVER]:
                return Ended(running.stored, has_no_direction=True)
            (first,) = telling_blocks(study)
            for stored in moments[max(first, seen) :]:
                ended = Ended(stored)
                if ended.standing.decided:
                    return ended
            seen = len(moments)
    return Ended(running.stored)


def _with_resting_arms(running: "_Running", without_rest: "_Running") -> Ended:
    """Run to the end. Both begin alike: until something may be decided in the second, no arm rests."""
    while without_rest.block():
        pass
    first = min(telling_blocks(gather_study(without_rest.stored)))
    if first == NEVER:
        return Ended(without_rest.stored, has_no_direction=True)
    blocks = 0
    while running.block():
        blocks += 1
        if blocks <= first:
            continue
        telling = telling_blocks(gather_study(running.stored), running.resting)
        if all(block == NEVER for block in telling):
            continue
        standing = interim_result(running.stored)
        if standing.decided:
            break
        running.resting = decided_arms(running.stored, standing)
    return Ended(running.stored)


def telling_blocks(
    study: Study,
    resting: frozenset[str] = frozenset(),
    of: Literal["verdicts", "directions"] = "verdicts",
) -> list[int]:
    """Of each comparison the number of the block since which it may have a verdict; NEVER if it has none yet.

    From that block on its interval excludes no effect, or lies inside the margin. Neither is ever lost again.
    Nothing is asked of `resting` arms. `of` directions: since which it may be called faster or slower.
    """
    contract, level = study.experiment.contract, study.experiment.contract.alpha / study.contrast_count
    contrasts = study.contrast_set(study.logs[:1])
    found = []
    for place, rows in enumerate(study.rows):
        if rows.arm_ids[0] in resting or len(rows.blocks) < study.rows_min(place):
            found.append(NEVER)
            continue
        members = contrasts.members(0, place)
        slots = np.array(rows.slots, dtype=np.float64) if rows.slots else None
        evidence = evidence_of(members, slots, study.rules)
        highest = np.maximum(evidence.log_highest_above(0.0), evidence.log_highest_below(0.0))
        telling = highest >= np.log(2 / level)
        if of == "verdicts":
            inside = interval_level(level, contract.equivalence)
            telling |= equivalence_path(evidence, contract.margin, inside)
        telling[: study.rows_min(place) - 1] = False
        numbers = study.block_numbers(place)
        found.append(numbers[int(telling.argmax())][-1] if telling.any() else NEVER)
    return found


class _Running:
    """What the loop of a real run does between two looks; `resting`: the arms that are decided."""

    def __init__(
        self, experiment: Experiment, source: Source, make: RecordOf, *, ask_always: bool = False
    ) -> None:
        self.stored = StoredExperiment(NOWHERE, experiment, ())
        self.resting: frozenset[str] = frozenset()
        self._source = source
        self._make = make
        self._ask_always = ask_always
        self._following: tuple[frozenset[str], Step] | None = None
        self._data: dict[str, str] = {}

    def block(self) -> bool:
        """Run the next block to its end, be it void; False when the limits are reached."""
        resting, step = self._following or (None, None)
        if step is None or resting != self.resting:
            step = self._next()
        blocks_max = self.stored.experiment.contract.blocks_max
        if step.visit >= blocks_max or step.voided_in_a_row >= VOIDED_BLOCKS_MAX:
            return False
        plan = step.plan
        plans = (
            {**self.stored.block_plans, plan.block: plan} if records_blocks(self.stored.experiment) else {}
        )
        self.stored = replace(self.stored, block_plans=plans)
        while step.plan.block == plan.block:
            spec = step.spec
            if spec.arm.id not in self._data:
                self._data[spec.arm.id] = data_of(spec)
            data = self._data[spec.arm.id]
            status, log_speed = self._source.trial(spec, data, spec.arm.data_copy)
            # A folder of its own, by which what is known of a trial is found again.
            folder = NOWHERE / f"{plan.block}-{spec.position}-{spec.attempt}"
            trial = StoredTrial(self._make(spec, status, log_speed), {}, folder)
            self.stored = replace(self.stored, trials=(*self.stored.trials, trial))
            following = spec.position + 1
            if status != "ok" or following == len(step.arms) or self._ask_always:
                step = self._next()
                continue
            changes = {
                "number": spec.number + 1, "attempt": 1, "position": following, "arm": step.arms[following]
            }  # fmt: skip
            step = replace(step, spec=spec.model_copy(update=changes), begins_block=False)
        self._following = self.resting, step
        return True

    def _next(self) -> Step:
        stored = self.stored
        records = (trial.record for trial in stored.trials)
        return next_step(stored.experiment, records, stored.block_plans, self.resting)


def data_of(spec: TrialSpec) -> str:
    """What an arm's copies are copies of: one storage's snapshot."""
    arm = spec.arm.spec
    return f"{snapshot_key(arm.build, arm.dataset, arm.prepare)} {describe_storage(arm.storage)}"


def load_record(spec: TrialSpec, status: str, log_speed: float) -> TrialRecord:
    """A load that ran at this speed."""
    # Cauchy noise has trials beyond what a float holds.
    elapsed_s = WORK * float(np.exp(-np.clip(log_speed, -600, 600)))
    observed = LOAD.model_copy(update={"elapsed_s": elapsed_s})
    return _record(spec, status, load=observed)


def statements_record(spec: TrialSpec, status: str, log_speeds: dict[str, float]) -> TrialRecord:
    """Statements that ran at these speeds, by name."""
    seen = tuple(
        STATEMENT.model_copy(update={"name": name, "elapsed_s": float(np.exp(-log_speed))})
        for name, log_speed in log_speeds.items()
    )
    return _record(spec, status, statements=seen)


def _record(spec: TrialSpec, status: str, **observed: object) -> TrialRecord:
    return TEMPLATE.model_copy(
        update={
            **observed,
            "number": spec.number,
            "attempt": spec.attempt,
            "block": spec.block,
            "position": spec.position,
            "arm_id": spec.arm.id,
            "status": status,
            "reason": "" if status == "ok" else "its pages did not stay in the cache",
            "data_copy": spec.arm.data_copy,
        }
    )
