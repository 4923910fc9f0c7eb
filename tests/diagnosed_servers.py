"""Servers with one trouble each, as `pgassay diagnose` meets them: the data, the load, what is to be said.

Data and loads are a small shop's; loads are pgbench's with a script, but for sessions that do nothing.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from source_servers import SourceServer

SETUP = (
    "CREATE EXTENSION pg_stat_statements",
    "CREATE TABLE customers (id int PRIMARY KEY, region text NOT NULL, name text NOT NULL)",
    "INSERT INTO customers SELECT n, 'region ' || n % 9, 'customer ' || n FROM generate_series(1, 4000) n",
    "CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customers, total numeric, "
    "note text)",
    "INSERT INTO orders SELECT n, n * 7919 % 4000 + 1, n % 977, repeat('x', 60) "
    "FROM generate_series(1, 150000) n",
    "CREATE TABLE parts (id int PRIMARY KEY, make int NOT NULL, model int NOT NULL)",
    "INSERT INTO parts SELECT n, n % 100, n % 100 FROM generate_series(1, 150000) n",
    "CREATE INDEX ON parts (make)",
    "CREATE TABLE hot (id int PRIMARY KEY, value int)",
    "INSERT INTO hot SELECT n, 0 FROM generate_series(1, 20000) n",
    "CREATE TABLE emptied (id int, filler text) WITH (autovacuum_enabled = off)",
    "INSERT INTO emptied SELECT n, repeat('x', 400) FROM generate_series(1, 100000) n",
    "DELETE FROM emptied WHERE id % 25 <> 0",
)


def fill(server: SourceServer) -> None:
    """Make the shop; its rows are counted before they are analyzed, which a session reports when it ends."""
    server.execute(*SETUP)
    server.execute("VACUUM ANALYZE")


BY_CUSTOMER = "SELECT id, total FROM orders WHERE customer_id = :customer;"
ONE_ORDER = "\\set id random(1, 150000)\nSELECT total FROM orders WHERE id = :id;"
UPDATES = "\\set id random(1, 150000)\nUPDATE orders SET total = total + 1 WHERE id = :id;"

# Pages far from each other, which go whole into the WAL after a checkpoint: much of it, whatever a commit
# takes. In order, so that none waits for one that waits for it.
SPREAD_UPDATES = (
    "\\set first random(1, 90000)\nUPDATE orders SET total = total + 1 WHERE id = ANY (ARRAY("
    "SELECT generate_series(:first, :first + 59000, 1000)));"
)


def _one_by_one() -> str:
    lines = ["\\set first random(1, 140000)"]
    lines.append("SELECT id, customer_id FROM orders WHERE id BETWEEN :first AND :first + 39;")
    for _ in range(40):
        lines += ["\\set customer random(1, 4000)", "SELECT name FROM customers WHERE id = :customer;"]
    return "\n".join(lines)


@dataclass(frozen=True)
class Load:
    """A script for pgbench, for so many clients; `options` are pgbench's."""

    script: str
    clients: int = 2
    options: tuple[str, ...] = ()


Held = Callable[[SourceServer], Iterator[None]]


def _nothing(_server: SourceServer) -> Iterator[None]:
    yield


def _hold_a_row(server: SourceServer) -> Iterator[None]:
    with psycopg.connect(**server.parameters(), application_name="nightly import") as session:
        session.execute("UPDATE hot SET value = value + 1 WHERE id = 1")
        yield
        session.rollback()


def _hold_a_snapshot(server: SourceServer) -> Iterator[None]:
    with psycopg.connect(**server.parameters(), application_name="forgotten report") as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.execute("SELECT count(*) FROM customers")
        for _ in range(6):
            server.execute("UPDATE hot SET value = value + 1")
        server.execute("VACUUM hot")
        yield
        session.rollback()
    server.execute("VACUUM FULL hot")


@dataclass(frozen=True)
class DiagnosedPlant:
    """One trouble: its loads, settings, sessions that hold something, and what the first sentence holds.

    causes: what the headline may tell; says: words of its sentence. sql: the beginning of what mends it.
    next_command: words of the command that goes on.
    """

    name: str
    loads: tuple[Load, ...]
    causes: frozenset[str]
    says: tuple[str, ...]
    next_command: tuple[str, ...]
    sql: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    held: Held = _nothing


STATEMENT = frozenset({"statement"})
PLANTS = (
    DiagnosedPlant(
        "missing index under OLTP",
        (Load(f"\\set customer random(1, 4000)\n{BY_CUSTOMER}"), Load(ONE_ORDER, 1, ("-R", "50"))),
        STATEMENT,
        (
            "orders is read completely, 150,000 rows",
            "no index on customer_id",
            "SELECT id, total FROM orders",
        ),
        ("pgassay tune", "--only"),
        sql="CREATE INDEX CONCURRENTLY ON orders (customer_id);",
    ),
    DiagnosedPlant(
        "a report beside OLTP",
        (
            Load("SELECT region, sum(total) FROM orders JOIN customers c ON c.id = customer_id GROUP BY 1;"),
            Load(ONE_ORDER, 2, ("-R", "200")),
        ),
        frozenset({"all-cores", "backend-core"}),
        ("Most time goes to SELECT region, sum(total)", "shows nothing to fix"),
        ("pgassay tune", "--only"),
    ),
    DiagnosedPlant(
        "N+1",
        (Load(_one_by_one(), 1),),
        STATEMENT,
        ("called once for each row", "SELECT name FROM customers"),
        ("psql", "query_id ="),
    ),
    DiagnosedPlant(
        "lock queue",
        (Load("UPDATE hot SET value = value + 1 WHERE id = 1;", 4),),
        frozenset({"row-locks"}),
        ("waiting for locks", "nightly import", "idle in transaction"),
        ("psql", "WHERE pid ="),
        held=_hold_a_row,
    ),
    DiagnosedPlant(
        "idle in transaction holds vacuum",
        (Load("SELECT count(*) FROM hot WHERE value >= 0;"),),
        frozenset({"bloat-held"}),
        ("forgotten report", "keeps VACUUM from removing dead rows", "hot"),
        ("psql", "backend_xmin"),
        held=_hold_a_snapshot,
    ),
    DiagnosedPlant(
        "connection storm",
        (Load(ONE_ORDER, 4, ("-C",)),),
        frozenset({"connections"}),
        ("connections are opened a second",),
        ("psql", "backend_start"),
    ),
    DiagnosedPlant(
        "checkpoint storm",
        (Load(SPREAD_UPDATES, 4),),
        frozenset({"checkpoint"}),
        ("max_wal_size", "one every"),
        ("pgassay diagnose",),
        sql="ALTER SYSTEM SET max_wal_size =",
        settings={"max_wal_size": "32MB", "min_wal_size": "32MB"},
    ),
    DiagnosedPlant(
        "spill",
        (Load("SELECT count(*) FROM (SELECT * FROM orders ORDER BY note, total OFFSET 0) s;", 1),),
        STATEMENT,
        ("temporary files", "work_mem is 1MB"),
        ("pgassay tune", "--only"),
        settings={"work_mem": "1MB"},
    ),
    DiagnosedPlant(
        "bad estimate",
        (Load("\\set make random(0, 99)\nSELECT * FROM parts WHERE make = :make AND model = :make;", 1),),
        STATEMENT,
        ("returns 1,500 rows where the planner expects 1",),
        ("pgassay tune", "--only"),
    ),
    DiagnosedPlant(
        "bloat",
        (Load("SELECT count(*) FROM emptied;"),),
        frozenset({"bloat"}),
        ("emptied", "pages for rows that fill"),
        ("psql", "pg_stat_user_tables"),
        sql="VACUUM (FULL, ANALYZE) emptied;",
    ),
    DiagnosedPlant(
        "replication wait",
        (Load(UPDATES, 4),),
        frozenset({"synchronous-replication"}),
        ("waiting for synchronous standbys",),
        ("psql", "pg_stat_replication"),
        settings={"synchronous_standby_names": "gone"},
    ),
    DiagnosedPlant(
        "too few processors",
        (
            Load(
                "\\set first random(1, 140000)\n\\set last :first + 3000\n"
                "SELECT md5(string_agg(note, ',')) FROM orders WHERE id BETWEEN :first AND :last;",
                6,
            ),
        ),
        frozenset({"all-cores"}),
        ("processors, all of them busy", "shows nothing to fix"),
        ("pgassay tune", "--only"),
    ),
)


@contextmanager
def under_load(server: SourceServer, plant: DiagnosedPlant) -> Iterator[None]:
    """The server with the trouble in it; everything is as it was afterwards."""
    for name, value in plant.settings.items():
        server.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    server.execute("SELECT pg_reload_conf()", "SELECT pg_stat_statements_reset()")
    holding = contextmanager(plant.held)(server)
    try:
        with (
            holding,
            tempfile.TemporaryDirectory(prefix="pgassay-plant-") as folder,
            _pgbench(server, plant.loads, Path(folder)),
        ):
            time.sleep(1.0)
            yield
    finally:
        server.execute("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")


@contextmanager
def _pgbench(server: SourceServer, loads: tuple[Load, ...], folder: Path) -> Iterator[None]:
    running: list[subprocess.Popen[bytes]] = []
    try:
        for number, load in enumerate(loads):
            script = folder / f"load-{number}.sql"
            script.write_text(load.script + "\n")
            words: list[Any] = [server.bin / "pgbench", "-n", "-f", script, "-c", load.clients, "-T", 600]
            place = ["-h", server.folder, "-p", server.port, "-U", "postgres", "postgres"]
            running.append(
                subprocess.Popen(
                    [str(word) for word in (*words, *load.options, *place)],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        yield
    finally:
        for process in running:
            process.terminate()
        with suppress(psycopg.Error):
            server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgbench'"
            )
        for process in running:
            process.wait()
