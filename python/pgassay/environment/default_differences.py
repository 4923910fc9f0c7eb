"""Defaults in which two builds differ, most relevant to a measurement first; pure.

Compares what pg_settings gives as `boot_val`. A version changes its defaults on purpose (postgresql.org's
release notes list them); a builder changes them by options of configure. Either way a reader must know.
"""

import re
from collections.abc import Collection, Mapping

from pgassay.environment.server_folder import PINNED_SETTINGS
from pgassay.environment.setting_values import SettingFact
from pgassay.model.build import Build

CHANGED_MAX = 8
NEW_MAX = 8
# Names of places, of the version and of the builder's machine: they differ and decide nothing.
_MEANINGLESS = re.compile(
    r"server_version|.*_(file|directory|directories|path|dir)$|lc_|cluster_name|port$|.*_encoding$"
    r"|default_text_search_config|timezone|log_timezone|ssl|krb_|listen_addresses|num_os_semaphores"
    r"|application_name|max_(function|identifier|index)_"
)
# What is fixed in the binary and decides something; the other internal ones are the server's own findings.
_COMPILED_IN = ("block_size", "debug_assertions", "segment_size", "wal_block_size")
# Groups of names from the most to the least relevant; what matches none comes after them.
_RELEVANCE = tuple(
    re.compile(pattern)
    for pattern in (
        r"debug_assertions|block_size|wal_block_size|segment_size|huge_pages|io_|effective_io|maintenance_io"
        r"|shared_buffers|jit|enable_",
        r"work_mem|hash_mem|max_parallel|parallel_|.*_cost$|effective_cache|.*buffer|data_checksums",
        r"wal_|checkpoint|synchronous|full_page|commit_|vacuum|autovacuum|bgwriter|backend_flush",
        r"max_|track_|compute_query_id|plan_|join_|from_|geqo|constraint_|debug_",
    )
)
_LAST = re.compile(r"log_|archive_|restore_|recovery_|syslog|event_|password|md5|summarize")
Described = tuple[Build, Mapping[str, SettingFact]]


def describe_differences(control: Described, other: Described, given: Collection[str]) -> str:
    """One sentence listing the defaults that differ between two builds; '' when none does.

    `given`: the names that are set explicitly, whose defaults don't matter. At most CHANGED_MAX that both
    have and NEW_MAX that only one has are named, and the rest counted.
    """
    (build, facts), (other_build, other_facts) = control, other
    names, others = _relevant(facts, given), _relevant(other_facts, given)
    first, second = _label(build, other_build), _label(other_build, build)
    changed = [name for name in names & others if facts[name].boot_value != other_facts[name].boot_value]
    parts = []
    if changed:
        words = [
            f"{name} ({_default(facts[name])}, {_default(other_facts[name])})" for name in _sorted(changed)
        ]
        parts.append(_bounded(words, CHANGED_MAX))
    for label, mine, only in ((first, facts, names - others), (second, other_facts, others - names)):
        if only:
            words = [f"{name} ({_default(mine[name])})" for name in _sorted(only)]
            parts.append(f"only {label} has {_bounded(words, NEW_MAX)}")
    return f"defaults that differ between {first} and {second}: {'; '.join(parts)}" if parts else ""


def _relevant(facts: Mapping[str, SettingFact], given: Collection[str]) -> set[str]:
    names = {name for name in facts if name not in given and name not in PINNED_SETTINGS}
    return {
        name
        for name in names
        if not _MEANINGLESS.match(name.lower())
        and (facts[name].context != "internal" or name in _COMPILED_IN)
    }


def _label(build: Build, other: Build) -> str:
    """The version, with the origin where the versions alone don't tell two builds apart."""
    return build.version if build.version != other.version else f"{build.origin}:{build.version}"


def _default(fact: SettingFact) -> str:
    unit = re.fullmatch(r"(\d*)([A-Za-z]+)", fact.unit or "")
    if fact.boot_value and unit and fact.boot_value.isdecimal():
        return f"{int(fact.boot_value) * int(unit[1] or 1)}{unit[2]}"
    return fact.boot_value or "''"


def _sorted(names: Collection[str]) -> list[str]:
    return sorted(names, key=lambda name: (rank(name), name))


def is_place(name: str) -> bool:
    """Whether a setting names a place, a version or an encoding, and decides nothing of a measurement."""
    return _MEANINGLESS.match(name.lower()) is not None


def rank(name: str) -> int:
    """How relevant a setting is to a measurement: 0 the most."""
    if _LAST.match(name):
        return len(_RELEVANCE) + 1
    ranks = (place for place, pattern in enumerate(_RELEVANCE) if pattern.match(name))
    return next(ranks, len(_RELEVANCE))


def _bounded(words: list[str], most: int) -> str:
    """The first `most` words in a list, and how many more there are."""
    left = len(words) - most
    return ", ".join(words[:most]) + (f" and {left} more" if left > 0 else "")
