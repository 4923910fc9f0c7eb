"""The answer in a few sentences, from the verdicts. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence

from pgassay.model.tuning.source import NO_RIGHT, TuneSource
from pgassay.model.tuning.tune_answer import Fix, StatementAnswer, TuneProof
from pgassay.tune.answer.proof_verdict import NOT_TOLD, is_weighed, looked_slower, slower_words
from pgassay.tune.search.selection import STATEMENT_MARGIN, WORSE_MAX
from pgassay.words import amount, figure, join, percent, plural
from pgassay.words import seconds as duration

_STATEMENTS_SHOWN_MAX = 6
# Of what is not proven: a statement that looked faster by less may be as fast.
_LOOKED_MIN, _LOOKED_SHOWN_MAX = 1.5, 3
_PROMISING_MAX = 3
# Of the time: less than that changes little of the answer.
_UNREAD_MIN = 0.1
# What a statement's name has where it was measured with several sets of values.
_SET = re.compile(r" \[\d+\]$")
# How the warning begins that says why.
PROOF_REFUSED = "the proof could not be run"


def summary(
    fixes: Sequence[Fix],
    proof: TuneProof | None,
    seconds: float,
    *,
    statements: Sequence[StatementAnswer] = (),
    margin: float,
    members: Collection[str] = (),
    go_on: str = "",
    endless: Mapping[str, float] | None = None,
    ended_unproven: Sequence[str] = (),
    never_tried: Collection[str] = (),
    is_refused: bool = False,
    clients: int = 1,
    is_interrupted: bool = False,
) -> str:
    """The answer in a few sentences. `statements`: what was chosen does to each.

    `members`: the ids of what was chosen to be proved, which alone more of its blocks can decide. `go_on`:
    the command that goes on with its proof, '' for none. `endless`: the statements that did not end, as they
    are or with what was chosen, and how long each was waited for; `ended_unproven`: those of them that ended
    with something that was tried and not chosen; `never_tried`: those for which nothing was tried.
    `is_refused`: the proof could not be run. `clients`: how many executed the statements at once in it.
    """
    recommended = [fix for fix in fixes if fix.verdict == "recommended"]
    unsolved = _unsolved(endless or {}, ended_unproven, never_tried)
    if not recommended:
        nothing = _nothing(
            fixes,
            seconds,
            margin,
            go_on=go_on,
            is_shown=has_nothing_to_do(fixes, is_interrupted=is_interrupted) and not endless,
            is_refused=is_refused,
            is_interrupted=is_interrupted,
        )
        return " ".join(filter(None, (unsolved, nothing, _left_to_user(fixes), _left_out_for_space(fixes))))
    names = "; ".join(fix.title for fix in recommended)
    lines = [f"Recommended: {names}."]
    lines += _by_statement(statements)
    if proof is not None and proof.gain is not None:
        ids = {fix.id for fix in recommended}
        as_it_was = {each.name for each in statements if each.verdict == "as it was"}
        slower = [name for name in proof.slower if name not in as_it_was]
        lines += _together(proof, slower, clients, is_recommended=ids.issuperset(proof.members))
    lines += filter(None, (_left_to_user(fixes), _left_out_for_space(fixes), unsolved))
    unproven = [fix for fix in _open(fixes) if fix.evidence != "none"]
    if unproven:
        lines.append(f"Not proven in the given time: {'; '.join(fix.title for fix in unproven)}.")
    untried = sum(fix.verdict == "not decided" and fix.evidence == "none" for fix in fixes)
    if untried:
        lines.append(f"Not tried in the given time: {plural(untried, 'candidate')}.")
    if go_on and (untried or unproven):
        lines.append(f"Continue with {go_on}.")
    elif untried or any(fix.id not in members for fix in unproven):
        lines.append("Start again with a longer --max-time to have them proven too.")
    return " ".join(lines)


def _open(fixes: Sequence[Fix]) -> list[Fix]:
    """What more time may decide."""
    return [fix for fix in fixes if fix.verdict == "not decided" and not is_weighed(fix.note)]


def _left_to_user(fixes: Sequence[Fix]) -> str:
    """What makes some statements faster and others slower, which is for whoever runs them to weigh."""
    names = [fix.title for fix in fixes if fix.verdict == "not decided" and is_weighed(fix.note)]
    return f"Left to you: {'; '.join(names)}. The notes say what each costs." if names else ""


def _by_statement(statements: Sequence[StatementAnswer]) -> list[str]:
    """What is proven of each statement, what gains most first."""
    proven = [each for each in statements if each.verdict == "faster" and not each.unproven and each.ratio]
    proven.sort(key=lambda each: -(each.ratio or 0.0))
    shown = [_statement(each) for each in proven[:_STATEMENTS_SHOWN_MAX]]
    more = len(proven) - len(shown)
    if not shown:
        return []
    return [f"Proven: {', '.join(shown)}{f' and {more} more' if more else ''}."]


def _statement(answer: StatementAnswer) -> str:
    low, high = answer.interval or (None, None)
    gain = figure(answer.ratio or 1.0)
    if answer.at_least or high is None:
        return f"{answer.name} at least {figure(low or answer.ratio or 1.0)} × as fast"
    return f"{answer.name} {gain} × as fast ({figure(low or 1.0)} to {figure(high)})"


def _together(
    proof: TuneProof, made_slower: Sequence[str], clients: int, *, is_recommended: bool
) -> list[str]:
    """What is slower with all that was chosen (`made_slower`), or looked so.

    `is_recommended`: all of that is; else what is told was not measured of what is recommended alone.
    """
    they = "They" if is_recommended else "All chosen fixes together, also those not recommended,"
    them = "them" if is_recommended else "all chosen fixes, also those not recommended"
    lines = [f"This was measured with {clients} clients at once."] if clients > 1 else []
    slow = [each.name for each in proof.statements if each.at_least]
    if proof.at_least and slow:
        lines.append(f"{', '.join(slow)} never finished without {them}.")
    if made_slower:
        slower = [slower_words(each) for each in proof.statements if each.name in made_slower]
        lines.append(f"{they} make {join(slower)}.")
    doubtful = looked_slower(proof.statements, proof.slower)
    if doubtful:
        lines.append(f"Looked slower with {them}, which is not proven: {', '.join(doubtful)}.")
    return lines


def _unsolved(
    endless: Mapping[str, float], ended_unproven: Sequence[str], never_tried: Collection[str]
) -> str:
    """What is said of statements that do not end with what was chosen."""
    lines = []
    for said, is_tried in (
        ("Did not finish with any fix that was tried", True),
        ("Did not finish, and no fix was tried that concerns it", False),
    ):
        waited = [
            f"{name} ({duration(s)})"
            for name, s in endless.items()
            if name not in ended_unproven and (name not in never_tried) == is_tried
        ]
        if waited:
            lines.append(f"{said}: {', '.join(waited)}; a longer --max-time allows more time.")
    if ended_unproven:
        lines.append(f"Finished only with unproven fixes: {', '.join(ended_unproven)}.")
    return " ".join(lines)


def unread(source: TuneSource | None) -> str:
    """What comes first where much was left out for want of a right: it decides what the rest is worth."""
    lacking = [each for each in source.left_out if NO_RIGHT in each.reason] if source is not None else []
    part = sum(each.share for each in lacking)
    if part < _UNREAD_MIN:
        return ""
    why = lacking[0].reason.rpartition("; ")[2]
    number = plural(len(lacking), "statement")
    return f"{number} with {percent(part)} of the time {_was(len(lacking))} left out: {why}. "


def has_nothing_to_do(fixes: Sequence[Fix], *, is_interrupted: bool = False) -> bool:
    """Whether it was shown that nothing is to be done: all was tried, and nothing is left that may help."""
    is_open = any(fix.verdict in ("recommended", "not decided") for fix in fixes)
    is_open = is_open or _unclear(fixes, STATEMENT_MARGIN) is not None or bool(_both_ways(fixes))
    return not (is_open or is_interrupted or _untried(fixes) or _without_room(fixes))


def _without_room(fixes: Sequence[Fix]) -> list[str]:
    """What would gain, and takes more space than was allowed."""
    return [fix.title for fix in fixes if fix.verdict == "screened out" and fix.evidence == "search"]


def _left_out_for_space(fixes: Sequence[Fix]) -> str:
    names = _without_room(fixes)
    return f"Left out, since it does not fit into --max-space: {'; '.join(names)}." if names else ""


def _untried(fixes: Sequence[Fix]) -> int:
    """How many were not tried, for other reasons than the time, so that what they gain is not known."""
    return sum(fix.evidence == "none" and fix.verdict in ("screened out", "unsafe") for fix in fixes)


def _nothing(
    fixes: Sequence[Fix],
    seconds: float,
    margin: float,
    *,
    go_on: str,
    is_shown: bool,
    is_refused: bool,
    is_interrupted: bool,
) -> str:
    undecided = _open(fixes)
    if undecided:
        best = max(undecided, key=lambda fix: fix.gain or 0.0)
        advice = (
            "The proof could not be run: the warnings say why" if is_refused else "Give a longer --max-time"
        )
        # A second stage that could not be run leaves a first that can be gone on with.
        advice = f"Continue with {go_on}" if go_on else advice
        looked = _looked(undecided)
        untried = sum(fix.evidence == "none" for fix in undecided)
        of_all = f"of {plural(len(fixes), 'candidate')}"
        if looked:
            late = f"; {untried} {of_all} {_was(untried)} not tried in the given time" if untried else ""
            return f"Nothing is proven: so far {looked}{late}. {advice}."
        if untried == len(undecided):
            late = f"{untried} {of_all} {_was(untried)} not tried in the given time"
            first = join([fix.title for fix in undecided[:_PROMISING_MAX]])
            return f"Nothing is proven: {late}, the most promising {first}. {advice}."
        return (
            f"Nothing is proven: {len(undecided)} {of_all} "
            f"{'is' if len(undecided) == 1 else 'are'} not decided, the most promising {best.title}. "
            f"{advice}."
        )
    if _left_to_user(fixes):
        return "Nothing is recommended: what gains makes other statements slower."
    unclear = _unclear(fixes, margin)
    if unclear is not None:
        gain = unclear.gain or 1.0
        return (
            f"Nothing is recommended: '{unclear.title}' makes what it helps {amount(gain)}, but looked "
            "slower over all statements, which may be noise: try again on a quieter "
            "machine, or with more --max-time."
        )
    ended = _next_best(fixes, margin, is_interrupted=is_interrupted)
    if not is_shown:
        return f"Nothing is recommended: {ended}."
    return f"Nothing to do: {duration(seconds)} for the whole workload; {ended}."


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _looked(undecided: Sequence[Fix]) -> str:
    """What statements gained when what is not proven was tried, what gained most first; '' for nothing.

    Of one that was measured with several sets of values, its best.
    """
    best: dict[str, tuple[float, bool, str]] = {}
    for fix in undecided:
        for each in fix.statements:
            name = _SET.sub("", each.name)
            if each.ratio >= max(_LOOKED_MIN, best.get(name, (0.0,))[0]):
                best[name] = (each.ratio, each.at_least, fix.title)
    found = sorted(best.items(), key=lambda item: -item[1][0])
    words = [
        f"{name} is {'over ' if at_least else ''}{figure(ratio)} × as fast with {title}"
        for name, (ratio, at_least, title) in found[:_LOOKED_SHOWN_MAX]
    ]
    more = len(found) - len(words)
    return ", ".join(words) + (f", and {plural(more, 'other')} faster" if more else "") if words else ""


def _unclear(fixes: Sequence[Fix], margin: float) -> Fix | None:
    """What gains most of what helps where it is used, and may have cost more than that, None for nothing."""
    found = [fix for fix in fixes if NOT_TOLD in fix.note and (fix.gain or 0.0) >= 1 + margin]
    return max(found, key=lambda fix: fix.gain or 0.0, default=None)


def _both_ways(fixes: Sequence[Fix]) -> str:
    """What that does to statements which gains most of what makes all together slower; '' for nothing.

    Whoever runs them may want the faster ones all the same, so that it is not the next best of what is left.
    """
    found = [fix for fix in fixes if fix.verdict == "worse" and (fix.gain or 0.0) >= 1 + STATEMENT_MARGIN]
    for fix in sorted(found, key=lambda fix: -(fix.gain or 0.0)):
        best = max(fix.statements, key=lambda each: each.ratio, default=None)
        least = min(fix.statements, key=lambda each: each.ratio, default=None)
        if best is None or least is None or best.ratio < 1 + STATEMENT_MARGIN:
            continue
        by = amount(least.ratio) if least.ratio else "so slow that it was stopped"
        slower = f"{least.name} {by}" if least.ratio < WORSE_MAX else "all statements together slower"
        return f"'{fix.title}' makes {best.name} {amount(best.ratio)}, but {slower}"
    return ""


def _next_best(fixes: Sequence[Fix], margin: float, *, is_interrupted: bool) -> str:
    """What was tried in vain, and what was not tried."""
    both_ways = _both_ways(fixes)
    gains = [fix.gain for fix in fixes if fix.gain is not None and fix.verdict == "no help"]
    # What makes all statements together slower gains nothing, whatever it does to some.
    gains += [1.0 for fix in fixes if fix.verdict == "worse" and not both_ways]
    gain = max([*gains, 1.0]) - 1
    parts = [both_ways] if both_ways else []
    if gains:
        less = "less than " if gain < margin else ""
        parts.append(f"the next best fix gains {less}{percent(max(gain, margin))}")
    untried = _untried(fixes)
    if untried:
        notes = "was not tried, for the reason in its note"
        notes = notes if untried == 1 else "were not tried, for the reasons in their notes"
        parts.append(f"{untried} of {plural(len(fixes), 'candidate')} {notes}")
    if not parts and is_interrupted:
        parts.append("it was stopped before anything was tried")
    if not parts and _without_room(fixes):
        parts.append("what would help does not fit into --max-space")
    return "; ".join(parts) or "no candidate was found whose plan shows that it could gain"
