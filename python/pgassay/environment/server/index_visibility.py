"""Indexes of a private copy that are hidden from its server and shown again, in a millisecond each.

An index that is neither live nor ready nor valid in pg_index is seen by no plan (plancat.c) and maintained
by no write (RelationGetIndexList, relcache.c), as if it were not there. It stays whole only while nothing
that is written meanwhile is kept: what is hidden is for data that are read, for writes that are rolled back,
and for copies that are put back afterwards. A superuser may change the catalog; no server of a user is ever
one of those that this is done to.
"""

from collections.abc import Collection

from pgassay.environment.server.sessions import ControlSession

# Of a partitioned index its parts too; of others pg_partition_tree has no row.
_FOUND = """WITH named AS (SELECT unnest(%s::text[])::regclass::oid AS oid),
found AS (SELECT oid FROM named UNION SELECT part.relid FROM named, pg_partition_tree(named.oid) part),
changed AS (UPDATE pg_catalog.pg_index SET indislive = %s, indisready = %s, indisvalid = %s
  WHERE indexrelid IN (SELECT oid FROM found) AND indislive <> %s RETURNING indrelid)"""
# Other sessions have the table's list of indexes in their caches: a new version of its row tells them.
_SWITCH = f"""{_FOUND}
UPDATE pg_catalog.pg_class SET relname = relname WHERE oid IN (SELECT indrelid FROM changed)"""


def show_indexes(session: ControlSession, names: Collection[str], *, shown: bool) -> None:
    """Show these indexes, or hide them; qualified and quoted names. Raises psycopg.Error.

    The session is a superuser's on a private copy, and commits each statement. Sessions with cached plans
    must discard them.
    """
    if names:
        session.execute(_SWITCH.encode(), (list(names), *[shown] * 4))


def show_all_but(session: ControlSession, names: Collection[str], hidden: Collection[str]) -> None:
    """Of the indexes with these names exactly those that are not `hidden` are there afterwards.

    In one transaction that writes, as the user who connected: the session may have the settings of an arm
    that only reads, or that is somebody else's role.
    """
    with session.transaction():
        session.execute(b"SET TRANSACTION READ WRITE")
        session.execute(b"SET LOCAL ROLE NONE")
        show_indexes(session, [name for name in names if name not in hidden], shown=True)
        show_indexes(session, list(hidden), shown=False)
