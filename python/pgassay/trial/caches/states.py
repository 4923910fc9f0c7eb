"""Cache states: how each is made, and how it is verified before anything is timed.

There are three states with names: in shared buffers, in the page cache, guest-cold. What a
hypervisor caches below a virtual disk can't be seen from here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgassay.environment.linux import pagecache
from pgassay.environment.server.server_caps import SHARED_BUFFERS_FRACTION_MAX
from pgassay.errors import InvalidTrialError, MeasurementError, UsageError
from pgassay.sql_text import qualified
from pgassay.trial.caches.relations import Relation

if TYPE_CHECKING:
    from pgassay.environment.server.sessions import ControlSession

RESIDENT_FRACTION_MIN = 0.99
# Reads of at most a quarter of shared_buffers keep the whole table there; a larger one goes through
# a ring of buffers (src/backend/access/heap/heapam.c, initscan): of 256 kB until 17, since then with room for
# the reads in flight as well (GetAccessStrategyWithSize in freelist.c).
RING_THRESHOLD_DIVISOR = 4
CLIFF_FRACTION = 0.10
WARMING_ROUNDS_MAX = 3


@dataclass(frozen=True)
class Capabilities:
    """What this server offers for its buffers, asked from it."""

    evict_all: bool
    evict_one: bool
    prewarm: bool


def capabilities(connection: "ControlSession") -> Capabilities:
    """Which functions exist: pg_buffercache_evict_all is 18+, pg_buffercache_evict 17+."""
    rows = connection.execute(
        "SELECT proname FROM pg_proc WHERE proname IN "
        "('pg_buffercache_evict_all', 'pg_buffercache_evict', 'pg_prewarm')"
    ).fetchall()
    names = {row[0] for row in rows}
    return Capabilities(
        evict_all="pg_buffercache_evict_all" in names,
        evict_one="pg_buffercache_evict" in names,
        prewarm="pg_prewarm" in names,
    )


def empty_buffers(connection: "ControlSession", able: Capabilities) -> bool:
    """Empty shared buffers without a restart; False when this server has no function for it."""
    if able.evict_all:
        row = connection.execute("SELECT buffers_skipped FROM pg_buffercache_evict_all()").fetchone()
        if row is None or row[0] > 16:
            raise InvalidTrialError(
                f"{row and row[0]} shared buffers could not be evicted: somebody pins them"
            )
        return True
    if able.evict_one:
        connection.execute(
            "SELECT count(*) FROM pg_buffercache b, LATERAL pg_buffercache_evict(b.bufferid) "
            "WHERE b.relfilenode IS NOT NULL"
        )
        return True
    return False


def all_files(relations: Sequence[Relation]) -> list[Path]:
    """The files of all segments and forks of the relations."""
    return [file for relation in relations for file in relation.files]


def make_cold(relations: Sequence[Relation]) -> int:
    """Evict the relations' files and verify that nothing of them is resident.

    Returns the bytes still resident (0). Raises InvalidTrialError when pages stay.
    """
    files = all_files(relations)
    pagecache.evict(files)
    resident = pagecache.resident_bytes(files)
    if resident:
        raise InvalidTrialError(f"{resident} bytes of the relations stayed in the page cache: not cold")
    return resident


def make_pages_warm(relations: Sequence[Relation]) -> float:
    """Read every file through the page cache; returns the fraction that is resident.

    Read again where pages are missing: whoever empties the machine's caches at that moment spoils no trial.
    """
    files = all_files(relations)
    size = sum(file.stat().st_size for file in files)
    fraction = 0.0
    for _ in range(WARMING_ROUNDS_MAX):
        pagecache.load(files)
        fraction = 1.0 if size == 0 else min(1.0, pagecache.resident_bytes(files) / size)
        if fraction == 1.0:
            break
    if fraction < RESIDENT_FRACTION_MIN:
        raise InvalidTrialError(
            f"only {fraction:.1%} of the relations stayed in the page cache: not warm (too little memory)"
        )
    return fraction


def shared_buffers_bytes(connection: "ControlSession") -> int:
    """The size of shared_buffers; 0 where the server doesn't say."""
    row = connection.execute("SELECT pg_size_bytes(current_setting('shared_buffers'))").fetchone()
    return int(row[0]) if row else 0


def make_buffers_warm(
    connection: "ControlSession",
    relations: Sequence[Relation],
    able: Capabilities,
    memory_bytes: int | None = None,
) -> float:
    """Fill shared buffers with the relations by pg_prewarm; returns the fraction in buffers.

    memory_bytes: what the server is capped at, which its buffers count in; None without a cap.
    Raises UsageError when they can't fit or pg_prewarm is missing.
    """
    if not able.prewarm:
        raise UsageError(
            "--cache warm-buffers needs the extension pg_prewarm, which this build lacks: "
            "use --cache warm-pages, or --pg with a build that has the contrib modules ('pgassay builds' "
            "lists what is available; the origin wheel comes without them)"
        )
    kept = [relation for relation in relations if relation.is_heap_or_index]
    size = sum(relation.size_bytes for relation in kept)
    buffers = shared_buffers_bytes(connection)
    if size > buffers * 0.95:
        raise UsageError(
            f"--cache warm-buffers: the data are {size >> 20} MB, shared_buffers {buffers >> 20} MB: "
            f"{_room_for(size, memory_bytes)} or use --cache warm-pages"
        )
    blocks = loaded = 0
    for relation in kept:
        query = (
            "SELECT pg_relation_size(%(name)s::regclass) / current_setting('block_size')::int, "
            "pg_prewarm(%(name)s::regclass)"
        )
        name = qualified(relation.schema, relation.name)
        answer = connection.execute(query, {"name": name}).fetchone()
        if answer is None:
            raise MeasurementError(f"pg_prewarm answered nothing for {name}: run the trial again")
        blocks += int(answer[0])
        loaded += int(answer[1])
    fraction = 1.0 if blocks == 0 else loaded / blocks
    if fraction < RESIDENT_FRACTION_MIN:
        raise InvalidTrialError(f"only {fraction:.1%} of the relations went into shared buffers: not warm")
    return fraction


def _room_for(size_bytes: int, memory_bytes: int | None) -> str:
    """What to set so that shared buffers hold so much, with the memory that they fit into."""
    enough = (int(size_bytes * 1.1) >> 20) + 16
    wanted = f"set shared_buffers={enough}MB"
    if memory_bytes is None or enough <= SHARED_BUFFERS_FRACTION_MAX * (memory_bytes >> 20):
        return wanted
    # A quarter of the memory is what a server is given at most where nothing else is known.
    return f"{wanted} with --memory {4 * enough}MB"


def cliff_warnings(relations: Sequence[Relation], shared_buffers_bytes: int) -> list[str]:
    """A sentence for each table within 10 % of a quarter of shared_buffers.

    There a few pages decide whether a scan keeps the table in buffers or goes through a small ring.
    """
    threshold = shared_buffers_bytes / RING_THRESHOLD_DIVISOR
    sentences = []
    for relation in relations:
        if relation.kind not in ("r", "m"):
            continue
        size = sum(file.stat().st_size for file in relation.files if "_" not in file.name)
        if threshold and abs(size / threshold - 1) <= CLIFF_FRACTION:
            sentences.append(
                f"{relation.name} ({size >> 20} MB) is within 10 % of a quarter of shared_buffers "
                f"({int(threshold) >> 20} MB), where PostgreSQL changes how a scan uses its buffers: "
                "choose a shared_buffers further away"
            )
    return sentences


def resident_fraction(relations: Sequence[Relation], names: frozenset[tuple[str, str]]) -> float | None:
    """How much of the named relations the page cache holds; None when none of them is known."""
    files = all_files([each for each in relations if (each.schema, each.name) in names])
    size = sum(file.stat().st_size for file in files)
    if size == 0 or not pagecache.can_verify():
        return None
    return pagecache.resident_bytes(files) / size
