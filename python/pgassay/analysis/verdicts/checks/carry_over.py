"""Could a direction come from what an arm leaves to the trial after it?

Two answers. The test is exact: who ran after an arm was drawn, so it needs no model and holds for every
effect, and where it fires the verdict is withheld. But a few blocks can't fire it. So every direction is also
looked at with the carry-over taken out, by a model; where it could come from carry-over the result warns.

What an arm leaves behind bears on its own verdict alone: the others of its stratum are equally likely to run
after it, so among them it is noise.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from pgassay.analysis.statistics.assignment import log_draw_evidence
from pgassay.analysis.statistics.carry_over import CarryOverFigure, Separated, can_explain, separate
from pgassay.analysis.statistics.eprocess import BoolArray
from pgassay.analysis.statistics.equivalence import log_margin
from pgassay.analysis.verdicts.checks.trial_order import (
    OrderedBlock,
    controls_of,
    follower_draws,
    ordered_blocks,
    residuals,
)
from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.verdict import Judgement
from pgassay.model.experiment import Contrast
from pgassay.model.result import DesignWarning
from pgassay.words import figure, percent_rounded

# Chosen by simulation (tests/statistics/test_carry_over.py): with a carry-over of 0 to 5 % at most 5 % of
# experiments have a false direction without a warning; true effects are warned of in a few percent.
WARNING_LEVEL = 0.02
REMEDY = "--between neutral runs an uncounted trial of the control before each, which prevents it"


@dataclass(frozen=True)
class CarryOver:
    """What is known of one arm's carry-over.

    fires: the exact test found it. separated: the effect and the carry-over apart, None where the blocks
    can't tell them. could_explain: the arm's direction could come from it.
    """

    arm: str
    stratum: str
    evidence_max: float
    fires: bool
    separated: Separated | None
    could_explain: bool


def look_for_carry_over(study: Study, judgements: Iterable[Judgement]) -> tuple[CarryOver | None, ...]:
    """The carry-over of each contrast that has a verdict, in their order; None for the others.

    Where a neutral trial ran before each there is none to look for; nor where the arms of a block took turns
    in one start, since each then follows each other many times.
    """
    wanted = [judgement.verdict != "inconclusive" for judgement in judgements]
    if study.experiment.design.between != "nothing" or study.counts_starts or not any(wanted):
        return tuple(None for _ in wanted)
    blocks = ordered_blocks(study)
    residual = residuals(study, blocks)
    contrasts = study.experiment.contrasts
    return tuple(
        _look(study, contrast, judgement, blocks, residual) if is_wanted else None
        for contrast, judgement, is_wanted in zip(contrasts, judgements, wanted, strict=True)
    )


def withhold(judgement: Judgement, found: CarryOver | None, margin: float) -> Judgement:
    """The judgement, or none where the test fired and the verdict could come from the carry-over.

    A direction that stays when the carry-over is taken out is no work of the carry-over's; nor is an
    equivalence whose effect stays within the margin.
    """
    if found is None or not found.fires or judgement.verdict == "inconclusive":
        return judgement
    if judgement.verdict == "equivalent":
        effect = found.separated.effect if found.separated else None
        edge = log_margin(margin)
        if effect is not None and -edge <= effect.lower and effect.upper <= edge:
            return judgement
    elif not found.could_explain:
        return judgement
    size = f" were {_change(found.separated.carry_over)}" if found.separated else " differ from the others"
    note = f"withheld: the trials after {found.arm}{size}, so its verdict could be due to that; {REMEDY}"
    return replace(judgement, verdict="inconclusive", meaningful=False, withheld=True, note=note)


def carry_over_warnings(
    judgements: Iterable[Judgement], carried: Iterable[CarryOver | None]
) -> tuple[DesignWarning, ...]:
    """A warning for each arm whose verdict was withheld, or whose direction could come from carry-over.

    judgements: as they stand after `withhold`.
    """
    warnings = []
    for judgement, found in zip(judgements, carried, strict=True):
        if found is None:
            continue
        sentence = _sentence(judgement, found)
        if sentence:
            warnings.append(
                DesignWarning(kind="carry-over", sentence=sentence, arm=found.arm, stratum=found.stratum)
            )
    return tuple(warnings)


def _sentence(judgement: Judgement, found: CarryOver) -> str:
    where = f" at {found.stratum}" if found.stratum and found.stratum not in found.arm else ""
    apart = found.separated
    if found.fires:
        size = f"were {_change(apart.carry_over)}" if apart else "differ from the others"
        start = f"The trials after {found.arm}{where} {size} (evidence {figure(found.evidence_max)})"
        if judgement.withheld:
            return f"{start}: its verdict could be due to that and is withheld; {REMEDY}."
        if apart is None:
            return f"{start}; {REMEDY}."
        return f"{start}: adjusted for that its effect is {_effect(apart.effect)}; {REMEDY}."
    if judgement.verdict not in ("faster", "slower") or not found.could_explain:
        return ""
    if apart is None:
        return (
            f"{found.arm}{where}: carry-over can't be separated from the effect yet: too few trials ran "
            f"after it; {REMEDY}."
        )
    return (
        f"{found.arm}{where}: carry-over can't be separated from the effect yet: adjusted for it the effect "
        f"is {_effect(apart.effect)} (the trials after it: {_effect(apart.carry_over)}); more blocks will "
        f"show, and {REMEDY}."
    )


def _look(
    study: Study,
    contrast: Contrast,
    judgement: Judgement,
    blocks: tuple[OrderedBlock, ...],
    residual: tuple[dict[str, float], ...],
) -> CarryOver:
    members = frozenset(name for name, arm in study.arms.items() if arm.stratum == contrast.stratum)
    # Where strata have blocks of their own, the blocks of others say nothing and would only take time.
    places = [place for place, block in enumerate(blocks) if not members.isdisjoint(block.arm_ids)]
    own_blocks = tuple(blocks[place] for place in places)
    own_residual = tuple(residual[place] for place in places)
    path = log_draw_evidence(follower_draws(own_blocks, own_residual, contrast.arm_id, members))
    highest = float(path.max()) if path.size else 0.0
    separated = _separate(study, contrast, blocks)
    direction = {"faster": 1, "slower": -1}.get(judgement.verdict, 0)
    return CarryOver(
        study.arms[contrast.arm_id].name,
        contrast.stratum,
        math.exp(min(highest, 690.0)),
        highest >= math.log(study.contrast_count / study.experiment.contract.alpha),
        separated,
        bool(direction) and can_explain(separated, direction),
    )


def _separate(study: Study, contrast: Contrast, blocks: tuple[OrderedBlock, ...]) -> Separated | None:
    """The arm's effect apart from what it leaves to the next trial, from the blocks that it took part in."""
    own = controls_of(study).get(contrast.stratum, ())
    names = [name for name, arm in study.arms.items() if arm.stratum == contrast.stratum]
    rows = [block for block in blocks if contrast.arm_id in block.values]
    kinds = {name: 0.0 if name in own else 2.0 + index for index, name in enumerate(names)}
    kinds[contrast.arm_id] = 1.0
    values = np.array([[block.values.get(name, math.nan) for name in names] for block in rows])
    arms = np.tile([kinds[name] for name in names], (len(rows), 1))
    follows = [_follows(rows, names, frozenset({contrast.arm_id}))]
    if len(kinds) > len(own) + 1:
        # What the control leaves falls on the arm more often than on the control. With a single arm that is
        # the other side of what the arm leaves; with several it is a term of its own.
        follows.append(_follows(rows, names, frozenset(own)))
    return separate(values.reshape(len(rows), len(names)), arms, tuple(follows), WARNING_LEVEL)


def _follows(rows: list[OrderedBlock], names: list[str], before: frozenset[str]) -> BoolArray:
    cells = [[name in block.values and block.predecessor(name) in before for name in names] for block in rows]
    return np.array(cells, dtype=np.bool_).reshape(len(rows), len(names))


def _change(figure: CarryOverFigure) -> str:
    """'5.0 % slower [4.1 %, 5.9 %]' of a negative log ratio."""
    slower = figure.estimate < 0
    ends = sorted((1 if not slower else -1) * math.expm1(end) for end in (figure.lower, figure.upper))
    word = "slower" if slower else "faster"
    return (
        f"{percent_rounded(abs(math.expm1(figure.estimate)))} {word} [{_signed(ends[0])}, {_signed(ends[1])}]"
    )


def _effect(figure: CarryOverFigure) -> str:
    estimate, lower, upper = (math.expm1(each) for each in (figure.estimate, figure.lower, figure.upper))
    return f"{_signed(estimate)} [{_signed(lower)}, {_signed(upper)}]"


def _signed(fraction: float) -> str:
    return f"{'−' if fraction < 0 else '+'}{percent_rounded(abs(fraction))}"
