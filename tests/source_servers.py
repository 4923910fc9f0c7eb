"""Servers that `pgassay tune DSN` reads: with a table that lacks an index, and counted statements."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

import whole_tool
from native_servers import NativeTestServer
from pgassay.environment.builds.registry import ORIGINS
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import ControlSession, control
from pgassay.model.build import Build
from server_helpers import TINY_SETTINGS, best_build, empty_cluster, own_home

COUNTED = TINY_SETTINGS | {
    "shared_preload_libraries": "pg_stat_statements", "fsync": "off", "autovacuum": "off", "jit": "off",
    "work_mem": "3MB",
}  # fmt: skip
SETUP = (
    "CREATE EXTENSION IF NOT EXISTS pg_stat_statements",
    "CREATE TABLE orders (id serial PRIMARY KEY, customer int NOT NULL, status text, placed timestamptz)",
    "INSERT INTO orders (customer, status, placed) SELECT n * 7919 % 5000, 'open', "
    "now() - n * interval '1 minute' FROM generate_series(1, 120000) n",
    "UPDATE orders SET status = 'closed' WHERE id % 3 = 0",
    "VACUUM ANALYZE",
)
# A backend looks once a second whether its client is still there, and a busy machine takes its time.
GONE_S = 60
BY_CUSTOMER = "SELECT count(*), max(status) FROM orders WHERE customer = {} AND status = 'open'"
LOAD = (
    *[BY_CUSTOMER.format(number * 31 % 5000) for number in range(12)],
    "SELECT id FROM orders WHERE placed > now() - interval '1 day' ORDER BY placed DESC LIMIT 5",
    "SELECT current_setting('work_mem'), count(*) FROM orders GROUP BY 1",
    "SELECT count(*) FROM orders WHERE customer IN (1, 2, 3)",
    "INSERT INTO orders (customer, status) VALUES (1, 'open')",
    "SELECT count(*) FROM pg_class",
    "ANALYZE orders",
)
_COUNTING = "pg_stat_statements"
PASSWORD = "gehe1m p@ss:w/ort%"


def load(session: "psycopg.Connection[Any]") -> None:
    session.execute("SELECT pg_stat_statements_reset()")
    for sql in LOAD:
        session.execute(sql.encode(), prepare=False)


@contextmanager
def counting_server(build: Build) -> Iterator[tuple[Server, ControlSession]]:
    with own_home() as folder:
        data = empty_cluster(build, folder / "data" / "source")
        with Server(build, data, COUNTED) as server, control(server) as session:
            for sql in SETUP:
                session.execute(sql.encode())
            load(session)
            yield server, session


def connection_string(server: Server, user: str = "postgres") -> str:
    return f"host={server.socket_directory} port=5432 user={user} dbname=postgres"


def counting(build: Build) -> Build:
    """The build, or where it comes without pg_stat_statements one of the same version that has it."""
    others = [each.find(str(build.major)) for each in ORIGINS]
    return next((each for each in (build, *others) if each and _COUNTING in each.extensions), build)


class SourceServer(NativeTestServer):
    """A server of any version that counts statements, on a Unix socket for all and on TCP with passwords.

    `settings` beside those that count; `place`: a folder below which its own is made.
    """

    def __init__(self, build: Build, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        needs_counting = "shared_preload_libraries" not in (settings or {})
        self.bin = Path((counting(build) if needs_counting else build).bin_directory)
        self.settings = {
            **COUNTED, "listen_addresses": "127.0.0.1", "port": str(self.port), "lc_messages": "C",
            "unix_socket_directories": str(self.folder), **(settings or {}),
        }  # fmt: skip

    @property
    def data(self) -> Path:
        """Its data folder."""
        return self.folder / "data"

    def start(self) -> None:
        """Make its cluster and start it; nothing is in it yet."""
        self.make_cluster("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale", "C", "--no-sync")
        (self.data / "pg_hba.conf").write_text(
            "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\nlocal replication all trust\n"
        )
        self.configure(**self.settings)
        self.start_again()

    def configure(self, **settings: str) -> None:
        """Have it start with these from now on."""
        with (self.data / "postgresql.conf").open("a") as file:
            for name, value in settings.items():
                quoted = value.replace("'", "''")
                file.write(f"{name} = '{quoted}'\n")

    def unset(self, name: str) -> None:
        """Start it again as if nobody had said anything of this setting."""
        file = self.data / "postgresql.conf"
        lines = file.read_text().splitlines(keepends=True)
        self.run("pg_ctl", "-D", str(self.data), "-w", "-m", "fast", "stop")
        file.write_text("".join(line for line in lines if not line.startswith(f"{name} =")))
        self.start_again()

    def fill(self, database: str = "postgres") -> None:
        """Make the table and run the load."""
        with self.connection(database) as session:
            for sql in SETUP:
                session.execute(sql.encode())
            load(session)

    def connection(self, database: str = "postgres", user: str = "postgres") -> "psycopg.Connection[Any]":
        """A session in autocommit mode."""
        return psycopg.connect(**self.parameters(dbname=database, user=user), autocommit=True)

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run these as the superuser."""
        with self.connection(database) as session:
            for sql in statements:
                session.execute(sql.encode())

    def rows(self, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """What a query returns."""
        with self.connection(database) as session:
            return session.execute(sql.encode()).fetchall()

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        """A connection string by its Unix socket, without a password."""
        return f"host={self.folder} port={self.port} user={user} dbname={database}"

    def others(self) -> list[tuple[Any, ...]]:
        """Sessions, transactions and locks of anybody but the one that asks."""
        return self.rows(
            "SELECT pid, application_name, state, query FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )

    def wait_until_left_alone(self) -> None:
        """Wait for the end of all sessions: a backend ends some time after its client; fails if one stays."""
        whole_tool.wait_for(lambda: not self.others(), "the end of all its sessions", GONE_S)


@contextmanager
def source_server(build: Build, settings: Mapping[str, str] | None = None) -> Iterator[SourceServer]:
    """A server that runs as long as the block does; nothing is in it."""
    server = SourceServer(build, settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def tuned(
    source: str, out: Path, *words: str | Path, max_time: str = "60s", **options: Any
) -> dict[str, Any]:
    """The answer of a whole `pgassay tune DSN --json` that came to its end; `stderr` is what it said."""
    finished = whole_tool.run(
        "tune", source, "--max-time", max_time, "--out", out, "--json", *words, **options
    )
    assert finished.returncode == 0, finished.stderr
    document: dict[str, Any] = json.loads(finished.stdout)
    assert document == json.loads((out / "tune.json").read_text())
    document["stderr"] = finished.stderr
    return document


@contextmanager
def standby_of(primary: SourceServer, **settings: str) -> Iterator[SourceServer]:
    """A hot standby that has replayed all that the primary has written; `settings`: further ones of it."""
    standby = SourceServer(best_build())
    places = ("-h", str(primary.folder), "-p", str(primary.port), "-U", "postgres")
    try:
        standby.run("pg_basebackup", "-D", str(standby.data), "-c", "fast", "-X", "stream", "-R", *places)
        standby.configure(
            **standby.settings,
            **settings,
            cluster_name="reports",
            hot_standby="on",
            max_standby_streaming_delay="1s",
        )
        standby.start_again()
        yield standby
    finally:
        standby.stop()
