"""The volume's burst credits ended within the trial, and what it gives without them set the speed.

A volume with credits gives its peak until they are used up and its baseline from then on (for Amazon's gp2:
"Amazon EBS General Purpose SSD volumes", I/O credits and burst performance). When they ended is the imitated
volume's own account: the first request that waited for credits and for nothing else.
"""

from dataclasses import replace

from pgassay.analysis.accounts.wait_groups import DATA_WRITE, EXTENSION
from pgassay.analysis.causes.base import DEVICE, Answer, Missing, Rule, between, lifted
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.volume_evidence import BurstEnd

# What a volume without credits costs less than this share of the time is no limit.
_LOST_SHARE_MIN = 0.25
# The light-weight lock that holds all who commit while one flushes (src/backend/access/transam/xlog.c); 16
# writes the second name.
_WAL_WRITE = frozenset({"WALWrite", "WALWriteLock"})


def _burst_credits(evidence: Evidence) -> Answer:
    ends = [end for end in evidence.machine.burst_ends if end.lost_s > 0]
    if not ends:
        return None
    if evidence.is_unobserved:
        return Missing("the time of the server's processes")
    worst = max(ends, key=lambda end: end.lost_s)
    times = evidence.times
    queued_for_wal_s = sum(seconds for name, seconds in times.lwlocks.items() if name in _WAL_WRITE)
    written_s = times.written_s(DATA_WRITE) + times.written_s(EXTENSION)
    seen_s = storage_s = times.read_s + times.wal_s + times.temporary_s + queued_for_wal_s + written_s
    if worst.is_full:
        # A full resource sets the speed (the utilisation law): who waits for a lock waits for one who waits
        # for the volume, to write pages out among other things.
        elsewhere_s = times.cpu_s + times.runnable_s + times.client_s + times.network_s
        storage_s = max(storage_s, times.total_s - elsewhere_s)
    lost_s = min(storage_s, times.total_s * worst.lost_s / evidence.server.elapsed_s)
    if times.share(lost_s) < _LOST_SHARE_MIN:
        return None
    found = lifted(evidence, lost_s, _figures(worst), lifts=DEVICE)
    if not worst.is_known_before:
        least_s = _least_s(evidence, worst, seen_s)
        found = between(found, lifted(evidence, lost_s, {}, gained_s=least_s, lifts=DEVICE))
    # All that was waited for at this volume took as long as it did because of its credits.
    return replace(found, weight_s=storage_s, remedy=_remedy(worst))


def _least_s(evidence: Evidence, end: BurstEnd, waited_s: float) -> float:
    """What is gained at least: nothing else goes on while the volume moves as much in a burst.

    At most all of it goes on meanwhile, as readers ahead have it, and the time is the longer one of both (the
    asymptotic bounds of a closed system, Lazowska and others, "Quantitative System Performance", 1984, 5).
    """
    moved_s = end.after_s - end.lost_s + end.at_s
    return max(0.0, waited_s - evidence.times.total_s * moved_s / evidence.server.elapsed_s)


def _figures(end: BurstEnd) -> dict[str, float | str]:
    scale, unit = (1.0, "operations_s") if end.unit == "operations" else (1e6, "mb_s")
    figures: dict[str, float | str] = {
        "volume": end.volume,
        "credits_ended_at_s": end.at_s,
        f"{unit}_before": end.before / scale,
        f"{unit}_after": end.after / scale,
    }
    lasting = _lasting(end)
    return figures | ({"would_have_lasted": " or ".join(lasting)} if lasting else {})


def _lasting(end: BurstEnd) -> list[str]:
    return [
        f"{each.volume}"
        + ("" if each.per_month is None else f" ({each.per_month:,.2f} {each.currency} a month)")
        for each in end.would_last
    ]


def _remedy(end: BurstEnd) -> str:
    when = f"ended at second {end.at_s:.0f} of" if end.at_s > 0 else "had ended before"
    words = f"The credits of {end.volume} {when} the measured part"
    lasting = _lasting(end)
    if not lasting:
        return f"{words}: use a volume, or an instance, with that performance without credits."
    return f"{words}: {' or '.join(lasting)} would have lasted."


ENDED = Rule(
    cause="burst-credits",
    kind="limit",
    layer="infrastructure",
    phrase="its volume, whose burst credits were used up",
    remedy="Use a volume, or a larger size, with that performance without credits.",
    next_step="Check the volume's balance of burst credits, and its performance without them.",
    find=_burst_credits,
)
