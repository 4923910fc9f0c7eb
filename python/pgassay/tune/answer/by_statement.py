"""What was chosen does to each statement: the answer that its user reads first. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from pgassay.model.tuning.tune_answer import Fix, FixStatement, StatementAnswer, StatementVerdict
from pgassay.tune.proof.effects import Effect, Proved
from pgassay.tune.rewrites.tree import RefusedError, inserts_values, read
from pgassay.tune.search.selection import SEEN_MIN, Baseline, Seconds

# A ratio nearer to 1 than this is none that anybody asked for.
_SAME = 0.02


def answers(
    baseline: Baseline,
    chosen: Seconds,
    members: Sequence[str],
    made_faster: Mapping[str, Collection[str]],
    fixes: Sequence[Fix],
    proved: Proved | None,
) -> tuple[StatementAnswer, ...]:
    """Every statement, in the workload's order.

    `chosen`: the seconds with all that was chosen, by the search; `members`: the ids of that;
    `made_faster`: by id the statements that each made faster in the search; `proved`: the last stage of the
    proof.
    """
    effect = proved.together if proved is not None and proved.together.gain is not None else None
    found = {each.name: each for each in effect.statements} if effect is not None else {}
    recommended = {fix.id for fix in fixes if fix.verdict == "recommended"}
    calls = baseline.calls
    whole_s = math.fsum(calls[name] * baseline.seconds[name] for name in calls)
    made, chance = [], inserts(baseline)
    rejected = _slowed_by_rejected(baseline, members, made_faster, fixes)
    for each in baseline.statements:
        before = baseline.seconds[each.name]
        served = each.name not in chance and each.name not in rejected
        by = tuple(name for name in members if served and each.name in made_faster.get(name, ()))
        answer = StatementAnswer(
            name=each.name,
            seconds_before=before,
            fixes=by,
            unproven=tuple(name for name in by if name not in recommended),
            share=calls[each.name] * before / whole_s if whole_s else 0.0,
            at_least=each.name in baseline.endless,
        )
        if each.name not in rejected:
            answer = answer.model_copy(update=_measured(answer, found.get(each.name), effect, chosen))
        made.append(answer)
    return tuple(made)


def _slowed_by_rejected(
    baseline: Baseline,
    members: Sequence[str],
    made_faster: Mapping[str, Collection[str]],
    fixes: Sequence[Fix],
) -> frozenset[str]:
    """The reads that a member of the set made slower which is worse, where nothing recommended concerns them.

    That fix says so; with what is recommended these statements stay as they are. Not so writes, which any
    index on their table may make slower. Where each arm has a server of its own, every fix has figures of all
    statements, and most of them are noise: so one concerns a statement where its interval excludes 1, or
    where the search saw it make that faster. A fix is not blamed by less either, or what a recommended one
    did to a statement would be said of a rejected one.
    """
    reads = {each.name for each in baseline.statements if not each.of.writes}
    slowed = {
        each.name
        for fix in fixes
        if fix.verdict == "worse" and fix.id in members
        for each in fix.statements
        if each.ratio < 1 and _is_changed(each)
    }
    recommended = [fix for fix in fixes if fix.verdict == "recommended"]
    concerned = {each.name for fix in recommended for each in fix.statements if _is_changed(each)}
    concerned.update(name for fix in recommended for name in made_faster.get(fix.id, ()))
    return frozenset((reads & slowed) - concerned)


def _is_changed(each: FixStatement) -> bool:
    """Whether the interval of a statement excludes that it is the same; without one, by the ratio alone."""
    low, high = each.interval or (None, None)
    if low is None and high is None:
        return abs(each.ratio - 1) > _SAME
    return (low is not None and low > 1) or (high is not None and high < 1)


def with_what_was_seen(made: Sequence[StatementAnswer], fixes: Sequence[Fix]) -> tuple[StatementAnswer, ...]:
    """With the best fix that is not decided of statements that nothing chosen makes faster."""
    best: dict[str, tuple[FixStatement, str]] = {}
    for fix in fixes:
        for seen in fix.statements if fix.verdict == "not decided" else ():
            if seen.ratio >= max(SEEN_MIN, best[seen.name][0].ratio if seen.name in best else 0.0):
                best[seen.name] = (seen, fix.id)
    return tuple(
        each
        if each.ratio is not None or each.name not in best
        else each.model_copy(update=_seen(each, *best[each.name]))
        for each in made
    )


def _seen(answer: StatementAnswer, seen: FixStatement, fix: str) -> dict[str, object]:
    return {
        "seconds_after": answer.seconds_before / seen.ratio,
        "ratio": seen.ratio,
        # That of the proof is of a set without this fix.
        "interval": None,
        "at_least": answer.at_least,
        "verdict": "measured once",
        "fixes": (fix,),
        "unproven": (fix,),
    }


def inserts(baseline: Baseline) -> frozenset[str]:
    """The statements that insert what they are given: that one looked faster with an index is chance.

    Not so those that read a table for it, in whatever part of them.
    """
    return frozenset(
        each.name for each in baseline.statements if each.of.writes and _inserts_values(each.of.sql)
    )


@lru_cache(maxsize=1024)
def _inserts_values(sql: str) -> bool:
    """Of a text that can't be parsed nothing is known. Every candidate's answer asks."""
    try:
        return inserts_values(read(sql))
    except RefusedError:
        return False


def _measured(
    answer: StatementAnswer, proven: FixStatement | None, effect: Effect | None, chosen: Seconds
) -> dict[str, object]:
    """What is known of one statement: by the proof, else by the search."""
    if proven is not None and effect is not None:
        verdict = _verdict(answer, effect)
        before = proven.waited_s or proven.before_s or answer.seconds_before
        return {
            "seconds_before": answer.seconds_before if proven.at_least else before,
            "seconds_after": proven.after_s or (before / proven.ratio if proven.ratio else None),
            # Of a write that was not found to be slower the interval says by how much it may be.
            "ratio": None if verdict == "as it was" else proven.ratio,
            "interval": proven.interval,
            "verdict": verdict,
            "at_least": proven.at_least,
        }
    after = chosen.get(answer.name, answer.seconds_before)
    if not answer.fixes or not 0 < after < math.inf or abs(after / answer.seconds_before - 1) < _SAME:
        return {}
    return {"seconds_after": after, "ratio": answer.seconds_before / after, "verdict": "measured once"}


def _verdict(answer: StatementAnswer, effect: Effect) -> StatementVerdict:
    if answer.name in effect.sped:
        return "faster"
    if answer.name in effect.slowed:
        return "slower"
    return "not decided" if answer.fixes else "as it was"


def workload_gain(answers_given: Sequence[StatementAnswer], calls: Mapping[str, float]) -> float | None:
    """The whole workload's speed with what was chosen over that without; None where nothing is known."""
    if not any(each.ratio for each in answers_given):
        return None
    before = math.fsum(calls[each.name] * each.seconds_before for each in answers_given)
    after = math.fsum(calls[each.name] * each.seconds_before / (each.ratio or 1.0) for each in answers_given)
    return before / after if after > 0 else None
