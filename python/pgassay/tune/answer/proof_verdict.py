"""What is known of all candidates, and what its proof says of one that was chosen. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pgassay.model.tuning.tune_answer import Evidence, FixStatement, FixVerdict
from pgassay.tune.proof.effects import Effect, Proved, does_not_help, hides_gains
from pgassay.tune.search.record import SearchRecord
from pgassay.tune.search.selection import STATEMENT_MARGIN, WORSE_MAX, Baseline
from pgassay.words import percent

NOT_TOLD = "it looked slower once, which may be noise"
UNLIKE = "most of its gain is on statements that behave differently on the source: that proves nothing"
NOT_CONFIRMED = (
    "two or more of the chosen fixes do not help, and no time was left to measure the rest of the set"
)
HIDDEN = (
    "the set gains, but is as fast without this fix: others in the set have the same effect, and which of "
    "them are needed was not measured"
)
TRADED = (
    "it makes {faster} faster and {slower} slower, both by more than the margin: you decide which of them "
    "matters"
)
PRICE = "its price: {slower} gets slower; weighted by calls, it saves more than that costs"


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


def proven_verdict(judged: FoundAndProved, name: str) -> tuple[FixVerdict, Evidence, Effect | None, str]:
    """(verdict, what it rests on, what the proof says, why) of one that was chosen."""
    proved = judged.confirmed if name in judged.remaining else judged.proved
    effect = proved.members.get(name) if proved else None
    if name in judged.remaining and (effect is None or effect.gain is None):
        return "not decided", "search", None, NOT_CONFIRMED
    if effect is None or effect.gain is None:
        has_failed = proved is not None and proved.result.stopped == "failed"
        failed, open_ = "its trials failed: the warnings say why", "its proof ended without a verdict"
        said = failed if has_failed else open_
        return "not decided", "search", None, f"it was chosen, and {said}"
    is_last = name in judged.remaining or not judged.remaining
    if proved is not None and is_last and effect.word != "faster" and hides_gains(proved, judged.margin):
        return "not decided", "proof", effect, HIDDEN
    lost = _lost(effect)
    is_price = bool(lost) and _is_price(judged.baseline, effect, lost)
    if lost and not is_price:
        faster = ", ".join(effect.sped) or "the workload"
        if effect.sped or effect.word == "slower":
            return "not decided", "proof", effect, TRADED.format(faster=faster, slower=", ".join(lost))
    if effect.sped and effect.word != "faster":
        if all(statement in judged.unlike for statement in effect.sped):
            return "not decided", "proof", effect, UNLIKE
        slower = PRICE.format(slower=", ".join(lost)) if is_price else _slowed(effect)
        return "recommended", "proof", effect, "; ".join(filter(None, (_alone(judged, effect), slower)))
    if effect.word == "slower":
        if does_not_help(effect, judged.margin):
            return "no help", "proof", effect, _less_than_matters(effect, judged.margin)
        if _helps_unlike_alone(judged, effect):
            return "not decided", "proof", effect, UNLIKE
        parts = (_alone(judged, effect), _slowed(effect))
        return "recommended", "proof", effect, "; ".join(filter(None, parts))
    if effect.word == "faster":
        return "worse", "proof", effect, ""
    if effect.word == "equivalent":
        return "no help", "proof", effect, ""
    if effect.late:
        late = f"{', '.join(effect.late)} was stopped in trials with all chosen fixes"
        return "not decided", "proof", effect, f"{late}: the gain is not known"
    return "not decided", "proof", effect, "the proof reached no verdict in its time"


def _lost(effect: Effect) -> list[str]:
    """The statements that a fix was found to make slower by more than a statement may lose."""
    ends = {each.name: each.interval for each in effect.statements}
    most = 1 / (1 + STATEMENT_MARGIN)
    return [
        name
        for name in effect.slowed
        if (interval := ends.get(name)) is not None and interval[1] is not None and interval[1] < most
    ]


def _is_price(baseline: Baseline, effect: Effect, lost: Collection[str]) -> bool:
    """Whether what gets slower are writes alone, and all statements together are proven to take less time.

    An index is maintained by what writes its table. The intervals hold at once, and the time that all took
    without the fix is at least that of their lower ends, as often as each is called.
    """
    writing = {each.name for each in baseline.statements if each.of.writes}
    if not writing.issuperset(lost) or set(lost) >= {each.name for each in effect.statements}:
        return False
    before_s = after_s = 0.0
    for each in effect.statements:
        low = each.interval[0] if each.interval else None
        if not low or not each.after_s:
            return False
        after_s += baseline.calls[each.name] * each.after_s
        before_s += baseline.calls[each.name] * each.after_s * low
    return before_s > after_s


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


def _slowed(effect: Effect) -> str:
    doubtful = looked_slower(effect.statements, effect.slowed)
    parts = (
        f"it makes {', '.join(effect.slowed)} slower" if effect.slowed else "",
        f"with it {', '.join(doubtful)} looked slower, which is not proven" if doubtful else "",
    )
    return "; ".join(filter(None, parts))


def looked_slower(statements: Sequence[FixStatement], slower: Collection[str]) -> list[str]:
    """The statements that were slower by a tenth and more on average, and not found to be: with the figure.

    A proof ends once the whole workload is decided, and one statement of many takes more blocks.
    """
    return [
        f"{each.name} ({each.ratio:.2f} ×)"
        for each in statements
        if each.ratio < WORSE_MAX and not each.at_least and each.name not in slower
    ]
