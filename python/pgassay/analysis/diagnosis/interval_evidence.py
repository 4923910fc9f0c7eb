"""The evidence of an interval, as the rules of a trial's causes look at it.

An interval is a load of unknown clients: no arm is compared, nothing is known of how the clients work, and
their connections' idle time is no part of it.
"""

from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.accounts.work_times import work_times
from pgassay.analysis.causes.evidence import Evidence, EvidenceMachine, Load, Observed, Work
from pgassay.analysis.causes.observed_evidence import bytes_of_blocks, device_flow, processors_of
from pgassay.analysis.causes.sampler_files import read_columns
from pgassay.analysis.causes.sql_evidence import SqlEvidence, sql_evidence
from pgassay.analysis.diagnosis.accounts import OWN, Accounts
from pgassay.analysis.diagnosis.interval import Interval
from pgassay.model.trial import Counters


def evidence_of_interval(interval: Interval, accounts: Accounts) -> Evidence:
    """What the rules may look at; what was not seen is None, so that they can say so."""
    observed = _observed(interval, accounts)
    counters = observed.counters
    wal_bytes = counters.total("pg_stat_wal", "wal_bytes")
    device = device_flow(observed, _own_read_bytes(interval), interval.ceiling)
    read, hit = bytes_of_blocks(observed)
    return Evidence(
        server=observed,
        times=work_times(accounts.by_process),
        machine=EvidenceMachine(
            device=device,
            ceiling=interval.ceiling,
            # Of this machine, when the server is on it; with the clients that are there as well.
            processors=processors_of(observed) if accounts.has_cpu else None,
        ),
        work=Work(
            bytes_read=read,
            bytes_hit=hit,
            load=Load(
                transactions=int(counters.total("pg_stat_database", "xact_commit") or 0.0),
                client_cpu_s=interval.clients_cpu_s,
            ),
            wal_bytes=None if wal_bytes is None else float(int(wal_bytes)),
            sessions_opened=counters.total("pg_stat_database", "sessions"),
        ),
        sql=None if device is not None else _by_sql(interval, observed),
        is_live=True,
    )


def _observed(interval: Interval, accounts: Accounts) -> Observed:
    """The interval as a trial's measured part is seen: a load of unknown clients."""
    return Observed(
        folder=interval.folder,
        spans=(Span(interval.begin_ns, interval.end_ns, False),),
        elapsed_s=interval.seconds,
        accounts={each.process: each for each in accounts.by_process},
        version=interval.server.version,
        settings=interval.settings,
        counters=Counters(interval.counters),
        caps=interval.caps,
        group=interval.group,
        vacuum_state=interval.vacuum_state,
        client_cpu_s=interval.clients_cpu_s,
    )


def _by_sql(interval: Interval, observed: Observed) -> SqlEvidence | None:
    method = interval.settings.get("io_method")
    return sql_evidence(
        interval.folder,
        observed.spans,
        uses_uring=method == "io_uring",
        # Who may not see other roles' processes is told so, and gets no limit.
        reads_by_workers=method == "worker",
        vcpus=interval.vcpus,
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
