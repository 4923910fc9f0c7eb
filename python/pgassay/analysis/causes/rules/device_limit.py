"""The device sets the speed: by its bytes, by its requests, or by how long one request takes.

The utilisation law: a resource that delivers as much as it can is the bottleneck (Denning and Buzen,
"The Operational Analysis of Queueing Network Models", 1978). What it can is measured, by the probe of the
same device, or asked of it, by a limit. %util is no evidence: a device that works on many requests at once
is 100 % busy long before it is full (iostat(1), svctm and %util).
"""

from dataclasses import replace

from pgassay.analysis.accounts.wait_groups import DATA_WRITE, EXTENSION
from pgassay.analysis.causes.aio_reads import index_share
from pgassay.analysis.causes.base import Answer, Found, Missing, Rule, SettingRemedy, lifted, raising
from pgassay.analysis.causes.ceilings import counts_writes, fractions, is_full, is_used_up
from pgassay.analysis.causes.evidence import DeviceFlow, Evidence
from pgassay.analysis.causes.read_series import CeilingName
from pgassay.analysis.causes.rules import remote_limits

# The device's own time must explain at least this share of the wait for it.
_EXPLAINED_MIN = 0.5
# Who waits less for reads than this share of the time is not limited by them.
_READING_MIN = 0.05
# The figure that tells of advice for index reads.
INDEX_SHARE = "share_of_reads_by_index"
# From this share of page by page reads on, the advice is theirs.
_INDEX_MIN = 0.5
_INDEX_IOPS = (
    "Its index scans read single pages, which io_combine_limit, read-ahead and asynchronous I/O do not "
    "change: fetch fewer rows, in the table's order (CLUSTER, an index that covers the query), keep more in "
    "memory, or use storage with more IOPS."
)
_INDEX_LATENCY = (
    "Its index scans read one page after another, which effective_io_concurrency and asynchronous I/O do "
    "not change: keep more in memory, fetch fewer rows, use more concurrent connections, or use storage "
    "with lower latency."
)
_COMBINE_SINCE, _AIO_SINCE = 17, 18
_LATENCY_BEFORE_AIO = (
    "Keep more requests in flight: effective_io_concurrency prefetches for bitmap heap scans (for no other "
    "scan before 18), and more concurrent connections read; asynchronous I/O needs PostgreSQL 18; "
    "or use storage with lower latency."
)
_IOPS_BEFORE_COMBINING = (
    "Use larger requests (the device's read-ahead, for sequential scans; io_combine_limit needs "
    "PostgreSQL 17), keep more in memory, or use storage with more IOPS."
)
# Requests in flight per process that waits, up to which a queue is shallow.
_SHALLOW_MAX = 1.5


def _ceiling_cause(evidence: Evidence, name: CeilingName) -> Answer:
    flow = evidence.machine.device
    if flow is None and evidence.sql is not None:
        answer = remote_limits.ceiling(evidence, evidence.sql, name)
        if name == "read_iops" and isinstance(answer, Found):
            return _of_index_reads(evidence, answer, _INDEX_IOPS)
        return answer
    if evidence.times.share(_waited_s(evidence, name)) < _READING_MIN:
        return None
    if flow is None:
        return Missing("what the device delivered")
    found = fractions(evidence)
    if name not in found:
        return Missing("the ceiling of the device ('pgassay probe' measures it)")
    if not is_used_up(evidence, name, found[name]) or found[name] < max(found.values()):
        return None
    figures = _figures(flow) | {
        f"ceiling_{name}": float(getattr(evidence.machine.ceiling, name)),
        "ceiling_from": getattr(evidence.machine.ceiling, f"{name}_from") or "probe",
        "share_of_ceiling": found[name],
    }
    answer = lifted(evidence, _waited_s(evidence, name), figures, lifts=frozenset({name}))
    return _of_index_reads(evidence, answer, _INDEX_IOPS) if name == "read_iops" else answer


def _waited_s(evidence: Evidence, name: CeilingName) -> float:
    """What a full device is waited for: for reads, and where it counts writes as well for these."""
    times = evidence.times
    if not counts_writes(evidence, name):
        return times.read_s
    wal_s = 0.0 if evidence.machine.has_own_wal else times.wal_s
    return times.read_s + wal_s + times.written_s(DATA_WRITE) + times.written_s(EXTENSION)


def _of_index_reads(evidence: Evidence, found: Found, remedy: str) -> Found:
    """With what helps reads page by page, where most are such: in 16 to 19 no setting makes these larger or
    keeps several of one process in flight (`aio_reads.py`)."""
    share = index_share(evidence)
    if share is None or share < _INDEX_MIN:
        return _of_version(evidence, found, remedy)
    return replace(found, figures=found.figures | {INDEX_SHARE: share}, remedy=remedy)


def _of_version(evidence: Evidence, found: Found, by_index: str) -> Found:
    """With advice that the version has: io_combine_limit came with 17, asynchronous reads with 18."""
    major = evidence.server.major
    if major is None:
        return found
    if by_index == _INDEX_LATENCY:
        return found if major >= _AIO_SINCE else replace(found, remedy=_LATENCY_BEFORE_AIO)
    return found if major >= _COMBINE_SINCE else replace(found, remedy=_IOPS_BEFORE_COMBINING)


def _figures(flow: DeviceFlow) -> dict[str, float | str]:
    figures: dict[str, float | str] = {"read_mb_s": flow.read_mb_s}
    if flow.reads_s is not None:
        figures["read_iops"] = flow.reads_s
    if flow.is_mixed and flow.writes_s is not None:
        figures |= {"write_mb_s": flow.write_mb_s or 0.0, "write_iops": flow.writes_s}
        latencies = {"read_ms": flow.read_ms, "write_ms": flow.write_ms}
        figures |= {name: value for name, value in latencies.items() if value is not None}
    return figures


def _throughput(evidence: Evidence) -> Answer:
    return _ceiling_cause(evidence, "read_mb_s")


def _iops(evidence: Evidence) -> Answer:
    return _ceiling_cause(evidence, "read_iops")


def _latency(evidence: Evidence) -> Answer:
    """Few requests at a time, each waited for: the device's own time explains the wait, and it is not full.

    Where its ceiling is not known, a queue of about one request per waiting process says that no more was
    asked of it.
    """
    flow = evidence.machine.device
    if flow is None and evidence.sql is not None:
        answer = remote_limits.latency(evidence, evidence.sql)
        return _of_index_reads(evidence, answer, _INDEX_LATENCY) if isinstance(answer, Found) else answer
    if evidence.times.share(evidence.times.read_s) < _READING_MIN:
        return None
    if flow is None or flow.service_s is None or not flow.reads_s:
        return Missing("how long the device worked on its requests")
    full = is_full(evidence)
    seconds, service_s = evidence.times.read_s, _reading_s(flow)
    if full or service_s < _EXPLAINED_MIN * seconds:
        return None
    if full is None and service_s > _SHALLOW_MAX * seconds:
        return Missing("the ceiling of the device ('pgassay probe' measures it)")
    figures = _figures(flow) | {
        "ceiling": "not known" if full is None else "not reached",
        "requests_in_flight": service_s / flow.seconds,
        "read_latency_ms": 1000 * service_s / (flow.reads_s * flow.seconds),
        "device_service_s": service_s,
    }
    return _of_index_reads(evidence, lifted(evidence, seconds, figures), _INDEX_LATENCY)


def _reading_s(flow: DeviceFlow) -> float:
    """The device's time for its reads; of all its requests where it is not told apart."""
    if flow.read_ms is not None and flow.reads_s is not None:
        return flow.read_ms / 1000 * flow.reads_s * flow.seconds
    return flow.service_s or 0.0


_AT_A_TIME = (
    *raising("effective_io_concurrency", "maintenance_io_concurrency"),
    SettingRemedy("io_method", ("worker", "io_uring"), "Asynchronous I/O"),
)
THROUGHPUT = Rule(
    cause="storage-throughput",
    kind="limit",
    layer="infrastructure",
    phrase="the bandwidth of its storage",
    remedy="Read fewer bytes, keep more of them in memory, or use storage that delivers more MB/s.",
    next_step=(
        "Check which statements read most (shared_blks_read of pg_stat_statements) and whether their tables "
        "could stay in memory; 'pgassay probe' says what the device can do."
    ),
    find=_throughput,
    settings=raising("shared_buffers", "memory"),
    otherwise="Read fewer bytes, or use storage that delivers more MB/s.",
)
IOPS = Rule(
    cause="storage-iops",
    kind="limit",
    layer="infrastructure",
    phrase="the requests per second of its storage",
    remedy=(
        # From 18 on the one setting is silently held down to the other (bufmgr.c).
        "Use larger requests (io_combine_limit and read-ahead, for sequential scans; for more than 128 kB "
        "also io_max_combine_limit from 18 on, which takes a restart), keep more in memory, or use storage "
        "with more IOPS."
    ),
    next_step=(
        "Check which statements fetch single pages (index scans, idx_blks_read of pg_statio_user_tables); "
        "'pgassay probe' says what the device can do."
    ),
    find=_iops,
    settings=raising("io_combine_limit", "shared_buffers", "memory"),
    otherwise="Read fewer pages, or use storage with more IOPS.",
)
LATENCY = Rule(
    cause="storage-latency",
    kind="limit",
    layer="infrastructure",
    phrase="the latency of its storage, with few requests in flight",
    remedy=(
        "Keep more requests in flight (effective_io_concurrency and asynchronous I/O, for sequential and "
        "bitmap scans; more connections), or use storage with lower latency."
    ),
    next_step=(
        "Check whether index scans read (idx_blks_read of pg_statio_user_tables), for which these settings "
        "have no effect; if not, compare them on a copy of the data: 'pgassay compare "
        "effective_io_concurrency=1,16,64'; and ask the provider for the volume's latency."
    ),
    find=_latency,
    settings=_AT_A_TIME,
    otherwise="Use more connections, or storage with lower latency.",
)
