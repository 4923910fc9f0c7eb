"""A server's captured traffic on both versions: played in interleaved blocks, and judged by statement family.

First it is played once on the old version. Where much comes out otherwise there already, the data are not
those of the capture's beginning, and no time that is measured on them would be of the same work. What fails
there since a dump was restored without a view that the new version refuses is told with that view.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pgassay.analysis.verdicts.compare import analyse
from pgassay.errors import InterruptionError, MeasurementError, UsageError
from pgassay.experiment.planning.experiment_plan import parse_request, plan
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.run_experiment import run_parsed
from pgassay.model.arm import Arm
from pgassay.model.traffic.trial_replay import Replayed, ReplayedFamily
from pgassay.model.workload import WorkloadSpec
from pgassay.native.replay_commands import ReplayProgress
from pgassay.plans.experiment_plans import explained_plans
from pgassay.plans.plan_comparison import what_changed
from pgassay.progress import Progress
from pgassay.record.experiment import StoredExperiment
from pgassay.traffic.play_plan import databases_of
from pgassay.traffic.redacting import refuse_redacted
from pgassay.trial.measure import replayed_load
from pgassay.trial.target import RunningServer
from pgassay.tune.copy import TrialCopy
from pgassay.upgrade.empty_server import Refused
from pgassay.upgrade.statement_families import Plays, failed_on_views, judged_families, whole_of
from pgassay.upgrade.version_times import MeasuredTimes, stored_so_far
from pgassay.words import percent, plural
from pgassay.workloads.registry import parse_workload
from pgassay.workloads.replay import FAMILY, folder_and_options

# A family that fails on the new version fails in each trial there, which is the answer and no invalid trial.
_BOUND_OF_TRIALS = "100%"
_NO_TIMEOUT_S = 3600.0


def check_capture(text: str) -> tuple[str, dict[str, str]]:
    """The folder and the options of what stands behind --capture, `DIR[,speed=…][,until=…]`.

    Raises UsageError for options that are none, and where there is no such folder.
    """
    name, given = folder_and_options(text, "--capture")
    if not Path(name).is_dir():
        raise UsageError(
            f"--capture {name}: there is no such folder: name the one that pgassay capture wrote"
        )
    refuse_redacted(Path(name), "an upgrade's question")
    return name, given


def traffic_workload(text: str, database: str, families: int) -> WorkloadSpec:
    """The captured traffic as a workload; raises UsageError.

    As fast as the order allows unless a speed is given; of several databases the source's own. `families`: so
    many at most are timed each for itself.
    """
    name, given = check_capture(text)
    options = {"speed": "max", "families": str(families)} | given
    if (
        not {"database", "databases"} & given.keys()
        and database in (found := databases_of(Path(name)))
        and len(found) > 1
    ):
        options["database"] = database
    return parse_workload(_text(name, options))


def _text(folder: str, options: Mapping[str, str]) -> str:
    return f"{FAMILY}:{folder}" + "".join(f",{name}={value}" for name, value in options.items())


def unbounded(workload: WorkloadSpec) -> str:
    """Captured traffic as --workload has it, whose trials count whatever comes out otherwise."""
    name, given = check_capture(workload.text.removeprefix(f"{FAMILY}:"))
    return _text(name, given | {"max_diverged": _BOUND_OF_TRIALS})


def play_on_both(
    request: CompareRequest, workload: WorkloadSpec, refused: Sequence[Refused], progress: Progress
) -> MeasuredTimes:
    """Play it on copies in both versions; `request` is the comparison of the two with any workload.

    `refused`: what both copies are without.

    Raises UsageError where the data are not those of the capture's beginning.
    """
    parsed = parse_request(replace(request, workload=unbounded(workload)), progress.stage)
    arms = plan(parsed, progress.stage).arms
    first = _first_play(next(arm for arm in arms if arm.role == "control"), progress)
    _refuse_other_data(first, workload, refused)
    is_interrupted = False
    try:
        # Of all families each is to be decided, and not the whole alone.
        stored = run_parsed(parsed, progress, until_decided=False)
    except InterruptionError:
        found = stored_so_far(parsed.request.out) if parsed.request.out is not None else None
        if found is None or not all(vars(plays_of(found)).values()):
            raise
        stored, is_interrupted = found, True
    result = analyse(stored)
    plays = plays_of(stored)
    if not plays.before or not plays.after:
        raise MeasurementError("the traffic was not replayed on both versions: give a longer --max-time")
    statements = judged_families(workload, plays, result, changed_plans(stored), refused)
    whole = whole_of(workload, plays, result)
    return MeasuredTimes(statements, result, whole, is_interrupted=is_interrupted)


def _first_play(control: Arm, progress: Progress) -> Replayed:
    def told(at: ReplayProgress) -> None:
        progress.stage(f"playing the capture on {control.spec.build.version}: {at['replayed']:,} statements")

    spec = control.spec
    with TrialCopy(spec, cache="as-is", statement_timeout_s=_NO_TIMEOUT_S, on_stage=progress.stage) as copy:
        server = RunningServer(copy.server, {}, copy.snapshot.database)
        load = replayed_load.run(server, spec, told).load
    if load is None or load.replayed is None:
        raise AssertionError("a replay has a load's observation")
    return load.replayed


def _refuse_other_data(first: Replayed, workload: WorkloadSpec, refused: Sequence[Refused]) -> None:
    """Raise UsageError where much came out otherwise, but for what a copy without refused views can't do."""
    options = workload.replay
    failed, after = failed_on_views(first, workload, refused)
    known = {each.text for each in (*failed, *after)}
    others = [each for each in first.families if each.text not in known]
    share = max(0.0, first.diverged_share - sum(_share_of(each, first) for each in (*failed, *after)))
    if share <= options.bound or not others:
        return
    worst = max(others, key=lambda each: each.diverged)
    beside = why = instead = ""
    if failed:
        beside = f", not counting {plural(len(failed), 'statement')} on views that the new version refuses"
        why = ", or what transactions that failed with those should have written is missing"
        instead = "a base backup, --copy folder:DATADIR, whose old version has the views, or "
    raise UsageError(
        f"--capture {options.folder}: on the old version already {percent(share)} of "
        f"the captured time differs{beside} ({worst.diverged:,} of {worst.calls:,} {worst.text[:60]}: "
        f"{worst.captured} then, {worst.now} now), so the data are not those at its start{why}: give "
        f"{instead}a dump from then, --copy dump:FILE, or allow more, --capture DIR,max_diverged=20%"
    )


def _share_of(family: ReplayedFamily, played: Replayed) -> float:
    """The part of the captured time, of a capture without durations of the statements, that differs by it."""
    if not played.seconds_captured:
        return family.diverged / max(played.statements, 1)
    return family.seconds_captured * family.diverged / max(family.calls, 1) / played.seconds_captured


def plays_of(stored: StoredExperiment) -> Plays:
    """What the trials of either version came to; the twin's are plays of the old one too."""
    roles = {arm.id: arm.role for arm in stored.experiment.arms}
    before: list[Replayed] = []
    after: list[Replayed] = []
    for trial in stored.trials:
        load = trial.record.load
        if trial.record.status == "ok" and load is not None and load.replayed is not None:
            is_old = roles[trial.record.arm_id] in ("control", "twin")
            (before if is_old else after).append(load.replayed)
    return Plays(tuple(before), tuple(after))


def changed_plans(stored: StoredExperiment) -> dict[str, tuple[str, ...]]:
    """By statement what its plan does otherwise on the new version, in sentences; () where it is the same."""
    arms = [arm for arm in stored.experiment.arms if arm.role != "twin"]
    old = next(arm.name for arm in arms if arm.role == "control")
    new = next(arm.name for arm in arms if arm.role != "control")
    return plans_between(stored, old, new)


def plans_between(stored: StoredExperiment, old: str, new: str) -> dict[str, tuple[str, ...]]:
    """By statement what its plan in the arm `new` does otherwise than in `old`; () where it is the same."""
    try:
        plans = {each.statement: each for each in explained_plans(stored)}
    except UsageError:
        return {}
    names = {each.name for arm in stored.experiment.arms for each in arm.spec.workload.statements}
    pairs = {name: (plans.get(f"{name}, {old}"), plans.get(f"{name}, {new}")) for name in names}
    return {name: what_changed(a, b) for name, (a, b) in pairs.items() if a is not None and b is not None}
