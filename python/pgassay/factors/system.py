"""The factor of a gate: a baseline and a change, which differ in builds, settings, data or SQL at once.

It can't be typed: a gate makes it from two files (`experiment/gating`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from pgassay.errors import UsageError
from pgassay.factors.base import Factor, FactorKind
from pgassay.model.arm import ArmSpec
from pgassay.model.build import Build
from pgassay.model.workload import WorkloadSpec

NAME = "system"
BASELINE, CHANGE = "baseline", "change"


@dataclass(frozen=True)
class System:
    """What one side patches of an arm.

    build: None where it is not this factor's to choose; prepare: SQL that is run once on its data, after that
    of all arms; settings: those in which the sides differ; workload: its own statements, None where both
    sides run the same.
    """

    build: Build | None = None
    prepare: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    workload: WorkloadSpec | None = None


def factor_of(baseline: System, change: System) -> Factor:
    """The factor with the baseline as its first level, which is the control."""
    systems = {BASELINE: baseline, CHANGE: change}
    builds = {level: system.build for level, system in systems.items() if system.build is not None}
    kind = FactorKind(split=_refuse, apply=partial(_apply, systems), builds=builds)
    if len(builds) == len(systems):
        # What chooses builds is bound when it is planned; these are found already.
        kind = FactorKind(
            split=_refuse,
            apply=kind.apply,
            bind=lambda _name, _levels: kind,
            builds=builds,
            is_base=True,
        )
    return Factor(name=NAME, levels=(BASELINE, CHANGE), kind=kind)


def _refuse(name: str, text: str) -> tuple[str, ...]:
    raise UsageError(f"{name}={text} can't be typed: write a gate's file, and 'pgassay gate FILE'")


def _apply(systems: Mapping[str, System], _name: str, level: str, spec: ArmSpec) -> ArmSpec:
    system = systems[level]
    patch: dict[str, object] = {
        "prepare": spec.prepare + system.prepare,
        "settings": {**spec.settings, **system.settings},
    }
    if system.build is not None:
        patch["build"] = system.build
    if system.workload is not None:
        patch["workload"] = system.workload
    return spec.model_copy(update=patch)
