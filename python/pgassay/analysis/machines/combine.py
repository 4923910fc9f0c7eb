"""Experiments of one design on several machines → one result with two answers, which are never mixed.

*These machines*: one effect that all of them have, from the blocks of all (`machines.pooled`). Where the
machines disagree none is given, and each machine's own stands in its place. *Machines like these*: the centre
of the effects of machines of this kind; the machine is the unit (`machines.population`). Each answer is valid
at the level of the contract, shared among its comparisons, and at any look.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pgassay.analysis.diff.differences import recorded_facts
from pgassay.analysis.machines.gather import (
    NO_DESCRIPTIONS,
    MachineDescription,
    MachineTrials,
    gather_machines,
)
from pgassay.analysis.machines.machine_effects import combined_arm
from pgassay.analysis.machines.machine_sentences import arm_lines, cells_family, cells_lines
from pgassay.analysis.machines.spread_grid import cells_of, comparisons_of, without_population
from pgassay.model.machines.combined import CombinedResult
from pgassay.model.machines.spread import SpreadGrid
from pgassay.record.experiment import StoredExperiment
from pgassay.words import join, percent, plural

Facts = dict[tuple[str, str], str]


def combine(
    experiments: Sequence[StoredExperiment],
    descriptions: Mapping[Path, MachineDescription] = NO_DESCRIPTIONS,
    *,
    least: int = 2,
    is_final: bool = True,
    grid: SpreadGrid | None = None,
) -> CombinedResult:
    """The result of experiments of one design on several machines; needs no more than they hold.

    descriptions: what is known of machines beside that, by the folder of an experiment. is_final: where
    machines disagree, say what limits each, which takes the whole analysis of its experiments. grid: its
    strata were spread over the machines (`machines.cells`). Raises UsageError as `gather_machines`, and as
    `analyse` for an experiment that contradicts itself.
    """
    machines = gather_machines(experiments, descriptions, least=least, of_one_grid=grid is not None)
    study = machines[0].parts[0].study
    contract = study.experiment.contract
    facts = {machine.name: _facts_of(machine, grid) for machine in machines}
    confounds = _confounds(facts)
    comparisons = comparisons_of(machines, grid)
    arms, rows = [], []
    for each in comparisons:
        arm, of_machines = combined_arm(each.key, each.study, each.machines, confounds, is_final=is_final)
        arms.append(arm if grid is None else without_population(arm))
        rows += of_machines
    result = CombinedResult(
        folders=tuple(str(stored.folder) for stored in experiments),
        workload=study.experiment.arms[0].spec.workload.text,
        metric=contract.metric,
        margin=contract.margin,
        alpha=contract.alpha,
        arms=tuple(arms),
        machines=tuple(rows),
        confounds=tuple(_sentences(facts)),
        warnings=tuple(_warnings(machines)),
        family=_family(len(machines), study.contrast_count, contract.alpha),
    )
    if grid is None:
        lines = [line for arm in result.arms for line in arm_lines(arm, result)]
        return result.model_copy(update={"verdict": "\n".join(lines)})
    result = result.model_copy(
        update={
            "cells": cells_of(grid, comparisons, result, is_final=is_final),
            "family": cells_family(study.contrast_count, contract.alpha),
        }
    )
    return result.model_copy(update={"verdict": "\n".join(cells_lines(result))})


def _facts_of(machine: MachineTrials, grid: SpreadGrid | None) -> Facts:
    """What is recorded of a machine; what its experiments disagree in is told with all its values.

    Of a grid whose strata were spread, what is recorded of anchors: others are not on all machines.
    """
    values: dict[tuple[str, str], dict[str, None]] = {}
    for part in machine.parts:
        stored = part.stored
        if grid is not None:
            arms = tuple(arm for arm in stored.experiment.arms if arm.stratum in grid.anchors)
            if not arms:
                continue
            stored = replace(stored, experiment=stored.experiment.model_copy(update={"arms": arms}))
        described = part.description.facts if part.description is not None else {}
        for name, value in (recorded_facts(stored) | dict(described)).items():
            values.setdefault(name, {})[value] = None
    return {name: " then ".join(found) for name, found in values.items()}


def _told_names(facts: dict[str, Facts]) -> list[tuple[str, str]]:
    """What machines differ in."""
    names = dict.fromkeys(name for of_machine in facts.values() for name in of_machine)
    return [name for name in names if len({each.get(name, "") for each in facts.values()}) > 1]


def _confounds(facts: dict[str, Facts]) -> dict[str, tuple[str, ...]]:
    """For each machine in what it is not as most of the others are."""
    usual = {}
    for name in _told_names(facts):
        (value, count), *others = Counter(each.get(name, "") for each in facts.values()).most_common(2)
        # Where no value is the usual one, each machine differs from all others.
        usual[name] = value if not others or others[0][1] < count else None
    return {
        machine: tuple(
            f"{_called(name)}: {_value(own.get(name, ''))}"
            + (f" (most: {_value(value)})" if value is not None else "")
            for name, value in usual.items()
            if own.get(name, "") != value
        )
        for machine, own in facts.items()
    }


def _sentences(facts: dict[str, Facts]) -> list[str]:
    """What machines differ in, a sentence each: which value on which machines."""
    lines = []
    for name in _told_names(facts):
        values: dict[str, list[str]] = {}
        for machine, own in facts.items():
            values.setdefault(own.get(name, ""), []).append(machine)
        shown = "; ".join(f"{_value(value)} on {join(names)}" for value, names in values.items())
        lines.append(f"{_called(name)}: {shown}")
    return list(dict.fromkeys(lines))


def _called(name: tuple[str, str]) -> str:
    subject, what = name
    if subject == "settings":
        return what
    words = what.removesuffix("_bytes").replace("_", " ")
    return words if subject == "environment" else f"{subject}, {words}"


def _value(value: str) -> str:
    shown = value or "not recorded"
    return shown if len(shown) <= 80 else f"{shown[:79]}…"


def _warnings(machines: Sequence[MachineTrials]) -> list[str]:
    lines = []
    for machine in machines:
        if not machine.has_ended:
            lines.append(
                f"The experiment on {machine.name} is still running: its blocks count for these "
                "machines, but it does not count yet for machines like these."
            )
        if len(machine.parts) > 1:
            lines.append(
                f"{plural(len(machine.parts), 'experiment')} of {machine.name} count as one machine."
            )
    return lines


def _family(machines: int, arms: int, alpha: float) -> str:
    shared = f" over {plural(arms, 'comparison')} together" if arms > 1 else ""
    own = f" The intervals of single machines are a third, of all {machines} machines together."
    return (
        f"Two families with an error rate of {percent(alpha)} each{shared}: one effect of these machines, "
        f"and machines like these.{own if machines > 1 else ''}"
    )
