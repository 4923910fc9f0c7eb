"""apply.sql that partitions a table which has everything, and undo.sql, by psql on servers of 16 to 18."""

import subprocess
from collections.abc import Callable

import psycopg
import pytest

from finder_samples import plan
from pgassay.environment.builds.registry import resolve
from pgassay.tune.answer.scripts import apply_script, undo_script
from pgassay.tune.candidate import Candidate, Symptom, TunedStatement
from pgassay.tune.facts.read import read_facts
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.finders.registry import find
from server_helpers import best_build, run_script
from source_servers import SourceServer, source_server

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

# Everything that a table can have and that goes over to the one in its place.
DATA = """
CREATE ROLE app;
CREATE ROLE reader;
CREATE TABLE customers (id int PRIMARY KEY);
INSERT INTO customers SELECT i FROM generate_series(1, 200) i;
CREATE TABLE events (
    id bigserial,
    happened date NOT NULL CONSTRAINT sane CHECK (happened > '1990-01-01'),
    customer int NOT NULL CONSTRAINT of_customer REFERENCES customers,
    note text COLLATE "C" DEFAULT 'none',
    size int GENERATED ALWAYS AS (length(note)) STORED,
    PRIMARY KEY (id, happened)
) WITH (autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_enabled = false);
ALTER TABLE events ALTER COLUMN note SET STORAGE EXTERNAL, ALTER COLUMN customer SET STATISTICS 500,
    ALTER COLUMN customer SET (n_distinct = 200);
CREATE INDEX by_customer ON events (customer) WHERE customer > 3;
CREATE STATISTICS both ON happened, customer FROM events;
COMMENT ON TABLE events IS 'what ''happened''';
COMMENT ON COLUMN events.note IS 'a note';
COMMENT ON CONSTRAINT events_pkey ON events IS 'the key';
ALTER TABLE events OWNER TO app;
ALTER SEQUENCE events_id_seq OWNER TO app;
GRANT SELECT, INSERT ON events TO reader WITH GRANT OPTION;
GRANT UPDATE (note) ON events TO PUBLIC;
ALTER TABLE events REPLICA IDENTITY FULL;
CREATE PUBLICATION changes FOR TABLE events WHERE (customer > 1)
    WITH (publish = 'insert', publish_via_partition_root = true);
INSERT INTO events (happened, customer, note)
    SELECT date '2024-01-01' + i * 7919 % 700, 1 + i % 200, repeat('x', 80) FROM generate_series(1, 80000) i;
"""


def offered(server: SourceServer) -> tuple[Candidate, SchemaFacts]:
    """The fix that the finder offers for reading a tenth of the table, by the server's own catalogs."""
    server.execute("VACUUM ANALYZE events")
    with server.connection() as session:
        facts = read_facts(session)
    seen = plan("((happened >= '2024-02-01'::date) AND (happened < '2024-04-01'::date))", rows=8000)
    read = seen.nodes[0].model_copy(update={"relation": "events"})
    asked = TunedStatement(name="q", sql="SELECT * FROM events")
    symptom = Symptom((asked,), {"q": (seen.model_copy(update={"nodes": (read,)}),)}, facts, {"q": 1.0})
    (found,) = [each for each in find(symptom) if each.kind == "partitioning"]
    return found, facts


def schema(server: SourceServer, build: str) -> str:
    """What pg_dump -s says; its own random word and the order of what is the same are no part of it."""
    words = [f"{build}/pg_dump", "-s", server.dsn()]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return "\n".join(sorted(line for line in text.splitlines() if "restrict" not in line))


@pytest.mark.parametrize(
    "version", ["18", *(pytest.param(each, marks=pytest.mark.slow) for each in ("16", "17"))]
)
def test_a_table_with_everything_is_partitioned_and_put_back(
    version: str, require: Callable[..., None]
) -> None:
    require("versions-16-17-18")
    build = resolve(version)
    # Their own server builds may come without client programs.
    client = best_build()
    with source_server(build, {"wal_level": "logical"}) as server:
        run_script(client, DATA, server.parameters())
        before = schema(server, client.bin_directory)
        found, facts = offered(server)
        assert not found.described, found.reason
        run_script(client, apply_script([found], facts), server.parameters())
        with server.connection() as session:
            check_applied(session)
        run_script(client, undo_script([found], facts), server.parameters())
        # No row is lost that was written meanwhile.
        assert server.rows("SELECT count(*), max(id) FROM events") == [(80000 - 400 + 2, 80002)]
        assert schema(server, client.bin_directory) == before


def check_applied(session: psycopg.Connection) -> None:
    def one(query: str) -> object:
        row = session.execute(query.encode()).fetchone()
        return row[0] if row else None

    assert one("SELECT relkind::text FROM pg_class WHERE oid = 'events'::regclass") == "p"
    # Rows of tomorrow have a partition of their own, and not the default one.
    session.execute("INSERT INTO events (happened, customer) VALUES ('2026-01-15', 5), ('2026-02-01', 6)")
    default = one(
        "SELECT partdefid::regclass::text FROM pg_partitioned_table WHERE partrelid = 'events'::regclass"
    )
    assert one(f"SELECT count(*) FROM {default}") == 0
    assert one("SELECT max(id) FROM events") == 80002
    # Nothing is left of the old table that keeps a customer from going.
    session.execute("DELETE FROM events WHERE customer = 7")
    session.execute("DELETE FROM customers WHERE id = 7")
    assert one("SELECT pg_get_serial_sequence('events', 'id')") == "public.events_id_seq"
    assert one("SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE relname = 'events_p3'") == "app"
    assert one("SELECT obj_description('events'::regclass)") == "what 'happened'"
    assert one("SELECT has_column_privilege('reader', 'events', 'note', 'UPDATE')")
    assert one("SELECT has_table_privilege('reader', 'events', 'INSERT WITH GRANT OPTION')")
    assert one("SELECT relreplident::text FROM pg_class WHERE relname = 'events_p3'") == "f"
    target = "SELECT attstattarget FROM pg_attribute WHERE attname = 'customer' AND attrelid = "
    assert one(target + "'events'::regclass") == 500
    assert one("SELECT rowfilter FROM pg_publication_tables WHERE tablename = 'events'") == "(customer > 1)"
    options = one("SELECT array_to_string(reloptions, ',') FROM pg_class WHERE relname = 'events_p3'")
    assert options == "autovacuum_vacuum_scale_factor=0.05"
    again = "INSERT INTO events (id, happened, customer) SELECT id, happened, customer FROM events"
    with pytest.raises(psycopg.errors.UniqueViolation):
        session.execute(f"{again} WHERE id = 9".encode())
    # A name that statements use.
    session.execute(f"{again} WHERE id = 9 ON CONFLICT ON CONSTRAINT events_pkey DO NOTHING".encode())


def test_a_publication_that_would_publish_partitions_by_name_stops_the_script() -> None:
    build = best_build()
    with source_server(build, {"wal_level": "logical"}) as server:
        run_script(build, DATA.replace(", publish_via_partition_root = true", ""), server.parameters())
        found, facts = offered(server)
        with pytest.raises(subprocess.CalledProcessError) as stopped:
            run_script(build, apply_script([found], facts), server.parameters())
        assert "publication changes would publish the partitions" in stopped.value.stderr
        assert "publish_via_partition_root" in stopped.value.stderr
        kind = server.rows("SELECT relkind::text FROM pg_class WHERE oid = 'events'::regclass")
        assert kind == [("r",)]
