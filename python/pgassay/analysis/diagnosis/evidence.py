"""The evidence of an interval, as the rules of a trial's causes look at it.

An interval is a load of unknown clients: no arm is compared, nothing is known of how the clients work, and
their connections' idle time is no part of it.
"""

from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.causes.evidence import MB, DeviceFlow, Evidence, Processors, moved, read_columns
from pgassay.analysis.causes.times import work_times
from pgassay.analysis.diagnosis.accounts import OWN, Accounts
from pgassay.analysis.diagnosis.interval import Interval
from pgassay.model.arm import Arm, ArmSpec, DatasetSpec
from pgassay.model.build import Build
from pgassay.model.storage import StorageSpec
from pgassay.model.trial import LoadObservation, TrialRecord
from pgassay.model.workload import Metric, WorkloadSpec

_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")
_NAME = "the server"
# Where a ceiling comes from, when the server's control groups impose it.
LIMIT = "limit"


def evidence(interval: Interval, accounts: Accounts) -> Evidence:
    """What the rules may look at; what was not seen is None, so that they can say so."""
    span = Span(interval.begin_ns, interval.end_ns, False)
    by_process = {each.process: each for each in accounts.by_process}
    record = _record(interval)
    rows = interval.counters.get("pg_stat_database", [])
    block_bytes = float(interval.settings.get("block_size", 8192))
    return Evidence(
        arm=_arm(interval),
        record=record,
        folder=interval.folder,
        elapsed_s=interval.seconds,
        accounts=by_process,
        times=work_times(accounts.by_process),
        device=_device(interval, span),
        ceiling=interval.ceiling,
        processors=processors(interval, accounts),
        bytes_read=block_bytes * sum(row.get("blks_read", 0.0) for row in rows),
        bytes_hit=block_bytes * sum(row.get("blks_hit", 0.0) for row in rows),
        group=interval.group,
        spans=(span,),
        upkeep=interval.upkeep,
        sessions_opened=total(interval, "pg_stat_database", "sessions"),
        is_live=True,
    )


def total(interval: Interval, view: str, *names: str) -> float | None:
    """The sum of these counters over all rows of a view; None without such a row."""
    rows = [row for row in interval.counters.get(view, []) if any(name in row for name in names)]
    return sum(float(row.get(name, 0.0)) for row in rows for name in names) if rows else None


def processors(interval: Interval, accounts: Accounts) -> Processors | None:
    """Of this machine, when the server is on it; with the clients that are there as well."""
    span = Span(interval.begin_ns, interval.end_ns, False)
    used = moved(interval.folder, "host_cpu", (*_BUSY, "idle", "iowait"), [span])
    if used is None or not accounts.has_cpu:
        return None
    own_s = interval.clients_cpu_s + server_cpu_s(accounts)
    available_s = sum(used)
    if interval.caps.cpus is not None:
        available_s = min(available_s, interval.caps.cpus * interval.seconds + interval.clients_cpu_s)
    others_s = max(0.0, sum(used[: len(_BUSY)]) - own_s)
    return Processors(sum(used) / interval.seconds, available_s, own_s, others_s)


def server_cpu_s(accounts: Accounts) -> float:
    """CPU seconds of all the server's threads."""
    return sum(item.seconds for each in accounts.by_process for item in each.items if item.kind == "cpu")


def _device(interval: Interval, span: Span) -> DeviceFlow | None:
    """The rates of all who read, as a device's own ceiling is for them; under a limit of the server's control
    groups the server's share of them."""
    found = moved(interval.folder, "device", ("read_bytes", "reads", "weighted_ms"), [span])
    if found is None:
        return None
    read_bytes, reads, weighted_ms = found
    own = _own_read_bytes(interval)
    share = 1.0 if own is None or read_bytes <= 0 else min(1.0, own / read_bytes)
    ceiling = interval.ceiling
    bytes_share = share if ceiling.read_mb_s_from == LIMIT else 1.0
    return DeviceFlow(
        read_bytes=read_bytes if own is None else own,
        read_mb_s=bytes_share * read_bytes / interval.seconds / MB,
        reads_s=(share if ceiling.read_iops_from == LIMIT else 1.0) * reads / interval.seconds,
        seconds=interval.seconds,
        service_s=weighted_ms / 1000,
    )


def _own_read_bytes(interval: Interval) -> float | None:
    """What the device delivered to the server's own processes; None where that is hidden."""
    threads = read_columns(interval.folder, "threads")
    if not interval.has_thread_bytes or not threads.get("read_bytes"):
        return None
    seen: dict[tuple[float, float], tuple[float, float]] = {}
    names = ("pid", "thread", "kind", "start_ns", "read_bytes")
    for pid, thread, kind, start_ns, read_bytes in zip(*(threads[name] for name in names), strict=True):
        if str(kind) == OWN:
            continue
        first, most = seen.get((pid, thread), (0.0 if start_ns > interval.begin_ns else read_bytes, 0.0))
        seen[pid, thread] = first, max(most, read_bytes)
    return sum(most - first for first, most in seen.values())


def _record(interval: Interval) -> TrialRecord:
    transactions = total(interval, "pg_stat_database", "xact_commit") or 0.0
    errors = total(interval, "pg_stat_database", "xact_rollback") or 0.0
    verification: dict[str, int] = {}
    wal_bytes = total(interval, "pg_stat_wal", "wal_bytes")
    if wal_bytes is not None:
        verification["wal_bytes"] = int(wal_bytes)
    return TrialRecord(
        number=0,
        attempt=1,
        block=0,
        position=0,
        arm_id="interval",
        status="ok",
        started_at=interval.started_at,
        ended_at=interval.started_at,
        wall_s=interval.seconds,
        clock_ns=(interval.begin_ns, interval.end_ns),
        host="",
        boot_id="",
        load=LoadObservation(
            transactions=int(transactions),
            elapsed_s=interval.seconds,
            errors=int(errors),
            client_cpu_s=interval.clients_cpu_s,
        ),
        facts={"settings": dict(interval.settings)},
        counters=dict(interval.counters),
        verification=verification,
    )


def _arm(interval: Interval) -> Arm:
    """A server without levels: nothing of it is compared."""
    return Arm(
        id="interval",
        name=_NAME,
        levels={},
        spec=ArmSpec(
            build=Build(origin="remote", version=interval.server.version, major=0, bin_directory=""),
            storage=StorageSpec(kind="remote"),
            dataset=DatasetSpec(kind="remote"),
            settings=dict(interval.settings),
            workload=WorkloadSpec(
                text="what runs",
                family="live",
                kind="load",
                metric=Metric(name="throughput", unit="tps", better="higher"),
                writes=True,
            ),
            memory_bytes=interval.caps.memory_bytes,
            cpus=interval.caps.cpus,
        ),
    )
