"""sysbench's tables: made and loaded, read into memory, dropped."""

import os
from collections.abc import Callable

import psycopg

from pgassay.native.process import StatementError
from pgassay.native.sysbench_commands import make_tables
from pgassay.sysbench.connection import SysbenchServer
from pgassay.sysbench.options import Options, SysbenchError, random_of

Say = Callable[[str], None]
_BULK = "bulk_insert"
# Each has two sessions at most, of a server that may allow a hundred.
_JOBS_MAX = 16


def prepare(chosen: Options, server: SysbenchServer, say: Say) -> None:
    """Makes and loads the tables; raises SysbenchError, for one that is there already too."""
    if chosen.script == _BULK:
        for number in range(1, chosen.whole("threads") + 1):
            say(f"Creating table 'sbtest{number}'...")
            _execute(
                server,
                f"CREATE TABLE IF NOT EXISTS sbtest{number} (id INTEGER NOT NULL, "
                "k INTEGER DEFAULT '0' NOT NULL, PRIMARY KEY (id))",
            )
        return
    # Ids that the client draws could be there already.
    is_empty = chosen.script == "oltp_insert" and not chosen.switch("auto-inc")
    rows = 0 if is_empty else chosen.table_size
    words = {
        "create": "Creating table 'sbtest{}'...",
        "insert": f"Inserting {rows} records into 'sbtest{{}}'",
        "index": "Creating a secondary index on 'sbtest{}'...",
    }
    spec = {
        "connect": dict(server.parameters),
        "tables": chosen.whole("tables"),
        "table_size": rows,
        "random": random_of(chosen),
        "auto_inc": chosen.switch("auto-inc"),
        "secondary": chosen.switch("secondary"),
        "create_secondary": chosen.switch("create-secondary"),
        # While one waits for the server's disk another has a processor, where the tables are on this machine.
        "jobs": max(chosen.whole("threads"), min(2 * len(os.sched_getaffinity(0)), _JOBS_MAX)),
        "seed": chosen.whole("rand-seed") or int.from_bytes(os.urandom(4)),
    }
    try:
        make_tables(spec, lambda number, step: say(words[step].format(number)))
    except StatementError as error:
        raise SysbenchError(f"FATAL: {error}") from None


def cleanup(chosen: Options, server: SysbenchServer, say: Say) -> None:
    """Drops the tables, as far as there are any, and nothing else; raises SysbenchError."""
    count = chosen.whole("threads" if chosen.script == _BULK else "tables")
    for number in range(1, count + 1):
        say(f"Dropping table 'sbtest{number}'...")
        _execute(server, f"DROP TABLE IF EXISTS sbtest{number}")


def warm_up(chosen: Options, server: SysbenchServer, say: Say) -> None:
    """Reads the tables and their indexes into memory; raises SysbenchError.

    By pg_prewarm where the database has it: a scan of a large table uses a small part of shared_buffers.
    """
    # It may be in a schema that search_path is without; the cast puts its name into quotes where needed.
    asked = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'pg_prewarm'"
    row = _execute(server, asked).fetchone()
    for number in range(1, chosen.whole("tables") + 1):
        say(f"Warming up table 'sbtest{number}'...")
        if row is not None:
            _execute(
                server,
                f"SELECT sum({row[0]}.pg_prewarm(c.oid)) FROM pg_class c WHERE c.oid = 'sbtest"
                f"{number}'::regclass OR c.oid IN (SELECT indexrelid FROM pg_index "
                f"WHERE indrelid = 'sbtest{number}'::regclass)",
            )
        else:
            _execute(server, f"SELECT count(c), count(pad) FROM sbtest{number}")
            _execute(server, f"SELECT avg(id) FROM (SELECT id FROM sbtest{number} ORDER BY id) AS t")
            _execute(server, f"SELECT avg(k) FROM (SELECT k FROM sbtest{number} ORDER BY k) AS t")
    if row is None:
        say("The database has no pg_prewarm: tables above a quarter of shared_buffers are in the system's")
        say("page cache now and only in part in shared_buffers (CREATE EXTENSION pg_prewarm).")


def _execute(server: SysbenchServer, statement: str) -> "psycopg.Cursor[tuple[object, ...]]":
    try:
        return server.session.execute(statement.encode())
    except psycopg.Error as error:
        raise SysbenchError(f"FATAL: {str(error).strip()}: the statement was {statement}") from None
