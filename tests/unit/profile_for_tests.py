"""Made-up profiles: experiments whose further trials have folded stacks on disk, as perf would give them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from analysis_samples import experiment, record, simulate, stored
from pgassay.model.experiment import Experiment
from pgassay.model.profile.result import ProfileFacts
from pgassay.record import layout
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.record.stacks import STACKS_FILE, WAITS_FILE, to_folded

RATE_HZ = 1000
TRANSACTIONS = 10_000
# Samples of a trial of the control by stack.
STACKS: Mapping[str, float] = {
    "_start;main;ServerLoop;PostgresMain;exec_simple_query;hash_search_with_hash_value": 2000.0,
    "_start;main;ServerLoop;PostgresMain;exec_simple_query;_bt_search;_bt_compare": 1500.0,
    "_start;main;ServerLoop;PostgresMain;exec_simple_query;palloc": 900.0,
    "_start;main;ServerLoop;PostgresMain;secure_read;do_syscall_64_[k];finish_task_switch_[k]": 3000.0,
    "[unknown];CheckpointerMain;write_[k]": 60.0,
}


def profiled(
    folder: Path,
    *,
    rounds: int = 10,
    factors: Mapping[str, float] | None = None,
    spread: float = 0.03,
    seed: int = 1,
    arms: int = 1,
    instructions: Mapping[str, float] | None = None,
    renamed: Mapping[str, str] | None = None,
    waits: Mapping[str, float] | None = None,
) -> StoredExperiment:
    """A load's experiment with a profile of so many rounds below `folder`.

    `factors`: what the innermost functions take in the compared arms, as multiples of the control's time.
    Every trial's samples have that spread, and are counted. `instructions`: of a transaction by the role of
    an arm, with a hundredth of that spread; without it the machine has no counters. `renamed`: what functions
    are called in the compared arms. `waits`: the µs of a trial of the control by stack; None: not recorded.
    """
    plan = experiment(statements=0, arms=arms)
    judged = stored(plan, simulate(plan, 6), "decided")
    random = np.random.default_rng(seed)
    profile = _profile(plan, folder, rounds, factors or {}, random, spread, renamed or {})
    if waits is not None:
        profile = _waiting(profile, waits, factors or {}, random, spread)
    if instructions is not None:
        profile = _counted(profile, instructions, random, spread / 100)
    return replace(judged, folder=folder, profile=profile)


def _profile(
    plan: Experiment,
    folder: Path,
    rounds: int,
    factors: Mapping[str, float],
    random: np.random.Generator,
    spread: float,
    renamed: Mapping[str, str],
) -> StoredExperiment:
    trials = []
    for block in range(rounds):
        for arm in plan.arms:
            number = len(trials)
            stacks = {}
            for stack, mean in STACKS.items():
                factor = factors.get(stack.rpartition(";")[2], 1.0) if arm.role == "arm" else 1.0
                shown = stack
                if arm.role == "arm":
                    shown = ";".join(renamed.get(frame, frame) for frame in stack.split(";"))
                stacks[shown] = int(random.poisson(mean * factor * np.exp(random.normal(0, spread))))
            made = record(plan, number, block, arm.id, TRANSACTIONS / 100_000)
            facts = made.facts.updated(
                profile=ProfileFacts(
                    event="cpu-clock",
                    rate_hz=RATE_HZ,
                    stacks="frame pointers",
                    samples=sum(stacks.values()),
                    lost=0,
                    counters=False,
                )
            )
            place = layout.attempt_folder(folder / layout.PROFILE_FOLDER, number, 1)
            (place / layout.OBSERVATIONS_FOLDER).mkdir(parents=True)
            (place / layout.OBSERVATIONS_FOLDER / STACKS_FILE).write_bytes(to_folded(stacks))
            trials.append(StoredTrial(made.model_copy(update={"facts": facts}), {}, place))
    contract = plan.contract.model_copy(update={"blocks_max": rounds})
    changed = plan.model_copy(update={"contract": contract})
    return StoredExperiment(folder / layout.PROFILE_FOLDER, changed, tuple(trials), "blocks")


def _waiting(
    profile: StoredExperiment,
    waits: Mapping[str, float],
    factors: Mapping[str, float],
    random: np.random.Generator,
    spread: float,
) -> StoredExperiment:
    """The same with what waited."""
    roles = {arm.id: arm.role for arm in profile.experiment.arms}

    def waited(trial: StoredTrial) -> StoredTrial:
        us = {}
        for stack, mean in waits.items():
            names = stack.split(";")
            is_arm = roles[trial.record.arm_id] == "arm"
            factor = next((factors[name] for name in names if name in factors and is_arm), 1.0)
            us[stack] = round(mean * factor * np.exp(random.normal(0, spread)))
        (trial.folder / layout.OBSERVATIONS_FOLDER / WAITS_FILE).write_bytes(to_folded(us))
        facts = trial.record.facts
        made = facts.profile.updated(switch_period=13)
        record = trial.record.model_copy(update={"facts": facts.updated(profile=made)})
        return replace(trial, record=record)

    return replace(profile, trials=tuple(waited(trial) for trial in profile.trials))


def _counted(
    profile: StoredExperiment, instructions: Mapping[str, float], random: np.random.Generator, spread: float
) -> StoredExperiment:
    """The same on a machine with counters, where a cycle is half an instruction."""
    roles = {arm.id: arm.role for arm in profile.experiment.arms}

    def counted(trial: StoredTrial) -> StoredTrial:
        mine = instructions["arm" if roles[trial.record.arm_id] == "arm" else "control"]
        count = mine * TRANSACTIONS * np.exp(random.normal(0, spread))
        facts = trial.record.facts
        made = facts.profile.updated(counters=True, instructions=count, cycles=count / 2)
        record = trial.record.model_copy(update={"facts": facts.updated(profile=made)})
        return replace(trial, record=record)

    return replace(profile, trials=tuple(counted(trial) for trial in profile.trials))
