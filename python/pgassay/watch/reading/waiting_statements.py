"""Which statements run and wait: pg_stat_activity of the active sessions, sampled a few times an interval."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from pgassay.model.running_server.watch import WaitingStatement

if TYPE_CHECKING:
    import psycopg

QUERY_CHARACTERS_MAX = 300
STATEMENTS_MAX = 20
# From 14 on the server can tell a statement by a number, if compute_query_id is on. Sessions of pgassay's own
# are no part of the server's work.
SQL = f"""
SELECT query_id, left(query, {QUERY_CHARACTERS_MAX}), wait_event_type, wait_event
FROM pg_stat_activity
WHERE state IN ('active', 'fastpath function call') AND pid <> pg_backend_pid()
  AND backend_type IN ('client backend', 'parallel worker') AND application_name NOT LIKE 'pgassay %'"""
_NO_WAIT = "Client"


class ActiveSession(NamedTuple):
    """A session at work: its statement by number and text, what it waits for (None: nothing)."""

    query_id: int | None
    query: str
    event_type: str | None
    event: str | None


class StatementTally:
    """Counts samples until `take`."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._samples = 0
        self._active: Counter[tuple[int | None, str]] = Counter()
        self._events: dict[tuple[int | None, str], Counter[str]] = {}
        self._texts: dict[tuple[int | None, str], str] = {}

    def sample(self, session: "psycopg.Connection") -> None:
        """Sample once; raises psycopg.Error."""
        rows = session.execute(SQL).fetchall()
        self.count([ActiveSession(row[0], row[1] or "", row[2], row[3]) for row in rows])

    def count(self, sessions: Iterable[ActiveSession]) -> None:
        """Count the sessions of one sample."""
        self._samples += 1
        for query_id, query, event_type, event in sessions:
            # Where the server numbers statements, the texts of one number differ in their constants alone.
            key = (query_id, "" if query_id is not None else query)
            self._active[key] += 1
            self._texts[key] = query
            if event_type and event_type != _NO_WAIT:
                self._events.setdefault(key, Counter())[f"{event_type}:{event}"] += 1

    def take(self) -> tuple[WaitingStatement, ...]:
        """The statements, the most waiting first, at most STATEMENTS_MAX; the counts begin anew."""
        samples = self._samples
        made = [
            WaitingStatement(
                query_id=key[0],
                query=" ".join(self._texts[key].split()),
                active=active / samples,
                waiting=self._waits(key).total() / samples,
                event=self._most_often(key),
            )
            for key, active in self._active.items()
        ]
        self._clear()
        made.sort(key=lambda each: (-each.waiting, -each.active, each.query))
        return tuple(made[:STATEMENTS_MAX])

    def _waits(self, key: tuple[int | None, str]) -> Counter[str]:
        return self._events.get(key, Counter())

    def _most_often(self, key: tuple[int | None, str]) -> str:
        found = self._waits(key).most_common(1)
        return found[0][0] if found else ""
