"""The evidence of a grid's effects, of whole rounds through its strata.

The order of strata is drawn for each round, and that of arms for each block. So under the true effect θ the
cells on the one side of a question may change places with those on the other: d − θ of a round is symmetric
about 0, however different the cells' own effects are, and the pair factor 2/(1 + exp(−2κd)) has expectation 1
(`statistics.eprocess`). Rounds are the unit: cells of a round share the machine's speed. Signs double the
evidence at most, so an effect far beyond what rounds can differ by is found by the bounded part as well, as
it is of arms (`statistics.flips`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pgassay.analysis.effects.questions import Question
from pgassay.analysis.statistics.contrasts import ContrastSet, Rows
from pgassay.analysis.statistics.eprocess import BoolArray, EvidenceRules, FloatArray
from pgassay.analysis.verdicts.study import Study
from pgassay.model.experiment import BlockPlan, Contrast, Experiment, Slope

# Of rounds, before which nothing is said: the bounded part is silent until then.
ROUNDS_MIN = 4


def rounds_of(study: Study) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The places of complete blocks of each round, one tuple for each stratum (one for all together).

    A round is the n-th visit of every stratum; where arms get fresh copies of the data, as many visits as
    there are blocks on a set of copies are one. A stratum whose blocks have not all ended has none.
    """
    experiment, table = study.experiment, study.table
    if experiment.design.strata == "together" or not study.plans:
        return tuple(((place,),) for place in range(len(table.numbers)))
    places = {number: place for place, number in enumerate(table.numbers)}
    ended = {*table.numbers, *table.voided}
    strata = tuple(dict.fromkeys(arm.stratum for arm in experiment.arms))
    visits = {name: _visits(study.plans, name) for name in strata}
    size = max(1, experiment.design.blocks_per_copy)
    count = max(map(len, visits.values()), default=0) // size

    def blocks(stratum: str, number: int) -> tuple[int, ...]:
        mine = visits[stratum][number * size : (number + 1) * size]
        if len(mine) < size or not ended.issuperset(mine):
            return ()
        return tuple(places[block] for block in mine if block in places)

    return tuple(tuple(blocks(name, number) for name in strata) for number in range(count))


def _visits(plans: Mapping[int, BlockPlan], stratum: str) -> list[int]:
    return sorted(number for number, plan in plans.items() if plan.stratum == stratum)


def round_means(
    values: FloatArray, study: Study, rounds: Sequence[Sequence[tuple[int, ...]]], cells: Sequence[str]
) -> FloatArray:
    """(blocks, arms) → (rounds, cells): means over the blocks of a round; NaN where one took no part."""
    columns = [study.columns[name] for name in cells]
    result = np.full((len(rounds), len(cells)), np.nan)
    for number, strata in enumerate(rounds):
        chosen = [place for blocks in strata for place in blocks]
        if not chosen:
            continue
        of_round = values[chosen][:, columns]
        counts = (~np.isnan(of_round)).sum(axis=0)
        sums = np.nansum(of_round, axis=0)
        result[number] = np.divide(sums, counts, out=np.full(len(cells), np.nan), where=counts > 0)
    return result


def effect_rules(study: Study) -> EvidenceRules:
    """The rules of the experiment, for pairs of rounds."""
    return rules_of_pairs(study.rules)


def rules_of_pairs(rules: EvidenceRules) -> EvidenceRules:
    """The same for pairs; an effect that no noise makes may be found by its size where arms' are so."""
    return replace(rules, unit="trial", bounded_pairs=rules.flips or rules.unit == "start")


def question_set(
    logs: FloatArray,
    asked: Sequence[Question],
    rules: EvidenceRules,
    covariate: FloatArray | None = None,
    slope: Slope = "difference",
) -> ContrastSet:
    """The evidence of questions; logs: (measures, rounds, cells), covariate: (rounds, cells).

    A round counts for a question if all of its cells took part in it, which follows from earlier rounds.
    """
    sides = _sides(logs, asked)
    of_covariate = None if covariate is None else _sides(covariate[np.newaxis], asked)[0]
    is_there: BoolArray = np.asarray(~np.isnan(sides).any(axis=0))
    contrasts, rows = [], []
    for number in range(len(asked)):
        names = f"{number}+", f"{number}-"
        both = is_there[:, 2 * number] & is_there[:, 2 * number + 1]
        contrasts.append(Contrast(arm_id=names[0], control_id=names[1], twin_id=None, stratum=""))
        rows.append(Rows(names, tuple((int(place),) for place in np.flatnonzero(both))))
    columns = {name: place for place, name in enumerate(each for row in rows for each in row.arm_ids)}
    return ContrastSet(
        sides,
        columns,
        tuple(contrasts),
        pool_twin=False,
        covariate=of_covariate,
        rows=rows,
        rules=rules,
        slope=slope,
    )


def _sides(values: FloatArray, asked: Sequence[Question]) -> FloatArray:
    """(measures, rounds, cells) → (measures, rounds, 2·questions): both sides of each."""
    sides = [
        each.scale * values[..., list(cells)].mean(axis=-1)
        for each in asked
        for cells in (each.plus, each.minus)
    ]
    return np.stack(sides, axis=-1) if sides else np.empty((*values.shape[:-1], 0))


def shares_copies(experiment: Experiment) -> bool:
    """Whether cells on different data run on copies that are kept, so that chance is not averaged out."""
    return bool(experiment.design.data_copies) and not experiment.design.blocks_per_copy
