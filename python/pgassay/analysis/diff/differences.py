"""What differs between two experiments beside their findings: machine, builds, settings, data, plans."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from pgassay.model.arm import Arm
from pgassay.plans.plan_shape import outline, shape
from pgassay.record.experiment import StoredExperiment
from pgassay.words import size

# What is new on every boot, and says nothing of the machine.
_PASSING = frozenset({"boot_id"})
# What no two machines have alike, and what says where something lies.
_OWN_TO_A_MACHINE = frozenset(
    # Two groups with one limit are alike, wherever they lie.
    {"hostname", "machine_id", "host", "cpus_from", "memory_from", "memory_high_from"}
)
_SIZES = frozenset({"memory_bytes", "swap_bytes"})
# Facts of every trial that can be compared; the others are counters or places.
_FACTS = ("server_version", "settings", "data_checksums")


@dataclass(frozen=True)
class Difference:
    """One thing that differs: `subject` is the kind, `name` the thing; '' in a value: not recorded."""

    subject: str
    name: str
    first: str
    second: str


def find_differences(
    first: StoredExperiment, second: StoredExperiment, arms: tuple[tuple[Arm, Arm], ...]
) -> tuple[Difference, ...]:
    """Everything recorded that differs; `arms` are the pairs of arms that both experiments have."""
    found = [
        *_between("environment", _environment(first), _environment(second)),
        *_between("protocol", _protocol(first), _protocol(second)),
        *_between("contract", _contract(first), _contract(second)),
    ]
    for mine, other in arms:
        found += _between("build", _build(mine), _build(other))
        found += _between("data and workload", _subject(mine), _subject(other))
        found += _between("settings", _facts(first, mine), _facts(second, other))
        found += _between("plan", _plans(first, mine), _plans(second, other))
    # What differs in every arm alike is said once.
    return tuple(dict.fromkeys(found))


def recorded_facts(stored: StoredExperiment) -> dict[tuple[str, str], str]:
    """What is recorded of the machine, the builds, the data and the settings, by (subject, name).

    Of the arms all values, where they are not alike. Nothing that names the machine, its place or the run.
    """
    found: dict[tuple[str, str], dict[str, None]] = {}
    subjects: list[tuple[str, Mapping[str, str]]] = [("environment", _environment(stored))]
    subjects.append(("limits", _flat(stored.experiment.environment.limits)))
    for arm in stored.experiment.arms:
        subjects += [("build", _build(arm)), ("data and storage", _subject(arm))]
        subjects.append(("settings", _facts(stored, arm)))
    for subject, facts in subjects:
        for name, value in facts.items():
            if name not in _OWN_TO_A_MACHINE:
                found.setdefault((subject, name), {})[_told(name, value)] = None
    return {key: " and ".join(values) for key, values in found.items()}


def _told(name: str, value: str) -> str:
    """A value as it is compared between machines: memory by what it is sold as, not by what is left of it."""
    return size(round(int(value), -8)) if name in _SIZES and value.isdecimal() else value


def _between(subject: str, first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[Difference]:
    for name in dict.fromkeys((*first, *second)):
        values = first.get(name, ""), second.get(name, "")
        if values[0] != values[1]:
            yield Difference(subject, name, *values)


def _flat(value: object, prefix: str = "") -> dict[str, str]:
    """A model or a nested mapping as dotted names with text values."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if not isinstance(value, Mapping):
        return {prefix: ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)}
    flat: dict[str, str] = {}
    for key, item in value.items():
        if key not in _PASSING:
            flat |= _flat(item, f"{prefix}.{key}" if prefix else str(key))
    return flat


def _environment(stored: StoredExperiment) -> dict[str, str]:
    environment = stored.experiment.environment
    facts: Mapping[str, object] = environment.machine
    if not facts:
        facts = {key: item for key, item in environment.items() if not isinstance(item, Mapping)}
    hosts = ", ".join(dict.fromkeys(trial.record.host for trial in stored.trials))
    return _flat(facts) | {"host": hosts, "pgassay": stored.experiment.pgassay_version}


def _protocol(stored: StoredExperiment) -> dict[str, str]:
    return _flat(stored.experiment.protocol) | {"baseline": stored.experiment.baseline}


def _contract(stored: StoredExperiment) -> dict[str, str]:
    return _flat(stored.experiment.contract.model_dump(exclude={"seed", "blocks_max", "time_max_s"}))


def _build(arm: Arm) -> dict[str, str]:
    build = arm.spec.build
    return {
        "version": build.version,
        "origin": build.origin,
        "CFLAGS": build.cflags,
        "configure": build.configure,
        # As many digits as tell two binaries of one version apart.
        "sha256 of postgres": build.binary_sha256[:12],
        "tree": build.source.tree[:12] if build.source else "",
    }


def _subject(arm: Arm) -> dict[str, str]:
    facts = _flat(arm.spec.dataset, "dataset") | _flat(arm.spec.storage, "storage")
    statements = {f"statement {item.name}": item.sql for item in arm.spec.workload.statements}
    return facts | {"workload": arm.spec.workload.text, "prepare": "; ".join(arm.spec.prepare)} | statements


def _facts(stored: StoredExperiment, arm: Arm) -> dict[str, str]:
    """Facts that all valid trials of the arm agree on; settings by their own names."""
    seen: dict[str, set[str]] = {}
    for trial in stored.trials:
        if trial.record.status != "ok" or trial.record.arm_id != arm.id:
            continue
        for key in _FACTS:
            if key in trial.record.facts:
                for name, value in _flat(trial.record.facts[key], key).items():
                    seen.setdefault(name.removeprefix("settings."), set()).add(value)
    return {name: values.pop() for name, values in seen.items() if len(values) == 1}


def _plans(stored: StoredExperiment, arm: Arm) -> dict[str, str]:
    seen: dict[str, dict[str, None]] = {}
    for trial in stored.trials:
        if trial.record.status != "ok" or trial.record.arm_id != arm.id:
            continue
        for statement, plan in trial.plans.items():
            found = shape(plan)
            if found:
                seen.setdefault(statement, {})[outline(found)] = None
    return {f"{statement} in {arm.name}": " or ".join(found) for statement, found in seen.items()}
