"""Trials that failed: a verdict must not come from repeating those of one arm until they end well.

A failed or invalid trial is repeated, so the valid trials are a choice by outcome. An arm that, say, loses
its cache in a fifth of its trials would be judged by the others alone. So a verdict stands only where the
first attempts, with those that failed counted as the worst, say the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.statistics.contrasts import ContrastSet, Rows
from pgassay.analysis.statistics.eprocess import BoolArray, FloatArray
from pgassay.analysis.statistics.equivalence import interval_level, log_margin
from pgassay.analysis.statistics.failures import counted_worst, log_failure_evidence
from pgassay.analysis.verdicts.blocks import Measure, is_valid
from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.verdict import Judgement
from pgassay.model.experiment import BlockPlan, Contrast
from pgassay.model.result import DesignWarning, Verdict
from pgassay.model.trial import TrialRecord
from pgassay.words import figure, join, plural

WARNING_EVIDENCE = 20.0
_LEFT_OUT = "left out"
_AMOUNT_WORDS = {"faster": "more", "slower": "less"}
_MIRRORED: dict[Verdict, Verdict] = {"faster": "slower", "slower": "faster"}


@dataclass(frozen=True)
class FirstAttempts:
    """A contrast's first attempts in blocks that are complete or void; the arm is the first of `members`.

    records: (blocks, members), None where the block ended before the member ran. failed: the same shape.
    slots: the planned numbers of their trials, where the verdict weighs neighbours in time, else ().
    """

    members: tuple[str, ...]
    records: tuple[tuple[TrialRecord | None, ...], ...]
    failed: BoolArray
    slots: tuple[tuple[int, ...], ...] = ()

    def values(self, measure: Measure) -> FloatArray:
        """The signed logs of the valid ones, (blocks, members); NaN for the others."""
        cells = [
            [
                math.nan if record is None or is_failed else measure.log_value(record)
                for record, is_failed in zip(row, flags, strict=True)
            ]
            for row, flags in zip(self.records, self.failed, strict=True)
        ]
        return np.array(cells, dtype=np.float64).reshape(self.failed.shape)

    def counts(self, places: Sequence[int]) -> tuple[int, int]:
        """How many first attempts of these members failed, and of how many."""
        run = sum(row[place] is not None for row in self.records for place in places)
        return int(self.failed[:, list(places)].sum()), run


def first_attempts(study: Study, contrast: Contrast) -> FirstAttempts:
    """What of the record tells failures from each other; no interrupted attempt is in it."""
    judged = study.rows[study.experiment.contrasts.index(contrast)]
    members = judged.arm_ids
    voided = set(study.table.voided)
    rows, slots = [], []
    for block, firsts in study.table.firsts.items():
        plan = study.plans.get(block)
        if plan is not None and not set(members) <= set(plan.arm_ids):
            continue
        row = tuple(firsts.get(member) for member in members)
        # A whole block in which a member has no trial was not a block of this contrast.
        if any(row) if block in voided else all(row):
            rows.append(row)
            if judged.slots and plan is not None:
                slots.append(_planned_numbers(plan, firsts, members))
    primary = study.measures[0]
    failed = [[record is not None and not is_valid(record, primary) for record in row] for row in rows]
    flags = np.array(failed, dtype=np.bool_).reshape(len(rows), len(members))
    return FirstAttempts(members, tuple(rows), flags, tuple(slots) if len(slots) == len(rows) else ())


def _planned_numbers(
    plan: BlockPlan, firsts: dict[str, TrialRecord], members: Sequence[str]
) -> tuple[int, ...]:
    """The numbers of the members' trials in a block, of those too that were not run because it had ended."""
    some = next(iter(firsts.values()))
    order = plan.arm_ids
    return tuple(some.number - some.position + order.index(member) for member in members)


def judge_failures(
    study: Study, contrast: Contrast, measure: Measure, judgement: Judgement, level: float, *, running: bool
) -> Judgement:
    """The judgement of the valid trials, withheld where it depends on leaving out the attempts that failed.

    level, running: those of the interval that the judgement came from.
    """
    if judgement.verdict == "inconclusive" or not study.table.failures:
        return judgement
    attempts = first_attempts(study, contrast)
    if not attempts.failed.any():
        return judgement
    if _stands(study, contrast, attempts.values(measure), attempts, judgement, measure, level, running):
        return judgement
    word = _word_of(measure, judgement.verdict)
    which = _blamed(study, attempts, _as_speed(measure, judgement.verdict))
    verb = "is" if which.startswith("1 ") and " and " not in which else "are"
    note = f"{word} only if the {which} {verb} {_LEFT_OUT}"
    return Judgement("inconclusive", withheld=True, note=note)


def _is_amount(measure: Measure) -> bool:
    """Whether more of the figure is worse, though its logs have no minus: CPU, and further percentiles."""
    return measure.kind in ("cpu", "latency")


def _as_speed(measure: Measure, verdict: Verdict) -> Verdict:
    """The verdict as it would be of a speed: more of an amount is slower."""
    return _MIRRORED.get(verdict, verdict) if _is_amount(measure) else verdict


def _word_of(measure: Measure, verdict: Verdict) -> str:
    amount = _AMOUNT_WORDS.get(verdict) if _is_amount(measure) else None
    return f"{amount} {'CPU' if measure.kind == 'cpu' else measure.name}" if amount else verdict


def _stands(
    study: Study,
    contrast: Contrast,
    values: FloatArray,
    attempts: FirstAttempts,
    judgement: Judgement,
    measure: Measure,
    level: float,
    running: bool,
) -> bool:
    """Whether the first attempts, with failures counted worst, give the same verdict at this level.

    The canary is not adjusted for: an attempt that failed may have none.
    """
    verdict = _as_speed(measure, judgement.verdict)
    if _is_amount(measure):
        # The worst is the most.
        values = -values
    columns = {member: place for place, member in enumerate(attempts.members)}
    each_level = level
    if verdict == "equivalent" and running:
        each_level = interval_level(level, study.experiment.contract.equivalence)

    def ends(effect: float) -> tuple[float, float]:
        members = counted_worst(values, attempts.failed, effect)
        if not len(members):
            return -math.inf, math.inf
        # Blocks before the first valid value are left out.
        rows = Rows(
            attempts.members,
            tuple((place,) for place in range(len(members))),
            attempts.slots[-len(members) :],
        )
        found = ContrastSet(
            members[np.newaxis], columns, (contrast,), pool_twin=False, rows=[rows], rules=study.rules
        )
        interval = found.intervals(each_level, running=running)
        return float(interval.lower[0, 0]), float(interval.upper[0, 0])

    if verdict == "equivalent":
        edge = log_margin(study.experiment.contract.margin)
        return ends(-edge)[0] > 0 and ends(edge)[1] < 0
    lower, upper = ends(0.0)
    return lower > 0 and lower <= upper if verdict == "faster" else upper < 0 and lower <= upper


def _blamed(study: Study, attempts: FirstAttempts, verdict: Verdict) -> str:
    """Whose failed attempts speak against the verdict, with their number; of all members where none does."""
    counts = attempts.failed.sum(axis=0)
    against = {"faster": [0], "slower": list(range(1, len(counts)))}.get(verdict, [])
    places = [place for place in against if counts[place]] or np.flatnonzero(counts).tolist()
    return join([_failed_of(study, attempts.members[place], int(counts[place])) for place in places])


def _failed_of(study: Study, member: str, count: int) -> str:
    arm = study.arms[member]
    name = f"the twin of {arm.name}" if arm.role == "twin" else arm.name
    return f"{plural(count, 'failed first attempt')} of {name}"


def failure_warnings(study: Study, judgements: Sequence[Judgement]) -> tuple[DesignWarning, ...]:
    """For every contrast whose failures depend on the arm, or whose verdict depends on the failures.

    judgements: of the primary metric, in the order of the contrasts; () before the first complete block.
    """
    if not study.table.failures:
        return ()
    found = []
    for index, contrast in enumerate(study.experiment.contrasts):
        attempts = first_attempts(study, contrast)
        if not attempts.failed.any():
            continue
        arm = study.arms[contrast.arm_id]
        sentences = []
        evidence = math.exp(min(700.0, float(log_failure_evidence(attempts.failed).max())))
        if evidence >= WARNING_EVIDENCE:
            sentences.append(_figures(attempts, arm.name, evidence))
        if index < len(judgements) and judgements[index].note.endswith(_LEFT_OUT):
            sentences.append(f"The verdict on {arm.name} is withheld: {judgements[index].note}.")
        if sentences:
            text = " ".join(sentences)
            found.append(DesignWarning(kind="failures", sentence=text, arm=arm.name, stratum=arm.stratum))
    return tuple(found)


def _figures(attempts: FirstAttempts, name: str, evidence: float) -> str:
    failed, run = attempts.counts([0])
    others, others_run = attempts.counts(range(1, len(attempts.members)))
    whose = "its control and its twin" if len(attempts.members) > 2 else "its control"
    return (
        f"Failures depend on the arm: {failed} of {run} first attempts of {name} failed, {others} of "
        f"{others_run} of {whose} (evidence {figure(evidence)}, {WARNING_EVIDENCE:.0f} is rare by chance); "
        "failed trials are repeated, so the valid ones are a biased selection."
    )
