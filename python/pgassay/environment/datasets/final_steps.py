"""The last steps of making data: extensions, freezing or settling, the user's own preparation."""

from collections.abc import Sequence

from psycopg import sql

from pgassay.environment.datasets.base import DATABASE, OBSERVING_EXTENSIONS, OnStage, facts_of_row
from pgassay.environment.datasets.load_failure import translated_errors
from pgassay.environment.datasets.run_sql_text import refused_statement, run_statement
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import ControlSession, control
from pgassay.model.build import Build

_RELATION_FACTS = """
SELECT n.nspname, c.relname, c.relpages, c.reltuples::bigint, pg_relation_size(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid >= 16384 AND c.relkind IN ('r', 'i', 'm') AND c.relpersistence <> 't' ORDER BY 1, 2"""
_TABLES = """
SELECT n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid >= 16384 AND c.relkind = ANY(%s) AND c.relpersistence <> 't' ORDER BY 1, 2"""
_NEVER_ANALYSED = _TABLES.replace(" ORDER BY", " AND c.reltuples = -1 ORDER BY")
_CATALOGS = """
SELECT 'pg_catalog', relname FROM pg_class
WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r' ORDER BY 2"""
LEFT_AS_MADE = (
    "no table was read or analysed after loading: hint bits, dead row versions and the visibility "
    "map are as they were left, and each trial is the first reader"
)
# A plain scan meets every row version; an index might be read instead of the table.
_SEQUENTIAL = ("enable_indexonlyscan", "enable_indexscan", "enable_bitmapscan")


def install_extensions(server: Server, build: Build, database: str = DATABASE) -> None:
    """Create the extensions that prepare and verify caches, where the build has them."""
    with translated_errors(server, "installing extensions"), control(server, database) as session:
        wanted = [name for name in OBSERVING_EXTENSIONS if name in build.extensions]
        if wanted:
            session.execute(b"CREATE SCHEMA IF NOT EXISTS public")
        for name in wanted:
            session.execute(f"CREATE EXTENSION IF NOT EXISTS {name} SCHEMA public".encode())


def freeze(server: Server, on_progress: OnStage, database: str = DATABASE, *, analyses: bool = True) -> None:
    """Freeze every row, gather statistics, and write all pages: a first read then changes nothing.

    `analyses` False: the planner has what statistics came with the data.
    """
    first = b"VACUUM (FREEZE, ANALYZE)" if analyses else b"VACUUM (FREEZE)"
    with translated_errors(server, "freezing the data"), control(server, database) as session:
        on_progress(first.decode(), None)
        session.execute(first)
        # ANALYZE has written new catalog rows behind the first pass.
        session.execute("VACUUM (FREEZE)")
        session.execute("CHECKPOINT")


def run_analyse(server: Server, on_progress: OnStage, database: str = DATABASE) -> None:
    """Gather statistics of all tables."""
    with translated_errors(server, "analysing the data"), control(server, database) as session:
        on_progress("ANALYZE", None)
        session.execute("ANALYZE")


def settle(
    server: Server, on_progress: OnStage, database: str = DATABASE, *, analyse: bool, reads: bool = True
) -> None:
    """Do what the first reader would, without a VACUUM of the user's tables, and write all pages.

    One sequential scan of every table sets hint bits and prunes pages as any first read does
    (src/backend/access/heap/heapam.c, heap_prepare_pagescan), so that no trial has to. Row versions
    that only VACUUM removes, and the visibility map, stay. `analyse` gathers statistics of tables
    that have none. The system's own catalogs are frozen.
    `reads` False: no table of the user's is read or analysed, and its pages stay as they are.
    """
    with translated_errors(server, "reading the data once"), control(server, database) as session:
        if analyse and reads:
            on_progress("ANALYZE of tables without statistics", None)
            for table in _named(session, _NEVER_ANALYSED, ["r", "m", "p"]):
                session.execute(sql.SQL("ANALYZE {}").format(table))
        if reads:
            on_progress("reading every table once", None)
            _read_every_table(session)
        catalogs = list(_named(session, _CATALOGS))
        session.execute(sql.SQL("VACUUM (FREEZE) {}").format(sql.SQL(", ").join(catalogs)))
        session.execute("CHECKPOINT")


def _read_every_table(session: ControlSession) -> None:
    # A hint that a row's writer has committed waits until that commit is on the disk
    # (src/backend/access/heap/heapam_visibility.c, SetHintBits).
    session.execute("CHECKPOINT")
    for setting in _SEQUENTIAL:
        session.execute(sql.SQL("SET {} = off").format(sql.Identifier(setting)))
    for table in _named(session, _TABLES, ["r", "m"]):
        session.execute(sql.SQL("SELECT count(*) FROM ONLY {}").format(table))


def prepare(
    server: Server,
    statements: Sequence[str],
    on_progress: OnStage,
    database: str = DATABASE,
    *,
    settled: bool = True,
) -> None:
    """Run the user's statements one by one in one session, as typed, then settle the data if asked to.

    Raises UsageError with the server's words for a statement that fails.
    """
    with translated_errors(server, "preparing the data"), control(server, database) as session:
        for number, statement in enumerate(statements, start=1):
            on_progress(f"prepare statement {number} of {len(statements)}", None)
            with refused_statement(server, "The prepare statement", statement):
                run_statement(session, statement)
    settle(server, on_progress, database, analyse=True, reads=settled)


def relation_facts(server: Server, database: str = DATABASE) -> dict[str, dict[str, int]]:
    """Return pages, rows and bytes of each of the user's tables and indexes, by name."""
    with control(server, database) as session:
        rows = session.execute(_RELATION_FACTS).fetchall()
    return dict(facts_of_row(row) for row in rows)


def _named(session: ControlSession, query: str, kinds: list[str] | None = None) -> list[sql.Identifier]:
    rows = session.execute(query.encode(), (kinds,) if kinds else None).fetchall()
    return [sql.Identifier(schema, name) for schema, name in rows]
