"""The warnings of a result: what a reader must know before believing it."""

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from pgassay.analysis.verdicts.blocks import covariate_log_s
from pgassay.analysis.verdicts.checks.machine_checks import check_machine, machine_warnings
from pgassay.analysis.verdicts.checks.twin import GATE_EVIDENCE, TwinCheck, can_fire
from pgassay.analysis.verdicts.stability import find_drift, find_step, unsettled_change
from pgassay.analysis.verdicts.study import Study, gather_study
from pgassay.model.arm import Arm
from pgassay.model.experiment import Covariate
from pgassay.record.experiment import StoredExperiment
from pgassay.words import amount, figure, percent_rounded

# A figure with its unit: numbers of names, settings and versions have none, and must stay apart.
_NUMBER = re.compile(r"(?<![\w=,.:/-])\d[\d,]*(?:\.\d+)?(?= ?(?:%|µs|ms|s|kB|MB|GB)(?!\w))")
STEAL_FRACTION_MAX = 0.01
# What is timed before each trial (`trial.snapshots.machine_speed`), by its covariate's name.
_FIXED_TASKS: dict[Covariate, str] = {"canary": "processor", "memory": "memory", "disk": "disk"}


def collect_warnings(
    stored: StoredExperiment, study: Study, twins: dict[str, TwinCheck], plans: Iterable[str]
) -> tuple[str, ...]:
    """Every warning once, the gravest first; `plans` are the sentences about plans.

    What a few more blocks would settle comes last: it hides nothing that happened.
    """
    found = [
        *_failures(study),
        *_failed_twins(study, twins),
        *plans,
        *_drift(study),
        *_unsettled(study),
        *_steal(study),
        *_covariate(study),
        *stored.warnings,
        *stored.experiment.warnings,
        *trial_warnings([trial.record.warnings for trial in stored.trials]),
        *_untested_twins(study, twins),
        *_blocks(study),
    ]
    return tuple(dict.fromkeys(found))


def trial_warnings(warnings: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """What trials warned of, once where they differ in their figures alone, with how many had it.

    The one with the largest first figure stands for them, and the least and the largest are named.
    """
    alike: dict[str, dict[str, int]] = {}
    for told in warnings:
        for sentence in dict.fromkeys(told):
            counted = alike.setdefault(_NUMBER.sub("#", sentence), {})
            counted[sentence] = counted.get(sentence, 0) + 1
    made = []
    for counted in alike.values():
        sentences = sorted(counted, key=_first_figure)
        if len(sentences) == 1:
            made += sentences
            continue
        trials = sum(counted.values())
        made.append(f"{sentences[-1].rstrip('.')} (the largest of {trials} trials with this warning).")
    return tuple(made)


def _first_figure(sentence: str) -> float:
    """The first figure of a sentence that is no part of a name."""
    found = [match[0].replace(",", "") for match in _NUMBER.finditer(sentence)]
    return float(found[0]) if found else 0.0


def machine_sentences(stored: StoredExperiment) -> tuple[str, ...]:
    """What an experiment that goes on says of its machine: failures, drift, time taken away, its speeds."""
    study = gather_study(stored)
    checks = (each.sentence for each in machine_warnings(check_machine(study)))
    found = [*_failures(study), *_drift(study), *_steal(study), *_changed_speeds(study), *checks]
    return tuple(dict.fromkeys(found))


def changed_speeds(stored: StoredExperiment) -> tuple[str, ...]:
    """What the fixed tasks before each trial say of a machine that drifts or throttles."""
    return tuple(_changed_speeds(gather_study(stored)))


def label(arm: Arm) -> str:
    """An arm's name in a sentence; the twin's name alone would be the control's."""
    return f"the twin of {arm.name}" if arm.role == "twin" else arm.name


def _failures(study: Study) -> list[str]:
    sentences = []
    for arm in study.experiment.arms:
        count = study.table.failures.get(arm.id, 0)
        if not count:
            continue
        attempts = count + len(study.table.valid[arm.id])
        trials = "1 trial" if count == 1 else f"{count} trials"
        reason = study.table.reasons[arm.id].rstrip(".")
        sentences.append(f"{label(arm)} failed in {trials} of {attempts}; the last reason: {reason}.")
    if study.table.voided:
        blocks = ", ".join(str(number) for number in study.table.voided)
        sentences.append(f"An arm failed twice in block {blocks}: such a block is not compared.")
    return sentences


def _failed_twins(study: Study, twins: dict[str, TwinCheck]) -> list[str]:
    if not twins and study.blocks and all(arm.role != "twin" for arm in study.experiment.arms):
        return ["There is no twin, so nothing checks whether equal arms measure as equal."]
    return [
        f"The twin{f' at {stratum}' if stratum else ''} differs from the control (evidence "
        f"{figure(check.evidence_max)}, allowed are {GATE_EVIDENCE * len(twins):.0f}): equal arms do not "
        "measure as equal, so verdicts within the twin's range are withheld."
        for stratum, check in twins.items()
        if check.ok is False
    ]


def _untested_twins(study: Study, twins: dict[str, TwinCheck]) -> list[str]:
    sentences = []
    for stratum, check in twins.items():
        where = f" at {stratum}" if stratum else ""
        if check.ok is None:
            least = next(blocks for blocks in range(1, 1000) if can_fire(blocks, len(twins)))
            known, counted = check.rows, f"before {study.row_word} {least}"
            if known != study.blocks:
                # Where arms own copies of the data, the blocks of the same copies count as one.
                counted = f"before {least} sets of blocks, one for each making of the copies"
            verb = "is" if known == 1 else "are"
            sentences.append(
                f"The twin{where} is not yet tested: its check can't speak {counted}, and {known} "
                f"{verb} complete."
            )
    return sentences


def _blocks(study: Study) -> list[str]:
    if not 0 < study.blocks < study.blocks_min:
        return []
    return [
        f"No verdict is possible before {study.blocks_min} {study.row_word}s; {study.blocks} complete so far."
    ]


def _drift(study: Study) -> list[str]:
    if not study.blocks:
        return []
    margin = study.experiment.contract.margin
    found = [drift for logs in study.level_by_stratum() if (drift := find_drift(logs, margin)) is not None]
    if not found:
        return []
    drift = max(found, key=lambda each: abs(each.change))
    size = amount(math.exp(drift.change))
    settled = "it became steady in the second half" if drift.settled else "it was not steady at the end"
    return [
        f"All arms became {size} from the first block to the last ({settled}): ratios stay "
        "valid, because every block holds all arms, but single values must not be compared across blocks."
    ]


def _changed_speeds(study: Study) -> list[str]:
    margin, found = study.experiment.contract.margin, []
    for name, part in _FIXED_TASKS.items():
        logs = [
            [-log_s for record in row.values() if math.isfinite(log_s := covariate_log_s(name, record))]
            for row in study.table.rows
        ]
        if not logs or not all(logs):
            continue
        series = np.array([float(np.mean(each)) for each in logs])
        step = find_step(series, margin)
        drift = step or find_drift(series, margin)
        if drift is None:
            continue
        size = amount(math.exp(drift.change))
        when = "at one moment" if step else "from the first block to the last"
        found.append(
            f"The machine's {part} became {size} {when}, by a fixed task before each trial: it "
            "drifts or throttles. Ratios stay valid, because every block holds all arms."
        )
    return found


def _unsettled(study: Study) -> list[str]:
    sentences = []
    for arm in study.experiment.arms:
        volumes = [record.facts.volume for record in study.table.valid[arm.id]]
        if any(volume.credits_ended_s is not None for volume in volumes):
            # That is why it fell: no longer warm-up changes it, and the cause names it.
            continue
        loads = [record.load.per_second for record in study.table.valid[arm.id] if record.load is not None]
        change = unsettled_change(loads, study.experiment.contract.margin)
        if change is None:
            continue
        words = "stopped or began" if math.isinf(change) else _changed_by(change)
        sentences.append(
            f"{label(arm)} never became steady: its throughput {words} from the first half of the measured "
            "time to the second; give the workload a longer warm-up or duration (the same for all arms)."
        )
    return sentences


def _changed_by(change: float) -> str:
    return f"{'rose' if change > 0 else 'fell'} by {percent_rounded(abs(math.expm1(change)))}"


def _steal(study: Study) -> list[str]:
    shares = [
        record.steal_s / record.wall_s
        for records in study.table.valid.values()
        for record in records
        if record.steal_s is not None and record.wall_s > 0
    ]
    high = [share for share in shares if share > STEAL_FRACTION_MAX]
    if not high:
        return []
    return [
        f"The hypervisor took CPU time away (steal) in {len(high)} of {len(shares)} trials, at most "
        f"{float(np.max(high)):.2f} s per second: it is reported, not adjusted for."
    ]


def _covariate(study: Study) -> list[str]:
    if not study.covariate_missing:
        return []
    name = study.experiment.contract.covariate
    words = name if name == "canary" else f"reading of the {name}"
    return [
        f"{study.covariate_missing} trials have no {words}, so no figure was adjusted for it, although "
        "the protocol declares it."
    ]
