"""Why: what limits each arm, what should be mended, what explains a difference, what changed meanwhile.

What changed within the trials and what happened then are coincidences in time, no causes.
"""

from pgassay.model.changes import ArmChanges, Change, Coincidence, Moment
from pgassay.model.result import CompareResult
from pgassay.report import text
from pgassay.report.compare.causes import HEADING, cause_rows, difference_sentences
from pgassay.report.compare.material import Material
from pgassay.report.labels import compared_factors, short_name
from pgassay.report.section import WARNING, Bullets, Item, Section

_MOMENTS_MAX = 3
_WORDS = {
    "throughput": "the throughput",
    "latency p99": "the latency (p99)",
    "device reads": "what was read from the device",
    "device writes": "what was written to the device",
}


def change_sentences(result: CompareResult) -> tuple[str, ...]:
    """One for each arm (the twin too) within whose trials something changed, with when, from and to."""
    names = {}
    factors = compared_factors(result.arms)
    for arm in result.arms:
        names[arm.name, arm.stratum] = short_name(arm, factors)
    return tuple(_sentence(_name(changes, names), changes) for changes in result.within_trials)


def _name(changes: ArmChanges, names: dict[tuple[str, str], str]) -> str:
    stratum = text.clean(changes.stratum)
    known = names.get((changes.arm, changes.stratum)) or text.clean(changes.arm)
    name = "the twin" if changes.role == "twin" else known
    return f"{name} at {stratum}" if stratum else name


def _sentence(name: str, changes: ArmChanges) -> str:
    """The trial whose greatest change is of middle size stands for all."""
    first, *others = changes.changed
    counts = [
        f"{_WORDS[first.series]} changed within {first.trials} of {text.plural(changes.observed, 'trial')}"
    ]
    counts += [f"{_WORDS[each.series]} within {each.trials}" for each in others]
    moments = [_moment(moment) for moment in changes.moments[:_MOMENTS_MAX]]
    more = len(changes.moments) - len(moments)
    rest = f" {text.plural(more, 'more change')} in that trial." if more else ""
    if changes.checkpoints_untimed:
        counted = text.plural(changes.checkpoints_untimed, "checkpoint")
        rest += f" The server counted {counted} meanwhile; its log does not say when (log_checkpoints)."
    where = f"In trials/{changes.number:06d}, at {'. At '.join(moments)}."
    return f"{name}: {', '.join(counts)}. {where}{rest}"


def _moment(moment: Moment) -> str:
    parts = [", ".join(_change(change) for change in moment.changes)]
    parts += [coincidence_words(each) for each in moment.meanwhile]
    return f"{moment.at_s:.0f} s {'; '.join(parts)}"


def _change(change: Change) -> str:
    verb = "rose" if change.after > change.before else "fell"
    before, after = (text.quantity(value, "") for value in (change.before, change.after))
    return f"{_WORDS[change.series]} {verb} from {before} to {after} {change.unit}"


def coincidence_words(found: Coincidence) -> str:
    """An event near a change: what it was, and when it began, ended or happened."""
    event = found.event
    what = text.clean(event.what)
    if found.relation == "at":
        shown = f"the log says “{what}”" if event.kind == "log" else what
        return f"{shown} at {event.began_s:.1f} s"
    if found.relation == "began":
        return f"{what} began at {event.began_s:.1f} s"
    if found.relation == "ended":
        return f"{what} ended at {event.ended_s:.1f} s"
    since = f"since {event.began_s:.1f} s" if event.began_s is not None else "since before"
    until = f"until {event.ended_s:.1f} s" if event.ended_s is not None else "to its end"
    return f"{what} was under way, {since} {until}"


def section(material: Material) -> Section:
    """Limits and faults with their figures, then sentences on the differences and the changes in time."""
    result = material.result
    items = [
        Item(
            row.sentence,
            WARNING if row.kind == "fault" else "",
            row.figures,
            marks=(f"{row.kind}: {row.cause}", f"layer: {row.layer}"),
        )
        for row in cause_rows(result)
    ]
    crossovers = [text.clean(sentence) for sentence in result.crossovers]
    found = (*crossovers, *difference_sentences(result), *change_sentences(result))
    items += [Item(sentence) for sentence in found]
    return Section(HEADING, "causes", (Bullets(tuple(items)),) if items else (), link="Why")
