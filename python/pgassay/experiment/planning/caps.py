"""The caps of an experiment's servers: those that were typed, and the memory of the instances named."""

from collections.abc import Sequence

from pgassay.design.arms import Candidate
from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.environment.server.limits import (
    describe_limits,
    parse_cpus,
    parse_memory,
    server_limits,
    why_not_capped,
)
from pgassay.environment.server.settings import baseline_settings
from pgassay.environment.storage.base import Instance
from pgassay.environment.storage.options import format_bytes
from pgassay.environment.storage.registry import kind_named
from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.base import Factor
from pgassay.model.arm import Arm, ArmSpec


def with_caps(request: CompareRequest, factors: tuple[Factor, ...], spec: ArmSpec) -> ArmSpec:
    """The arm with the caps of `--memory` and `--cpus`; raises UsageError where they can't be set."""
    for name, text in (("memory", request.memory), ("cpus", request.cpus)):
        if text is not None and name in {factor.name for factor in factors}:
            raise UsageError(f"{name} is a factor and is also fixed by --{name}: leave one of them out")
    update: dict[str, object] = {}
    if request.memory is not None:
        update["memory_bytes"] = parse_memory(request.memory, "--memory")
    if request.cpus is not None:
        update["cpus"] = parse_cpus(request.cpus, "--cpus")
    capped = spec.model_copy(update=update)
    server_limits(capped)
    return capped


def with_buffers_for_the_smallest(candidates: list[Candidate], given: dict[str, str]) -> list[Candidate]:
    """Every arm with the baseline settings for the smallest memory of any arm: alike in all of them.

    What was given with --set, or is a factor, stays.
    """
    caps = [spec.memory_bytes for _, spec in candidates if spec.memory_bytes is not None]
    if not caps or min(caps) >= usable_memory_bytes():
        return candidates
    return [(levels, _with_memory(levels, spec, min(caps), given)) for levels, spec in candidates]


def _with_memory(levels: dict[str, str], spec: ArmSpec, memory_bytes: int, given: dict[str, str]) -> ArmSpec:
    writes = spec.workload.wants_autovacuum
    usual = baseline_settings(spec.build, writes=writes, memory_bytes=usable_memory_bytes())
    small = baseline_settings(spec.build, writes=writes, memory_bytes=memory_bytes)
    changed = {
        name: value
        for name, value in small.items()
        if value != usual[name] and name not in given and name not in levels
    }
    return spec.model_copy(update={"settings": {**spec.settings, **changed}})


def with_memory_of_instances(candidates: list[Candidate], request: CompareRequest) -> list[Candidate]:
    """Every arm whose volume belongs to an instance with that one's memory, unless its memory was told.

    Where this machine can't hold its servers to so much they stay as they are, and `instance_sentences` says
    so.
    """
    if request.memory is not None:
        return candidates
    return [(levels, spec if "memory" in levels else _as_its_instance(spec)) for levels, spec in candidates]


def _as_its_instance(spec: ArmSpec) -> ArmSpec:
    instance = instance_of(spec)
    if instance is None or instance.memory_bytes is None or why_not_capped(instance.memory_bytes, spec):
        return spec
    return spec.model_copy(update={"memory_bytes": instance.memory_bytes})


def instance_of(spec: ArmSpec) -> Instance | None:
    """The machine that the arm's storage is rented with."""
    return kind_named(spec.storage.kind).instance(spec.storage)


def instance_sentences(arms: Sequence[Arm]) -> tuple[str, ...]:
    """A warning for each instance whose memory the servers have not, though nobody said so."""
    found: dict[str, None] = {}
    for arm in arms:
        instance = instance_of(arm.spec)
        if instance is None or "memory" in arm.levels or arm.spec.memory_bytes is not None:
            continue
        if instance.memory_bytes is None:
            found[f"the catalogue does not know the memory of {instance.name}: give it with --memory"] = None
        elif reason := why_not_capped(instance.memory_bytes, arm.spec):
            size = format_bytes(instance.memory_bytes)
            found[
                f"{instance.name} has {size} of memory and its servers are not held to that here ({reason}): "
                "what would be cached there may be read here, or the reverse"
            ] = None
    return tuple(found)


def caps_by_arm(arms: tuple[Arm, ...]) -> dict[str, str]:
    """The caps of each arm in words, for the description of the environment; {} when none is capped."""
    words = {arm.name: _caps(arm.spec) or "none" for arm in arms if arm.role != "twin"}
    return words if set(words.values()) != {"none"} else {}


def _caps(spec: ArmSpec) -> str:
    words, instance = describe_limits(spec), instance_of(spec)
    if spec.memory_bytes is None or instance is None or spec.memory_bytes != instance.memory_bytes:
        return words
    return words.replace("memory ", f"memory of {instance.name} ", 1)
