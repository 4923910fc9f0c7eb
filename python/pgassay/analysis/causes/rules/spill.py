"""Sorts, hashes and materialised results that didn't fit into work_mem and went through files."""

from pgassay.analysis.causes.base import Answer, Found, Missing, Rule, between, lifted, raising
from pgassay.analysis.causes.evidence import Evidence

# Less than this per measured second is noise of no account (10⁶ bytes).
_BYTES_S_MIN = 1e6


def _spill(evidence: Evidence) -> Answer:
    """Bytes of temporary files by pg_stat_database, time by the wait events of their reads and writes.

    The extra passes of a sort that spills are ordinary CPU time and not in these seconds. At least the sleep
    is predicted to be gained, at most the copying to and from the page cache too: one pass takes a processor
    about as long as it takes to be given the memory that stands in for the files (a sort of 70 MB was no
    faster in memory, page by page faulted in), but how many passes there were is not recorded.
    """
    written = evidence.server.counters.total("pg_stat_database", "temp_bytes")
    if written is None:
        return Missing("the bytes of temporary files")
    if written < _BYTES_S_MIN * evidence.counted_s:
        return None
    times = evidence.times
    seconds = times.temporary_s + times.temporary_cpu_s
    figures: dict[str, float | str] = {
        "temporary_bytes": written,
        "temporary_files": evidence.server.counters.total("pg_stat_database", "temp_files") or 0.0,
        "work_mem": evidence.server.settings.get("work_mem", ""),
    }
    if evidence.is_unobserved:
        return Found(None, figures)
    asleep = lifted(evidence, seconds, figures, gained_s=times.temporary_s)
    return between(asleep, lifted(evidence, seconds, figures, cpu_s=times.temporary_cpu_s))


SPILL = Rule(
    cause="temp-spill",
    kind="fault",
    layer="infrastructure",
    phrase="sorts or hashes went through temporary files",
    remedy="Raise work_mem, or sort and hash less.",
    next_step="Set log_temp_files = 0 for a while to see which statements spill, and how much.",
    find=_spill,
    settings=raising("work_mem", "hash_mem_multiplier", "maintenance_work_mem"),
    otherwise="Sort or hash less.",
)
