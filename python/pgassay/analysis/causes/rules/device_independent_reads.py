"""Reads that no device or method can speed up: those answered from memory, and those that can't be queued."""

from pgassay.analysis.causes.aio_reads import index_share, prefetched_share, synchronous_share
from pgassay.analysis.causes.base import Answer, Found, Missing, OnRunningServer, Rule
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.rules.processors import throttled_share
from pgassay.model.aio import COMMANDS_SINCE

# Settings and storages whose effect is one on reads from a device.
_OF_READS = frozenset(
    {
        *("io_method", "io_workers", "io_min_workers", "io_max_workers", "io_combine_limit"),
        *("io_max_combine_limit", "io_max_concurrency", "effective_io_concurrency"),
        *("maintenance_io_concurrency", "storage", "read_ahead"),
    }
)
_OF_SIZE = frozenset({"io_combine_limit", "io_max_combine_limit"})
_OF_AIO = _OF_READS - {"storage", "read_ahead"} - _OF_SIZE
_FROM_DEVICE_MAX = 0.05
_READ_BYTES_MIN = 1e6
_CPU_SHARE_MIN = 0.5
_COPYING_MIN = 0.25
# Copying a page and verifying its checksum takes a few microseconds on any processor of today: 16 are too
# many. One at a time through an I/O worker, with a switch of processes both ways, takes less than 40.
_COPIED_BYTES_S_MIN = 0.5e9
_HANDED_OVER_BYTES_S_MIN = 0.2e9
_THROTTLED_MIN = 0.5
_WORTH_TELLING = 0.05
# From this share of reads on that are page by page, no setting of asynchronous I/O can matter.
_SYNCHRONOUS_MIN = 0.9


def _cached(evidence: Evidence) -> Answer:
    """PostgreSQL asked for pages and no device delivered them: the time is the processors'."""
    flow, times = evidence.machine.device, evidence.times
    if flow is None:
        return Missing("what the device delivered")
    # Whoever waits for a read then, waits for an I/O worker that copies from memory.
    busy_s = times.cpu_s + times.read_s
    if throttled_share(evidence) >= _THROTTLED_MIN or times.share_awake(busy_s) < _CPU_SHARE_MIN:
        return None
    is_compared = bool(_OF_READS & evidence.work.compared)
    asked = evidence.work.bytes_read + evidence.work.bytes_hit
    if asked < _READ_BYTES_MIN or flow.read_bytes > _FROM_DEVICE_MAX * asked:
        return None
    # Of few reads among many hits the device may deliver all: then waiting for them says whether it matters.
    is_delivered = flow.read_bytes > _FROM_DEVICE_MAX * evidence.work.bytes_read
    if is_delivered and times.share_awake(times.read_s) >= _WORTH_TELLING:
        return None
    # Else it is of interest only where much of the time goes into copying from the page cache.
    if not is_compared and times.share_awake(_copying_s(evidence)) < _COPYING_MIN:
        return None
    figures: dict[str, float | str] = {
        "postgres_read_bytes": evidence.work.bytes_read,
        "postgres_hit_bytes": evidence.work.bytes_hit,
        "device_read_bytes": flow.read_bytes,
        "cpu_s": times.cpu_s,
        "cpu_in_reads_s": times.cpu_in_reads_s,
    }
    # Who compares an index or a plan was not out for I/O.
    remedy = f"{CACHED.remedy} {_MORE_IO}" if is_compared else ""
    return Found(busy_s, figures, None, busy_s + times.runnable_s, remedy=remedy)


def _copying_s(evidence: Evidence) -> float:
    """Time for copying from the page cache, or for waiting until an I/O worker has copied.

    Samples tell it, and of a short statement there are few: it can't be more than these bytes take at the
    slowest.
    """
    times, read = evidence.times, evidence.work.bytes_read
    return min(times.cpu_in_reads_s, read / _COPIED_BYTES_S_MIN) + min(
        times.read_s, read / _HANDED_OVER_BYTES_S_MIN
    )


def _no_aio(evidence: Evidence) -> Answer:
    """A setting of asynchronous I/O is compared, and nearly all that is read can't use it.

    Index and index-only scans read page by page whatever the method (`model/aio.py` has the sources), so that
    there is nothing to combine into larger reads either. It is said however little of the time goes into
    waiting: what is compared can't matter then either.
    """
    by_index = index_share(evidence)
    is_by_index = by_index is not None and by_index >= _SYNCHRONOUS_MIN
    # Before 18 sequential scans combine reads that they don't make asynchronously.
    of_reads = _OF_AIO | (_OF_SIZE if is_by_index else frozenset())
    factors = sorted((of_reads & evidence.work.compared) - _prefetching(evidence))
    read = [item for item in evidence.work.statements if item.delivered_bytes]
    is_read = bool(read) or (
        evidence.is_load and evidence.machine.device is not None and evidence.machine.device.read_bytes > 0
    )
    if not factors or not is_read:
        return None
    is_off = evidence.work.asked_for.get("effective_io_concurrency") == "0"
    share = synchronous_share(evidence)
    can = (not read or any(item.aio for item in read)) if share is None else share < _SYNCHRONOUS_MIN
    if can and not is_off:
        return None
    figures: dict[str, float | str] = {
        "compared": ", ".join(factors),
        "effective_io_concurrency": evidence.work.asked_for.get("effective_io_concurrency", ""),
        "postgresql": evidence.server.version,
    }
    if share is not None:
        figures["share_of_reads_without_aio"] = share
    if read:
        figures |= {
            "statements_that_read": float(len(read)),
            "statements_with_aio": float(sum(item.aio for item in read)),
        }
    return Found(evidence.times.read_s, {name: value for name, value in figures.items() if value != ""})


def _prefetching(evidence: Evidence) -> frozenset[str]:
    """Before 18 the settings that prefetch without asynchronous I/O, where what is read may use them.

    Bitmap heap scans go by the one; ANALYZE, which has no plan, by the other (src/backend/commands/analyze.c,
    acquire_sample_rows, from 14 on).
    """
    if (evidence.server.major or 0) >= COMMANDS_SINCE:
        return frozenset()
    share = prefetched_share(evidence)
    if share is None:
        return frozenset({"effective_io_concurrency", "maintenance_io_concurrency"})
    is_none = share <= 1 - _SYNCHRONOUS_MIN
    return frozenset() if is_none else frozenset({"effective_io_concurrency"})


_MORE_IO = "To compare I/O, use --cache cold or cold-each, more data or less memory."
CACHED = Rule(
    cause="cached",
    kind="limit",
    layer="measurement",
    phrase="processors, with nothing to read from a device",
    remedy="There is no I/O to speed up: fewer pages, rows or calls help.",
    next_step=(
        "Check which statements access most pages (shared_blks_hit and shared_blks_read "
        "of pg_stat_statements): pages come from memory, so accessing fewer of them helps."
    ),
    on_running_server=OnRunningServer(
        layer="design",
        remedy=(
            "Access fewer pages: an index, a smaller result, a materialised view. Faster storage would "
            "change nothing."
        ),
    ),
    find=_cached,
)
NO_AIO = Rule(
    cause="no-aio",
    kind="fault",
    layer="measurement",
    phrase="the compared setting can't matter here: almost no read can use asynchronous I/O",
    remedy=(
        "Compare with statements that read by sequential or bitmap heap scans, on PostgreSQL 18 or newer: "
        "these can't read asynchronously, so the setting can't matter."
    ),
    next_step="Check the plans: only sequential and bitmap heap scans read asynchronously.",
    find=_no_aio,
)
