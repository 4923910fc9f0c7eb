"""When an experiment has what it is run for, and which of its arms need no further blocks."""

from collections.abc import Callable, Collection

from pgassay.analysis.verdicts.compare import InterimResult, decided
from pgassay.analysis.verdicts.dropped_arms import dropped_arms
from pgassay.model.result import CompareResult
from pgassay.record.experiment import StoredExperiment

# The ids of the arms of which something is still wanted.
Wanted = Callable[[CompareResult, StoredExperiment], Collection[str]]


def standing_of(
    stored: StoredExperiment, result: CompareResult, wanted: Wanted | None
) -> tuple[str, frozenset[str]]:
    """How the experiment has stopped if it has what it is run for, and which arms need no further blocks.

    The first is as state.json says it, '' if it has not.
    """
    is_decided = decided(result, stored.experiment.contract.decide)
    resting = decided_arms(stored, result)
    if wanted is None:
        return ("decided" if is_decided else ""), resting
    open_arms = {*wanted(result, stored)}
    if open_arms - dropped(stored).keys():
        # Which arms take part follows from earlier blocks alone, so that the evidence of each holds.
        return "", frozenset(arm.id for arm in stored.experiment.arms if arm.role == "arm") - open_arms
    # Some arms may have no verdict: who wants these too resumes what was stopped before its end.
    is_decided = is_decided or rest_without_dropped(stored, resting)
    return ("decided" if is_decided else "interrupted"), resting


def decided_arms(stored: StoredExperiment, result: CompareResult | InterimResult) -> frozenset[str]:
    """The ids of the arms that have their verdict; one that is withheld or inconclusive has none.

    None while the highest rate within a bound is looked for: that is another question than the verdict's.
    """
    if stored.experiment.contract.metric.bound_ms:
        return frozenset()
    names = {(arm.name, arm.stratum) for arm in result.arms if arm.verdict not in ("control", "inconclusive")}
    arms = (arm for arm in stored.experiment.arms if arm.role == "arm")
    return frozenset(arm.id for arm in arms if (arm.name, arm.stratum) in names)


def rest_without_dropped(stored: StoredExperiment, resting: Collection[str]) -> bool:
    """Whether arms were dropped, and all others have their verdict."""
    left_out = dropped(stored)
    arms = {arm.id for arm in stored.experiment.arms if arm.role == "arm"}
    return bool(left_out) and arms - left_out.keys() <= {*resting}


def dropped(stored: StoredExperiment) -> dict[str, str]:
    """The arms that are left out of further blocks since their trials failed, by id with the reason."""
    records = [trial.record for trial in stored.trials]
    return dropped_arms(stored.experiment, records, stored.block_plans)
