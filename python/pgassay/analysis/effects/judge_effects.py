"""From the evidence of a grid's effects to what is said of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgassay.analysis.effects.effect_evidence import (
    ROUNDS_MIN,
    effect_rules,
    question_set,
    round_means,
    rounds_of,
    shares_copies,
)
from pgassay.analysis.effects.effect_sentences import ranked, sentences_of
from pgassay.analysis.effects.questions import KINDS, Grid, Kind, Question, grid_of, questions
from pgassay.analysis.statistics.equivalence import interval_level
from pgassay.analysis.verdicts.checks.imitation import imitated, withhold_imitated
from pgassay.analysis.verdicts.checks.load_checks import client_bound, withheld_for
from pgassay.analysis.verdicts.checks.twin import TwinCheck
from pgassay.analysis.verdicts.primary_family import findings_of, twin_bound
from pgassay.analysis.verdicts.study import Study
from pgassay.analysis.verdicts.verdict import Finding, Judgement, interval_of, judge, ratio_of
from pgassay.model.arm import Arm
from pgassay.model.further_results.effects import (
    EffectVerdict,
    FactorEffects,
    Interaction,
    InteractionVerdict,
    LevelEffect,
)
from pgassay.words import figure, join, plural

# What each kind has of the error rate.
SHARES: Mapping[Kind, float] = {"main": 0.5, "at": 0.25, "interaction": 0.25}
_INTERACTION: Mapping[str, InteractionVerdict] = {
    "faster": "larger",
    "slower": "smaller",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
}
_EFFECT: Mapping[str, EffectVerdict] = {
    "faster": "faster",
    "slower": "slower",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
}


@dataclass(frozen=True)
class _Asked:
    """The grid of an experiment with its arms, in the order of the cells, and what is asked of it."""

    grid: Grid
    arms: tuple[Arm, ...]
    questions: tuple[Question, ...]

    def of(self, kind: Kind) -> tuple[Question, ...]:
        return tuple(each for each in self.questions if each.kind == kind)


@dataclass(frozen=True)
class _Answer:
    question: Question
    finding: Finding
    judgement: Judgement
    rounds: int


def factor_effects(study: Study, twins: Mapping[str, TwinCheck]) -> FactorEffects | None:
    """Every effect of a grid's factors; None where one factor alone is varied."""
    asked = _asked(study)
    if asked is None:
        return None
    rounds = rounds_of(study)
    cells = [arm.id for arm in asked.arms]
    logs = round_means(study.logs[0], study, rounds, cells)[np.newaxis]
    covariate = None if study.covariate is None else round_means(study.covariate, study, rounds, cells)
    answers: dict[Kind, list[_Answer]] = {}
    for kind in KINDS:
        answers[kind] = _answers(study, asked, kind, logs, covariate, dict(twins))
    main = tuple(_level_effect(asked.grid, each) for each in answers["main"])
    at = tuple(_level_effect(asked.grid, each) for each in answers["at"])
    interactions = tuple(_interaction(asked.grid, each) for each in answers["interaction"])
    whole = ~np.isnan(logs[0]).any(axis=-1)
    ranking = ranked(asked.grid.factors, main)
    margin = study.experiment.contract.margin
    return FactorEffects(
        rounds=int(whole.sum()),
        ranking=ranking,
        main=main,
        at=at,
        interactions=interactions,
        sentences=sentences_of(ranking, main, at, interactions, margin),
        notes=_notes(study, asked, int(whole.sum())),
        family=_family(study, answers),
        decided=bool(main) and all(each.verdict != "inconclusive" for each in main),
    )


def _asked(study: Study) -> _Asked | None:
    arms = tuple(arm for arm in study.experiment.arms if arm.role != "twin")
    controls = [arm for arm in arms if arm.role == "control"]
    # The compared factor's reference is its control, the same in all strata.
    compared = [
        name
        for name in (controls[0].levels if controls else {})
        if len({arm.levels.get(name) for arm in controls}) == 1
    ]
    grid = grid_of([arm.levels for arm in arms], {name: controls[0].levels[name] for name in compared})
    if len(grid.factors) < 2:
        return None
    return _Asked(grid, arms, questions(grid))


def _answers(
    study: Study,
    asked: _Asked,
    kind: Kind,
    logs: np.ndarray,
    covariate: np.ndarray | None,
    twins: dict[str, TwinCheck],
) -> list[_Answer]:
    of_kind, contract = asked.of(kind), study.experiment.contract
    if not of_kind:
        return []
    level = level_of(kind, len(of_kind), contract.alpha)
    contrasts = question_set(logs, of_kind, effect_rules(study), covariate, contract.slope)
    levels = [level] if contract.equivalence != "each" else [level, interval_level(level, "each")]
    intervals, *other = contrasts.intervals_at(levels, running=True)
    (findings,) = findings_of(contrasts, intervals, level, other[0] if other else None)
    bounds = [found for name in twins if (found := twin_bound(twins, name, 0)) is not None]
    of_client = {arm.id: client_bound(study, [arm.id]) for arm in asked.arms}
    answers = []
    for number, (question, finding) in enumerate(zip(of_kind, findings, strict=True)):
        rounds = len(contrasts.members(0, number))
        judgement = Judgement("inconclusive")
        if rounds >= ROUNDS_MIN:
            judgement = judge(finding, contract.margin, twin_bound=max(bounds, default=None))
            sides = [[asked.arms[place] for place in cells] for cells in (question.plus, question.minus)]
            judgement = withhold_imitated(judgement, imitated(study, *sides))
            notes = (of_client[arm.id] for side in sides for arm in side)
            judgement = withheld_for(judgement, next(filter(None, notes), ""))
        answers.append(_Answer(question, finding, judgement, rounds))
    return answers


def level_of(kind: Kind, count: int, alpha: float) -> float:
    """The level of each question of a kind, of so many."""
    return alpha * SHARES[kind] / max(1, count)


def _level_effect(grid: Grid, answer: _Answer) -> LevelEffect:
    question, judgement = answer.question, answer.judgement
    at = {}
    if question.by is not None and question.by_level is not None:
        at = {grid.factors[question.by]: grid.levels[question.by][question.by_level]}
    return LevelEffect(
        factor=grid.factors[question.factor],
        level=grid.levels[question.factor][question.level],
        reference=grid.levels[question.factor][0],
        at=at,
        ratio=ratio_of(answer.finding.estimate),
        interval=_interval(answer),
        verdict=_EFFECT[judgement.verdict],
        meaningful=judgement.meaningful,
        withheld=judgement.withheld,
        note=judgement.note,
        rounds=answer.rounds,
    )


def _interval(answer: _Answer) -> tuple[float | None, float | None] | None:
    return None if not answer.rounds else interval_of(answer.finding.lower, answer.finding.upper)


def _interaction(grid: Grid, answer: _Answer) -> Interaction:
    question, judgement = answer.question, answer.judgement
    by, by_level = question.by or 0, question.by_level or 0
    return Interaction(
        factor=grid.factors[question.factor],
        level=grid.levels[question.factor][question.level],
        reference=grid.levels[question.factor][0],
        by=grid.factors[by],
        by_level=grid.levels[by][by_level],
        by_reference=grid.levels[by][0],
        ratio=ratio_of(answer.finding.estimate),
        interval=_interval(answer),
        verdict=_INTERACTION[judgement.verdict],
        withheld=judgement.withheld,
        note=judgement.note.replace("faster", "larger").replace("slower", "smaller"),
        rounds=answer.rounds,
    )


def _family(study: Study, answers: Mapping[Kind, Sequence[_Answer]]) -> str:
    names = {"main": "main effect", "at": "effect at a level of another factor", "interaction": "interaction"}
    alpha = study.experiment.contract.alpha
    parts = []
    for kind in KINDS:
        count = len(answers[kind])
        if count:
            name = names[kind] if count == 1 else names[kind].replace("effect", "effects", 1)
            name = "interactions" if count > 1 and kind == "interaction" else name
            parts.append(f"{count} {name} at level {figure(level_of(kind, count, alpha), 2)} each")
    return f"a family of {join(parts)}" if parts else ""


def _notes(study: Study, asked: _Asked, rounds: int) -> tuple[str, ...]:
    notes = []
    if study.experiment.design.decided_rest and any(study.rested_after(arm.id) for arm in asked.arms):
        notes.append(
            f"Effects of factors are of the {plural(rounds, 'round')} before an arm rested; --decide effects "
            "runs all arms until the main effects are decided."
        )
    kept = _on_kept_copies(study, asked)
    if kept:
        notes.append(
            f"The levels of {join(kept)} have their own data, on two fixed copies each: random "
            "differences between these copies are part of the effect."
        )
    return tuple(notes)


def _on_kept_copies(study: Study, asked: _Asked) -> list[str]:
    if not shares_copies(study.experiment):
        return []
    names = []
    for place, name in enumerate(asked.grid.factors):
        pairs = [each for each in asked.of("main") if each.factor == place]
        if any(
            asked.arms[one].spec.data_identity != asked.arms[other].spec.data_identity
            for each in pairs
            for one, other in zip(each.plus, each.minus, strict=True)
        ):
            names.append(name)
    return names
