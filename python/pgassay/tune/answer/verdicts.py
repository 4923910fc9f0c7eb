"""From what was tried and proved to the ranked answer. Pure."""

import math
import statistics
from collections.abc import Collection, Iterator, Sequence

from pgassay.model.result import CompareResult
from pgassay.model.tuning.tune_answer import Evidence, Fix, FixCost, FixStatement, FixVerdict, TuneProof
from pgassay.tune.answer.by_statement import inserts
from pgassay.tune.answer.proof_verdict import NOT_TOLD, FoundAndProved, proven_verdict, slower_words
from pgassay.tune.candidate import Candidate
from pgassay.tune.proof.effects import Effect, Proved
from pgassay.tune.search.selection import (
    WORSE_MAX,
    Baseline,
    Tried,
    faster_of,
    gain_over,
    is_slower,
)
from pgassay.tune.tools import REWRITE_SAVES
from pgassay.words import amount, size

# A statement that one timing shows faster by less may be as fast: short ones vary so much.
_ONCE_MIN = 1.5
# An interval within which nothing matters much: its ratio is worth telling, whatever its direction is.
_ALIKE_MAX = 1.5
# So much slower is no noise, although it was timed once.
_FAR_SLOWER = 0.2
_ORDER: dict[FixVerdict, int] = {
    "recommended": 0,
    "not decided": 1,
    "not needed": 2,
    "no help": 3,
    "worse": 4,
    "unsafe": 5,
    "screened out": 6,
}
BESIDE = "it helps alone, but not in addition to the chosen fixes"
# Where what was chosen was not borne out, what it took the place of was not refuted by it.
OF_THE_SEARCH = "it helps alone, but the fix chosen instead of it was not found to help"
ALONE = "it helps alone, but no fix was chosen for the proof"
APART = "it could not be combined with the chosen fixes"
MORE = "there were more promising fixes than could be proven in the time"
ONCE = "measured once, not proven: {gains}"
NO_TIME = "no time was left to try it: give a longer --max-time"


def ranked(judged: FoundAndProved) -> tuple[Fix, ...]:
    """Every candidate with its verdict: what is recommended first, by what it gains, or promises to."""
    fixes = [_fix(judged, candidate) for candidate in judged.found.candidates]
    promised = {each.id: _promised_s(judged.baseline, each) for each in judged.found.candidates}
    fixes.sort(key=lambda fix: (_ORDER[fix.verdict], -(fix.gain or 0.0), -promised[fix.id], fix.id))
    return tuple(fix.model_copy(update={"rank": rank}) for rank, fix in enumerate(fixes, start=1))


def _promised_s(baseline: Baseline, candidate: Candidate) -> float:
    """The seconds of the statements that a candidate would save by what its finder predicts."""
    unknown = 1 - REWRITE_SAVES if candidate.rewrites else 1.0
    left = candidate.predicted or dict.fromkeys(candidate.statements, unknown)
    return math.fsum(
        baseline.calls[each.name] * baseline.seconds[each.name] * (1 - left[each.of.name])
        for each in baseline.statements
        if each.of.name in left
    )


def _fix(judged: FoundAndProved, candidate: Candidate) -> Fix:
    tried = judged.found.tried.get(candidate.id)
    verdict, evidence, effect, note = verdict_of(judged, candidate)
    statements: tuple[FixStatement, ...] = ()
    gain, interval, at_least = None, None, False
    if effect is not None:
        gain, interval, statements = effect.gain, effect.interval, effect.statements
        at_least = effect.at_least
    elif tried is not None and not tried.refused:
        gain = _own_gain(judged.baseline, tried)
        statements = tuple(_tried_statements(judged.baseline, tried))
        at_least = any(each.at_least for each in statements)
    others = judged.found.notes.get(candidate.id, "")
    elsewhere = judged.writing_elsewhere.get(candidate.id, frozenset())
    # What a write of another table took beside it is chance.
    chance = {each.name for each in judged.baseline.statements if each.of.name in elsewhere}
    statements = tuple(
        each
        for each in statements
        if each.name not in chance and not (each.ratio > 1 and each.name in inserts(judged.baseline))
    )
    is_tried = tried is not None and not tried.refused
    built = _built(candidate, tried)
    # What is not worth applying has no costs worth reading.
    side = judged.side_costs.get(candidate.id, "") if verdict in ("recommended", "not decided") else ""
    freed = ""
    took = (built.bytes if built and candidate.sql else None) or 0
    # Whatever it does to the time: space is measured and no matter of chance.
    if verdict in ("no help", "not needed", "not decided") and took < 0:
        freed = f"it frees {size(-took)} of the disk"
    late = _stopped_with(statements, tried if effect is None else None)
    return Fix(
        rank=0,
        id=candidate.id,
        layer=candidate.layer,
        kind=candidate.kind,
        title=candidate.title,
        reason=candidate.reason,
        reason_of=candidate.reason_of,
        sql=_joined(candidate.in_order(candidate.sql)),
        undo=_joined(candidate.in_order(candidate.undo)),
        verdict=verdict,
        evidence=evidence,
        gain=gain,
        interval=interval,
        at_least=at_least,
        predicted_gain=judged.predicted.get(candidate.id),
        statements=statements,
        cost=FixCost(
            build_s=built.build_s if built else None,
            bytes=built.bytes if built else candidate.bytes,
            write_ratio=_write_ratio(judged.baseline, statements, elsewhere) if is_tried else None,
            per_month=candidate.per_month,
            wal_bytes=tried.wal_bytes if tried and not candidate.on_copy else None,
        ),
        same_results=judged.found.checks.get(candidate.id, _not_checked(judged.baseline, candidate)),
        applied_by=_applied_by(candidate),
        rewritten={each.statement: each.sql for each in candidate.rewrites},
        note="; ".join(part for part in (note, freed, late, others, side) if part),
    )


def _built(candidate: Candidate, tried: Tried | None) -> Tried | None:
    """What applying it took on the copy, where that is what applying it takes; None where it says nothing.

    Making the data of another server is no upgrade and no move, and what is done on the copy alone is in no
    script.
    """
    is_made_anew = candidate.build is not None or candidate.storage is not None
    return None if is_made_anew or candidate.on_copy else tried


def _own_gain(baseline: Baseline, tried: Tried) -> float:
    """What one gains where it does anything: over the statements that it touches, and not all of them.

    Those that write are left out where it touches others: that is its cost, and told apart.
    """
    if tried.gain_again is not None or not tried.seconds:
        return tried.gain(baseline.weights, baseline.seconds)
    writing = {each.name for each in baseline.statements if each.of.writes}
    names = [name for name in tried.seconds if name not in writing] or list(tried.seconds)
    return gain_over(baseline.weights, baseline.seconds, tried.seconds, names)


def _stopped_with(statements: Sequence[FixStatement], tried: Tried | None) -> str:
    """Which statements were stopped with a fix. `tried`: where its gain is what the search measured."""
    slower = [each.name for each in statements if not each.ratio]
    parts = [f"{', '.join(slower)} took so long with it that it was stopped"] if slower else []
    if tried is not None and tried.stopped:
        parts.append(f"its gain excludes {', '.join(tried.stopped)}, which another fix makes much faster")
    return "; ".join(parts)


def _tried_statements(baseline: Baseline, tried: Tried) -> Iterator[FixStatement]:
    """What a fix that was tried does to each statement; nothing is known of one that did not end with it."""
    for name, seconds in tried.seconds.items():
        before, is_endless = baseline.seconds[name], name in baseline.endless
        # On top of others it ended without this one as well, and the ratio is what was measured.
        is_bound = is_endless and not tried.on_top
        if seconds and (not is_endless or seconds < before):
            yield FixStatement(
                name=name,
                ratio=before / seconds,
                at_least=is_bound,
                waited_s=before if is_bound else None,
            )


def _not_checked(baseline: Baseline, candidate: Candidate) -> str:
    endless = [name for name in candidate.statements if name in baseline.endless_statements]
    return f"not checked: {', '.join(endless)} did not finish before" if endless else "not checked"


def verdict_of(
    judged: FoundAndProved, candidate: Candidate
) -> tuple[FixVerdict, Evidence, Effect | None, str]:
    """(verdict, what it rests on, what the proof says, why)."""
    name = candidate.id
    if name in judged.found.unsafe:
        return "unsafe", "none", None, judged.found.unsafe[name]
    if name in judged.found.left_out:
        return "screened out", "none", None, judged.found.left_out[name]
    if name in judged.found.screened:
        return "screened out", "planner", None, judged.found.screened[name]
    if name in judged.members:
        return proven_verdict(judged, name)
    tried = judged.found.tried.get(name)
    if tried is None:
        return "not decided", "none", None, NO_TIME
    if tried.refused:
        return "screened out", "none", None, tried.refused
    alone = tried.gain(judged.baseline.weights, judged.baseline.seconds)
    if is_slower(tried):
        return "worse", "search", None, _cost(judged.baseline, tried)
    if alone < WORSE_MAX:
        far = [each for each in _tried_statements(judged.baseline, tried) if 0 < each.ratio < _FAR_SLOWER]
        if far and not tried.with_s:
            return "worse", "search", None, f"it made {', '.join(map(slower_words, far))} (timed once)"
        return "no help", "search", None, NOT_TOLD
    once = _once(judged, tried)
    selection = judged.found.selection
    beside, left_bytes = selection.beside.get(name), selection.over.get(name)
    if alone < judged.baseline.gain_min(judged.margin):
        return ("not decided", "search", None, once) if once else ("no help", "search", None, "")
    if left_bytes is not None:
        return "screened out", "search", None, _too_large(tried, left_bytes)
    standing = [proven_verdict(judged, each)[0] in ("recommended", "not decided") for each in judged.members]
    if beside is None and not standing:
        return "not decided", "search", None, ALONE
    if beside is None:
        if all(standing):
            return "not needed", "search", None, f"{APART}, which gains more"
        return "not decided", "search", None, f"{APART}, part of which does not help"
    if beside >= 1 + judged.margin:
        return "not decided", "search", None, MORE
    if not any(standing):
        return "not decided", "search", None, OF_THE_SEARCH
    return "not needed", "search", None, _beside_what_was_chosen(judged, name)


def _cost(baseline: Baseline, tried: Tried) -> str:
    """Which statements a fix made slower when it was tried, and by how much; of none alone, all together.

    One that was stopped is told apart.
    """
    slower = [each for each in _tried_statements(baseline, tried) if 0 < each.ratio < WORSE_MAX]
    if slower:
        return f"it made {', '.join(map(slower_words, slower))}"
    whole = statistics.median(tried.without_s) / statistics.median(tried.with_s)
    return f"it made all statements together {amount(whole)}" if whole else ""


def _once(judged: FoundAndProved, tried: Tried) -> str:
    """The statements that a fix made faster when it was tried, and that nothing that was chosen does; or ''.

    Nothing that makes a statement faster is called of no help.
    """
    base = judged.baseline.seconds
    taken = {
        name
        for each in judged.members
        if (other := judged.found.tried.get(each)) is not None
        for name in faster_of(other.seconds, base)
    }
    gains = {
        name: base[name] / tried.seconds[name]
        for name in faster_of(tried.seconds, base) - taken
        if tried.seconds[name] > 0
    }
    words = (f"{name} {amount(gain)}" for name, gain in sorted(gains.items()) if gain >= _ONCE_MIN)
    listed = ", ".join(words)
    return ONCE.format(gains=listed) if listed else ""


def _too_large(tried: Tried, left_bytes: float) -> str:
    left = size(int(left_bytes)) if left_bytes > 0 else "nothing"
    return f"it takes {size(tried.bytes or 0)}, and of --max-space there is {left} left"


def _beside_what_was_chosen(judged: FoundAndProved, name: str) -> str:
    """Why one that helps alone was not chosen; where it could not be told from one that was, which."""
    titles = {each.id: each.title for each in judged.found.candidates}
    other = judged.found.alike.get(name)
    if other is None:
        return BESIDE
    return f"{BESIDE}: its gain can't be distinguished from that of '{titles[other]}', which costs less"


def _joined(statements: Sequence[str]) -> str:
    return "\n".join(f"{each.rstrip().rstrip(';')};" for each in statements)


def _applied_by(candidate: Candidate) -> str:
    if candidate.described or candidate.build is not None or candidate.storage is not None:
        return "hand"
    if candidate.rewrites:
        return "statement"
    if candidate.settings:
        return "setting and restart" if candidate.restart else "setting"
    return "sql"


def _write_ratio(
    baseline: Baseline, statements: Sequence[FixStatement], elsewhere: Collection[str]
) -> float | None:
    """The time of the statements that write with the fix over without; None where none writes.

    None as well where one was stopped with the fix, so that it is not known. `elsewhere`: the names of those
    that write other tables than the fix is about, whose time is no matter of it.
    """
    writing = {each.name for each in baseline.statements if each.of.writes and each.of.name not in elsewhere}
    if not writing:
        return None
    ratios = {each.name: each.ratio for each in statements}
    if not all(ratios.get(name, 1.0) for name in writing):
        return None
    ends = [each.interval for each in statements if each.name in writing and each.interval is not None]
    if ends and not any(_is_told(low, high) for low, high in ends):
        return None
    before = math.fsum(baseline.seconds[name] for name in writing)
    after = math.fsum(baseline.seconds[name] / ratios.get(name, 1.0) for name in writing)
    return after / before if before else None


def _is_told(low: float | None, high: float | None) -> bool:
    """Whether an interval tells a direction, or that there is not much of a difference."""
    if low is not None and high is not None and high <= _ALIKE_MAX * low:
        return True
    return (low is not None and low >= 1) or (high is not None and high <= 1)


def proof_of(
    proved: Proved, members: Sequence[str], predicted: float | None, left_out: Sequence[str] = ()
) -> TuneProof:
    """The proof of all chosen fixes together."""
    effect = proved.together
    return TuneProof(
        folder=proved.result.folder,
        members=tuple(members),
        blocks=proved.result.blocks,
        stopped=proved.result.stopped,
        gain=effect.gain,
        interval=effect.interval,
        verdict={"slower": "faster", "faster": "slower"}.get(effect.word, effect.word),
        predicted_gain=predicted,
        statements=effect.statements,
        slower=effect.slowed,
        at_least=effect.at_least,
        left_out=tuple(left_out),
        assumption=_assumption(proved.result),
    )


def _assumption(result: CompareResult) -> str:
    """What any direction that is told assumes; all of one experiment assume the same."""
    statements = [arm for each in result.statements for arm in each.arms]
    return next((arm.assumption for arm in (*result.arms, *statements) if arm.assumption), "")
