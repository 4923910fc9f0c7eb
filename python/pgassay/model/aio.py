"""PostgreSQL's asynchronous reads: which plan nodes have them, and what bounds the look-ahead.

The first is by the first major version in which a node reads asynchronously.

The users of read streams for relation data in src/backend (access/heap/heapam.c,
executor/nodeBitmapHeapscan.c): sequential, bitmap heap and TID range scans. Index and index-only
scans read page by page whatever the method, in 18 and in 19.
"""

from collections.abc import Mapping

AIO_NODES = {"Seq Scan": 18, "Bitmap Heap Scan": 18, "Tid Range Scan": 18}

COMMANDS_SINCE = 18
# Processes that may pin buffers beside those that settings give places to (src/include/storage/proc.h): 6
# auxiliary ones and 32 I/O workers, the launcher of autovacuum and the worker that synchronises slots.
_OTHER_PROCESSES = 6 + 32 + 2
# These have places too (src/backend/utils/init/postinit.c, InitializeMaxBackends).
_PLACES = {
    "max_connections": 100,
    "autovacuum_worker_slots": 16,
    "max_worker_processes": 8,
    "max_wal_senders": 10,
}
# src/backend/storage/aio/aio_init.c, AioChooseMaxConcurrency.
IO_MAX_CONCURRENCY_DEFAULT_MAX = 64
# PG_INT16_MAX, the type of a stream's counts (src/backend/storage/aio/read_stream.c).
_STREAM_BLOCKS_MAX = 32767


def can_read_asynchronously(node_type: str, major: int) -> bool:
    """Whether a plan node of this type uses asynchronous reads on this major version."""
    return major >= AIO_NODES.get(node_type, 10**6)


def command_reads_asynchronously(major: int) -> bool:
    """Whether maintenance commands, which have no plan to look into, use asynchronous reads on this major.

    All of them scan the heap by a read stream from 18 on (src/backend/access/heap/vacuumlazy.c and heapam.c,
    src/backend/commands/analyze.c); a CLUSTER that reads by its index is the exception.
    """
    return major >= COMMANDS_SINCE


def processes(places: Mapping[str, int]) -> int:
    """The processes among which 18 and 19 divide shared buffers; `places`: those settings that are known."""
    return _OTHER_PROCESSES + sum(places.get(name, default) for name, default in _PLACES.items())


def pin_limit(shared_blocks: int, processes: int) -> int:
    """The blocks that a backend may pin: its share of shared buffers.

    src/backend/storage/buffer/bufmgr.c, InitBufferManagerAccess and GetPinLimit.
    """
    return shared_blocks // processes


def default_io_max_concurrency(shared_blocks: int, processes: int) -> int:
    """What io_max_concurrency=-1 becomes at the start of a server: the share of shared buffers, 1 to 64."""
    return min(max(shared_blocks // processes, 1), IO_MAX_CONCURRENCY_DEFAULT_MAX)


def look_ahead_blocks(concurrency: int, combine_blocks: int, pins: int, ring: int | None = None) -> int:
    """The most blocks that a read stream of 18 and 19 pins, 1 at least.

    src/backend/storage/aio/read_stream.c, read_stream_begin_impl; `ring`: of a scan that reads through one.
    """
    most = min((concurrency + 1) * combine_blocks, _STREAM_BLOCKS_MAX - (combine_blocks - 1) - 1)
    return max(1, min(most, pins, most if ring is None else ring))
