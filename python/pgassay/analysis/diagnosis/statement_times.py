"""How much of the time each statement took: by the server's own counts, else by samples of its sessions."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pgassay.analysis.diagnosis.interval import Interval, Session, SessionsSample
from pgassay.analysis.diagnosis.sessions import (
    IN_TRANSACTION,
    sampled_statements,
    statement_key,
    without_constants,
)
from pgassay.model.running_server.diagnosis import CalledStatement

# A call that takes more of the interval may begin before it, and is counted when it ends, whenever it began.
_LONG_SHARE = 0.1
_PARAMETER = re.compile(r"\$\d+")


def _numbered(interval: Interval) -> list[SessionsSample]:
    """The samples with the number of each statement that is known by its text from elsewhere.

    A session has none until its statement is parsed; one that begins has no statement.
    """
    numbers = {_plain(each.query): each.query_id for each in interval.statements or ()}
    sessions = [each for sample in interval.samples for each in sample.sessions]
    numbers |= {_plain(each.query): each.query_id for each in sessions if each.query_id}

    def numbered(session: Session) -> Session:
        if session.query_id:
            return session
        return replace(session, query_id=numbers.get(_plain(session.query)))

    return [
        replace(sample, sessions=tuple(numbered(each) for each in sample.sessions if each.query.strip()))
        for sample in interval.samples
    ]


def _plain(query: str) -> str:
    """A text by which a call and the counted statement are known to be the same."""
    return _PARAMETER.sub("?", without_constants(query)).rstrip("; ")


@dataclass(frozen=True)
class StatementTime:
    """A statement's seconds within the interval, and their share of those of all statements.

    key: as `statement_key`; counted: its counts, None where the server had none; waits: what its sessions
    waited for, a fraction of their time each ('' for nothing).
    """

    key: str
    query_id: str | None
    query: str
    seconds: float
    share: float
    counted: CalledStatement | None
    waits: Mapping[str, float]


def _is_seen_longer(seen_s: float, counted_s: float, sample_s: float) -> bool:
    """Whether so many samples were more than chance makes of what was counted (two standard deviations)."""
    samples = seen_s / sample_s
    return samples - 2 * math.sqrt(samples) > counted_s / sample_s


def statement_times(interval: Interval) -> list[StatementTime]:
    """The statements of most time first.

    Of short calls the server's counts are exact, but end with the executor: what a statement waits for in its
    commit is seen by samples alone, which count where they saw more than by chance. The counts of long calls
    hold what was before the interval and not what goes on at its end, so that samples say more. A session
    between two statements works on neither.
    """
    counted = {each.query_id: each for each in interval.statements or ()}
    found: dict[str, StatementTime] = {}
    sampled_only_s = 0.0
    sample_s = interval.seconds / max(1, len(interval.samples))
    for each in sampled_statements(_numbered(interval), interval.seconds, limit=None):
        idle = sum(share for event, share in each.waits.items() if event.startswith(IN_TRANSACTION))
        seconds = each.seconds * (1 - idle)
        own = counted.pop(each.query_id, None) if each.query_id else None
        if own is not None and own.mean_ms < 1000 * _LONG_SHARE * interval.seconds:
            seconds = seconds if _is_seen_longer(seconds, own.total_s, sample_s) else own.total_s
        sampled_only_s += seconds - (own.total_s if own is not None else 0.0)
        key = statement_key(each.query_id, each.query)
        query = own.query if own is not None and own.query else each.query
        found[key] = StatementTime(key, each.query_id, query, seconds, 0.0, own, each.waits)
    for number, own in counted.items():
        # A call of hours that ended between two samples took no more of the interval than all of it.
        seconds = min(own.total_s, own.calls * interval.seconds)
        sampled_only_s += seconds - own.total_s
        found[number] = StatementTime(number, number, own.query, seconds, 0.0, own, {})
    total_s = max(interval.statements_s + sampled_only_s, sum(each.seconds for each in found.values()))
    shared = (replace(each, share=each.seconds / total_s if total_s > 0 else 0.0) for each in found.values())
    return sorted(shared, key=lambda each: (-each.seconds, each.key))
