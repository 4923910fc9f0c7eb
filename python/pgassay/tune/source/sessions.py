"""How many sessions of a database are at work at once, on average."""

import math
import time
from dataclasses import dataclass

from pgassay.environment.server.sessions import ControlSession
from pgassay.tune.source.counted import SourceCounts

LOOKS, BETWEEN_LOOKS_S = 20, 0.1
# More than so many for each processor here only queue longer than they do on the source.
PER_PROCESSOR_MAX = 4
_ACTIVE = """
SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity
WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_catalog.pg_backend_pid()
    AND datname = pg_catalog.current_database()"""


@dataclass(frozen=True)
class AtWork:
    """Sessions that execute something, on average: since the statements are counted, and while it was looked.

    `since`: the time of all statements over the time in which they were counted (Little's law); None where
    the server does not say since when. A role that may not see other roles' sessions looks in vain.
    """

    since: float | None
    seen: float

    @property
    def sessions(self) -> float:
        """The larger of both: a quiet moment, or a quiet night, is not what a server is tuned for."""
        return max(self.since or 0.0, self.seen)

    def clients(self, processors: float) -> int:
        """How many clients imitate them on so many processors, at least one."""
        most = max(1, math.floor(PER_PROCESSOR_MAX * processors))
        return min(most, max(1, math.floor(self.sessions + 0.5)))

    def note(self, processors: float) -> str:
        """What is said where the copy's statements are executed one at a time, and the source's are not."""
        clients = self.clients(processors)
        if clients == 1:
            return ""
        return (
            f"the source has {self.sessions:.0f} active sessions at the same time, but each statement was "
            f"measured alone: --clients {clients} measures that many together, which takes longer"
        )


def read_at_work(session: ControlSession, counted: SourceCounts) -> AtWork:
    """Look for two seconds, and divide what was counted by the time since then."""
    seen = 0
    for number in range(LOOKS):
        if number:
            time.sleep(BETWEEN_LOOKS_S)
        row = session.execute(_ACTIVE).fetchone()
        seen += int(row[0]) if row else 0
    since = counted.total_ms / 1000 / counted.since_s if counted.since_s else None
    return AtWork(since, seen / LOOKS)
