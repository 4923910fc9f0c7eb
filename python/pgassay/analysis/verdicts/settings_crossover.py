"""Server × setting: two servers' settings were swapped halfway, so their effect is told from the machines'.

Before the swap the difference of the log speeds of two servers is d₁ = h + s (hardware and settings), after
it d₂ = h − s, since the settings have changed places. So s = (d₁ − d₂)/2 and h = (d₁ + d₂)/2. Each half has
its own confidence sequence at half the error rate; by the union bound both hold together at the full one, and
the ends of s and h follow by interval arithmetic. Nothing is assumed of the noise beyond what the sequences
assume, but that hardware and settings add up on the log scale: an interaction of the two is in neither.
"""

import math
from dataclasses import replace

from pgassay.analysis.statistics.equivalence import log_margin
from pgassay.analysis.verdicts.primary_family import PrimaryResult, analyse_primary
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.analysis.verdicts.verdict import MOVED, Finding, doubt, interval_of, ratio_of
from pgassay.model.arm import Arm
from pgassay.model.result import CompareResult, CrossedEffect, CrossedResult, Verdict
from pgassay.record.experiment import StoredExperiment
from pgassay.words import comparison, percent_rounded, plural, span


def halves(stored: StoredExperiment) -> tuple[StoredExperiment, StoredExperiment | None]:
    """The experiment before and after the swap of its servers' settings; None where there was none."""
    if stored.swap is None:
        return stored, None
    block = stored.swap.at_block
    parts = [
        replace(
            stored, trials=tuple(trial for trial in stored.trials if (trial.record.block < block) == early)
        )
        for early in (True, False)
    ]
    return parts[0], parts[1]


def crossed_results(before: StoredExperiment, after: StoredExperiment) -> tuple[CrossedResult, ...]:
    """The effect of the settings and of the machines of every pair of servers; () while a half is empty."""
    studies = [gather_study(_at_half_rate(half)) for half in (before, after)]
    if not all(study.blocks for study in studies):
        return ()
    primary = [analyse_primary(study) for study in studies]
    results = []
    for index, contrast in enumerate(studies[0].experiment.contrasts):
        arm, control = studies[0].arms[contrast.arm_id], studies[0].arms[contrast.control_id]
        if arm.spec.server != control.spec.server:
            results.append(_crossed(arm, control, index, (studies[0], studies[1]), (primary[0], primary[1])))
    return tuple(results)


def _at_half_rate(stored: StoredExperiment) -> StoredExperiment:
    contract = stored.experiment.contract
    halved = contract.model_copy(update={"alpha": contract.alpha / 2})
    return replace(stored, experiment=stored.experiment.model_copy(update={"contract": halved}))


def _crossed(
    arm: Arm,
    control: Arm,
    index: int,
    studies: tuple[Study, Study],
    primary: tuple[PrimaryResult, PrimaryResult],
) -> CrossedResult:
    first, second = (each.findings[index] for each in primary)
    margin = studies[0].experiment.contract.margin
    is_biased = any(check.ok is False for each in primary for check in each.twins.values())
    is_doubted = any(doubt(finding) for finding in (first, second))
    is_early = any(study.blocks < study.blocks_min for study in studies)
    is_open = is_biased or is_doubted or is_early
    mirrored = Finding(-second.estimate, -second.upper, -second.lower)
    return CrossedResult(
        name=arm.name,
        control=control.name,
        stratum=arm.stratum,
        settings=_effect(_mean(first, mirrored), margin, is_open=is_open),
        hardware=_effect(_mean(first, second), margin, is_open=is_open),
        blocks_before=studies[0].blocks,
        blocks_after=studies[1].blocks,
        withheld=is_biased,
    )


def _mean(first: Finding, second: Finding) -> Finding:
    """Half the sum of two effects, with the ends that hold when both intervals do.

    Of an empty interval nothing can be said, so their sum is empty as well.
    """
    if first.is_empty or second.is_empty:
        return Finding((first.estimate + second.estimate) / 2, math.inf, -math.inf)
    return Finding(
        (first.estimate + second.estimate) / 2,
        (first.lower + second.lower) / 2,
        (first.upper + second.upper) / 2,
    )


def _effect(finding: Finding, margin: float, *, is_open: bool) -> CrossedEffect:
    return CrossedEffect(
        ratio=ratio_of(finding.estimate),
        interval=interval_of(finding.lower, finding.upper),
        verdict="inconclusive" if is_open else _word(finding, log_margin(margin)),
    )


def _word(finding: Finding, edge: float) -> Verdict:
    if finding.lower >= -edge and finding.upper <= edge:
        return "equivalent"
    if finding.lower > 0:
        return "faster"
    return "slower" if finding.upper < 0 else "inconclusive"


def crossed_sentences(result: CompareResult, stored: StoredExperiment) -> list[str]:
    """The verdict of a crossed experiment: settings apart from machines, then what stood before the swap."""
    stayed = stored.swap.stayed if stored.swap else ()
    lines = []
    for item in result.crossed:
        counted = f"{plural(item.blocks_before, 'block')} before the swap and {item.blocks_after} after it"
        at = f" at {item.stratum}" if item.stratum else ""
        whose = f"the settings of {item.name}{at}, apart from its machine, are"
        lines.append(_sentence(whose, f"those of {item.control}", item.settings, counted, result.margin))
        whose = f"the machine of {item.name}{at}, with whichever settings, is"
        lines.append(_sentence(whose, f"that of {item.control}", item.hardware, counted, result.margin))
    if stayed and result.crossed:
        lines.append(f"What stayed with its server counts as the machine's: {', '.join(stayed[:12])}.")
    return lines


def _sentence(whose: str, others: str, effect: CrossedEffect, counted: str, margin: float) -> str:
    if effect.interval is None:
        subject = whose.removesuffix(" are").removesuffix(" is")
        return (
            f"{subject[0].upper()}{subject[1:]} can't be compared with {others}, since {MOVED} ({counted})."
        )
    found = f"({span(effect.interval)}; {counted})"
    if effect.verdict in ("faster", "slower") and effect.ratio is not None:
        text = f"{whose} {comparison(effect.ratio)} {others} {found}."
    elif effect.verdict == "equivalent":
        text = f"{whose} equivalent to {others} within {percent_rounded(margin)} {found}."
    else:
        verb = "are" if whose.endswith(" are") else "is"
        text = f"{whose.removesuffix(' ' + verb)} can't be distinguished from {others} yet {found}."
    return text[0].upper() + text[1:]
