"""In what the machines of a fleet differ, by what they say of themselves before the first trial; pure.

A speed differs where it does by more than the readings of one machine do.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import JsonValue
from scipy.special import stdtrit

from pgassay.errors import UsageError
from pgassay.model.experiment import CacheState
from pgassay.model.machines.spread import SpreadMachine
from pgassay.model.workload import WorkloadSpec
from pgassay.words import amount, byte_rate, comparison, join, size

MachineFacts = Mapping[str, JsonValue]
Facts = dict[tuple[str, str], str]
# What a name, a boot or a moment decides says nothing of the machine.
_PASSING = frozenset({"hostname", "machine_id", "boot_id"})
_SIZES = frozenset({"memory_bytes", "swap_bytes"})
# Speeds that differ by less are what one machine shows from minute to minute.
_SPEED_TOLD = 0.1
_SPEEDS = {"processor_s": "processor", "memory_s": "fresh memory", "disk_s": "disk"}
Readings = Mapping[str, Sequence[float]]
_MEGABYTE = 1e6
# The chance that of equal machines any is told in anything.
LEVEL = 0.05
# What matters to no comparison is not told, however surely it is so.
TOLD_MIN = 0.02
# A few readings that agree by chance must not make the tolerance narrow: what those of a quiet machine differ
# by, as a logarithm.
_SPREAD_MIN = 0.01
WARM: tuple[CacheState, ...] = ("warm-buffers", "warm-pages")


def facts_by_machine(machines: Sequence[SpreadMachine]) -> dict[str, Facts]:
    """Of each machine that said something what can be compared, by (subject, name) as records have them."""
    said = {machine.name: machine.facts for machine in machines if machine.facts is not None}
    usual = _usual_speeds(list(said.values()))
    readings = speed_facts({name: readings_of(facts) for name, facts in said.items()})
    return {name: _facts(facts, usual) | readings[name] for name, facts in said.items()}


def readings_of(facts: MachineFacts) -> dict[str, list[float]]:
    """What a machine read before the first trial, by `pgassay.fleet.machine_facts`."""
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
    return f"{comparison(ratio)} most"


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
    return _difference_lines(facts_by_machine(machines))


def plan_differences(said: Mapping[str, MachineFacts]) -> list[str]:
    """The same of what machines would run: builds with their checksums, and the settings of arms."""
    facts: dict[str, Facts] = {}
    for machine, answer in said.items():
        found = facts.setdefault(machine, {})
        for subject, kind in (("build", "builds"), ("setting", "settings")):
            for name, value in _mapping(answer.get(kind)).items():
                found[subject, name] = str(value)
    return _difference_lines(facts)


def _difference_lines(facts: Mapping[str, Facts]) -> list[str]:
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


@dataclass(frozen=True)
class _Quantity:
    """One kind of reading: what it is called, the rate that a reading stands for, the rate in words."""

    subject: str
    called: str
    rate: Callable[[float], float]
    words: Callable[[float], str]


def _per_second(rate: float) -> str:
    return f"{float(f'{rate:.2g}'):,.0f}/s"


def _of_megabytes(megabytes: int) -> Callable[[float], float]:
    return lambda seconds: megabytes * (1 << 20) / seconds


_QUANTITIES = {
    # What the tasks of `trial.snapshots.machine_speed` go through.
    "processor_s": _Quantity("speed", "processor (hashing)", _of_megabytes(64), byte_rate),
    "memory_s": _Quantity("speed", "fresh memory", _of_megabytes(64), byte_rate),
    "disk_s": _Quantity("speed", "disk", _of_megabytes(32), byte_rate),
    "sequential_read_mb_s": _Quantity(
        "storage", "sequential reads", lambda rate: rate * _MEGABYTE, byte_rate
    ),
    "random_read_per_s": _Quantity("storage", "random reads, one at a time", lambda rate: rate, _per_second),
    "deep_random_read_per_s": _Quantity(
        "storage", "random reads, 32 at a time", lambda rate: rate, _per_second
    ),
    "fdatasync_per_s": _Quantity("storage", "fdatasync", lambda rate: rate, _per_second),
}


def speed_facts(readings: Mapping[str, Readings]) -> dict[str, dict[tuple[str, str], str]]:
    """By machine, each quantity's (subject, name) and what it is there; the same where none stands apart.

    The spread is that of the readings of one machine, of all machines together. The machine in the middle is
    what others are compared with, by Student's t at LEVEL shared among all pairs of machines and quantities
    (Bonferroni), for any of them may be in the middle.
    """
    found: dict[str, dict[tuple[str, str], str]] = {machine: {} for machine in readings}
    shared = {
        name: {machine: np.log([quantity.rate(value) for value in own[name]])
               for machine, own in readings.items() if len(own.get(name, ())) > 1}
        for name, quantity in _QUANTITIES.items()
    }  # fmt: skip
    compared = {name: logs for name, logs in shared.items() if len(logs) > 1}
    pairs = sum(math.comb(len(logs), 2) for logs in compared.values())
    for name, logs in compared.items():
        quantity = _QUANTITIES[name]
        freedom = sum(len(own) - 1 for own in logs.values())
        squares = sum(float(((own - own.mean()) ** 2).sum()) for own in logs.values())
        spread = max(math.sqrt(squares / freedom), _SPREAD_MIN)
        reach = float(stdtrit(freedom, 1 - LEVEL / (2 * pairs))) * spread
        middle = sorted(logs, key=lambda machine: logs[machine].mean())[len(logs) // 2]
        usual = float(logs[middle].mean())
        for machine, own in logs.items():
            change = float(own.mean()) - usual
            told = max(reach * math.sqrt(1 / len(own) + 1 / len(logs[middle])), math.log1p(TOLD_MIN))
            word = f"about {quantity.words(math.exp(usual))}"
            if abs(change) > told:
                word = f"{amount(math.exp(change))} ({quantity.words(math.exp(float(own.mean())))})"
            found[machine][quantity.subject, quantity.called] = word
    return found
