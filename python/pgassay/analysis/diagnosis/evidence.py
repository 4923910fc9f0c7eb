"""The evidence of an interval, as the rules of a trial's causes look at it.

An interval is a load of unknown clients: no arm is compared, nothing is known of how the clients work, and
their connections' idle time is no part of it.
"""

from dataclasses import asdict

from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.accounts.work_times import work_times
from pgassay.analysis.causes.evidence import MB, DeviceFlow, Evidence, Load, Processors, block_bytes
from pgassay.analysis.causes.sampler_files import PROCESSOR_TAKEN, Requests, moved, read_columns, requests
from pgassay.analysis.causes.sql_evidence import SqlEvidence, sql_evidence
from pgassay.analysis.diagnosis.accounts import OWN, Accounts
from pgassay.analysis.diagnosis.interval import Interval
from pgassay.model.trial import Counters, figure
from pgassay.record.observations import PROCESSOR_FREE

# Where a ceiling comes from, when the server's control groups impose it.
_LIMIT = "limit"


def evidence_of_interval(interval: Interval, accounts: Accounts) -> Evidence:
    """What the rules may look at; what was not seen is None, so that they can say so."""
    span = Span(interval.begin_ns, interval.end_ns, False)
    counters = Counters(interval.counters)
    rows = counters.rows("pg_stat_database")
    size = block_bytes(interval.settings)
    wal_bytes = counters.total("pg_stat_wal", "wal_bytes")
    device = _device(interval, span)
    return Evidence(
        folder=interval.folder,
        elapsed_s=interval.seconds,
        accounts={each.process: each for each in accounts.by_process},
        times=work_times(accounts.by_process),
        device=device,
        ceiling=interval.ceiling,
        processors=_processors(interval, accounts, span),
        bytes_read=size * sum(figure(row, "blks_read") for row in rows),
        bytes_hit=size * sum(figure(row, "blks_hit") for row in rows),
        version=interval.server.version,
        settings=interval.settings,
        counters=counters,
        caps=interval.caps,
        group=interval.group,
        load=Load(
            transactions=int(counters.total("pg_stat_database", "xact_commit") or 0.0),
            client_cpu_s=interval.clients_cpu_s,
        ),
        wal_bytes=None if wal_bytes is None else float(int(wal_bytes)),
        spans=(span,),
        vacuum_state=interval.vacuum_state,
        sessions_opened=counters.total("pg_stat_database", "sessions"),
        is_live=True,
        sql=None if device is not None else _by_sql(interval, span),
    )


def _by_sql(interval: Interval, span: Span) -> SqlEvidence | None:
    method = interval.settings.get("io_method")
    return sql_evidence(
        interval.folder,
        [span],
        uses_uring=method == "io_uring",
        # Who may not see other roles' processes is told so, and gets no limit.
        reads_by_workers=method == "worker",
        vcpus=interval.vcpus,
    )


def _processors(interval: Interval, accounts: Accounts, span: Span) -> Processors | None:
    """Of this machine, when the server is on it; with the clients that are there as well."""
    used = moved(interval.folder, "host_cpu", (*PROCESSOR_TAKEN, *PROCESSOR_FREE), [span])
    if used is None or not accounts.has_cpu:
        return None
    own_s = interval.clients_cpu_s + server_cpu_s(accounts)
    available_s = sum(used)
    if interval.caps.cpus is not None:
        available_s = min(available_s, interval.caps.cpus * interval.seconds + interval.clients_cpu_s)
    others_s = max(0.0, sum(used[: len(PROCESSOR_TAKEN)]) - own_s)
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
    # Of a limit of its control groups nobody else uses anything: all that is written may be others'.
    is_own = _LIMIT in (ceiling.read_iops_from, ceiling.read_mb_s_from)
    written = Requests() if is_own else requests(interval.folder, [span], interval.seconds)
    bytes_share = share if ceiling.read_mb_s_from == _LIMIT else 1.0
    return DeviceFlow(
        read_bytes=read_bytes if own is None else own,
        read_mb_s=bytes_share * read_bytes / interval.seconds / MB,
        reads_s=(share if ceiling.read_iops_from == _LIMIT else 1.0) * reads / interval.seconds,
        seconds=interval.seconds,
        service_s=weighted_ms / 1000,
        **asdict(written),
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
