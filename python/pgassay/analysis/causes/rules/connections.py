"""Too many connections: one for each piece of work, or far more at work at a time than processors.

A connection costs a new process, its authentication and caches that start empty
(src/backend/tcop/backend_startup.c, src/backend/utils/init/postinit.c). Connections that all want a
processor make each other's work longer and finish no more of it (the utilisation law).
"""

from pgassay.analysis.causes.base import Answer, Found, Missing, Rule, lifted
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.rules.processors import is_machine_full

# A connection that does fewer transactions than this was opened for them.
_TRANSACTIONS_MAX = 5.0
_OPENED_S_MIN = 10.0
_SHARE_MIN = 0.05
# So many connections, several of them at a time at work for each processor, which mostly queue. In a closed
# loop the client on the same machine gets so little of the processors then that most wait for it: with 120
# connections on two processors 22 were at work, and 40 % fewer transactions came about than with 16.
_CONNECTIONS_MIN = 64.0
_PER_PROCESSOR_MIN = 16.0
_AT_WORK_PER_PROCESSOR_MIN = 4.0
_QUEUED_MIN = 0.75


def _connections(evidence: Evidence) -> Answer:
    opened = _opened(evidence)
    crowded = _crowded(evidence)
    if isinstance(opened, Found):
        return opened
    return crowded or opened


def _opened(evidence: Evidence) -> Answer:
    """More than one connection for every few transactions."""
    if evidence.work.sessions_opened is None:
        return Missing("how many connections were opened")
    rate = evidence.work.sessions_opened / evidence.counted_s
    done = evidence.server.counters.total("pg_stat_database", "xact_commit", "xact_rollback")
    if rate < _OPENED_S_MIN or done is None or done > _TRANSACTIONS_MAX * evidence.work.sessions_opened:
        return None
    figures: dict[str, float | str] = {
        "connections_opened": evidence.work.sessions_opened,
        "opened_per_second": rate,
        "transactions_per_connection": done / evidence.work.sessions_opened,
    }
    if evidence.work.connect_s is None:
        return Found(None, figures)
    seconds = min(evidence.times.total_s, evidence.work.sessions_opened * evidence.work.connect_s)
    if evidence.times.share(seconds) < _SHARE_MIN:
        return None
    figures["connect_ms"] = 1000 * evidence.work.connect_s
    return lifted(evidence, seconds, figures, cpu_s=min(seconds, evidence.times.cpu_s))


def _crowded(evidence: Evidence) -> Found | None:
    """So many at work that most of their time is queueing; no fewer transactions would be done by fewer."""
    times, processors, backends = (
        evidence.times,
        evidence.machine.processors,
        evidence.server.accounts.get("backend"),
    )
    if processors is None or backends is None or not is_machine_full(evidence):
        return None
    queued_s = times.runnable_s + times.lwlock_s
    at_work = (times.cpu_s + queued_s) / evidence.server.elapsed_s
    if backends.threads < max(_CONNECTIONS_MIN, _PER_PROCESSOR_MIN * processors.count):
        return None
    if at_work < _AT_WORK_PER_PROCESSOR_MIN * processors.count or queued_s < _QUEUED_MIN * (
        times.cpu_s + queued_s
    ):
        return None
    return Found(
        None,
        {
            "connections": backends.threads,
            "connections_at_work": at_work,
            "processors": processors.count,
            "runnable_s": times.runnable_s,
            "lwlock_s": times.lwlock_s,
        },
    )


CONNECTIONS = Rule(
    cause="connections",
    kind="fault",
    layer="design",
    phrase="too many connections were opened, or active at the same time",
    remedy=(
        "Keep connections open and share them with a pool (the application's own, or PgBouncer), sized to a "
        "few per processor."
    ),
    next_step="Check whether the application has a pool, and its size.",
    find=_connections,
)
