"""`pgassay tune DSN`: names that are hard to read, refusals, and statements that reach out of the copy."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest

import whole_tool
from server_helpers import best_build
from source_servers import PASSWORD, SourceServer, source_server, tuned

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]
DATABASE = 'My "shop"\'s 50%'
SETUP = (
    "CREATE EXTENSION pg_stat_statements",
    "CREATE EXTENSION postgres_fdw",
    'CREATE SCHEMA "Sales"',
    'CREATE TABLE "Sales"."Order Lines" ("Id" int, "Customer No" int, at date, note text) '
    "PARTITION BY RANGE (at)",
    *[
        f'CREATE TABLE "Sales"."Lines {year}" PARTITION OF "Sales"."Order Lines" '
        f"FOR VALUES FROM ('{year}-01-01') TO ('{year + 1}-01-01')"
        for year in (2024, 2025)
    ],
    "INSERT INTO \"Sales\".\"Order Lines\" SELECT n, n * 7919 % 5000, date '2024-01-01' + n % 700, 'x' "
    "FROM generate_series(1, 120000) n",
    "CREATE SERVER here FOREIGN DATA WRAPPER postgres_fdw "
    "OPTIONS (host '{host}', port '{port}', dbname 'postgres')",
    "CREATE USER MAPPING FOR postgres SERVER here OPTIONS (user 'postgres')",
    "CREATE FOREIGN TABLE far (number int) SERVER here OPTIONS (table_name 'far_marks')",
    "CREATE VIEW seen AS SELECT number FROM far",
    "ANALYZE",
    "SELECT pg_stat_statements_reset()",
)
LOAD = (
    *[
        f'SELECT count(*), max(note) FROM "Sales"."Order Lines" WHERE "Customer No" = {number}'
        for number in range(9)
    ],
    *["INSERT INTO far VALUES (1)"] * 3,
    "SELECT max(number) FROM seen",
    'UPDATE "Sales"."Order Lines" SET note = \'y\' WHERE "Customer No" = 7 AND "Id" < 100',
)


@contextmanager
def pooler(server: SourceServer) -> Iterator[int]:
    """A port that refuses the startup parameter `options`, as PgBouncer does, which is not at hand here."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                with client:
                    first = client.recv(8192)
                    if b"options\0" in first:
                        fields = b"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
                        client.sendall(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)
                        continue
                    with socket.create_connection(("127.0.0.1", server.port)) as far:
                        far.sendall(first)
                        back = threading.Thread(target=_forward, args=(far, client), daemon=True)
                        back.start()
                        _forward(client, far)
                        back.join()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.close()


def _forward(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(65536):
            target.sendall(content)
        target.shutdown(socket.SHUT_WR)


def test_what_cannot_be_reached_is_one_sentence_without_the_password() -> None:
    with source_server(best_build()) as server:
        server.fill()
        server.execute(f"CREATE ROLE app SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
        secret, wrong = quote(PASSWORD, safe=""), quote(PASSWORD + "x", safe="")
        place = f"127.0.0.1:{server.port}"
        with pooler(server) as port:
            for dsn, complaint in (
                (f"postgresql://app:{secret}@{place}/nowhere", 'database "nowhere" does not exist'),
                (f"postgresql://app:{wrong}@{place}/postgres", "correct the user or the password"),
                (f"postgresql://nobody:{secret}@{place}/postgres", "correct the user or the password"),
                (f"postgresql://app:{secret}@127.0.0.1:{port}/postgres?sslmode=disable", "not a pooler"),
                (f"postgresql://app:{PASSWORD}@{place}/postgres", "is not a connection string"),
                (f"host={server.folder} port={server.port} user=app", "the database is missing"),
            ):
                said = whole_tool.run("tune", dsn, "--quiet", *whole_tool.build())
                sentence = whole_tool.assert_one_sentence(said, 2)
                assert complaint in sentence, sentence
                for part in (PASSWORD, secret, wrong, "p@ss"):
                    assert part not in sentence
        server.wait_until_left_alone()


def test_names_in_quotes_and_partitions_are_tuned_and_nothing_reaches_out(tmp_path: Path) -> None:
    """A foreign table lies on the source itself, by its Unix socket, which no network namespace closes."""
    with source_server(best_build()) as server:
        quoted = DATABASE.replace('"', '""')
        server.execute(f'CREATE DATABASE "{quoted}"', "CREATE TABLE far_marks (number int)")
        made = [
            sql.replace("{host}", str(server.folder)).replace("{port}", str(server.port)) for sql in SETUP
        ]
        server.execute(*made, *LOAD, database=DATABASE)
        before = server.rows("SELECT count(*) FROM far_marks")
        folder, database = (quote(text, safe="") for text in (str(server.folder), DATABASE))
        dsn = f"postgresql://postgres@{folder}:{server.port}/{database}"
        answer = tuned(dsn, tmp_path / "out", "--statements", "9", max_time="120s")
        assert server.rows("SELECT count(*) FROM far_marks") == before == [(3,)]
        refused = [each for each in answer["warnings"] if "reaches the foreign table far" in each]
        assert len(refused) == 2, answer["warnings"]
        measured = [each["sql"] for each in answer["symptom"]["statements"]]
        assert measured and not [sql for sql in measured if "far" in sql or "seen" in sql]
        assert [each for each in answer["symptom"]["statements"] if each["writes"]]
        found = [fix for fix in answer["fixes"] if '"Customer No"' in fix["sql"]]
        assert found and found[0]["verdict"] in ("recommended", "not decided"), answer["verdict"]
