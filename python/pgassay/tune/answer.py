"""From what was tried and proved to the ranked answer. Pure."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pgassay.model.tuning.answer import (
    Evidence,
    Fix,
    FixCost,
    FixStatement,
    FixVerdict,
    TuneProof,
)
from pgassay.tune.candidate import Candidate
from pgassay.tune.proof import Effect, Proved, does_not_help
from pgassay.tune.search.search import Searched
from pgassay.tune.search.selection import WORSE_MAX, Baseline, Tried, is_slower
from pgassay.words import percent, plural, size
from pgassay.words import seconds as duration

_ORDER: dict[FixVerdict, int] = {
    "recommended": 0,
    "not decided": 1,
    "no help": 2,
    "worse": 3,
    "unsafe": 4,
    "screened out": 5,
}
UNLIKE = "it helps on the copy most what is not there as it is on the source: that proves nothing"
NOT_CONFIRMED = (
    "two or more of the chosen fixes do not help, and what is left of them was not measured together: go on "
    "with pgassay tune FOLDER"
)
BESIDE = "it helps alone, and nothing beside what was chosen"
MORE = "more was promising than could be proved in the time"
NO_TIME = "no time was left to try it: give more with --max-time"
# How the warning begins that says why.
PROOF_REFUSED = "the proof could not be run"
NOT_TOLD = "it looked slower once; whether it is could not be told from the noise of the runs"


@dataclass(frozen=True)
class Judged:
    """What is known of all candidates; `checks`: by id what is said of the same results.

    `unsafe`: by id why a candidate's results are not the same, or could not be shown to be. `left_out`: by id
    why one was not tried at all. `unlike`: by the name of a measured statement why it is not on the copy what
    it is on the server that it was read from: nothing is called proven for it. `remaining`: the members that
    were left where two or more did not help, whose verdicts are those of `confirmed`, a second stage.
    `side_costs`: by id what a fix costs standbys and later updates. `writing_elsewhere`: by id the names of
    statements that write, and none of its tables.
    """

    candidates: Sequence[Candidate]
    baseline: Baseline
    searched: Searched
    members: tuple[str, ...] = ()
    predicted: Mapping[str, float] = field(default_factory=dict)
    proved: Proved | None = None
    remaining: tuple[str, ...] = ()
    confirmed: Proved | None = None
    margin: float = 0.03
    checks: Mapping[str, str] = field(default_factory=dict)
    unsafe: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    unlike: Mapping[str, str] = field(default_factory=dict)
    side_costs: Mapping[str, str] = field(default_factory=dict)
    writing_elsewhere: Mapping[str, frozenset[str]] = field(default_factory=dict)


def ranked(judged: Judged) -> tuple[Fix, ...]:
    """Every candidate with its verdict: what is recommended first, by what it gains."""
    fixes = [_fix(judged, candidate) for candidate in judged.candidates]
    fixes.sort(key=lambda fix: (_ORDER[fix.verdict], -(fix.gain or 0.0), fix.id))
    return tuple(fix.model_copy(update={"rank": rank}) for rank, fix in enumerate(fixes, start=1))


def _fix(judged: Judged, candidate: Candidate) -> Fix:
    tried = judged.searched.tried.get(candidate.id)
    verdict, evidence, effect, note = verdict_of(judged, candidate)
    statements: tuple[FixStatement, ...] = ()
    gain, interval, at_least = None, None, False
    if effect is not None:
        gain, interval, statements = effect.gain, effect.interval, effect.statements
        at_least = effect.at_least
    elif tried is not None and not tried.refused:
        gain = tried.gain(judged.baseline.weights, judged.baseline.seconds)
        statements = tuple(_tried_statements(judged.baseline, tried))
        at_least = any(each.at_least for each in statements)
    others = judged.notes.get(candidate.id, "")
    elsewhere = judged.writing_elsewhere.get(candidate.id, frozenset())
    is_tried = tried is not None and not tried.refused
    # What making the data of another server took here says nothing of what an upgrade or a move takes.
    built = None if candidate.build is not None or candidate.storage is not None else tried
    # What is not worth applying has no costs worth reading.
    side = judged.side_costs.get(candidate.id, "") if verdict in ("recommended", "not decided") else ""
    freed = ""
    # Whatever it does to the time: space is measured and no matter of chance.
    if verdict in ("no help", "not decided") and tried is not None and (tried.bytes or 0) < 0:
        freed = f"it frees {size(-(tried.bytes or 0))} of the disk"
    return Fix(
        rank=0,
        id=candidate.id,
        layer=candidate.layer,
        kind=candidate.kind,
        title=candidate.title,
        reason=candidate.reason,
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
            wal_bytes=tried.wal_bytes if tried else None,
        ),
        same_results=judged.checks.get(candidate.id, _not_checked(judged.baseline, candidate)),
        applied_by=_applied_by(candidate),
        rewritten={each.statement: each.sql for each in candidate.rewrites},
        note="; ".join(part for part in (note, freed, others, side) if part),
    )


def _tried_statements(baseline: Baseline, tried: Tried) -> Iterator[FixStatement]:
    """What a fix that was tried does to each statement; nothing is known of one that did not end with it."""
    for name, seconds in tried.seconds.items():
        before, is_endless = baseline.seconds[name], name in baseline.endless
        # On top of others it ended without this one as well, and the ratio is what was measured.
        is_bound = is_endless and not tried.on_top
        if not is_endless or seconds < before:
            yield FixStatement(
                name=name,
                ratio=before / seconds if seconds else math.inf,
                at_least=is_bound,
                waited_s=before if is_bound else None,
            )


def _not_checked(baseline: Baseline, candidate: Candidate) -> str:
    endless = [name for name in candidate.statements if name in baseline.endless_statements]
    return f"not checked: {', '.join(endless)} did not end before" if endless else "not checked"


def verdict_of(judged: Judged, candidate: Candidate) -> tuple[FixVerdict, Evidence, Effect | None, str]:
    """(verdict, what it rests on, what the proof says, why)."""
    name = candidate.id
    if name in judged.unsafe:
        return "unsafe", "none", None, judged.unsafe[name]
    if name in judged.left_out:
        return "screened out", "none", None, judged.left_out[name]
    if name in judged.searched.screened:
        return "screened out", "planner", None, judged.searched.screened[name]
    if name in judged.members:
        return _proven(judged, name)
    tried = judged.searched.tried.get(name)
    if tried is None:
        return "not decided", "none", None, NO_TIME
    if tried.refused:
        return "screened out", "none", None, tried.refused
    alone = tried.gain(judged.baseline.weights, judged.baseline.seconds)
    if is_slower(tried):
        return "worse", "search", None, ""
    if alone < WORSE_MAX:
        return "no help", "search", None, NOT_TOLD
    selection = judged.searched.selection
    beside, left_bytes = selection.beside.get(name), selection.over.get(name)
    if alone < 1 + judged.margin:
        return "no help", "search", None, ""
    if beside is not None and beside < 1 + judged.margin:
        return "no help", "search", None, _beside_what_was_chosen(judged, name)
    if left_bytes is not None:
        return "screened out", "search", None, _too_large(tried, left_bytes)
    if beside is not None:
        return "not decided", "search", None, MORE
    return "no help", "search", None, "it could not be combined with what was chosen, which gains more"


def _too_large(tried: Tried, left_bytes: float) -> str:
    left = size(int(left_bytes)) if left_bytes > 0 else "nothing"
    return f"it takes {size(tried.bytes or 0)}, and of --max-space there is {left} left"


def _beside_what_was_chosen(judged: Judged, name: str) -> str:
    """Why one that helps alone was not chosen; where it could not be told from one that was, which."""
    titles = {each.id: each.title for each in judged.candidates}
    other = judged.searched.alike.get(name)
    if other is None:
        return BESIDE
    return f"{BESIDE}: its gain can't be told from that of '{titles[other]}', which costs less"


def _proven(judged: Judged, name: str) -> tuple[FixVerdict, Evidence, Effect | None, str]:
    proved = judged.confirmed if name in judged.remaining else judged.proved
    effect = proved.members.get(name) if proved else None
    if name in judged.remaining and (effect is None or effect.gain is None):
        return "not decided", "search", None, NOT_CONFIRMED
    if effect is None or effect.gain is None:
        return "not decided", "search", None, "it was chosen, and its proof was not run to a verdict"
    if effect.word == "slower":
        if does_not_help(effect, judged.margin):
            return "no help", "proof", effect, _less_than_matters(effect, judged.margin)
        if _helps_unlike_alone(judged, effect):
            return "not decided", "proof", effect, UNLIKE
        return "recommended", "proof", effect, _slowed(effect)
    if effect.word == "faster":
        return "worse", "proof", effect, ""
    if effect.word == "equivalent":
        return "no help", "proof", effect, ""
    return "not decided", "proof", effect, "the proof came to no verdict in its time"


def _helps_unlike_alone(judged: Judged, effect: Effect) -> bool:
    """Whether statements that are not on the copy what they are on their server save most of the time."""
    if not judged.unlike:
        return False
    baseline = judged.baseline
    if not effect.statements:
        return all(each.name in judged.unlike for each in baseline.statements)
    saved = {
        each.name: baseline.weights[each.name] * baseline.seconds[each.name] * (1 - 1 / each.ratio)
        for each in effect.statements
        if each.ratio > 1
    }
    in_doubt = math.fsum(seconds for name, seconds in saved.items() if name in judged.unlike)
    return in_doubt >= 0.5 * math.fsum(saved.values())


def _less_than_matters(effect: Effect, margin: float) -> str:
    less = f"it gains less than the {percent(margin)} that matter"
    high = effect.interval[1] if effect.interval is not None else None
    return f"{less} by its estimate; its interval reaches further" if high and high >= 1 + margin else less


def _slowed(effect: Effect) -> str:
    return f"it makes {', '.join(effect.slowed)} slower" if effect.slowed else ""


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

    `elsewhere`: the names of those that write other tables than the fix is about, whose time is no matter of
    it.
    """
    writing = {each.name for each in baseline.statements if each.of.writes and each.of.name not in elsewhere}
    if not writing:
        return None
    ratios = {each.name: each.ratio for each in statements}
    before = math.fsum(baseline.seconds[name] for name in writing)
    after = math.fsum(baseline.seconds[name] / (ratios.get(name) or 1.0) for name in writing)
    return after / before if before else None


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
    )


def summary(
    fixes: Sequence[Fix],
    proof: TuneProof | None,
    seconds: float,
    *,
    margin: float,
    members: Collection[str] = (),
    go_on: str = "",
    endless: Mapping[str, float] | None = None,
    ended_unproven: Sequence[str] = (),
    is_refused: bool = False,
    clients: int = 1,
) -> str:
    """The answer in a few sentences.

    `members`: the ids of what was chosen to be proved, which alone more of its blocks can decide. `go_on`:
    the command that goes on with its proof, '' for none. `endless`: the statements that did not end, as they
    are or with what was chosen, and how long each was waited for; `ended_unproven`: those of them that ended
    with something that was tried and not chosen. `is_refused`: the proof could not be run. `clients`: how
    many executed the statements at once in it.
    """
    recommended = [fix for fix in fixes if fix.verdict == "recommended"]
    unsolved = _unsolved(endless or {}, ended_unproven)
    if not recommended:
        nothing = _nothing(
            fixes, seconds, margin, go_on=go_on, is_endless=bool(endless), is_refused=is_refused
        )
        return " ".join(filter(None, (unsolved, nothing, _too_large_ones(fixes))))
    names = "; ".join(fix.title for fix in recommended)
    lines = [f"Recommended: {names}."]
    if proof is not None and proof.gain is not None:
        low, high = proof.interval or (None, None)
        ends = f" ({low:.2f} to {high:.2f})" if low is not None and high is not None else ""
        gain = f"{proof.gain:.2f} × as fast{ends}"
        if proof.at_least:
            slow = [each.name for each in proof.statements if each.at_least]
            gain = (
                f"at least {low or proof.gain:.2f} × as fast, as {', '.join(slow)} never ended without them"
            )
        at_once = f", with {clients} clients at once" if clients > 1 else ""
        lines.append(f"All chosen fixes together: {gain}{at_once}.")
        if proof.slower:
            lines.append(f"Slower with them: {', '.join(proof.slower)}.")
    lines += filter(None, (_too_large_ones(fixes), unsolved))
    unproven = [fix for fix in fixes if fix.verdict == "not decided" and fix.evidence != "none"]
    if unproven:
        lines.append(f"Not proven in the time: {'; '.join(fix.title for fix in unproven)}.")
        if go_on and any(fix.id in members for fix in unproven):
            lines.append(f"Go on with {go_on}.")
        elif any(fix.id not in members for fix in unproven):
            lines.append("Start anew with more --max-time to have them proven too.")
    return " ".join(lines)


def _too_large_ones(fixes: Sequence[Fix]) -> str:
    """What is said of fixes that would gain, and take more space than was allowed."""
    names = [fix.title for fix in fixes if fix.verdict == "screened out" and fix.evidence == "search"]
    return f"Left out, since --max-space has no room for it: {'; '.join(names)}." if names else ""


def _unsolved(endless: Mapping[str, float], ended_unproven: Sequence[str]) -> str:
    """What is said of statements that do not end with what was chosen."""
    lines = []
    waited = [f"{name} ({duration(s)})" for name, s in endless.items() if name not in ended_unproven]
    if waited:
        lines.append(
            f"Did not end with anything that was tried: {', '.join(waited)}; more --max-time gives more."
        )
    if ended_unproven:
        lines.append(f"Ended only with what is not proven: {', '.join(ended_unproven)}.")
    return " ".join(lines)


def _nothing(
    fixes: Sequence[Fix],
    seconds: float,
    margin: float,
    *,
    go_on: str,
    is_endless: bool = False,
    is_refused: bool = False,
) -> str:
    undecided = [fix for fix in fixes if fix.verdict == "not decided"]
    if undecided:
        best = max(undecided, key=lambda fix: fix.gain or 0.0)
        advice = "The proof could not be run: the warnings say why" if is_refused else "Give more --max-time"
        # A second stage that could not be run leaves a first that can be gone on with.
        advice = f"Go on with {go_on}" if go_on else advice
        return (
            f"Nothing is proven: {len(undecided)} of {plural(len(fixes), 'candidate')} "
            f"{'is' if len(undecided) == 1 else 'are'} not decided, the most promising {best.title}. "
            f"{advice}."
        )
    gains = [fix.gain for fix in fixes if fix.gain is not None and fix.verdict in ("no help", "worse")]
    gain = max([*gains, 1.0]) - 1
    most = f"the next best thing gains {'less than ' if gain < margin else ''}{percent(max(gain, margin))}"
    has_larger = bool(_too_large_ones(fixes))
    none = "no candidate was found whose plan shows that it could gain"
    ended = most if gains else "nothing that has room gains anything" if has_larger else none
    if is_endless or has_larger:
        return f"Nothing is recommended: {ended}."
    return f"Nothing to do: {duration(seconds)} for the whole workload; {ended}."
