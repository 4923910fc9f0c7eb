"""Defaults in which two builds differ, most relevant to a measurement first; pure.

Compares what pg_settings gives as `boot_val`. A version changes its defaults on purpose (postgresql.org's
release notes list them); a builder changes them by options of configure. Either way a reader must know:
of those that the workload can meet in a sentence, of all from the record.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pgassay.environment.server.server_folder import PINNED_SETTINGS
from pgassay.environment.server.setting_values import SettingFact
from pgassay.model.build import Build

CHANGED_MAX = 8
NEW_MAX = 5
NO_SUCH_SETTING = "no such setting"
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
        r"work_mem|hash_mem|max_parallel|parallel_|.*_cost$|effective_cache|temp_buffers|data_checksums",
        r"wal_|checkpoint|synchronous|full_page|commit_|vacuum|autovacuum|bgwriter|backend_flush",
        r"\w+_buffers?|max_|track_|compute_query_id|plan_|join_|from_|geqo|constraint_|debug_",
    )
)
# What a workload that only reads meets, one that writes or maintains as well, and any when a value changed.
_MET_BY_READERS, _MET_BY_WRITERS, _MET_WHEN_CHANGED = 1, 2, 3
_LAST = re.compile(r"log_|archive_|restore_|recovery_|syslog|event_|password|md5|summarize")
Described = tuple[Build, Mapping[str, SettingFact]]


@dataclass(frozen=True)
class DefaultDifferences:
    """The defaults in which two builds differ: by name the first's and the second's, the most relevant first.

    A setting that only one of them has is NO_SUCH_SETTING in the other. `first` and `second` name the builds.
    """

    first: str
    second: str
    values: dict[str, tuple[str, str]]

    def sentence(self, *, writes: bool) -> str:
        """One sentence with those that a workload which `writes`, or doesn't, can meet; '' without any.

        At most CHANGED_MAX that both builds have and NEW_MAX of each alone are named; the rest is counted.
        """
        most = _MET_BY_WRITERS if writes else _MET_BY_READERS
        both = ""
        groups: dict[str, list[str]] = {both: [], self.first: [], self.second: []}
        # What only such a workload meets is what it meets most.
        names = sorted(self.values, key=lambda name: writes and rank(name) != _MET_BY_WRITERS)
        for name in names:
            mine, others = self.values[name]
            if NO_SUCH_SETTING not in (mine, others):
                if rank(name) <= _MET_WHEN_CHANGED:
                    groups[both].append(f"{name} ({mine}, {others})")
            elif rank(name) <= most:
                only, value = (self.second, others) if mine == NO_SUCH_SETTING else (self.first, mine)
                groups[only].append(f"{name} ({value})")
        named = {
            only: words[: CHANGED_MAX if only == both else NEW_MAX] for only, words in groups.items() if words
        }
        if not named:
            return ""
        parts = [
            ", ".join(words) if only == both else f"only {only} has {', '.join(words)}"
            for only, words in named.items()
        ]
        left = len(self.values) - sum(map(len, named.values()))
        rest = f"; {left} more are listed in experiment.json" if left else ""
        return f"defaults that differ between {self.first} and {self.second}: {'; '.join(parts)}{rest}"


def default_differences(
    control: Described,
    other: Described,
    given: Collection[str],
    made: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> DefaultDifferences:
    """All defaults in which two builds differ.

    `given`: the names that are set explicitly, whose defaults don't matter. `made`: what their clusters were
    made with, where that differs.
    """
    (build, facts), (other_build, other_facts) = control, other
    names, others = _relevant(facts, given), _relevant(other_facts, given)
    values = {
        name: (
            _default(facts[name]) if name in names else NO_SUCH_SETTING,
            _default(other_facts[name]) if name in others else NO_SUCH_SETTING,
        )
        for name in _sorted(names | others)
        if name not in names & others or facts[name].boot_value != other_facts[name].boot_value
    }
    values |= made
    ordered = {name: values[name] for name in _sorted(values)}
    return DefaultDifferences(_label(build, other_build), _label(other_build, build), ordered)


def pair_names(pairs: Iterable[tuple[Build, Build]]) -> dict[tuple[str, str], tuple[str, str]]:
    """By the bin folders of two builds what they are called beside each other in an experiment's record.

    Their folders where several pairs would be called alike, as commits of one version.
    """
    labels = {
        (build.bin_directory, other.bin_directory): (_label(build, other), _label(other, build))
        for build, other in pairs
    }
    shared = Counter(labels.values())
    return {folders: folders if shared[names] > 1 else names for folders, names in labels.items()}


def _relevant(facts: Mapping[str, SettingFact], given: Collection[str]) -> set[str]:
    names = {name for name in facts if name not in given and name not in PINNED_SETTINGS}
    return {
        name
        for name in names
        if not _MEANINGLESS.match(name.lower())
        and (facts[name].context != "internal" or name in _COMPILED_IN)
    }


def _label(build: Build, other: Build) -> str:
    """The version, with the origin, or the place, where the versions alone don't tell two builds apart."""
    if build.version != other.version:
        return build.version
    return f"{build.origin}:{build.version}" if build.origin != other.origin else build.bin_directory


def _default(fact: SettingFact) -> str:
    unit = re.fullmatch(r"(\d*)([A-Za-z]+)", fact.unit or "")
    if fact.boot_value and unit and fact.boot_value.isdecimal():
        return f"{int(fact.boot_value) * int(unit[1] or 1)}{unit[2]}"
    return fact.boot_value or "''"


def _sorted(names: Collection[str]) -> list[str]:
    return sorted(names, key=lambda name: (rank(name), name))


def is_irrelevant(name: str) -> bool:
    """Whether a setting names a place, a version or an encoding, and decides nothing of a measurement."""
    return _MEANINGLESS.match(name.lower()) is not None


def rank(name: str) -> int:
    """How relevant a setting is to a measurement: 0 the most."""
    if _LAST.match(name):
        return len(_RELEVANCE) + 1
    ranks = (index for index, pattern in enumerate(_RELEVANCE) if pattern.match(name))
    return next(ranks, len(_RELEVANCE))
