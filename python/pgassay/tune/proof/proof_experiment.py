"""The proof: fresh blocks of the chosen fixes, of the data as they are, and of the set without each member.

An experiment like any other, on data of its own for each arm; where its arms share one server, these are the
search's copy with all their indexes, of which none is built a second time. (What the search executed was
rolled back; the few dead rows that this leaves are in all arms alike.) Its family is fixed before its first
trial: the chosen set is the control, and every other arm is compared with it. So the
set's gain is that over the workload as it is, and a member's gain that of the set over the set without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psycopg

from pgassay.environment.datasets import OnStage, relation_facts, snapshots
from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.planning.experiment_plan import GivenArms, parse_arms
from pgassay.experiment.running.loop import RunLimits
from pgassay.experiment.running.run_experiment import run_parsed
from pgassay.experiment.running.stopping_rules import Wanted
from pgassay.model.arm import ArmSpec
from pgassay.model.experiment import Protocol
from pgassay.options.evidence import BLOCKS_DEFAULT
from pgassay.progress import Progress
from pgassay.record.experiment import StoredExperiment
from pgassay.tune.candidate import Candidate
from pgassay.tune.copy import TrialCopy
from pgassay.tune.proof.proof_arms import CHOSEN, FACTOR, SharedArms, arms_of, arms_of_shared, shared_protocol
from pgassay.tune.search.executions import executions_in_trial, most_executions
from pgassay.tune.search.selection import Seconds
from pgassay.tune.tune_plan import PlannedTune
from pgassay.tune.tuned_statements import MeasuredStatement, importance_of


def protocol_of(
    base: Protocol,
    statements: Sequence[MeasuredStatement],
    arms: Mapping[str, ArmSpec],
    times: tuple[Seconds, Seconds],
    limits: Mapping[str, float],
) -> Protocol:
    """The protocol of the proof's trials: in all arms statements are executed equally often.

    `times`: the seconds of the statements as they are and with the chosen set, by the search; `limits`: after
    how many seconds some are stopped.
    """
    often = executions_in_trial(
        statements,
        {**times[0], **limits},
        times[1],
        at_once=any(arm.workload.is_mix for arm in arms.values()),
        executions_max=most_executions(base.cache, [arm.build for arm in arms.values()]),
        endless=limits,
    )
    return base.model_copy(update={"executions": often, "statement_limits": dict(limits)})


def prove(
    planned: PlannedTune,
    statements: Sequence[MeasuredStatement],
    members: Sequence[Candidate],
    *,
    times: tuple[Seconds, Seconds],
    limits: Mapping[str, float],
    seconds: float,
    folder: Path,
    progress: Progress,
    trial_s: float = 0.0,
    shared: SharedArms | None = None,
    wanted: Wanted | None = None,
) -> StoredExperiment:
    """Run the experiment in `folder` for at most so many seconds, or until all of it is decided.

    `times`: the seconds of the statements as they are and with the chosen set, by the search. `limits`: after
    how many seconds those are stopped that do not end as they are. `trial_s`: what a trial takes on average,
    by the search as well: a rehearsal shows the chosen set alone, which is the fastest. `shared`: its arms
    where they take turns in one server; else each has data and a server of its own. `wanted`: the arms of
    which something is wanted still, where that is more than a verdict on each.

    The caller holds the host's lock. Raises UsageError where the disk can't hold the arms' data.
    """
    request = replace(planned.request, max_time_s=max(1.0, seconds), out=folder, restart="each")
    weights = importance_of(statements, times[0])
    if shared is None:
        arms = arms_of(planned.spec, statements, members, weights)
        protocol = protocol_of(planned.base.protocol, statements, arms, times, limits)
    else:
        arms = arms_of_shared(planned.spec, statements, members, shared, weights)
        protocol = shared_protocol(planned.base.protocol, members, statements, limits)
        request = replace(request, restart="needed", cache=protocol.cache)
    base = replace(planned.base, protocol=protocol)
    given = GivenArms(FACTOR, CHOSEN, arms)
    parsed = parse_arms(request, planned.servers, base, planned.given, given)
    ends = RunLimits(request.blocks or BLOCKS_DEFAULT, request.max_time_s, wanted=wanted)
    return run_parsed(parsed, progress, trial_s=trial_s, limits=ends)


def hand_over(copy: TrialCopy, members: list[Candidate], on_stage: OnStage) -> ArmSpec | None:
    """Leave the copy's data with the members' indexes to the proof's arms; the copy is of no more use.

    Returns the arm whose data these are; None where they can't be had so, and are made anew for the proof.
    """
    base = copy.spec
    spec = base.model_copy(
        update={"prepare": (*base.prepare, *(sql for each in members for sql in each.sql))}
    )
    if not spec.prepare[len(base.prepare) :]:
        return None
    on_stage("creating the indexes for the proof", None)
    try:
        copy.align(members)
        copy.drop_hidden()
        relations = relation_facts(copy.server, copy.snapshot.database)
        data = copy.give_away()
        snapshots.adopt(spec.build, spec.dataset, spec.prepare, data, copy.snapshot, relations)
    except (UsageError, MeasurementError, psycopg.Error, OSError):
        return None
    return spec
