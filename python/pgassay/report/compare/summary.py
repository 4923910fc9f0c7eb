"""The head of a comparison's report: the verdict, what was measured, how sure; and the words they share."""

import hashlib
import shlex
from collections import Counter

from pgassay.model.result import CompareResult
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare.material import Material
from pgassay.report.labels import strata
from pgassay.report.section import (
    ALARM,
    EVERYWHERE,
    HTML,
    MARKDOWN,
    QUIET,
    STRONG,
    TERMINAL,
    Block,
    Bullets,
    Cell,
    Column,
    Fold,
    Group,
    Item,
    Paragraph,
    Row,
    Section,
    Table,
    bullets,
)
from pgassay.report.text import clean, join, percent, plural, ratio, twin_sentence, verdict_word

_STOPPED = {
    "decided": "stopped because every comparison was decided",
    "max-time": "stopped at the limit of time",
    "blocks": "stopped at the limit of blocks",
    "interrupted": "interrupted: 'pgassay resume' continues it",
    "failed": "stopped by a failure: 'pgassay resume' tries again",
    "running": "still running, or ended without a word: 'pgassay resume' continues it",
}


_SHIPPED = (
    "Baseline shipped: each version runs on its own defaults, on data with checksums as its own initdb makes "
    "them, so these are part of what is compared."
)
_SHIPPED_ALONE = (
    "Baseline shipped: the servers run on their version's own defaults, on data with checksums as its own "
    "initdb makes them."
)
_FIXED = "Baseline fixed: the settings of pgassay's baseline are alike in all arms, whatever the version."
_POOLED = (
    "A ratio compares an arm, block by block, with the control and the twin together, and a median is of one "
    "arm alone: of two that are nearly equal they need not point the same way."
)
# With more arms than this a report counts the verdicts first.
_SENTENCES_MAX = 7
# With more strata than this the twins are counted, and only those that differ are named.
_TWINS_MAX = 3


def verdict_lines(result: CompareResult) -> list[str]:
    """The verdict's sentences, one per line; what to say when there is none yet."""
    lines = [clean(line) for line in result.verdict.splitlines() if line.strip()]
    if lines:
        return lines
    if result.blocks == 0:
        return ["No verdict yet: no block is complete, so there is nothing to compare."]
    return ["No verdict was given for this experiment."]


def tally(result: CompareResult) -> str:
    """What a large grid found, in one sentence: how many comparisons have which verdict."""
    counts = Counter(
        "withheld" if arm.withheld else arm.verdict for arm in result.arms if arm.verdict != "control"
    )
    order = ("faster", "slower", "equivalent", "inconclusive", "withheld")
    parts = [f"{counts[word]} {word}" for word in order if counts[word]]
    return f"Of {plural(sum(counts.values()), 'comparison')}: {join(parts)}."


def is_tallied(result: CompareResult) -> bool:
    """Whether there are so many arms that a count of the verdicts stands for their sentences."""
    return len(result.arms) > _SENTENCES_MAX


def headline_lines(result: CompareResult) -> list[str]:
    """What a person reads first: the verdicts' sentences, or their count where they are many."""
    return [tally(result)] if is_tallied(result) and result.blocks else verdict_lines(result)


def ended(result: CompareResult) -> str:
    """How the experiment ended, in words."""
    return _STOPPED[result.stopped]


def how_sure(result: CompareResult) -> list[str]:
    """What the figures rest on: blocks, margin, error rate, family, twins, failures."""
    lines = [
        f"{plural(result.blocks, 'complete block')}, {ended(result)}.",
        f"Differences within ±{percent(result.margin)} count as equivalent; over all comparisons together "
        f"an error has a chance of at most {percent(result.alpha)}, however often one looks.",
    ]
    if result.family:
        lines.append(f"Family of comparisons: {clean(result.family)}.".replace("..", "."))
    if result.estimates:
        lines.append(clean(result.estimates))
    twins = result.twins or (result.twin,)
    lines += [twin_sentence(twin) for twin in twins] if len(twins) <= _TWINS_MAX else [_twins_tally(result)]
    if result.failures:
        lines.append(f"{plural(result.failures, 'trial')} FAILED: see the trials for the reasons.")
    return lines + [clean(each.sentence) for each in result.device_use]


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


def metric_text(result: CompareResult) -> str:
    """The primary metric with its unit and direction."""
    unit = f" ({clean(result.metric.unit)})" if result.metric.unit else ""
    return f"{clean(result.metric.name)}{unit}, {result.metric.better} is better"


def caps(stored: StoredExperiment) -> str:
    """The caps on the servers in words, each once; '' without any."""
    found = list(dict.fromkeys(stored.experiment.environment.caps.values()))
    return clean("; ".join(found)) + (" (by arm)" if len(found) > 1 else "")


def reproduce_command(stored: StoredExperiment) -> str:
    """The command line that repeats the experiment, quoted for a shell."""
    return clean(" ".join(shlex.quote(part) for part in stored.experiment.command))


def fingerprint(stored: StoredExperiment) -> str:
    """Twelve hexadecimal digits (of SHA-256) that change with the plan or with any recorded trial."""
    digest = hashlib.sha256(stored.experiment.model_dump_json().encode())
    for trial in stored.trials:
        digest.update(trial.record.model_dump_json().encode())
    return digest.hexdigest()[:12]


def citation(stored: StoredExperiment) -> str:
    """The line by which somebody else can name this experiment, with the fingerprint of its record."""
    experiment = stored.experiment
    builds = dict.fromkeys(
        f"PostgreSQL {arm.spec.build.version} ({arm.spec.build.origin})" for arm in experiment.arms
    )
    cpu = experiment.environment.machine.cpu_model
    # Of a remote server the processor is not known: this machine is only where the client ran.
    is_remote = any(arm.spec.server is not None for arm in experiment.arms)
    where = f" on {cpu}" if cpu and not is_remote else ""
    measured = f"measured {experiment.created_at[:10]} with pgassay {experiment.pgassay_version}"
    record = f"{plural(len(stored.trials), 'trial')}, record {fingerprint(stored)}"
    return clean(f"{experiment.title}: {join(list(builds))}{where}, {measured}, {record}.")


def verdict(material: Material) -> Section:
    """What a person reads first: the verdicts' sentences, or their count and a grid where they are many."""
    result = material.result
    blocks: list[Block] = [Paragraph(line, STRONG) for line in headline_lines(result)]
    if is_tallied(result):
        lines = verdict_lines(result)
        blocks.append(
            Fold(
                f"{plural(len(lines), 'verdict')} in sentences",
                (bullets(lines),),
                is_titled=False,
                where=EVERYWHERE - TERMINAL,
            )
        )
        grid = _grid(material) if result.blocks else None
        blocks += [grid] if grid is not None else []
    return Section("", "verdict", tuple(blocks))


def _grid(material: Material) -> Table | None:
    """Many arms at a glance, strata down and compared levels across; None where they are one list."""
    compared = [arm for arm in material.result.arms if arm.verdict != "control"]
    places = {(arm.stratum, material.label(arm)): arm for arm in compared}
    if len(strata(compared)) < 2:
        return None
    levels = list(dict.fromkeys(level for _, level in places))
    rows = []
    for stratum in strata(compared):
        cells = [Cell(stratum)]
        for level in levels:
            arm = places.get((stratum, level))
            if arm is None:
                cells.append(Cell(""))
                continue
            words = f"{ratio(arm.ratio)} {verdict_word(arm, material.result.margin)}".strip()
            cells.append(Cell(words, "" if arm.withheld else arm.verdict))
        rows.append(Row(tuple(cells)))
    columns = (Column("at", is_figure=False), *(Column(level, is_figure=False) for level in levels))
    return Table(columns, (Group(tuple(rows)),), where=TERMINAL)


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


def basis(material: Material) -> Section:
    """What the verdict rests on."""
    items = tuple(
        Item(line, ALARM if "DIFFERS" in line or "FAILED" in line else "")
        for line in how_sure(material.result)
    )
    if material.result.blocks and material.stored.experiment.contract.pool_twin:
        items = (*items[:1], Item(_POOLED), *items[1:])
    return Section("How sure", "how-sure", (Bullets(items),), link="How sure")
