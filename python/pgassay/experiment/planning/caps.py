"""Caps on the servers of a plan: those of all arms, and what they mean for the settings of all arms."""

from typing import Any

from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.environment.server.limits import describe_limits, parse_cpus, parse_memory, server_limits
from pgassay.environment.server.settings import contract_settings
from pgassay.errors import UsageError
from pgassay.experiment.planning.availability import Candidate
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.base import Factor
from pgassay.model.arm import Arm, ArmSpec


def with_caps(request: CompareRequest, factors: tuple[Factor, ...], spec: ArmSpec) -> ArmSpec:
    """The arm with the caps of `--memory` and `--cpus`; raises UsageError where they can't be set."""
    for name, text in (("memory", request.memory), ("cpus", request.cpus)):
        if text is not None and name in {factor.name for factor in factors}:
            raise UsageError(f"{name} is a factor and is also fixed by --{name}: leave one of them out")
    update: dict[str, Any] = {}
    if request.memory is not None:
        update["memory_bytes"] = parse_memory(request.memory, "--memory")
    if request.cpus is not None:
        update["cpus"] = parse_cpus(request.cpus, "--cpus")
    capped = spec.model_copy(update=update)
    server_limits(capped)
    return capped


def with_buffers_for_the_smallest(candidates: list[Candidate], given: dict[str, str]) -> list[Candidate]:
    """Every arm with the contract's settings for the smallest memory of any arm: alike in all of them.

    What was given with --set, or is a factor, stays.
    """
    caps = [spec.memory_bytes for _, spec in candidates if spec.memory_bytes is not None]
    if not caps or min(caps) >= usable_memory_bytes():
        return candidates
    return [(levels, _with_memory(levels, spec, min(caps), given)) for levels, spec in candidates]


def _with_memory(levels: dict[str, str], spec: ArmSpec, memory_bytes: int, given: dict[str, str]) -> ArmSpec:
    writes = spec.workload.wants_autovacuum
    usual = contract_settings(spec.build, writes=writes, memory_bytes=usable_memory_bytes())
    small = contract_settings(spec.build, writes=writes, memory_bytes=memory_bytes)
    changed = {
        name: value
        for name, value in small.items()
        if value != usual[name] and name not in given and name not in levels
    }
    return spec.model_copy(update={"settings": {**spec.settings, **changed}})


def caps_by_arm(arms: tuple[Arm, ...]) -> dict[str, str]:
    """The caps of each arm in words, for the description of the environment; {} when none is capped."""
    words = {arm.name: describe_limits(arm.spec) or "none" for arm in arms if arm.role != "twin"}
    return words if set(words.values()) != {"none"} else {}
