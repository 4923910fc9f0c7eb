"""The proof: fresh blocks of the chosen fixes, of the data as they are, and of the set without each member.

An experiment like any other, on data of its own for each arm; nothing of the search is in it. Its family is
fixed before its first trial: the chosen set is the control, and every other arm is compared with it. So the
set's gain is that over the workload as it is, and a member's gain that of the set over the set without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgassay.analysis.verdicts.compare import analyse
from pgassay.experiment.planning.plan import GivenArms, parse_arms
from pgassay.experiment.running.run import run_parsed
from pgassay.model.arm import ArmSpec
from pgassay.model.experiment import Protocol
from pgassay.model.result import ArmResult, CompareResult
from pgassay.model.tuning.answer import Ends, FixStatement
from pgassay.record.experiment import StoredExperiment
from pgassay.terminal.progress import Progress
from pgassay.tune.candidate import Candidate
from pgassay.tune.plan import PlannedTune
from pgassay.tune.search.selection import (
    EMPTIED_EXECUTIONS_MAX,
    EXECUTIONS_MAX,
    Seconds,
    executions_at_once,
    executions_of,
)
from pgassay.tune.statements import MeasuredStatement, weights_of, workload_of

FACTOR = "fixes"
# From so many members that do not help, what is left of the set is no arm of its proof.
FALLEN_MIN = 2
# pg_buffercache_evict_all() came with it.
EVICTING_MAJOR = 18
CHOSEN, AS_IT_IS = "all chosen", "as it is"


def without(candidate: Candidate) -> str:
    """The name of the arm of the set without this member."""
    return f"without {candidate.id}"


def arm_of(base: ArmSpec, statements: Sequence[MeasuredStatement], fixes: Sequence[Candidate]) -> ArmSpec:
    """The arm with these fixes: its data prepared by their SQL, their settings, their texts, on their server.

    The settings that are fixed stay so on another version, as far as it has them (`experiment/planning`).
    """
    rewritten = {rewrite.statement: rewrite.sql for each in fixes for rewrite in each.rewrites}
    settings = {name: value for each in fixes for name, value in each.settings.items()}
    return base.model_copy(
        update={
            "build": next((each.build for each in fixes if each.build is not None), base.build),
            "storage": next((each.storage for each in fixes if each.storage is not None), base.storage),
            "prepare": (*base.prepare, *(statement for each in fixes for statement in each.sql)),
            "settings": {**base.settings, **settings},
            "workload": workload_of(statements, base.workload, rewritten),
        }
    )


def arms_of(
    base: ArmSpec, statements: Sequence[MeasuredStatement], members: Sequence[Candidate]
) -> dict[str, ArmSpec]:
    """Every arm by its name; with one member the set without it is the workload as it is."""
    arms = {CHOSEN: arm_of(base, statements, members), AS_IT_IS: arm_of(base, statements, ())}
    if len(members) > 1:
        for member in members:
            rest = [each for each in members if each is not member]
            arms[without(member)] = arm_of(base, statements, rest)
    return arms


def protocol_of(
    base: Protocol,
    statements: Sequence[MeasuredStatement],
    arms: Mapping[str, ArmSpec],
    as_it_is: Seconds,
    chosen: Seconds,
    limits: Mapping[str, float],
) -> Protocol:
    """The protocol of the proof's trials: in all arms statements are executed equally often.

    Where clients execute them at once, in the mix of their weights. Else short ones several times.
    Not those that write, which would find other data the second time; and not where a cache state can't be
    had again within a trial: emptying shared buffers without a restart takes PostgreSQL 18. `as_it_is`,
    `chosen`: the seconds of the statements by the search; `limits`: after how many seconds some are stopped.
    """
    if any(arm.workload.is_mix for arm in arms.values()):
        often = executions_at_once(weights_of(statements), as_it_is, chosen, limits)
        return base.model_copy(update={"executions": often})
    most = EXECUTIONS_MAX
    if base.cache == "warm-pages":
        empties = all(
            arm.build.major >= EVICTING_MAJOR and "pg_buffercache" in arm.build.extensions
            for arm in arms.values()
        )
        most = EMPTIED_EXECUTIONS_MAX if empties else 1
    elif base.cache in ("cold", "cold-each"):
        most = 1
    names = [each.name for each in statements if not each.of.writes]
    often = executions_of(names, as_it_is, chosen, executions_max=most)
    return base.model_copy(update={"executions": often})


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
) -> StoredExperiment:
    """Run the experiment in `folder` for at most so many seconds, or until all of it is decided.

    `times`: the seconds of the statements as they are and with the chosen set, by the search. `limits`: after
    how many seconds those are stopped that do not end as they are.

    The caller holds the host's lock. Raises UsageError where the disk can't hold the arms' data.
    """
    request = replace(planned.request, max_time_s=max(1.0, seconds), out=folder)
    arms = arms_of(planned.spec, statements, members)
    protocol = protocol_of(planned.base.protocol, statements, arms, {**times[0], **limits}, times[1], limits)
    protocol = protocol.model_copy(update={"statement_limits": dict(limits)})
    base = replace(planned.base, protocol=protocol)
    given = GivenArms(FACTOR, CHOSEN, arms)
    return run_parsed(parse_arms(request, planned.servers, base, planned.given, given), progress)


@dataclass(frozen=True)
class Effect:
    """A gain (old time over new) with its interval, and the experiment's word for the arm without it.

    `word`: 'slower' where the arm without is slower, so that the fix helps. `at_least`: without the fix a
    statement was stopped, so that the true gain is larger: the interval has no upper end then.
    """

    gain: float | None
    interval: Ends | None
    word: str
    statements: tuple[FixStatement, ...] = ()
    slowed: tuple[str, ...] = ()
    trials: int = 0
    at_least: bool = False


@dataclass(frozen=True)
class Proved:
    """What the experiment says: of the whole set, and of each member by its id."""

    result: CompareResult
    together: Effect
    members: Mapping[str, Effect]


def read_proof(stored: StoredExperiment, members: Sequence[Candidate]) -> Proved:
    """The verdicts of a proof, at any moment of it."""
    result, stopped = analyse(stored), _stopped(stored)
    together = effect_of(result, AS_IT_IS, stopped.get(AS_IT_IS, {}))
    if len(members) == 1:
        return Proved(result, together, {members[0].id: together})
    names = {each.id: without(each) for each in members}
    return Proved(
        result,
        together,
        {id_: effect_of(result, name, stopped.get(name, {})) for id_, name in names.items()},
    )


def _stopped(stored: StoredExperiment) -> dict[str, dict[str, float]]:
    """By the arm's name the statements that were stopped in a valid trial of it, and after how long."""
    names = {arm.id: arm.levels.get(FACTOR, "") for arm in stored.experiment.arms}
    limits = stored.experiment.protocol.statement_limits
    found: dict[str, dict[str, float]] = {}
    for trial in stored.trials:
        if trial.record.status == "ok":
            here = {each.name: limits[each.name] for each in trial.record.statements if each.stopped}
            found.setdefault(names[trial.record.arm_id], {}).update(here)
    return found


def does_not_help(effect: Effect, margin: float) -> bool:
    """Whether a proof says that the set is no slower without it, or by less than the margin.

    By its estimate: a proof ends once its intervals exclude 1, and those may still reach beyond the margin.
    Where a statement was stopped the estimate is a lower bound and refutes nothing.
    """
    if effect.word == "slower":
        return not effect.at_least and effect.gain is not None and effect.gain < 1 + margin
    return effect.word in ("equivalent", "faster")


def remaining_of(proved: Proved, margin: float) -> tuple[str, ...]:
    """The ids of the members that are left where two or more do not help; () where fewer don't, or all.

    The set without one of them was an arm of the proof; without two of them it was measured nowhere.
    """
    kept = tuple(name for name, effect in proved.members.items() if not does_not_help(effect, margin))
    return kept if len(proved.members) - len(kept) >= FALLEN_MIN else ()


def effect_of(result: CompareResult, arm_name: str, stopped: Mapping[str, float] | None = None) -> Effect:
    """What the control (the chosen set) gains over this arm, turned round from the arm's own verdict.

    `stopped`: the statements that did not end in this arm, and after how long they were stopped. They take
    longer there, so the set may be faster than this arm by more, and is neither equivalent to it nor slower.
    """
    stopped = stopped or {}
    arm = _arm(result.arms, arm_name)
    if arm is None:
        return Effect(None, None, "inconclusive")
    statements, slowed = [], []
    for statement in result.statements:
        mine = _arm(statement.arms, arm_name)
        if mine is None or not mine.ratio:
            continue
        is_stopped = statement.name in stopped
        interval = turned(mine.interval)
        statements.append(
            FixStatement(
                name=statement.name,
                ratio=1 / mine.ratio,
                interval=_lower(interval) if is_stopped else interval,
                at_least=is_stopped,
                waited_s=stopped.get(statement.name),
            )
        )
        if mine.verdict == "faster" and not mine.withheld:
            slowed.append(statement.name)
    interval = turned(arm.interval)
    is_open = arm.withheld or (bool(stopped) and arm.verdict != "slower")
    return Effect(
        1 / arm.ratio if arm.ratio else None,
        _lower(interval) if stopped else interval,
        "inconclusive" if is_open else arm.verdict,
        tuple(statements),
        tuple(slowed),
        arm.trials,
        bool(stopped),
    )


def _lower(interval: Ends | None) -> Ends | None:
    return None if interval is None else (interval[0], None)


def _arm(arms: Sequence[ArmResult], name: str) -> ArmResult | None:
    return next((arm for arm in arms if arm.levels.get(FACTOR) == name), None)


def turned(interval: Ends | None) -> Ends | None:
    """The interval of the inverse ratio; an end that the data do not bound stays so."""
    if interval is None:
        return None
    low, high = interval
    return (1 / high if high else None, 1 / low if low else None)
