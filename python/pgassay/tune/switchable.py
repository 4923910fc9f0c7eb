"""Candidates that a running server can have and not have: indexes that are hidden, a session's settings."""

from pgassay.design.index_scripts import OtherSqlError, read_index_script
from pgassay.environment.server.index_visibility import show_indexes
from pgassay.environment.server.sessions import ControlSession
from pgassay.environment.server.settings import classify
from pgassay.environment.server.validation import build_settings
from pgassay.model.build import Build
from pgassay.tune.candidate import Candidate

# Into shared buffers, as pg_prewarm does by default.
READS_ALL = """SELECT sum(pg_prewarm(oid)) FROM pg_class
WHERE oid >= 16384 AND relkind IN ('r', 'i', 'm') AND relpersistence <> 't'
AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = pg_class.oid AND NOT indislive)"""
# The size of the database, without what is hidden.
SHOWN_BYTES = """SELECT pg_database_size(current_database())
- coalesce((SELECT sum(pg_relation_size(indexrelid)) FROM pg_index WHERE NOT indislive), 0)::bigint"""
_BYTES = "SELECT coalesce(sum(pg_relation_size(name::regclass)), 0)::bigint FROM unnest(%s::text[]) name"


def indexes_of(candidate: Candidate) -> tuple[str, ...] | None:
    """The qualified names of the indexes that are all its SQL makes; None where it makes something else.

    A unique index is something else: it refuses rows. () for one without SQL.
    """
    try:
        script = read_index_script(candidate.sql)
    except OtherSqlError:
        return None
    # One without a name of its own is made under another than the candidate's SQL gives it.
    return None if script.unique or script.named_here else tuple(script.indexes)


def is_switchable(candidate: Candidate, build: Build) -> bool:
    """Whether a session of one server of this build can have it while the next one does not."""
    if candidate.build is not None or candidate.storage is not None or candidate.restart:
        return False
    indexes = indexes_of(candidate)
    # ANALYZE alone leaves nothing that can be hidden: all arms would have its statistics.
    if indexes is None or (candidate.sql and not indexes):
        return False
    facts = build_settings(build)
    return all(classify(facts, name) == "session" for name in candidate.settings)


class HiddenIndexes:
    """The indexes of candidates that were tried on a copy and taken back: hidden, so none is built twice.

    What writes on the copy is rolled back, so that they stay whole while nothing else is applied to it.
    """

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, ...]] = {}

    def clear(self) -> None:
        """Forget them: the data were put back."""
        self._names.clear()

    def show(self, session: ControlSession, candidate: Candidate) -> bool:
        """Show those of a candidate that was there before; False for another one."""
        names = self._names.pop(candidate.id, ())
        show_indexes(session, names, shown=True)
        return bool(names)

    def hide(self, session: ControlSession, candidate: Candidate, bytes_max: float) -> bool:
        """Hide those of a candidate that makes nothing else; False where it does, or all take too much."""
        indexes = indexes_of(candidate)
        if not indexes:
            return False
        hidden = [index for names in self._names.values() for index in names]
        row = session.execute(_BYTES, ([*hidden, *indexes],)).fetchone()
        if not row or row[0] > bytes_max:
            return False
        show_indexes(session, indexes, shown=False)
        self._names[candidate.id] = indexes
        return True

    def to_be_dropped(self, session: ControlSession, candidate: Candidate) -> list[str]:
        """What drops all of them, shown again, before a candidate that makes something other than indexes.

        It may write tables anew, or VACUUM them, which leaves hidden indexes behind.
        """
        return [] if indexes_of(candidate) is not None else self.all_dropped(session)

    def all_dropped(self, session: ControlSession) -> list[str]:
        """What drops all of them, which are shown again for it."""
        names = [index for names in self._names.values() for index in names]
        show_indexes(session, names, shown=True)
        self._names.clear()
        return [f"DROP INDEX {name}" for name in names]
