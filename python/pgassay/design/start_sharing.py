"""Whether the arms that are compared can be one running server, so that a block is one start of it.

Arms that differ by what a session can change, by their statements' text, by indexes or by a setting that a
reload changes and nothing remembers, take turns in one server. What a server must be started with, data of an
arm's own, and a cache state that an execution uses up, ask for a trial of each arm with a server of its own.
Where no state was asked for, caches are warm, unless the arms differ in what only cold caches show.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgassay.design.shared_data import on_shared_data
from pgassay.factors import copy
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.build import Build
from pgassay.model.experiment import CacheState, Protocol

# When a change of a setting takes effect on a server of a build: "session", "reload", "restart" and so on.
LevelOf = Callable[[Build, str], str]
# The states that an execution leaves as it found them.
LASTING: tuple[CacheState, ...] = ("warm-buffers", "as-is")
# That of starts that are shared where no state is asked for: all executions but the first find warm caches.
DEFAULT_OF_SHARED: CacheState = "as-is"
# Settings that are reloaded and leave nothing behind that a later reload does not take back: what the server
# logs, and how the background writer looks for dirty pages, of which reading makes none. Those of autovacuum,
# checkpoints, WAL, workers and replication do.
_FORGOTTEN = ("bgwriter_", "log_")
# What leaves a session as it was, and what does so once it is rolled back.
_BEFORE = r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*+"
_READING = re.compile(rf"{_BEFORE}(?:select|with|values|table)\b", re.IGNORECASE | re.DOTALL)
_WRITING = re.compile(rf"{_BEFORE}(?:insert|update|delete|merge|with)\b", re.IGNORECASE | re.DOTALL)
# What outlasts a statement: a setting, and a lock that the next arm's session waits for without end.
_LASTING_CALL = re.compile(r"\b(set_config|pg_(?:try_)?advisory_lock(?:_shared)?)\s*\(", re.IGNORECASE)
# What decides how pages are read changes little where none are.
_OF_READING = ("effective_io_concurrency", "io_combine_limit", "maintenance_io_concurrency")


@dataclass(frozen=True)
class Sharing:
    """The arms and the protocol as they run. reason: why each trial has a server of its own, in a clause.

    '' where the arms take turns in one server: their data may then have all indexes, of which each hides
    those that it is without. said: the reason where it's worth telling: nobody expects of loads, of servers
    that run already, and of what asks for trials by itself, that arms share a server.
    """

    arms: tuple[Arm, ...]
    protocol: Protocol
    reason: str
    said: str = ""


def share(
    arms: tuple[Arm, ...], protocol: Protocol, level_of: LevelOf, *, chooses_cache: bool, unshared: str = ""
) -> Sharing:
    """What a block is: one start for all arms where they allow it.

    chooses_cache: no cache state was asked for; unshared: why one start was not, in a clause.
    """
    asked = protocol
    if chooses_cache and protocol.cache == "cold-each":
        asked = protocol.model_copy(update={"cache": DEFAULT_OF_SHARED})
    expected = unshared or next(filter(None, map(_of_workload, arms)), "")
    if expected:
        return Sharing(arms, protocol, expected)
    reason = _of_protocol(asked) or next(filter(None, (_of_arm(arm, asked) for arm in arms)), "")
    if not reason and asked.cache != protocol.cache:
        reason = _shown_by_cold_caches(arms)
    if reason:
        return Sharing(arms, protocol, reason, reason)
    data = on_shared_data(arms)
    levels = {arm.name: _levels(arm, arms, level_of) for arm in arms}
    reason = data.reason or _unlike(data.arms, levels)
    if reason:
        return Sharing(arms, protocol, reason, reason)
    switched = (*asked.switched_indexes, *data.switched)
    reloaded = {name for found in levels.values() for name, level in found.items() if level != "session"}
    update = {"switched_indexes": switched, "reloaded_settings": tuple(sorted(reloaded))}
    return Sharing(data.arms, asked.model_copy(update=update), "")


def _of_workload(arm: Arm) -> str:
    workload = arm.spec.workload
    if arm.spec.server is not None:
        return "the servers are already running"
    if workload.kind != "statements" or workload.is_mix or workload.is_maintenance:
        return "only statements that are executed one by one can take turns"
    if any(statement.parts for statement in workload.statements):
        return "the parts of transactions are reported one by one"
    return ""


def _of_protocol(protocol: Protocol) -> str:
    if protocol.cache not in LASTING:
        return f"with --cache {protocol.cache} an execution changes what the next one finds in memory"
    if protocol.executions or protocol.repetitions > 1:
        return "a trial executes its statements several times anyway"
    return ""


def _shown_by_cold_caches(arms: Sequence[Arm]) -> str:
    """What nobody asks about in warm caches, as a reason why they are cold then."""
    shares = "(--cache warm-buffers shares a server)"
    if any(arm.spec.storage.kind != "host" for arm in arms):
        return f"caches are cold, since a storage is given {shares}"
    varied = {name for arm in arms for name in arm.spec.settings_unlike(_control_of(arm, arms))}
    for name in sorted(varied.intersection(_OF_READING)):
        return f"caches are cold, since {name} decides how pages are read {shares}"
    return ""


def _of_arm(arm: Arm, protocol: Protocol) -> str:
    if copy.NAME in arm.levels:
        return "each arm has its own copy of the data"
    if arm.spec.leaves_data_changed and not (protocol.rolls_back and arm.spec.dataset.settled):
        return "the statements change the data"
    if reason := _of_sessions(arm):
        return reason
    if arm.spec.memory_bytes is not None or arm.spec.cpus is not None:
        return "the servers are capped"
    return ""


def _of_sessions(arm: Arm) -> str:
    """What a statement leaves behind in its session, or in the server while that is open."""
    workload = arm.spec.workload
    for statement in workload.statements:
        if call := _LASTING_CALL.search(statement.sql):
            return f"{statement.name} calls {call[1].lower()}, whose effect lasts until its session ends"
        if not (_READING.match(statement.sql) or (workload.writes and _WRITING.match(statement.sql))):
            return f"{statement.name} is not a query, so what it does may last until its session ends"
    return ""


def _levels(arm: Arm, arms: Sequence[Arm], level_of: LevelOf) -> dict[str, str]:
    """When a change takes effect of each setting in which an arm and its control differ."""
    varied = arm.spec.settings_unlike(_control_of(arm, arms))
    return {name: level_of(arm.spec.build, name) for name in varied}


def _unlike(arms: Sequence[Arm], levels: Mapping[str, Mapping[str, str]]) -> str:
    """What a server must be started with, and the arms of a stratum differ in.

    levels: when a change of each setting in which an arm differs takes effect, by the arm's name.
    """
    for arm in arms:
        one, other = arm.spec, _control_of(arm, arms)
        if one.data_identity != other.data_identity or one.build != other.build:
            return "the arms differ in their data or their version"
        if one.storage != other.storage:
            return "the arms differ in their storage"
        for name, level in levels[arm.name].items():
            if reason := _of_setting(name, level, one, other):
                return reason
    return ""


def _of_setting(name: str, level: str, one: ArmSpec, other: ArmSpec) -> str:
    """Why a running server can't have both values of a setting, one after the other."""
    if level == "session":
        return ""
    if level != "reload":
        return f"a session can't change {name}"
    if not name.startswith(_FORGOTTEN):
        return f"the effect of {name} on a server lasts after it is changed back"
    if name not in one.settings or name not in other.settings:
        return f"{name} is set for one arm only, and is reloaded for each: set it for all"
    return ""


def _control_of(arm: Arm, arms: Sequence[Arm]) -> ArmSpec:
    return next(each.spec for each in arms if each.role == "control" and each.stratum == arm.stratum)
