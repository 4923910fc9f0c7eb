"""What an experiment says of published claims, by the verdicts on its own arms.

Each claim is one comparison of the experiment, whose verdicts hold together; so claims need no correction of
their own: that one of them has its direction wrong is as improbable as that a verdict has.
"""

import re
import shlex

from pgassay.errors import UsageError
from pgassay.model.beside.claims import Claim, ClaimVerdict, JudgedClaim
from pgassay.model.experiment import Experiment, MachineFacts
from pgassay.model.result import ArmResult, CompareResult
from pgassay.words import comparison, figure, plural

_GB = 1e9
# A file of SQL is named in a claim as beside the experiment's file, and in an arm with its folder.
_FOLDERS = re.compile(r"=\S*/(?=[^\s/]+\.sql)")


def judge(claim: Claim, result: CompareResult, experiment: Experiment) -> JudgedClaim:
    """The claim with its verdict; raises UsageError for an experiment that doesn't compare its arms."""
    missing = missing_condition(claim, experiment.environment.machine)
    if missing:
        return _judged(claim, "can't be tried here", missing, experiment)
    arms = _arms_of(claim, result)
    if not any(_named(arm) == claim.against and arm.verdict == "control" for arm in arms):
        raise UsageError(
            f"claim '{claim.id}': {claim.against} is no control in {result.folder}: name the folder of an "
            "experiment of this file"
        )
    found = next((arm for arm in arms if _named(arm) == claim.arm), None)
    if found is None:
        skipped = next((each for each in result.skipped if claim.arm in _FOLDERS.sub("=", each)), None)
        if skipped is None:
            raise UsageError(
                f"claim '{claim.id}': there is no arm {claim.arm} in {result.folder}: name the folder of an "
                "experiment of this file"
            )
        return _judged(claim, "can't be tried here", skipped, experiment)
    verdict, why = _verdict(claim, found)
    limit = _limit(found, result) if verdict != "undecided" else ""
    return _judged(claim, verdict, f"{why}{limit}", experiment, found)


def missing_condition(claim: Claim, machine: MachineFacts) -> str:
    """Which of the claim's conditions the machine lacks, as a sentence; '' if none that is known."""
    needs = claim.needs
    if needs.elsewhere:
        return f"needs {needs.elsewhere}"
    cores = machine.cores_online
    if needs.cores is not None and cores is not None and cores < needs.cores:
        return f"needs {plural(needs.cores, 'processor')}; this machine has {cores}"
    memory = machine.memory_bytes
    if needs.memory_gb is not None and memory is not None and memory < needs.memory_gb * _GB:
        return f"needs {needs.memory_gb:g} GB of memory; this machine has {memory / _GB:.1f} GB"
    return ""


def _arms_of(claim: Claim, result: CompareResult) -> tuple[ArmResult, ...]:
    arms = result.arms
    if claim.statement:
        statement = next((each for each in result.statements if each.name == claim.statement), None)
        if statement is None:
            raise UsageError(
                f"claim '{claim.id}': there is no statement '{claim.statement}' in {result.folder}: name the "
                "folder of an experiment of this file"
            )
        arms = statement.arms
    return tuple(arm for arm in arms if arm.stratum == claim.stratum)


def _named(arm: ArmResult) -> str:
    return _FOLDERS.sub("=", arm.name)


def _verdict(claim: Claim, found: ArmResult) -> tuple[ClaimVerdict, str]:
    """The verdict and why. A verdict on an arm is one on a direction; the size is the estimate's."""
    if found.withheld:
        return "undecided", "the hidden twin differed from its control, so the verdict is withheld"
    if found.ratio is None or found.verdict not in ("faster", "slower", "equivalent"):
        return "undecided", _further(found)
    here = f"{comparison(found.ratio)} here"
    if found.verdict == "equivalent":
        same = "the same within the margin here"
        return ("reproduced" if claim.says == "equal" else "no difference here"), same
    if claim.says == "equal":
        if found.meaningful:
            return "refuted", f"{here}, by more than the margin"
        return "undecided", f"{here}, perhaps by no more than the margin"
    if found.verdict != claim.says:
        return "refuted", f"{here}, the opposite"
    if claim.band is None or claim.band[0] <= found.ratio <= claim.band[1]:
        return "reproduced", here
    low, high = (figure(end) for end in claim.band)
    return "same direction, other size", f"{here}, outside the band of {low} to {high} ×"


def _further(found: ArmResult) -> str:
    median = found.forecast.blocks[1] if found.forecast is not None else None
    if median is None:
        return "how many more blocks it takes can't be said"
    return f"about {plural(median, 'more block')} would decide it"


def _limit(found: ArmResult, result: CompareResult) -> str:
    """What limits the arm, where that is known."""
    for cause in result.causes:
        if cause.kind == "limit" and (cause.arm, cause.stratum) == (found.name, found.stratum):
            return "" if cause.cause == "unknown" else f"; its limit: {cause.cause}"
    return ""


def _judged(
    claim: Claim, verdict: ClaimVerdict, why: str, experiment: Experiment, found: ArmResult | None = None
) -> JudgedClaim:
    return JudgedClaim(
        id=claim.id,
        text=claim.text,
        source=claim.source,
        published=claim.published,
        verdict=verdict,
        here=None if found is None else found.ratio,
        interval=None if found is None else found.interval,
        why=why,
        command=shlex.join(experiment.command),
    )
