"""What was measured, how sure the verdicts are, how the experiment ended; and all of it in ten lines."""

import math
import shlex
from collections.abc import Iterator
from textwrap import shorten

from pgassay.analysis.statistics.starts import starts_without_bound
from pgassay.model.plans.executed_plan import PlanChanged
from pgassay.model.result import CompareResult, LayoutResult
from pgassay.record.experiment import StoredExperiment
from pgassay.report.arm_volumes import price_ranking
from pgassay.report.compare.causes import difference_sentences, why_sentence
from pgassay.report.compare.maintenance_section import work_tables
from pgassay.report.compare.material import Material
from pgassay.report.compare.qualifications import counted
from pgassay.report.compare.verdicts import headline_lines, is_tallied
from pgassay.report.labels import arm_at
from pgassay.report.section import (
    ALARM,
    EVERYWHERE,
    HTML,
    MARKDOWN,
    QUIET,
    STRONG,
    TERMINAL,
    WARNING,
    Block,
    Bullets,
    Item,
    Paragraph,
    Section,
)
from pgassay.report.text import clean, join, percent, percent_fixed, plural, quantity, seconds, twin_sentence

_STOPPED = {
    "decided": "stopped because every comparison was decided",
    "max-time": "stopped at the time limit",
    "blocks": "stopped at the block limit",
    "interrupted": "interrupted: 'pgassay resume' continues it",
    "failed": "stopped by a failure: 'pgassay resume' tries again",
    "running": "still running, or ended unexpectedly: 'pgassay resume' continues it",
}
_SHIPPED = (
    "Baseline shipped: each version runs on its own defaults, on data with checksums as its own initdb makes "
    "them, so these are part of the comparison."
)
_SHIPPED_ALONE = (
    "Baseline shipped: the servers run on their version's own defaults, on data with checksums as its own "
    "initdb makes them."
)
_FIXED = "Baseline fixed: the settings of pgassay's baseline are the same in all arms, whatever the version."
_POOLED = (
    "A ratio compares an arm, block by block, with the control and the twin together, and a median belongs "
    "to one arm: for two nearly equal arms they need not point the same way."
)
# Of the ten lines that a comparison ends with on a terminal these may be verdicts.
_BRIEF_VERDICTS_MAX = 4
_BRIEF_ANSWERS_MAX = 2
_BRIEF_LINES_MAX = 10
_BRIEF_PLAN_SENTENCES = 3
_QUALIFICATION_CHARACTERS_MAX = 80
# With more strata than this the twins are counted, and only those that differ are named.
_TWINS_MAX = 3


def ended(result: CompareResult) -> str:
    """How the experiment ended, in words."""
    is_open = any(arm.verdict == "inconclusive" for arm in result.arms)
    if result.stopped == "decided" and is_open and result.effects is not None and result.effects.decided:
        return "stopped because the main effect of every factor was decided"
    return _STOPPED[result.stopped]


_ONE_SERVER = (
    "All arms took turns in one server in each start: they share its caches and statistics, so an arm "
    "finds pages that another arm read. --restart each gives every trial its own server."
)


def how_sure(result: CompareResult, restarts: str = "", contrasts: int = 1) -> list[str]:
    """What the figures rest on: blocks, margin, error rate, family, twins, failures.

    restarts: why each trial had a server of its own, where that is worth saying. contrasts: how many
    comparisons share the error rate.
    """
    lines = [
        f"{plural(result.blocks, _unit(result))}, {ended(result)}.",
        f"Differences within ±{percent(result.margin)} count as equivalent; over all comparisons together "
        f"the chance of an error is at most {percent(result.alpha)}, however often you look.",
    ]
    if result.family:
        lines.append(f"Family of comparisons: {clean(result.family)}.".replace("..", "."))
    if any(arm.starts is not None for arm in result.arms):
        lines.append(_ONE_SERVER)
    if restarts:
        lines.append(f"Each trial had its own server: {clean(restarts)}.")
    lines += [_layouts(result, each) for each in result.layouts]
    lines += _assumed(result, starts_without_bound(contrasts, result.alpha))
    if result.estimates:
        lines.append(clean(result.estimates))
    twins = result.twins or (result.twin,)
    lines += [twin_sentence(twin) for twin in twins] if len(twins) <= _TWINS_MAX else [_twins_tally(result)]
    if result.failures:
        lines.append(f"{plural(result.failures, 'trial')} FAILED: the table of trials has the reasons.")
    return lines + [clean(each.sentence) for each in result.device_use]


def _layouts(result: CompareResult, found: LayoutResult) -> str:
    """What the order of functions did, and that the intervals hold it."""
    where = f" at {clean(found.stratum)}" if found.stratum and len(result.layouts) > 1 else ""
    linked = f"Each tree was linked {found.layouts} times, its functions in another order each time{where}"
    if found.deviation is None or found.share is None:
        return f"{linked}: what that does to its speed takes more blocks to say."
    return (
        f"{linked}: that moves a trial by ±{percent(found.deviation)}, {percent(found.share)} of what trials "
        "spread by. Intervals include it."
    )


def _unit(result: CompareResult) -> str:
    return "complete start" if any(arm.starts is not None for arm in result.arms) else "complete block"


def _assumed(result: CompareResult, least: int) -> list[str]:
    """What directions from few starts rest on, with the arms of each assumption.

    least: so many starts are needed without it; arms that had as many need more, nobody knows how many.
    """
    arms: dict[tuple[str, str], list[str]] = {}
    for arm in result.arms:
        if arm.assumption:
            needed = f"{least} or more" if (arm.starts or 0) < least else "more"
            arms.setdefault((arm.assumption, needed), []).append(clean(arm.name))
    return [
        f"The verdict on {join(names)} {assumption}; without it, {needed} starts are needed."
        for (assumption, needed), names in arms.items()
    ]


def _twins_tally(result: CompareResult) -> str:
    """The twins of a large grid in one sentence; those that differ are named."""
    differing = [twin.stratum for twin in result.twins if twin.ok is False]
    waiting = sum(twin.ok is None for twin in result.twins)
    alike = len(result.twins) - len(differing) - waiting
    parts = [f"no difference from the control found in {alike} of {plural(len(result.twins), 'stratum')}"]
    if waiting:
        parts.append(f"{waiting} not yet tested, too few blocks for the check")
    if differing:
        parts.append(
            f"it DIFFERS from the control in {clean(join(differing))}, though both have the same settings: "
            "verdicts inside that range are withheld"
        )
    return f"Twin: {'; '.join(parts)}.".replace("stratums", "strata")


def metric_text(result: CompareResult, *, has_unit: bool = True) -> str:
    """The primary metric with its direction, and its unit where figures that follow do not have theirs."""
    unit = f" ({clean(result.metric.unit)})" if result.metric.unit and has_unit else ""
    return f"{clean(result.metric.name)}{unit}, {result.metric.better} is better"


def caps(stored: StoredExperiment) -> str:
    """The caps on the servers in words, each once; '' without any."""
    found = list(dict.fromkeys(stored.experiment.environment.caps.values()))
    return clean("; ".join(found)) + (" (by arm)" if len(found) > 1 else "")


def setting(material: Material) -> Section:
    """What was measured: title, workload, metric, control, baseline, caps."""
    result, stored = material.result, material.stored
    cache = f", cache {result.cache}" if result.cache else ""
    blocks: list[Block] = []
    if stored.experiment.title:
        blocks.append(Paragraph(stored.experiment.title, where=TERMINAL))
    measured = f"Workload {result.workload}{cache}: {metric_text(result)}."
    blocks.append(Paragraph(f"{measured} Control: {_control(material)}.", QUIET, where=HTML))
    blocks.append(Paragraph(measured, where=EVERYWHERE - HTML))
    if settings := _baseline(material):
        blocks.append(Paragraph(settings))
    if limits := caps(stored):
        # In Markdown the machine's line names them.
        blocks.append(Paragraph(f"Caps on the server: {limits}.", where=EVERYWHERE - MARKDOWN))
    return Section("", "setting", tuple(blocks))


def _baseline(material: Material) -> str:
    """The baseline in a sentence; '' for a fixed one of a single build, and for servers that run already."""
    builds = {arm.spec.build.bin_directory for arm in material.stored.experiment.arms}
    if material.result.baseline == "shipped":
        return _SHIPPED if len(builds) > 1 else _SHIPPED_ALONE
    return _FIXED if material.result.baseline == "fixed" and len(builds) > 1 else ""


def _control(material: Material) -> str:
    """The control's name; in a grid the levels that it has in every stratum."""
    controls = [arm for arm in material.result.arms if arm.verdict == "control"]
    if len(controls) < 2:
        return clean(material.result.control)
    return f"{material.label(controls[0])} in each stratum"


def brief(material: Material) -> Section:
    """Ten lines at most: verdicts, why, medians, what they rest on, what moved, what qualifies them."""
    result = material.result
    said = headline_lines(result)
    more = len(said) - _BRIEF_VERDICTS_MAX
    lines = [Paragraph(line, STRONG) for line in _factors(result)]
    lines += [Paragraph(line, STRONG) for line in said[: _BRIEF_VERDICTS_MAX if more > 1 else len(said)]]
    lines += [Paragraph(f"And {more} more verdicts.", STRONG)] if more > 1 else []
    if why := why_sentence(result):
        lines.append(Paragraph(why))
    if result.blocks and not is_tallied(result):
        unit = result.metric.unit
        medians = [
            f"{material.label_at(arm)} {quantity(arm.median, unit)}" for arm in result.arms if arm.median
        ]
        lines.append(Paragraph(f"Median of {metric_text(result, has_unit=False)}: {join(medians)}."))
    cache = f", cache {result.cache}" if result.cache else ""
    lines.append(Paragraph(f"Workload {clean(result.workload)}{cache}: {_rest(result)}", QUIET))
    notes = list(_brief_notes(material))
    room = min(_BRIEF_ANSWERS_MAX, _BRIEF_LINES_MAX - len(lines) - len(notes))
    lines += [Paragraph(sentence) for sentence in _answers(material)[: max(0, room)]]
    return Section("", "brief", (*lines, *notes))


def _brief_notes(material: Material) -> Iterator[Paragraph]:
    """What qualifies the verdicts, and where the rest is."""
    result = material.result
    if result.failures:
        yield Paragraph(f"{plural(result.failures, 'trial')} FAILED.", ALARM)
    if result.twin.ok is False:
        yield Paragraph(twin_sentence(result.twin), ALARM)
    if qualified := counted(result):
        yield Paragraph(f"Before you rely on this, read: {qualified}: {_first_of(result)}", WARNING)
    folder = clean(shlex.quote(str(material.stored.folder)))
    yield Paragraph(f"More: pgassay report {folder} (or --details).", QUIET)


def _first_of(result: CompareResult) -> str:
    """The first of what qualifies the verdicts, cut."""
    first = clean([*result.confounds, *result.warning_sentences, *result.skipped][0])
    return shorten(first, _QUALIFICATION_CHARACTERS_MAX, placeholder=" …")


def _factors(result: CompareResult) -> list[str]:
    """Which factor of a grid matters most, where that is known."""
    effects = result.effects
    if effects is None or not any(size.ratio or size.at_most for size in effects.ranking):
        return []
    return [clean(sentence) for sentence in effects.sentences[:1]]


def _answers(material: Material) -> list[str]:
    """Why it is so, the most telling first: factors that matter, what moved, the work, the plans."""
    result = material.result
    found = price_ranking(result.volumes)[:1]
    found += _pooler_cost(result)
    found += difference_sentences(result)[:1]
    found += [" ".join(filter(None, (work.sentence, work.phases))) for work in work_tables(result)[:1]]
    return [*found, *_plan_change(material)]


def _pooler_cost(result: CompareResult) -> list[str]:
    """What the busiest pooler costs, which is in no figure of the server."""
    if not result.poolers:
        return []
    busiest = max(result.poolers, key=lambda each: each.busy)
    full = ": full" if busiest.is_full else ""
    core = f"its one core was busy {percent_fixed(busiest.busy)} of the time{full}"
    return [
        f"PgBouncer itself took {seconds(busiest.cpu_us / 1e6)} of CPU per transaction in {arm_at(busiest)} "
        f"({core}), apart from the server's."
    ]


def _plan_change(material: Material) -> list[str]:
    """What an arm's executed plan does otherwise, of the statement and arm whose times differ most."""
    result = material.result
    ratios = {
        (each.name, arm.name, arm.stratum): arm.ratio for each in result.statements for arm in each.arms
    }

    def size(change: PlanChanged) -> float:
        return abs(math.log(ratios.get((change.statement, change.arm, change.stratum)) or 1.0))

    labels = {(arm.name, arm.stratum): material.label_at(arm) for arm in result.arms}
    # Plans of a load's transactions differ by the rows that chance drew.
    changes = [each for each in result.plan_changes if (each.statement, each.arm, each.stratum) in ratios]
    if not changes:
        is_whole = bool(result.plans) and bool(ratios) and all(plan.executed for plan in result.plans)
        return ["The executed plans of all arms do the same."] if is_whole and len(labels) > 1 else []
    told = max(changes, key=size)
    arm, control = labels[told.arm, told.stratum], labels.get((told.control, told.stratum), told.control)
    sentences = " ".join(map(clean, told.sentences[:_BRIEF_PLAN_SENTENCES]))
    return [f"Plan of {clean(told.statement)} (A: {clean(control)}, B: {arm}): {sentences}"]


def _rest(result: CompareResult) -> str:
    """What the verdicts rest on, in a line."""
    if any(arm.starts is not None for arm in result.arms):
        shared = "of one server, in which all arms took turns and share caches and statistics"
        return f"{plural(result.blocks, 'start')} {shared}; {ended(result)}."
    return f"{plural(result.blocks, 'block')} of a trial of each arm; {ended(result)}."


def basis(material: Material) -> Section:
    """What the verdict rests on."""
    experiment = material.stored.experiment
    items = tuple(
        Item(line, ALARM if "DIFFERS" in line or "FAILED" in line else "")
        for line in how_sure(material.result, experiment.restarts, experiment.contract.contrasts)
    )
    if material.result.blocks and material.stored.experiment.contract.pool_twin:
        items = (*items[:1], Item(_POOLED), *items[1:])
    return Section("How sure", "how-sure", (Bullets(items),), link="How sure")
