"""A line below a node of EXPLAIN's text, as the keys of its JSON (src/backend/commands/explain.c).

Where the text packs several figures into a line (`Sort Method: quicksort  Memory: 25kB`), the JSON has a key
for each. Lines that are alike in both forms (`Filter: …`) keep their key.
"""

import re
from collections.abc import Callable

from pgassay.plans.explain_output.text_names import number_of

_KB = re.compile(r"(\d+) ?kB$")
_PAIR = re.compile(r"([a-z][a-z ]*?)=(-?[\d.]+)(?:kB|%)?(?=[ ,]|$)")
_ORIGINALLY = re.compile(r"(\d+)(?: \(originally (\d+)\))?")
_NUMBER = r"(\d{1,320}(?:\.\d{1,9})?)"
_ACTUAL = re.compile(rf"actual (?:time={_NUMBER}\.\.{_NUMBER} )?rows={_NUMBER} loops={_NUMBER}")
_FIGURE = re.compile(r"-?\d+(?:\.\d+)?$")
# Lines of one figure; all other single values stay text.
_FIGURES = frozenset(
    {
        "Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck",
        "Rows Removed by Conflict Filter", "Heap Fetches", "Index Searches", "Workers Planned",
        "Workers Launched", "Subplans Removed", "Tuples Inserted", "Conflicting Tuples", "Planning Time",
        "Execution Time",
    }
)  # fmt: skip

# No line of figures is longer.
_FIGURES_LENGTH_MAX = 2000

Keys = dict[str, object]


def _segments(text: str) -> dict[str, str]:
    """`A: 1  B: 2` as its parts."""
    parts = (part.partition(": ") for part in text.split("  ") if part.strip())
    return {key.strip(): value.strip() for key, _, value in parts}


def _figure(text: str) -> object:
    match = _KB.match(text)
    if match is not None:
        return int(match[1])
    text = text.removesuffix(" ms").strip()
    return number_of(text) if _FIGURE.match(text) and not text.startswith("-") else text


def _renamed(names: dict[str, str]) -> Callable[[str], Keys]:
    def convert(line: str) -> Keys:
        return {names.get(key, key): _figure(value) for key, value in _segments(line).items()}

    return convert


def _counters(line: str, name: Callable[[str, str], str]) -> Keys:
    """`shared hit=1 read=2, temp written=3`: each figure with the group it stands in."""
    found: Keys = {}
    for group in line.partition(": ")[2].split(", "):
        first, _, rest = group.strip().partition(" ")
        scope, pairs = ("", group) if "=" in first else (first, rest)
        found |= {name(scope, key.strip()): number_of(value) for key, value in _PAIR.findall(pairs)}
    return found


def blocks(line: str) -> Keys:
    """`Buffers: shared hit=3 read=1, temp read=5`."""
    return _counters(line, lambda scope, key: f"{scope.title()} {key.title()} Blocks")


def _io_times(line: str) -> Keys:
    """`I/O Timings: shared read=0.1` (17 and newer), `shared/local read=` (15, 16), `read=` (14)."""

    def name(scope: str, key: str) -> str:
        words = "" if scope in ("", "shared/local") else f"{scope.title()} "
        return f"{words}I/O {key.title()} Time"

    return _counters(line, name)


def _wal(line: str) -> Keys:
    names = {"fpi": "FPI", "fpi bytes": "FPI Bytes", "buffers full": "Buffers Full"}
    return _counters(line, lambda _, key: f"WAL {names.get(key, key.title())}")


def _sort(line: str) -> Keys:
    parts = _segments(line)
    found: Keys = {"Sort Method": parts.pop("Sort Method", "")}
    for space in ("Memory", "Disk"):
        if space in parts:
            found |= {"Sort Space Used": _figure(parts[space]), "Sort Space Type": space}
    return found


def _group_sorts(line: str) -> Keys:
    """`Full-sort Groups: 2  Sort Method: quicksort  Average Memory: 26kB  Peak Memory: 26kB`."""
    parts = _segments(line)
    name = "Full-sort Groups" if "Full-sort Groups" in parts else "Pre-sorted Groups"
    methods = parts.get("Sort Method") or parts.get("Sort Methods") or ""
    made: Keys = {"Group Count": _figure(parts[name]), "Sort Methods Used": methods.split(", ")}
    for space in ("Memory", "Disk"):
        if f"Peak {space}" in parts:
            made[f"Sort Space {space}"] = {"Peak Sort Space Used": _figure(parts[f"Peak {space}"])}
    return {name: made}


def _hash(line: str) -> Keys:
    parts = _segments(line)
    found: Keys = {"Peak Memory Usage": _figure(parts.get("Memory Usage", ""))}
    for key in ("Buckets", "Batches"):
        match = _ORIGINALLY.match(parts.get(key, ""))
        if match is not None:
            found |= {f"Hash {key}": int(match[1]), f"Original Hash {key}": int(match[2] or match[1])}
    return found


def _incremental(line: str) -> Keys:
    return _counters(line, lambda _, key: f"Tuples {key.title()}")


def _heap_blocks(line: str) -> Keys:
    return _counters(line, lambda _, key: f"{key.title()} Heap Blocks")


def _prefetch(line: str) -> Keys:
    names = {
        "avg": "Average Prefetch Distance",
        "max": "Max Prefetch Distance",
        "capacity": "Prefetch Capacity",
    }
    return _counters(line, lambda _, key: names.get(key, key))


def _requests(line: str) -> Keys:
    names = {"count": "I/O Count", "waits": "I/O Waits", "size": "Average I/O Size"}
    return _counters(line, lambda _, key: names.get(key, "Average I/Os In Progress"))


def _memory(line: str) -> Keys:
    return _counters(line.replace("  ", " "), lambda _, key: f"Memory {key.strip().title()}")


_HASH_AGGREGATE = _renamed({"Batches": "HashAgg Batches", "Memory Usage": "Peak Memory Usage"})
_LINES: dict[str, Callable[[str], Keys]] = {
    "Buffers": blocks,
    "I/O Timings": _io_times,
    "WAL": _wal,
    "Sort Method": _sort,
    "Full-sort Groups": _group_sorts,
    "Pre-sorted Groups": _group_sorts,
    "Buckets": _hash,
    "Batches": _HASH_AGGREGATE,
    "Planned Partitions": _HASH_AGGREGATE,
    "Hits": _renamed(
        {
            "Hits": "Cache Hits",
            "Misses": "Cache Misses",
            "Evictions": "Cache Evictions",
            "Overflows": "Cache Overflows",
            "Memory Usage": "Peak Memory Usage",
        }
    ),
    "Heap Blocks": _heap_blocks,
    "Storage": _renamed({}),
    "Tuples": _incremental,
    "Prefetch": _prefetch,
    "I/O": _requests,
    "Memory": _memory,
}


def keys_of_line(line: str) -> Keys:
    """The keys of a line below a node, of `Planning:` or of `Serialization:`; {} for one without a colon."""
    key, colon, value = line.partition(": ")
    if not colon:
        return {}
    convert = _LINES.get(key)
    if convert is not None:
        return convert(line[:_FIGURES_LENGTH_MAX])
    if key in _FIGURES:
        return {key: _figure(value.strip())}
    if value in ("true", "false"):
        return {key: value == "true"}
    return {key: value}


def worker_of_line(line: str) -> tuple[int, Keys] | None:
    """`Worker 1:  actual time=0.1..0.2 rows=3 loops=1` or `Worker 1:  Sort Method: …`, else None."""
    match = re.match(r"Worker (\d{1,9}): *", line)
    if match is None:
        return None
    rest = line[match.end() :]
    actual = _ACTUAL.match(rest)
    if actual is None:
        return int(match[1]), keys_of_line(rest)
    startup, total, rows, loops = actual.groups()
    made: Keys = {"Actual Rows": number_of(rows), "Actual Loops": number_of(loops)}
    if total is not None:
        made |= {"Actual Startup Time": number_of(startup), "Actual Total Time": number_of(total)}
    return int(match[1]), made
