"""What a copy takes over from its source beside the data: version, settings, collation, extensions. Pure.

Settings are those that the planner and the executor go by. What a default of the source's version is, the
copy's server, of the same version, is told as well: the servers of pgassay's experiments have other defaults.
"""

from collections.abc import Mapping

from pgassay.environment.server.setting_values import parse_number
from pgassay.model.build import Build
from pgassay.tune.source.source_server import SourceServer

_PLANNING = "Query Tuning"
# Beside those of _PLANNING: memory, parallel workers, reading ahead, and what decides the meaning of a value.
# Not standard_conforming_strings: statements are written anew, for the grammar that reads them.
_TAKEN = frozenset(
    {
        "work_mem", "hash_mem_multiplier", "maintenance_work_mem", "temp_buffers", "shared_buffers",
        "effective_io_concurrency", "maintenance_io_concurrency", "max_worker_processes",
        "max_parallel_workers", "max_parallel_workers_per_gather", "parallel_leader_participation",
        "max_parallel_maintenance_workers", "synchronous_commit", "wal_compression", "search_path",
        "timezone", "datestyle", "intervalstyle", "bytea_output",
        "transform_null_equals", "array_nulls", "quote_all_identifiers", "default_text_search_config",
        "synchronize_seqscans",
        "gin_fuzzy_search_limit", "gin_pending_list_limit", "track_io_timing", "backend_flush_after",
    }
)  # fmt: skip
# What an own server has without being asked has no place in a list of what was taken over.
_ALWAYS = frozenset(
    {
        "work_mem", "maintenance_work_mem", "effective_io_concurrency", "maintenance_io_concurrency",
        "max_worker_processes", "max_parallel_workers", "max_parallel_workers_per_gather", "jit",
        "synchronous_commit", "wal_compression", "shared_buffers",
    }
)  # fmt: skip
# As much of this machine's memory as a server's shared buffers may take: the page cache needs the rest.
BUFFERS_SHARE_MAX = 0.4
MEGABYTE = 1024**2


def settings_of(
    source: SourceServer, given: Mapping[str, str], build: Build, memory_bytes: int, known: frozenset[str]
) -> dict[str, str]:
    """The settings that a copy takes over, but for those that the user has `given`.

    memory_bytes: what the copy's server may take; shared_buffers are cut to a part of it. known: the settings
    that the build has, by their names in small letters.
    """
    found: dict[str, str] = {}
    for name, setting in source.settings.items():
        key = name.lower()
        if key in given or key not in known or not _counts(key, setting.category):
            continue
        if setting.given or key in _ALWAYS:
            found[key] = setting.value
    if "shared_buffers" in found:
        wanted = buffers_bytes(found["shared_buffers"], source.facts.block_bytes)
        most = int(memory_bytes * BUFFERS_SHARE_MAX)
        if wanted > most:
            found["shared_buffers"] = f"{max(most // MEGABYTE, 16)}MB"
    if build.major < source.major:
        found.pop("effective_io_concurrency", None)  # its scale changed with 13 and its default with 18
    return found


def _counts(name: str, category: str) -> bool:
    return name in _TAKEN or category.startswith(_PLANNING)


def buffers_bytes(text: str, block_bytes: int) -> int:
    """The bytes of a value of shared_buffers as SHOW prints it; 0 for what is none."""
    number = parse_number(text, None)
    return round(number * block_bytes) if number is not None else round(parse_number(text, "B") or 0)


def differences(source: SourceServer, settings: Mapping[str, str], build: Build) -> list[str]:
    """In what the copy's server is not the source, in sentences."""
    notes = []
    wanted = source.settings.get("shared_buffers")
    if wanted is not None and settings.get("shared_buffers", wanted.value) != wanted.value:
        notes.append(
            f"shared_buffers is {settings['shared_buffers']} on the copy and {wanted.value} on the source"
        )
    if build.major != source.major:
        notes.append(
            f"the copy's server is PostgreSQL {build.version}, the source "
            f"{source.resolved.server.version}: its planner may decide differently"
        )
    if source.is_standby:
        notes.append(
            "the source is a standby: its statements are those run on the standby; fixes are "
            "applied on its primary, whose own statements and writes were not measured"
        )
    if not source.is_here:
        notes.append(
            "the source is on another machine: its memory, processors and storage are not known here, so "
            "no setting is advised from those of this machine"
        )
    return notes


def missing_extensions(source: SourceServer, build: Build) -> list[str]:
    """The extensions of the database that the build comes without."""
    return [name for name in source.facts.extensions if name not in {*build.extensions, "plpgsql"}]
