"""Server settings: the baseline that holds in every arm, and what a server knows of them."""

import re
from collections.abc import Mapping
from typing import Literal

from pgassay.environment.server.sessions import ControlSession
from pgassay.environment.server.setting_values import SettingFact, equal_value
from pgassay.model.build import Build

__all__ = [
    "Level",
    "SettingFact",
    "baseline_settings",
    "classify",
    "describe_settings",
    "equal_value",
    "storable_value",
]  # fmt: skip

Level = Literal["session", "reload", "restart", "initdb", "unknown"]
MEGABYTE = 1024**2
# What a server has that is given none (src/backend/utils/misc/guc_tables.c), and what initdb tries first.
SHARED_BUFFERS_SHIPPED = "128MB"
SHARED_BUFFERS_BYTES_MAX = 1024 * MEGABYTE
SHARED_BUFFERS_BYTES_MIN = 16 * MEGABYTE
# A clone of the data, the operating system and the client need their part of the memory as well.
SHARED_BUFFERS_FRACTION = 0.25

_LEVEL_OF_CONTEXT: dict[str, Level] = {
    "user": "session",
    "superuser": "session",
    "backend": "session",
    "superuser-backend": "session",
    "sighup": "reload",
    "postmaster": "restart",
    "internal": "initdb",
}

# Whose values hold or may hold a password or a key: primary_conninfo as pg_basebackup -R writes it, commands
# of archives, what an extension calls so. A superuser's session reads them.
_SECRET = re.compile(
    r"conninfo$|_command$|\..*(?:password|passwd|secret|token|credential|key)", re.IGNORECASE
)
_SECRET_VALUE = re.compile(r"\bpassword\s*=|://[^/@\s]*:[^/@\s]*@", re.IGNORECASE)
NOT_SHOWN = "not shown"

_DESCRIBE = """
SELECT name, context, vartype, unit, setting, min_val, max_val, coalesce(enumvals, '{}'), boot_val
FROM pg_settings ORDER BY name"""


def baseline_settings(build: Build, *, writes: bool, memory_bytes: int) -> dict[str, str]:
    """Return the settings that every arm has unless they are the factor.

    `writes`: the workload changes data, so autovacuum runs as it would in production; otherwise it
    is off and can't disturb a read (nor do what a maintenance command is to be timed for).
    `memory_bytes` is the machine's or the server's group's memory.
    Only settings that exist in the build's major version.
    """
    shared_buffers = min(SHARED_BUFFERS_BYTES_MAX, int(memory_bytes * SHARED_BUFFERS_FRACTION))
    shared_buffers = max(shared_buffers, SHARED_BUFFERS_BYTES_MIN)
    settings = {
        "shared_buffers": f"{shared_buffers // MEGABYTE}MB",
        "max_connections": "100",
        "effective_io_concurrency": "16",
        "maintenance_io_concurrency": "16",
        "work_mem": "4MB",
        "maintenance_work_mem": "64MB",
        "max_worker_processes": "8",
        "max_parallel_workers": "8",
        "max_parallel_workers_per_gather": "2",
        "jit": "off",
        "synchronize_seqscans": "off",
        "huge_pages": "off",
        "autovacuum": "on" if writes else "off",
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "wal_level": "replica",
        "wal_compression": "off",
        "max_wal_size": "4GB",
        "checkpoint_timeout": "15min",
        "checkpoint_completion_target": "0.9",
        "track_io_timing": "on",
        "log_checkpoints": "on",
        "log_autovacuum_min_duration": "0",
    }
    if build.major >= 16:
        settings["vacuum_buffer_usage_limit"] = "2MB"
    # Until 18 log_autovacuum_min_duration is for automatic ANALYZE as well; 19 has a setting for each
    # (src/backend/postmaster/autovacuum.c, Log_autoanalyze_min_duration: 10 minutes by default).
    if build.major >= 19:
        settings["log_autoanalyze_min_duration"] = "0"
    return settings


def describe_settings(connection: ControlSession) -> dict[str, SettingFact]:
    """Return what the connected server says of each of its settings."""
    rows = connection.execute(_DESCRIBE).fetchall()
    facts = (
        SettingFact(name, context, vartype, unit, value, low, high, tuple(words), boot_value)
        for name, context, vartype, unit, value, low, high, words, boot_value in rows
    )
    return {fact.name: fact for fact in facts}


def fact_of(facts: Mapping[str, SettingFact], name: str) -> SettingFact | None:
    """What is said of a setting, in whatever case it is written, as a server takes it; None for none.

    Some have capitals in their own name, as DateStyle (guc_name_compare, src/backend/utils/misc/guc.c).
    """
    known = facts.get(name) or facts.get(name.lower())
    return known or next((fact for fact in facts.values() if fact.name.lower() == name.lower()), None)


def classify(facts: dict[str, SettingFact], name: str) -> Level:
    """Return when a change of the setting takes effect; 'initdb' for what is fixed in the data directory."""
    fact = fact_of(facts, name)
    return _LEVEL_OF_CONTEXT.get(fact.context, "unknown") if fact else "unknown"


def storable_value(name: str, value: str) -> str:
    """A setting's value as a record and a report may have it: NOT_SHOWN where it may hold a secret."""
    is_secret = _SECRET.search(name) is not None or _SECRET_VALUE.search(value) is not None
    return NOT_SHOWN if value and is_secret else value
