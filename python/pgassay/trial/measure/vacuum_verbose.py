"""Reads what VACUUM (VERBOSE) of PostgreSQL 16 to 19 says, into one structure.

The server says it as INFO messages in English (a trial's sessions run with lc_messages = C). Each relation
ends with one message of many lines, `finished vacuuming "database.schema.relation": …`; every line of it is
read by its own pattern, so that a line which a version lacks, words otherwise or adds costs that line alone.
Source of the texts: src/backend/access/heap/vacuumlazy.c, heap_vacuum_rel, of the four versions.
"""

import re
from collections.abc import Iterable

from pgassay.model.maintenance import IndexScan, VacuumedIndex, VacuumedRelation

# At the start of its message; a relation's name may hold anything, quotes and line breaks included.
_FINISHED = re.compile(
    r'finished vacuuming "(?P<name>.*?)": index scans: (?P<passes>\d+)(?=\n|\Z)',
    re.DOTALL,
)
_AGGRESSIVE = re.compile(r'aggressively vacuuming "(?P<name>.*)"', re.DOTALL)
_FAILSAFE = "bypassing nonessential maintenance of table"
# Each line's pattern; its groups are fields of VacuumedRelation, whole numbers unless _DECIMAL has the name.
_LINES = tuple(
    re.compile(pattern)
    for pattern in (
        r"pages: (?P<pages_removed>\d+) removed, (?P<pages_remain>\d+) remain, (?P<pages_scanned>\d+) scanned"
        r"(?: \([\d.]+% of total\))?(?:, (?P<pages_eagerly_scanned>\d+) eagerly scanned)?",
        r"tuples: (?P<tuples_removed>\d+) removed, (?P<tuples_remain>\d+) remain, "
        r"(?P<tuples_dead_not_removable>\d+) are dead but not yet removable",
        r"tuples missed: (?P<tuples_missed>\d+) dead from (?P<pages_missed>\d+) pages not removed",
        r"frozen: (?P<pages_frozen>\d+) pages from table \(.*?\) had (?P<tuples_frozen>\d+) tuples frozen",
        r"visibility map: (?P<pages_set_all_visible>\d+) pages set all-visible, "
        r"(?P<pages_set_all_frozen>\d+) pages set all-frozen "
        r"\((?P<pages_were_all_visible>\d+) were all-visible\)",
        r"parallel workers: index (?:vacuum|cleanup): (?P<parallel_workers_planned>\d+) planned, "
        r"(?P<parallel_workers_launched>\d+) launched",
        r"delay time: (?P<delay_ms>[\d.]+) ms",
        r"I/O timings: read: (?P<read_ms>[\d.]+) ms, write: (?P<write_ms>[\d.]+) ms",
        r"avg read rate: (?P<read_rate_mb_per_s>[\d.]+) MB/s, "
        r"avg write rate: (?P<write_rate_mb_per_s>[\d.]+) MB/s",
        r"buffer usage: (?P<buffer_hits>\d+) hits, (?P<buffer_reads>\d+) (?:misses|reads), "
        r"(?P<buffers_dirtied>\d+) dirtied",
        r"WAL usage: (?P<wal_records>\d+) records, (?P<wal_full_page_images>\d+) full page images, "
        r"(?P<wal_bytes>\d+) bytes(?:, (?P<wal_full_page_image_bytes>\d+) full page image bytes)?"
        r"(?:, (?P<wal_buffers_full>\d+) buffers full)?",
        r"system usage: CPU: user: (?P<cpu_user_s>[\d.]+) s, system: (?P<cpu_system_s>[\d.]+) s, "
        r"elapsed: (?P<elapsed_s>[\d.]+) s",
    )
)
_DECIMAL = re.compile(r".*_(?:ms|s)")
_INDEX_SCAN = re.compile(
    r"index scan (?P<how>needed|not needed|bypassed by failsafe|bypassed): (?P<pages>\d+) pages from table "
    r"(?:\(.*?\) )?(?:had|have) (?P<items>\d+) dead item identifiers"
)
_INDEX = re.compile(
    r'index "(?P<name>.*?)": pages: (?P<pages>\d+) in total, (?P<pages_newly_deleted>\d+) newly deleted, '
    r"(?P<pages_currently_deleted>\d+) currently deleted, (?P<pages_reusable>\d+) reusable"
)
_MEMORY = re.compile(
    r"memory usage: dead item storage (?P<used>[\d.]+) MB accumulated across (?P<resets>\d+) resets? "
    r"\(limit (?P<limit>[\d.]+) MB each\)"
)
_MEGABYTE = 1024 * 1024


def read_vacuum(messages: Iterable[str]) -> tuple[VacuumedRelation, ...]:
    """The relations of one VACUUM, in the order in which it finished them.

    Args:
        messages: the primary texts of the server's messages, whole, in the order in which they came.

    Returns:
        One structure per `finished vacuuming`; messages of another kind are passed over. Never raises.
    """
    relations: list[VacuumedRelation] = []
    aggressive: set[str] = set()
    failsafe = False
    for message in messages:
        begun = _AGGRESSIVE.match(message)
        if begun:
            aggressive.add(begun.group("name"))
        failsafe = failsafe or message.startswith(_FAILSAFE)
        finished = _FINISHED.match(message)
        if finished is None:
            continue
        name = finished.group("name")
        fields = _read_lines(message[finished.end() :].split("\n"))
        passes = int(finished.group("passes"))
        relations.append(
            VacuumedRelation(
                name=name, aggressive=name in aggressive, failsafe=failsafe, index_passes=passes, **fields
            )
        )
        failsafe = False
    return tuple(relations)


def _read_lines(lines: list[str]) -> dict[str, object]:
    fields: dict[str, object] = {}
    indexes: list[VacuumedIndex] = []
    for line in lines:
        index = _INDEX.match(line)
        if index:
            name = index.group("name")
            counts = {key: int(value) for key, value in index.groupdict().items() if key != "name"}
            indexes.append(VacuumedIndex(name=name, **counts))
            continue
        fields |= _index_scan(line) or _memory(line) or _figures(line)
    return {**fields, "indexes": tuple(indexes)}


def _figures(line: str) -> dict[str, object]:
    for pattern in _LINES:
        found = pattern.match(line)
        if found:
            return {
                name: float(value) if _DECIMAL.fullmatch(name) else int(value)
                for name, value in found.groupdict().items()
                if value is not None and _is_number(value)
            }
    return {}


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII) is not None


def _index_scan(line: str) -> dict[str, object]:
    """Dead item identifiers: removed where indexes were scanned, still there where they were bypassed."""
    found = _INDEX_SCAN.match(line)
    if not found:
        return {}
    how: IndexScan = found.group("how")  # type: ignore[assignment]
    return {
        "index_scan": how,
        "pages_with_dead_items": int(found.group("pages")),
        "dead_items": int(found.group("items")),
    }


def _memory(line: str) -> dict[str, object]:
    found = _MEMORY.match(line)
    if not found or not (_is_number(found.group("used")) and _is_number(found.group("limit"))):
        return {}
    return {
        "memory_bytes": round(float(found.group("used")) * _MEGABYTE),
        "memory_limit_bytes": round(float(found.group("limit")) * _MEGABYTE),
        "memory_resets": int(found.group("resets")),
    }
