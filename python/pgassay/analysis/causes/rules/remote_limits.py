"""Storage and processors of a server whose machine nobody sees, by what SQL tells of them.

How a ceiling is told from the time of each read: `read_series.py`. The same causes of a server that can be
seen are in `storage.py` and `processors.py`, which ask here where there is nothing else.
"""

from dataclasses import replace

from pgassay.analysis.causes.base import Answer, Found, Missing, lifted
from pgassay.analysis.causes.evidence import MB, WRITES_SHARE_MIN, Evidence, Processors
from pgassay.analysis.causes.read_series import (
    IN_FLIGHT_MIN,
    INTERVALS_MIN,
    SHALLOW_MAX,
    CeilingName,
    growth_of_bytes,
)
from pgassay.analysis.causes.sql_evidence import SqlEvidence
from pgassay.words import figure

# Who waits less for reads than this share of the time is not limited by them.
_READING_MIN = 0.05
# As near as this to its ceiling, storage is full.
_FULL = 0.85
# Copying a page from the system's cache takes less than this on any processor of today (16 µs for 8 kB):
# where it could explain half of the wait, nothing is said of a device.
_COPIED_BYTES_S_MIN = 0.5e9
_COPYING_MAX = 0.5
# In this share of all intervals there must be about as many processes without a wait event as processors, or
# more: a session that is always at work waits for a moment now and then.
_STEADY_MIN = 0.9
_NEARLY = 0.9
_BLOCKS_ONLY = "not known: before 18 the server counts blocks and not requests"
_COUNT = "the number of the server's processors (--vcpus N)"


def ceiling(evidence: Evidence, sql: SqlEvidence, name: CeilingName) -> Answer:
    """Whether the reads came at the most that the storage gives, by bytes or by requests."""
    if evidence.times.share(evidence.times.read_s) < _READING_MIN:
        return None
    found = sql.ceiling
    if found is None:
        # Said once, by the first of the three causes that rest on the series.
        return Missing(_why_no_ceiling(sql)) if name == "read_mb_s" else None
    if found.name != name:
        return None
    if _is_copying(evidence, sql):
        return Missing("whether what was read came from storage or from the system's cache")
    amount = sql.read_bytes / MB if name == "read_mb_s" else sql.requests or 0.0
    rate = amount / sql.seconds
    if rate < _FULL * found.rate:
        return None
    figures = _figures(evidence, sql) | {
        f"ceiling_{name}": found.rate,
        "ceiling_from": "a rate that stayed flat",
        "share_of_ceiling": rate / found.rate,
        "reads_in_flight_low": found.growth.in_flight_low,
        "reads_in_flight_high": found.growth.in_flight_high,
        "rate_variation": found.growth.variation,
        "intervals": float(found.growth.intervals),
    }
    if found.request_bytes is not None:
        figures["request_bytes"] = found.request_bytes
    else:
        figures["by_bytes_or_requests"] = _BLOCKS_ONLY
    return _lifted(evidence, sql, figures, frozenset({name}))


def latency(evidence: Evidence, sql: SqlEvidence) -> Answer:
    """Few reads in flight, each waited for; or many, whose rate grew as their number did."""
    times = evidence.times
    if times.share(times.read_s) < _READING_MIN or sql.ceiling is not None:
        return None
    if not sql.read_bytes:
        return Missing("how much was read (its counters did not move)")
    if sql.is_partial:
        return None
    if _is_copying(evidence, sql):
        return Missing("whether what was read came from storage or from the system's cache")
    grown = growth_of_bytes(sql.intervals)
    is_proportional = grown is not None and grown.is_of_latency
    if sql.in_flight > SHALLOW_MAX and not is_proportional:
        return None
    if _is_mixed(evidence, sql):
        # At a ceiling that they share, reads wait long too: then more in flight is the wrong advice.
        return Missing("what the storage gives to reads and writes together")
    figures = _figures(evidence, sql) | {"ceiling": "not reached" if is_proportional else "not known"}
    if sql.requests:
        # Little's law; where reads are timed, by the server's own clock, which counts who waits.
        waited_s = sql.read_time_s or sql.in_flight * sql.seconds
        figures["read_latency_ms"] = 1000 * waited_s / sql.requests
    return _lifted(evidence, sql, figures, frozenset())


def all_cores(evidence: Evidence, sql: SqlEvidence) -> Answer:
    """As many processes without a wait event as the server has processors, or more, in nearly every interval.

    One such process may run, wait for a processor, or wait for something that has no event. That as many as
    there are processors are in that state all the time is what a full machine looks like.
    """
    if sql.vcpus is None:
        return Missing(_COUNT)
    series = sql.computing_series
    if not series or sum(each >= _NEARLY * sql.vcpus for each in series) < _STEADY_MIN * len(series):
        return None
    figures: dict[str, float | str] = {
        "processors": sql.vcpus,
        "processes_without_wait_event": sql.computing,
        "seen_by": "samples of pg_stat_activity",
        "intervals": float(len(series)),
    }
    working = [
        evidence.server.accounts[name]
        for name in ("backend", "parallel worker")
        if name in evidence.server.accounts
    ]
    return Found(max(0.0, sum(each.residue_s for each in working)), figures)


def _why_no_ceiling(sql: SqlEvidence) -> str:
    what = "whether its storage is at a ceiling"
    if sql.is_partial:
        return (
            f"{what}: the reads of other roles and of I/O workers are hidden from this one (GRANT pg_monitor)"
        )
    if len(sql.intervals) < INTERVALS_MIN:
        return (
            f"{what}: {len(sql.intervals)} intervals of counted reads are too few ({INTERVALS_MIN} are "
            "needed; observe longer, counters do not move while a statement runs)"
        )
    return (
        f"{what}: no rate stayed flat while the reads in flight varied by half, with {figure(IN_FLIGHT_MIN)} "
        "at a time or more (observe longer, or with other numbers of connections)"
    )


def _is_mixed(evidence: Evidence, sql: SqlEvidence) -> bool:
    """Whether so much is written beside the reads that it counts."""
    if sql.writes is None:
        return False
    reads = sql.read_bytes / evidence.server.block_bytes if sql.requests is None else sql.requests
    return sql.writes >= WRITES_SHARE_MIN * (reads + sql.writes) > 0


def _is_copying(evidence: Evidence, sql: SqlEvidence) -> bool:
    """Whether copying from the system's cache could explain the wait for reads."""
    return sql.read_bytes / _COPIED_BYTES_S_MIN > _COPYING_MAX * evidence.times.read_s


def _figures(evidence: Evidence, sql: SqlEvidence) -> dict[str, float | str]:
    figures: dict[str, float | str] = {"read_mb_s": sql.read_bytes / MB / sql.seconds}
    if sql.requests is not None:
        figures["read_iops"] = sql.requests / sql.seconds
    if sql.writes is not None and _is_mixed(evidence, sql):
        figures["write_iops"] = sql.writes / sql.seconds
    return figures | {"reads_in_flight": sql.in_flight, "seen_by": "SQL alone"}


def _lifted(
    evidence: Evidence, sql: SqlEvidence, figures: dict[str, float | str], lifts: frozenset[str]
) -> Found:
    """What lifting it gains is said where the processors, which come next, are known by their number."""
    read_s = evidence.times.read_s
    if sql.vcpus is None:
        return Found(read_s, figures)
    processors = Processors(
        count=sql.vcpus,
        available_s=sql.vcpus * evidence.server.elapsed_s,
        own_s=sql.computing * evidence.server.elapsed_s,
        others_s=0.0,
    )
    known = replace(evidence, machine=replace(evidence.machine, processors=processors))
    return lifted(known, read_s, figures, lifts=lifts)
