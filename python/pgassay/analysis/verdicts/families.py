"""What is claimed together, at which level, and what a stop at the first verdict does to the estimates."""

from collections.abc import Sequence

from pgassay.analysis.causes.difference import ITEMS
from pgassay.analysis.verdicts.study import Study
from pgassay.model.cause import Explanation
from pgassay.model.result import ArmResult, CrossedResult, Stopped
from pgassay.words import figure, plural


def family_words(study: Study, secondary: int, explanations: Sequence[Explanation]) -> str:
    """Every family of claims with its size and level; `secondary` is the size of the second one.

    The families are told apart because each has an error rate of its own.
    """
    words = [_primary(study)]
    if secondary:
        words.append(_secondary(study, secondary))
    if explanations:
        words.append(_explanations(study))
    return "; ".join(words)


def _primary(study: Study) -> str:
    contract, count = study.experiment.contract, study.contrast_count
    strata = {contrast.stratum for contrast in study.experiment.contrasts}
    within = " within strata of the other factors" if len(strata) > 1 else ""
    level = figure(contract.alpha / count)
    return f"{plural(count, 'comparison')} with a control{within}, each at level {level}"


def _secondary(study: Study, size: int) -> str:
    return (
        f"a second family of {size} for statements and secondary metrics, each tested for a difference and "
        "for equivalence, of which one at most can be wrong, with a false discovery rate of at most "
        f"{figure(study.experiment.contract.alpha)} (e-BH)"
    )


def _explanations(study: Study) -> str:
    size = len(ITEMS) * study.contrast_count
    level = figure(study.experiment.contract.alpha / size, 2)
    return f"a family of {size} for the items of the time account that moved, each at level {level}"


def crossed_family_words(crossed: Sequence[CrossedResult], alpha: float, contrasts: int) -> str:
    """The family of a swap: the effects of settings and machines, beside the comparisons before it."""
    if not crossed:
        return ""
    return (
        f"; a family of {2 * len(crossed)} for settings and machines, from the intervals before and after "
        f"the swap, each at level {figure(alpha / 2 / contrasts)}"
    )


def estimates_sentence(arms: Sequence[ArmResult], stopped: Stopped) -> str:
    """What an experiment that stopped as soon as it had its verdicts says of their estimates; else ''.

    An estimate is looked at when its interval has just left 1, which happens sooner when it is too large: 2 %
    reads 2.8 % in the mean of simulated experiments. The interval holds at any moment.
    """
    directed = sum(arm.verdict in ("faster", "slower") for arm in arms)
    if stopped != "decided" or not directed:
        return ""
    if directed == 1:
        return "Stopped at the first verdict: the estimate tends to be too large; the interval holds."
    return "Stopped at the first verdicts: the estimates tend to be too large; the intervals hold."
