"""Are the machines equal? What they say of themselves before the first trial, compared; pure."""

import statistics
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from pgassay.errors import UsageError
from pgassay.fleet.spreading.speeds import speed_facts
from pgassay.model.experiment import CacheState
from pgassay.model.machines.spread import SpreadMachine
from pgassay.model.workload import WorkloadSpec
from pgassay.words import join, percent_rounded, size

MachineFacts = Mapping[str, JsonValue]
Facts = dict[tuple[str, str], str]
# What a name, a boot or a moment decides says nothing of the machine.
_PASSING = frozenset({"hostname", "machine_id", "boot_id"})
_SIZES = frozenset({"memory_bytes", "swap_bytes"})
# Speeds that differ by less are what one machine shows from minute to minute.
_SPEED_TOLD = 0.1
_SPEEDS = {"processor_s": "processor", "memory_s": "fresh memory", "disk_s": "disk"}
WARM: tuple[CacheState, ...] = ("warm-buffers", "warm-pages")


def facts_by_machine(machines: Sequence[SpreadMachine]) -> dict[str, Facts]:
    """Of each machine that said something what can be compared, by (subject, name) as records have them."""
    said = {machine.name: machine.facts for machine in machines if machine.facts is not None}
    usual = _usual_speeds(list(said.values()))
    readings = speed_facts({name: readings_of(facts) for name, facts in said.items()})
    return {name: _facts(facts, usual) | readings[name] for name, facts in said.items()}


def readings_of(facts: MachineFacts) -> dict[str, list[float]]:
    """What a machine read before the first trial, by `pgassay.fleet.facts`."""
    found = {}
    for name, values in _mapping(facts.get("readings")).items():
        each = values if isinstance(values, list) else []
        found[name] = [float(value) for value in each if isinstance(value, int | float) and value > 0]
    return found


def _facts(facts: MachineFacts, usual: Mapping[str, float]) -> Facts:
    found: Facts = {("environment", "pgassay"): str(facts.get("pgassay", ""))}
    found["fleet", "native binary"] = str(facts.get("native", ""))
    for name, value in _mapping(facts.get("machine")).items():
        if name not in _PASSING:
            is_size = name in _SIZES and isinstance(value, int)
            found["environment", name] = size(round(int(str(value)), -8)) if is_size else str(value)
    findings = _mapping(facts.get("doctor")).get("findings")
    for finding in findings if isinstance(findings, list) else []:
        each = _mapping(finding)
        found["doctor", str(each.get("name"))] = str(each.get("status"))
    for name, called in _SPEEDS.items():
        own = _mapping(facts.get("speed")).get(name)
        # Of a plan that an earlier version made: one figure each, without a spread.
        if isinstance(own, int | float) and name in usual and not facts.get("readings"):
            found["speed", called] = _speed_word(usual[name] / own)
    return found


def _speed_word(ratio: float) -> str:
    if abs(ratio - 1) < _SPEED_TOLD:
        return "as most"
    return f"{percent_rounded(abs(ratio - 1))} {'faster' if ratio > 1 else 'slower'} than most"


def _usual_speeds(documents: Sequence[MachineFacts]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in _SPEEDS:
        values = [_mapping(facts.get("speed")).get(name) for facts in documents]
        numbers = [float(value) for value in values if isinstance(value, int | float)]
        if numbers:
            found[name] = statistics.median(numbers)
    return found


def _mapping(value: object) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def differences(machines: Sequence[SpreadMachine]) -> list[str]:
    """A sentence for each thing in which machines differ, with which value each has."""
    return _told(facts_by_machine(machines))


def plan_differences(said: Mapping[str, MachineFacts]) -> list[str]:
    """The same of what machines would run: builds with their checksums, and the settings of arms."""
    facts: dict[str, Facts] = {}
    for machine, answer in said.items():
        found = facts.setdefault(machine, {})
        for subject, kind in (("build", "builds"), ("setting", "settings")):
            for name, value in _mapping(answer.get(kind)).items():
                found[subject, name] = str(value)
    return _told(facts)


def _told(facts: Mapping[str, Facts]) -> list[str]:
    lines = []
    for key in dict.fromkeys(key for own in facts.values() for key in own):
        values: dict[str, list[str]] = {}
        for machine, own in facts.items():
            values.setdefault(own.get(key, "not known"), []).append(machine)
        if len(values) > 1:
            subject, name = key
            # A setting is named as PostgreSQL has it.
            called = name if subject == "setting" else name.removesuffix("_bytes").replace("_", " ")
            head = called if subject == "environment" else f"{subject}, {called}"
            lines.append(f"{head}: " + "; ".join(f"{value} on {join(on)}" for value, on in values.items()))
    return lines


def check_shared_hosts(
    machines: Sequence[SpreadMachine], workloads: Sequence[WorkloadSpec], cache: CacheState
) -> None:
    """Raise UsageError where parts of one host would run what such parts can't measure apart.

    Workers on one host share its disk, its dirty pages and its page cache, and not their processors and their
    memory: a workload that reads what is in memory is theirs alone.
    """
    parts = [machine.name for machine in machines if (machine.facts or {}).get("is_part_of_host")]
    if not parts:
        return
    writing = next((workload for workload in workloads if workload.writes), None)
    if writing is not None:
        raise UsageError(
            f"{join(parts)} are parts of one host, whose disk and dirty pages they share, and "
            f"{writing.text} writes: use a workload that only reads, or machines of their own"
        )
    if cache not in WARM:
        raise UsageError(
            f"{join(parts)} are parts of one host, whose disk and page cache they share, and with --cache "
            f"{cache} they would read it at once: use --cache {' or '.join(WARM)}, or machines of their own"
        )
