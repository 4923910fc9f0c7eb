"""What is known of all candidates, and what its proof says of one that was chosen. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pgassay.model.tuning.tune_answer import Ends, Evidence, FixStatement, FixVerdict
from pgassay.tune.proof.effects import HIDDEN_WORD, Effect, Proved, does_not_help, hides_gains
from pgassay.tune.search.record import SearchRecord
from pgassay.tune.search.selection import STATEMENT_MARGIN, WORSE_MAX, Baseline
from pgassay.words import amount, amount_within, join, percent

NOT_TOLD = "it looked slower once, which may be noise"
NO_VERDICT = "the proof reached no verdict in its time"
UNLIKE = "most of its gain is on statements that behave differently on the source: that proves nothing"
NOT_CONFIRMED = (
    "two or more of the chosen fixes do not help, and no time was left to measure the rest of the set"
)
HIDDEN = (
    "the set gains, but is as fast without this fix: others in the set have the same effect, and which of "
    "them are needed was not measured"
)
TRADED = "it makes {faster} faster, and {slower}, by more than the margin: you decide which of them matters"
DEARER = "it makes {faster} faster, and {slower}: weighted by calls, that costs more than it saves"
PRICE = "its price: {slower}; weighted by calls, it saves more than that costs"
# Of writes that maintain several fixes, and were measured with all of these and without any.
JOINT_TRADED = (
    "it makes {faster} faster, and with {others} {slower}, by more than the margin: you decide which of them "
    "matters"
)
JOINT_DEARER = (
    "it makes {faster} faster, and with {others} {slower}: weighted by calls, that costs more than all of "
    "them save"
)
PART_DEARER = (
    "it makes {faster} faster, and with {others} {slower}: weighted by calls, an even part of that costs "
    "more than it saves"
)
# What the notes above say that leave a fix open for what it costs, however long its proof takes.
_WEIGHED = (
    "you decide which of them matters",
    "costs more than it saves",
    "costs more than all of them save",
)
JOINT_PRICE = "its price with {others}: {slower}; weighted by calls, {who} more than that costs"


@dataclass(frozen=True)
class FoundAndProved:
    """What the search found, and what its proof says so far.

    `unlike`: by the name of a measured statement why it is not on the copy what it is on the server that it
    was read from: nothing is called proven for it. `remaining`: the members that were left where two or more
    did not help, whose verdicts are those of `confirmed`, a second stage. `predicted`, `side_costs`,
    `writing_elsewhere`: by id what a fix gains by the search, what it costs standbys and later updates, and
    the names of statements that write, and none of its tables.
    """

    found: SearchRecord
    baseline: Baseline
    predicted: Mapping[str, float] = field(default_factory=dict)
    proved: Proved | None = None
    remaining: tuple[str, ...] = ()
    confirmed: Proved | None = None
    margin: float = 0.03
    unlike: Mapping[str, str] = field(default_factory=dict)
    side_costs: Mapping[str, str] = field(default_factory=dict)
    writing_elsewhere: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def members(self) -> tuple[str, ...]:
        """The ids of what was chosen."""
        return self.found.selection.ids

    def proof_of(self, name: str) -> Proved | None:
        """The stage of the proof that decides on a member."""
        return self.confirmed if name in self.remaining else self.proved

    def effect_of(self, name: str) -> Effect | None:
        """What that stage says of a member."""
        proved = self.proof_of(name)
        return proved.members.get(name) if proved else None


def proven_verdict(judged: FoundAndProved, name: str) -> tuple[FixVerdict, Evidence, Effect | None, str]:
    """(verdict, what it rests on, what the proof says, why) of one that was chosen."""
    proved, effect = judged.proof_of(name), judged.effect_of(name)
    if name in judged.remaining and (effect is None or effect.gain is None):
        return "not decided", "search", None, NOT_CONFIRMED
    if effect is None or effect.gain is None:
        has_failed = proved is not None and proved.result.stopped == "failed"
        failed, open_ = "its trials failed: the warnings say why", "its proof ended without a verdict"
        said = failed if has_failed else open_
        return "not decided", "search", None, f"it was chosen, and {said}"
    is_last = name in judged.remaining or not judged.remaining
    is_hidden = proved is not None and effect.word != "faster" and hides_gains(proved, judged.margin)
    if effect.word == HIDDEN_WORD or (is_last and is_hidden):
        return "not decided", "proof", effect, HIDDEN
    refused = _too_dear_together(judged, effect)
    if refused:
        return "not decided", "proof", effect, refused
    lost, (low, high) = _lost(effect), _total_gain(judged.baseline, effect)
    is_price = bool(lost) and low is not None and low > 1 and _only_writes(judged.baseline, effect, lost)
    if effect.sped or effect.word == "slower":
        faster = ", ".join(effect.sped) or "the workload"
        if lost and not is_price:
            return "not decided", "proof", effect, TRADED.format(faster=faster, slower=_lose(effect, lost))
        if high is not None and high < 1 and effect.word != "faster":
            slower = _lose(effect, effect.slowed) or "others slower"
            return "not decided", "proof", effect, DEARER.format(faster=faster, slower=slower)
    if effect.sped and effect.word != "faster":
        if all(statement in judged.unlike for statement in effect.sped):
            return "not decided", "proof", effect, UNLIKE
        slower = PRICE.format(slower=_lose(effect, lost)) if is_price else _slowed(effect)
        parts = (_alone(judged, effect), slower, _joint_price(judged, effect))
        return "recommended", "proof", effect, "; ".join(filter(None, parts))
    if effect.word == "slower":
        if does_not_help(effect, judged.margin):
            return "no help", "proof", effect, _less_than_matters(effect, judged.margin)
        if _helps_unlike_alone(judged, effect):
            return "not decided", "proof", effect, UNLIKE
        parts = (_alone(judged, effect), _slowed(effect), _joint_price(judged, effect))
        return "recommended", "proof", effect, "; ".join(filter(None, parts))
    if effect.word == "faster":
        return "worse", "proof", effect, _slowed(effect)
    if effect.word == "equivalent":
        return "no help", "proof", effect, joint_slower(judged, effect)
    if effect.late:
        late = f"{', '.join(effect.late)} was stopped in trials with all chosen fixes"
        return "not decided", "proof", effect, f"{late}: the gain is not known"
    # The whole set may be decided, while one fix is not.
    is_over = proved is not None and proved.result.stopped == "decided"
    open_ = "the proof decided on the whole set, and not on this fix" if is_over else NO_VERDICT
    said = "; ".join(filter(None, (open_, joint_slower(judged, effect))))
    return "not decided", "proof", effect, said


def is_weighed(note: str) -> bool:
    """Whether a fix is not decided for what it was found to cost, so that more time would not decide it."""
    return any(words in note for words in _WEIGHED)


def _too_dear_together(judged: FoundAndProved, effect: Effect) -> str:
    """Why a fix is left open for what it costs together with others; '' where it is not.

    What saves more than all of them cost is worth it whatever its own part is. Else all must save more than
    they cost, and an even part of that must not be more than the fix saves.
    """
    joint, baseline = effect.joint, judged.baseline
    if joint is None or not joint.slowed or not effect.sped or (_total_gain(baseline, effect)[0] or 0) > 1:
        return ""
    lost, (low, high) = _lost(joint), _total_gain(baseline, joint)
    saves = low is not None and low > 1 and _only_writes(baseline, joint, lost)
    part = _total_ratio(baseline, effect)
    if lost and not saves:
        words = JOINT_TRADED
    elif high is not None and high < 1:
        words = JOINT_DEARER
    elif part is not None and part < 1:
        words = PART_DEARER
    else:
        return ""
    slower = _lose(joint, lost or joint.slowed)
    return words.format(faster=", ".join(effect.sped), others=_others(judged, effect), slower=slower)


def _joint_price(judged: FoundAndProved, effect: Effect) -> str:
    """What a recommended fix costs together with others; '' where no write was found to get slower."""
    if effect.joint is None or not effect.joint.slowed:
        return ""
    own = (_total_gain(judged.baseline, effect)[0] or 0) > 1
    whole = (_total_gain(judged.baseline, effect.joint)[0] or 0) > 1
    if not own and not whole:
        return joint_slower(judged, effect)
    slower = _lose(effect.joint, effect.joint.slowed)
    who = "it saves" if own else "together they save"
    return JOINT_PRICE.format(others=_others(judged, effect), slower=slower, who=who)


def joint_slower(judged: FoundAndProved, effect: Effect) -> str:
    """The writes that a fix makes slower together with others, '' for none."""
    if effect.joint is None or not effect.joint.slowed:
        return ""
    return f"with {_others(judged, effect)} it makes {_lose(effect.joint, effect.joint.slowed)}"


def _others(judged: FoundAndProved, effect: Effect) -> str:
    return join([f"'{judged.found.by_id[each].title}'" for each in effect.others])


def _lost(effect: Effect) -> list[str]:
    """The statements that a fix was found to make slower by more than a statement may lose."""
    ends = {each.name: each.interval for each in effect.statements}
    most = 1 / (1 + STATEMENT_MARGIN)
    return [
        name
        for name in effect.slowed
        if (interval := ends.get(name)) is not None and interval[1] is not None and interval[1] < most
    ]


def _only_writes(baseline: Baseline, effect: Effect, lost: Collection[str]) -> bool:
    """Whether what gets slower are writes alone, and not all that was measured.

    An index is maintained by what writes its table.
    """
    writing = {each.name for each in baseline.statements if each.of.writes}
    return writing.issuperset(lost) and not {each.name for each in effect.statements} <= {*lost}


def _total_gain(baseline: Baseline, effect: Effect) -> Ends:
    """The least and the most that all statements together gain, as often as each is called; None: not known.

    The intervals hold at once, and so does what follows from their ends: the time that all took without the
    fix is at least that of their lower ends, and at most that of their upper ones.
    """
    low, high = (
        [each.interval[end] if each.interval else None for each in effect.statements] for end in (0, 1)
    )
    return _total_of(baseline, effect, low), _total_of(baseline, effect, high)


def _total_ratio(baseline: Baseline, effect: Effect) -> float | None:
    """What all statements together gain by the estimates, as often as each is called; None: not known."""
    return _total_of(baseline, effect, [each.ratio for each in effect.statements])


def _total_of(baseline: Baseline, effect: Effect, ratios: Sequence[float | None]) -> float | None:
    taken_s = [baseline.calls[each.name] * (each.after_s or 0.0) for each in effect.statements]
    after_s = math.fsum(taken_s)
    if not after_s or not all(each.after_s for each in effect.statements):
        return None
    known = [mine_s * ratio for mine_s, ratio in zip(taken_s, ratios, strict=True) if ratio]
    return math.fsum(known) / after_s if len(known) == len(taken_s) else None


def _helps_unlike_alone(judged: FoundAndProved, effect: Effect) -> bool:
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
    less = f"it gains less than the margin of {percent(margin)}"
    high = effect.interval[1] if effect.interval is not None else None
    return f"{less} by its estimate; its interval reaches beyond" if high and high >= 1 + margin else less


def _alone(judged: FoundAndProved, effect: Effect) -> str:
    """That a gain is not that of the set over the set without it, and why."""
    other = judged.found.by_id.get(effect.in_place_of)
    return f"it gains the same without '{other.title}': this is its gain alone" if other else ""


def _lose(effect: Effect, names: Collection[str]) -> str:
    """Statements with how much slower each gets."""
    return ", ".join(slower_words(each) for each in effect.statements if each.name in names)


def slower_words(each: FixStatement) -> str:
    """A statement that gets slower, and by how much."""
    return f"{each.name} {amount_within(each.ratio, each.interval)}"


def _slowed(effect: Effect) -> str:
    together = effect.joint.slowed if effect.joint is not None else ()
    doubtful = looked_slower(effect.statements, (*effect.slowed, *together))
    slower = _lose(effect, effect.slowed)
    parts = (
        f"it makes {slower}" if slower else "",
        f"with it {', '.join(doubtful)} looked slower, which is not proven" if doubtful else "",
    )
    return "; ".join(filter(None, parts))


def looked_slower(statements: Sequence[FixStatement], slower: Collection[str]) -> list[str]:
    """The statements that were slower by a tenth and more on average, and not found to be: with the figure.

    A proof ends once the whole workload is decided, and one statement of many takes more blocks.
    """
    return [
        f"{each.name} ({amount(each.ratio)})"
        for each in statements
        if each.ratio and each.ratio < WORSE_MAX and not each.at_least and each.name not in slower
    ]
