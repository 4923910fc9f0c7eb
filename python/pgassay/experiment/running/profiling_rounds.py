"""The rounds of further trials in which perf samples the servers, after those that are judged.

They are an experiment of their own in the folder `profile` of the results, with the same arms on the same
data, its own order, and a protocol in which perf runs: nothing of it enters a verdict on speed.
"""

import math
import shlex
from dataclasses import replace

from pgassay.environment.source_builds.function_renames import renamed_functions
from pgassay.experiment.running.loop import (
    ExperimentTrials,
    RunLimits,
    expected_trial_s,
    run_experiment,
)
from pgassay.model.experiment import Experiment
from pgassay.progress import Progress, WithoutEstimates
from pgassay.record import layout
from pgassay.record.experiment import StoredExperiment, load, write_experiment
from pgassay.record.renames import Renames, write_renames
from pgassay.trial.target import Target
from pgassay.words import duration, plural

# A prime number of samples a second, so that nothing that happens in round numbers keeps step with it.
RATE_HZ = 997
_UNFINISHED = ("failed", "interrupted", "running")


def run_profile(stored: StoredExperiment, target: Target, progress: Progress) -> StoredExperiment:
    """Run what is left of an experiment's profile; the experiment with it, as it is where none is wanted.

    An experiment that has not come to its end is not profiled. Raises as `run_experiment`.
    """
    rounds = stored.experiment.protocol.profile_rounds
    if not rounds or stored.stopped in _UNFINISHED:
        return stored
    folder = stored.folder / layout.PROFILE_FOLDER
    if not (folder / layout.EXPERIMENT_FILE).is_file():
        # The plan last: where it is, the names are known, whenever this is interrupted.
        renamed = renamed_in_arms(stored.experiment)
        if renamed:
            folder.mkdir(exist_ok=True)
            write_renames(folder, renamed)
        write_experiment(folder, profile_experiment(stored.experiment))
    profile = load(folder)
    if profile.stopped == "blocks":
        return replace(stored, profile=profile)
    arms = [arm.name for arm in stored.experiment.arms if arm.role != "twin"]
    progress.plan(arms, rounds, rounds * len(stored.experiment.arms), _announcement(stored, rounds))
    unjudged = WithoutEstimates(progress)
    trials = ExperimentTrials(profile, target, unjudged)
    limits = RunLimits(rounds, math.inf, until_decided=False)
    ended = run_experiment(profile, trials, limits, unjudged, trials.prepare_block)
    if ended.stopped == "failed":
        reasons = [trial.record.reason for trial in ended.trials if trial.record.status != "ok"]
        progress.message(
            f"the profile stopped after failed trials ({reasons[-1]}); the verdict does not depend "
            f"on it, and 'pgassay resume {shlex.quote(str(stored.folder))}' tries again"
        )
    return replace(stored, profile=ended)


def profile_experiment(experiment: Experiment) -> Experiment:
    """The plan of the profile of an experiment.

    Nothing else observes the server meanwhile, so that perf sees the workload alone. Copies of data that are
    quickly made are made anew for each round, as in the experiment; others stay as they are.
    """
    protocol = experiment.protocol.model_copy(
        update={"profile_hz": RATE_HZ, "observe": "off", "plans": "off", "repetitions": 1}
    )
    contract = experiment.contract.model_copy(
        update={
            "seed": experiment.contract.seed + 1,
            "blocks_max": protocol.profile_rounds,
            "covariate": "none",
            # Of samples that are counted alike the noise is alike where the function takes as long.
            "noise": "equal",
        }
    )
    is_quick = experiment.design.blocks_per_copy == 1
    design = experiment.design.model_copy(
        update={
            "between": "nothing",
            "decided_rest": False,
            "blocks_per_copy": 1 if is_quick else 0,
        }
    )
    return experiment.model_copy(
        update={
            "title": f"Profile of {experiment.title}",
            "protocol": protocol,
            "contract": contract,
            "design": design,
        }
    )


def renamed_in_arms(experiment: Experiment) -> Renames:
    """By arm id the functions that its build has under another name than its control's."""
    builds = {arm.id: arm.spec.build for arm in experiment.arms}
    found = {
        each.arm_id: renamed_functions(builds[each.control_id], builds[each.arm_id])
        for each in experiment.contrasts
    }
    return {arm_id: names for arm_id, names in found.items() if names}


def _announcement(stored: StoredExperiment, rounds: int) -> str:
    trials = rounds * len(stored.experiment.arms)
    trial_s = expected_trial_s(stored)
    about = f", about {duration(trial_s * trials)}" if trial_s else ""
    return (
        f"profile: {plural(rounds, 'further round')} of trials with perf{about}; they do not count for "
        "verdicts"
    )
