"""What pg_upgrade refuses, loses, or needs otherwise, as the source's catalogs tell it."""

from collections.abc import Iterator, Sequence

from pgassay.environment.server.sessions import ControlSession
from pgassay.model.upgrades.upgrade_answer import UpgradeFinding

_PREPARED = """
SELECT gid, database = pg_catalog.current_database(), pg_catalog.quote_ident(database)
FROM pg_catalog.pg_prepared_xacts ORDER BY 2 DESC, 1"""
_SLOTS = "SELECT slot_name::text FROM pg_catalog.pg_replication_slots WHERE slot_type = 'logical' ORDER BY 1"
# An interrupted DROP DATABASE leaves one with this limit (src/include/catalog/pg_database.h).
_CLOSED = """
SELECT pg_catalog.quote_ident(datname), datconnlimit = -2 FROM pg_catalog.pg_database
WHERE datname <> 'template0' AND (NOT datallowconn OR datconnlimit = -2) ORDER BY 1"""
_INVALID = """
SELECT i.indexrelid::pg_catalog.regclass::text FROM pg_catalog.pg_index i WHERE NOT i.indisvalid ORDER BY 1"""
# Columns of these types hold numbers of objects, which pg_upgrade does not keep, or what 16 writes otherwise;
# also where domains, arrays, ranges and rows are made of them (src/bin/pg_upgrade/check.c).
_OBJECT_NUMBERS = """
WITH RECURSIVE refused (type) AS (
    SELECT t.oid FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
    WHERE n.nspname = 'pg_catalog' AND t.typname = ANY (%s::pg_catalog.name[])
    UNION
    SELECT made.type FROM refused r CROSS JOIN LATERAL (
        SELECT t.oid FROM pg_catalog.pg_type t WHERE t.typtype = 'd' AND t.typbasetype = r.type
        UNION ALL SELECT t.oid FROM pg_catalog.pg_type t WHERE t.typtype = 'b' AND t.typelem = r.type
        UNION ALL SELECT g.rngtypid FROM pg_catalog.pg_range g WHERE g.rngsubtype = r.type
        UNION ALL SELECT c.reltype FROM pg_catalog.pg_class c
            JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
        WHERE c.reltype <> 0 AND a.atttypid = r.type) AS made (type))
SELECT DISTINCT a.attrelid::pg_catalog.regclass::text || '.' || pg_catalog.quote_ident(a.attname)
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm', 'i') AND a.attnum > 0 AND NOT a.attisdropped
    AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(temp|toast)'
    AND a.atttypid IN (SELECT type FROM refused) ORDER BY 1"""
_TYPES_OF_NUMBERS = (
    "regcollation", "regconfig", "regdictionary", "regnamespace", "regoper", "regoperator", "regproc",
    "regprocedure",
)  # fmt: skip
_ACL_CHANGED_IN, _CHECKSUMS_SINCE, _LOGICAL_SLOTS_KEPT_SINCE = 16, 18, 17


def in_the_way_of_pg_upgrade(
    session: ControlSession, old: int, new: int, *, has_checksums: bool
) -> Iterator[UpgradeFinding]:
    """The findings; `old`, `new`: major versions."""
    for gid, is_here, database in session.execute(_PREPARED).fetchall():
        place, missed = ("", ", a dump misses its rows") if is_here else (f" in the database {database}", "")
        yield UpgradeFinding(
            id="prepared-transaction",
            severity="in the way",
            sentence=f"the prepared transaction {gid} is open{place}: pg_upgrade refuses{missed}",
            where=gid,
            remedy="COMMIT PREPARED or ROLLBACK PREPARED",
        )
    for name, is_half_dropped in session.execute(_CLOSED).fetchall():
        why, remedy = "allows no connections", f"ALTER DATABASE {name} ALLOW_CONNECTIONS true, or drop it"
        if is_half_dropped:
            why, remedy = "is left of a DROP DATABASE that was interrupted", f"DROP DATABASE {name}"
        yield UpgradeFinding(
            id=f"database-closed:{name}",
            severity="in the way",
            sentence=f"the database {name} {why}: pg_upgrade refuses",
            where=str(name),
            remedy=remedy,
        )
    yield from _columns_refused(session, old, new)
    for index in names_found(session, _INVALID):
        yield UpgradeFinding(
            id=f"invalid-index:{index}",
            severity="work",
            sentence=f"the index {index} is not valid: it is maintained but never read",
            where=index,
            remedy=f"DROP INDEX {index}, or REINDEX INDEX CONCURRENTLY {index}",
        )
    slots = names_found(session, _SLOTS)
    if slots and old < _LOGICAL_SLOTS_KEPT_SINCE:
        yield UpgradeFinding(
            id="logical-slots",
            severity="work",
            sentence=f"logical replication slots are lost ({', '.join(slots)}): they are kept from 17 on",
            where=", ".join(slots),
            remedy="create them again after the upgrade, and resynchronise the subscribers",
        )
    if not has_checksums and new >= _CHECKSUMS_SINCE:
        yield UpgradeFinding(
            id="checksums",
            severity="work",
            sentence=f"this cluster has no data checksums, and initdb of {new} turns them on: "
            "pg_upgrade needs both to be the same",
            where="data_checksums",
            remedy="initdb --no-data-checksums for pg_upgrade, or pg_checksums --enable here before",
        )
    elif has_checksums and new < _CHECKSUMS_SINCE:
        yield UpgradeFinding(
            id="checksums",
            severity="work",
            sentence=f"this cluster has data checksums, and initdb of {new} makes none by itself: "
            "pg_upgrade needs both to be the same",
            where="data_checksums",
            remedy="initdb --data-checksums for pg_upgrade",
        )


def _columns_refused(session: ControlSession, old: int, new: int) -> Iterator[UpgradeFinding]:
    refused: list[tuple[str, Sequence[str], str]] = [
        ("object-numbers", _TYPES_OF_NUMBERS, "OIDs of objects, which pg_upgrade does not preserve")
    ]
    if old < _ACL_CHANGED_IN <= new:
        refused.append(("acl", ("aclitem",), f"aclitem, which is another format since {_ACL_CHANGED_IN}"))
    for kind, types, why in refused:
        for (column,) in session.execute(_OBJECT_NUMBERS, (list(types),)).fetchall():
            yield UpgradeFinding(
                id=f"{kind}:{column}",
                severity="in the way",
                sentence=f"{column} stores {why}: pg_upgrade refuses",
                where=str(column),
                remedy="change its type to text before the upgrade, or upgrade by dump and restore",
            )


def names_found(session: ControlSession, query: str) -> Sequence[str]:
    """The first column of what a query of the source's catalogs returns."""
    return [str(row[0]) for row in session.execute(query.encode()).fetchall()]
