"""What a proof says: the gain of the chosen set, and of each of its members, at any moment of it."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pgassay.analysis.verdicts.compare import analyse
from pgassay.model.result import ArmResult, CompareResult
from pgassay.model.tuning.tune_answer import Ends, FixStatement
from pgassay.record.experiment import StoredExperiment
from pgassay.tune.candidate import Candidate
from pgassay.tune.proof.proof_arms import AS_IT_IS, CHOSEN, FACTOR, SharedArms, without
from pgassay.tune.search.selection import STATEMENT_MARGIN

# From so many members that do not help, what is left of the set is no arm of its proof.
FALLEN_MIN = 2
# Of a member without which the set is as fast, since others do the same.
HIDDEN_WORD = "hidden"


@dataclass(frozen=True)
class Effect:
    """A gain (old time over new) with its interval, and the experiment's word for the arm without it.

    `word`: 'slower' where the arm without is slower, so that the fix helps. `at_least`: without the fix a
    statement was stopped, so that the true gain is larger: the interval has no upper end then. `in_place_of`:
    the id of the other member of two that do the same, without which this one is compared with the workload
    as it is. `late`: the statements that were stopped with the chosen set. `sped`: the statements that it was
    found to make faster, by the margin of a statement at least. `alike`: those that were found
    equivalent. `others`: the ids of the members whose writes were measured together with its own; `joint`:
    what it and they do to what they touch, and to those writes.
    """

    gain: float | None
    interval: Ends | None
    word: str
    statements: tuple[FixStatement, ...] = ()
    slowed: tuple[str, ...] = ()
    trials: int = 0
    at_least: bool = False
    in_place_of: str = ""
    late: tuple[str, ...] = ()
    sped: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    joint: "Effect | None" = None


@dataclass(frozen=True)
class Proved:
    """What the experiment says: of the whole set, and of each member by its id."""

    result: CompareResult
    together: Effect
    members: Mapping[str, Effect]


def read_proof(
    stored: StoredExperiment, members: Sequence[Candidate], shared: SharedArms | None = None
) -> Proved:
    """The verdicts of a proof, at any moment of it. `shared`: its arms, where they took turns in a server."""
    return read_result(analyse(stored), stored, members, shared)


def read_result(
    result: CompareResult, stored: StoredExperiment, members: Sequence[Candidate], shared: SharedArms | None
) -> Proved:
    """The same, of a proof whose analysis is at hand."""
    stopped = _stopped(stored)

    def effect(name: str) -> Effect:
        return effect_of(result, name, stopped.get(name), stopped.get(CHOSEN))

    together = effect(AS_IT_IS)
    if shared is not None:
        told = {arm: effect(arm) for arm in shared.told_by.values()}
        weights = stored.experiment.contract.weights
        of_members = {
            each.id: _of_statements(told[shared.told_by[each.id]], shared, each.id, weights)
            for each in members
            if each.id in shared.told_by
        }
        return Proved(result, together, _with_hidden(of_members, together, shared))
    if len(members) == 1:
        return Proved(result, together, {members[0].id: together})
    effects = {each.id: effect(without(each)) for each in members}
    return without_redundant_fix(Proved(result, together, effects), result.margin)


def _of_statements(effect: Effect, shared: SharedArms, member: str, weights: Mapping[str, float]) -> Effect:
    """What a member does to the statements that it touches, by the effect of the arm that tells it.

    The intervals of all statements hold at once, as those of one family, and so does what follows from their
    ends: the gain grows with each statement's own.
    """
    names, sharing = shared.of(member), shared.sharing(member)
    mine = tuple(
        _part_of(each, 1 + len(sharing[each.name])) if each.name in sharing else each
        for each in effect.statements
        if each.name in names
    )
    touched = [each for each in mine if each.name in shared.touched[member]]
    # Of a write that several maintain it is not known which of them it is slower by.
    sped = tuple(name for name in effect.sped if name in names and name not in sharing)
    slowed = tuple(name for name in effect.slowed if name in names and name not in sharing)
    others = tuple(dict.fromkeys(other for each in sharing.values() for other in each))
    is_alike = bool(touched) and {each.name for each in touched} <= {*effect.alike}
    parts = [(weights.get(each.name, 1.0) * (each.after_s or 0.0), each) for each in touched]
    after = math.fsum(part for part, _ in parts)

    def whole(ratios: Sequence[float | None]) -> float | None:
        known = [part * ratio for (part, _), ratio in zip(parts, ratios, strict=True) if ratio is not None]
        return math.fsum(known) / after if after and len(known) == len(parts) else None

    return replace(
        effect,
        gain=whole([each.ratio for each in touched]),
        interval=(
            whole([each.interval[0] if each.interval else None for each in touched]),
            whole([each.interval[1] if each.interval else None for each in touched]),
        ),
        word="slower" if sped else "faster" if slowed else "equivalent" if is_alike else "inconclusive",
        statements=mine,
        sped=sped,
        slowed=slowed,
        at_least=any(each.at_least for each in touched),
        late=tuple(name for name in effect.late if name in names),
        others=others,
        joint=_joint(effect, shared, (member, *others), sharing) if others else None,
    )


def _with_hidden(members: Mapping[str, Effect], together: Effect, shared: SharedArms) -> dict[str, Effect]:
    """With HIDDEN_WORD of those without which a statement that the set makes faster is as fast as with them.

    Unless another member is found to make it faster: the others do the same then, each for the other.
    """
    found = {name for effect in members.values() for name in effect.sped}
    hidden = {*together.sped} - found
    return {
        name: replace(effect, word=HIDDEN_WORD)
        if effect.word == "equivalent" and not hidden.isdisjoint(shared.touched[name])
        else effect
        for name, effect in members.items()
    }


def _part_of(write: FixStatement, count: int) -> FixStatement:
    """What one of so many fixes does to a write that maintains all of them, if all have the same part.

    Its interval is without that assumption: each costs all that they cost together at most, and nothing at
    least.
    """
    ratio = 1 + (write.ratio - 1) / count
    low, high = write.interval or (None, None)
    interval = (None if low is None else min(low, 1.0), None if high is None else max(high, 1.0))
    before_s = None if write.after_s is None else ratio * write.after_s
    return write.model_copy(update={"ratio": ratio, "interval": interval, "before_s": before_s})


def _joint(effect: Effect, shared: SharedArms, members: Sequence[str], writes: Collection[str]) -> Effect:
    """What these do to all that they touch, and to the writes that maintain several of them."""
    names = {*writes, *(name for each in members for name in shared.touched[each])}
    sped, slowed = (tuple(each for each in found if each in names) for found in (effect.sped, effect.slowed))
    return replace(
        effect,
        gain=None,
        interval=None,
        word="slower" if sped else "faster" if slowed else "inconclusive",
        statements=tuple(each for each in effect.statements if each.name in names),
        sped=sped,
        slowed=slowed,
    )


def without_redundant_fix(proved: Proved, margin: float) -> Proved:
    """Where a set of two gains and neither of them is missed, the one that does as much alone as both do.

    The set without one of two is the other one alone, which therefore was an arm: what it gains over the
    workload as it is follows from what both arms are beside the set. Both intervals hold at once, as those of
    all arms of a proof do, and so does the one that follows from their ends.
    """
    if len(proved.members) != 2 or not hides_gains(proved, margin):
        return proved
    (one, missed), (other, others) = proved.members.items()
    if (others.gain or 0.0) > (missed.gain or 0.0):
        one, other, others = other, one, missed
    alone = replace(_over(proved.together, others), in_place_of=other)
    if alone.word != "slower" and not alone.sped:
        return proved  # which of the two is needed stays open
    return replace(proved, members={**proved.members, one: alone})


def hides_gains(proved: Proved, margin: float) -> bool:
    """Whether the set gains though it is as fast without any of its members: some of them do the same."""
    if len(proved.members) < 2 or any(not does_not_help(each, margin) for each in proved.members.values()):
        return False
    return proved.together.word == "slower" and not does_not_help(proved.together, margin)


def _over(together: Effect, other: Effect) -> Effect:
    """What an arm gains over the workload as it is; `together`, `other`: the set over that, and over it."""
    interval = _quotient(together.interval, other.interval)
    low = interval[0] if interval is not None else None
    mine = {each.name: each for each in other.statements}
    statements = tuple(
        each.model_copy(
            update={
                "ratio": each.ratio / mine[each.name].ratio,
                "interval": _quotient(each.interval, mine[each.name].interval),
            }
        )
        for each in together.statements
        if each.name in mine
    )
    return replace(
        together,
        gain=together.gain / other.gain if together.gain and other.gain else None,
        interval=interval,
        word="slower" if low is not None and low > 1 else "inconclusive",
        statements=statements,
        # Of what both together were found to make slower and faster, what this one alone was found to.
        slowed=tuple(name for name in together.slowed if _ends_of(statements, name)[1] < 1),
        sped=tuple(name for name in together.sped if _ends_of(statements, name)[0] >= 1 + STATEMENT_MARGIN),
    )


def _ends_of(statements: Sequence[FixStatement], name: str) -> tuple[float, float]:
    """A statement's interval, its open ends as far out as can be."""
    low, high = next((each.interval for each in statements if each.name == name), None) or (None, None)
    return low or 0.0, high or math.inf


def _quotient(one: Ends | None, other: Ends | None) -> Ends | None:
    """The interval of a ratio over another one; an end that either does not bound stays open."""
    if one is None or other is None:
        return None
    (low, high), (least, most) = one, other
    return (low / most if low and most else None, high / least if high and least else None)


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
    Where a statement was stopped the estimate is a lower bound and refutes nothing. What makes a statement
    faster helps, however little of the whole that is.
    """
    if effect.sped:
        return False
    if effect.word == "slower":
        return not effect.at_least and effect.gain is not None and effect.gain < 1 + margin
    return effect.word in ("equivalent", "faster")


def remaining_of(
    proved: Proved, margin: float, faster: Mapping[str, Collection[str]] | None = None
) -> tuple[str, ...]:
    """The ids of the members that are left where two or more do not help; () where fewer don't, or all.

    The set without one of them was an arm of the proof; without two of them it was measured nowhere.
    `faster`: by id the statements that each made faster in the search. Two that make the same faster hide
    each other's gain, since the set is as fast without either: the first stays, for a second stage to judge.
    """
    fallen = [name for name, effect in proved.members.items() if does_not_help(effect, margin)]
    if len(fallen) < FALLEN_MIN or len(proved.members) == FALLEN_MIN:
        return ()
    reach = {
        name: {*(faster or {}).get(name, ())} for name in fallen if proved.members[name].word != "faster"
    }
    hidden: set[str] = set()
    for name, mine in reach.items():
        does_as_another = any(mine & others for other, others in reach.items() if other != name)
        if does_as_another and not any(mine & reach[other] for other in hidden):
            hidden.add(name)
    return tuple(name for name in proved.members if name not in fallen or name in hidden)


def effect_of(
    result: CompareResult,
    arm_name: str,
    stopped: Mapping[str, float] | None = None,
    stopped_in_set: Mapping[str, float] | None = None,
) -> Effect:
    """What the control (the chosen set) gains over this arm, turned round from the arm's own verdict.

    `stopped`: the statements that did not end in this arm, and after how long they were stopped. They take
    longer there, so the set may be faster than this arm by more, and is neither equivalent to it nor slower.
    `stopped_in_set`: those that did not end with the chosen set, which takes longer than was measured: it may
    be faster by less, and nothing says that it is faster at all.
    """
    stopped, late = stopped or {}, stopped_in_set or {}
    arm = _arm(result.arms, arm_name)
    if arm is None:
        return Effect(None, None, "inconclusive")
    statements, slowed, sped, alike = [], [], [], []
    for statement in result.statements:
        mine = _arm(statement.arms, arm_name)
        if mine is None or not mine.ratio:
            continue
        name = statement.name
        is_bound = name in stopped and name not in late
        statements.append(
            FixStatement(
                name=name,
                ratio=1 / mine.ratio,
                interval=_bounded(turned(mine.interval), lower=name not in late, upper=name not in stopped),
                at_least=is_bound,
                waited_s=stopped.get(name),
                before_s=mine.median,
                after_s=_median(statement.arms, CHOSEN),
            )
        )
        if mine.verdict == "faster" and not mine.withheld and name not in stopped:
            slowed.append(name)
        if mine.verdict == "equivalent" and not mine.withheld and name not in {*stopped, *late}:
            alike.append(name)
        low = (turned(mine.interval) or (None, None))[0]
        is_found = mine.verdict == "slower" and not mine.withheld and name not in late
        if is_found and low is not None and low >= 1 + STATEMENT_MARGIN:
            sped.append(name)
    is_open = arm.withheld or (bool(stopped) and arm.verdict != "slower")
    is_open = is_open or (bool(late) and arm.verdict != "faster")
    return Effect(
        1 / arm.ratio if arm.ratio else None,
        _bounded(turned(arm.interval), lower=not late, upper=not stopped),
        "inconclusive" if is_open else arm.verdict,
        tuple(statements),
        tuple(slowed),
        arm.trials,
        bool(stopped) and not late,
        late=tuple(late),
        sped=tuple(sped),
        alike=tuple(alike),
    )


def _median(arms: Sequence[ArmResult], name: str) -> float | None:
    arm = _arm(arms, name)
    return None if arm is None else arm.median


def _bounded(interval: Ends | None, *, lower: bool, upper: bool) -> Ends | None:
    """The interval with those of its ends that hold."""
    if interval is None:
        return None
    return (interval[0] if lower else None, interval[1] if upper else None)


def _arm(arms: Sequence[ArmResult], name: str) -> ArmResult | None:
    return next((arm for arm in arms if arm.levels.get(FACTOR) == name), None)


def turned(interval: Ends | None) -> Ends | None:
    """The interval of the inverse ratio; an end that the data do not bound stays so."""
    if interval is None:
        return None
    low, high = interval
    return (1 / high if high else None, 1 / low if low else None)
