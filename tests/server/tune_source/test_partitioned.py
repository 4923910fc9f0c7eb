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
DATA = """\\set ON_ERROR_STOP on
CREATE ROLE app;
CREATE ROLE reader;
CREATE TABLE customers (id int PRIMARY KEY);
INSERT INTO customers SELECT i FROM generate_series(1, 200) i;
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE fast LOCATION '';
SET default_tablespace = fast;
CREATE TABLE events (
    id bigserial,
    happened date NOT NULL CONSTRAINT sane CHECK (happened > '1990-01-01'),
    customer int NOT NULL CONSTRAINT of_customer REFERENCES customers,
    note text COLLATE "C" DEFAULT 'none',
    gone int,
    size int GENERATED ALWAYS AS (length(note)) STORED,
    PRIMARY KEY (id, happened) WITH (fillfactor = 70)
) WITH (autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_enabled = false);
ALTER TABLE events ALTER COLUMN note SET STORAGE EXTERNAL, ALTER COLUMN customer SET STATISTICS 500,
    ALTER COLUMN customer SET (n_distinct = 200);
CREATE INDEX by_customer ON events (customer) WHERE customer > 3;
ALTER TABLE events DROP COLUMN gone;
CREATE INDEX by_length ON events (length(note)) WITH (fillfactor = 80);
ALTER INDEX by_length ALTER COLUMN 1 SET STATISTICS 300;
COMMENT ON INDEX by_length IS 'of notes';
CREATE STATISTICS tied ON happened, customer FROM events;
ALTER STATISTICS tied SET STATISTICS 200;
COMMENT ON TABLE events IS 'what ''happened''';
COMMENT ON COLUMN events.note IS 'a note';
COMMENT ON CONSTRAINT events_pkey ON events IS 'the key';
ALTER TABLE events OWNER TO app;
ALTER SEQUENCE events_id_seq OWNER TO app;
GRANT SELECT, INSERT ON events TO reader WITH GRANT OPTION;
REVOKE TRUNCATE ON events FROM app;
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC;
GRANT UPDATE (note) ON events TO PUBLIC;
ALTER TABLE events REPLICA IDENTITY FULL;
CREATE PUBLICATION changes FOR TABLE events WHERE (customer > 1)
    WITH (publish = 'insert', publish_via_partition_root = true);
CREATE PUBLICATION narrow FOR TABLE events (happened, id)
    WITH (publish_via_partition_root = true, publish = 'insert');
"""
ROWS = """
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
        run_script(client, DATA + ROWS, server.parameters())
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
    published = " FROM pg_publication_tables WHERE tablename = 'events' AND pubname = "
    assert one(f"SELECT rowfilter {published} 'changes'") == "(customer > 1)"
    assert one(f"SELECT attnames::text[] {published} 'narrow'") == ["id", "happened"]
    # Default privileges are for tables that nobody had decided about.
    assert not one("SELECT has_table_privilege('public', 'events', 'SELECT')")
    assert not one("SELECT has_table_privilege('public', 'events_p3', 'SELECT')")
    assert not one("SELECT has_table_privilege('app', 'events', 'TRUNCATE')")
    of_pages = "SELECT array_to_string(reloptions, ',') FROM pg_class WHERE relname = "
    assert one(of_pages + "'events_p3_pkey'") == "fillfactor=70"
    assert one(of_pages + "'events_p3_length_idx'") == "fillfactor=80"
    assert one("SELECT obj_description('events_length_idx'::regclass, 'pg_class')") == "of notes"
    assert (
        one("SELECT attstattarget FROM pg_attribute WHERE attrelid = 'events_p3_length_idx'::regclass") == 300
    )
    of_both = "SELECT stxstattarget FROM pg_statistic_ext WHERE stxrelid = 'events'::regclass"
    assert one(of_both) == 200
    options = one("SELECT array_to_string(reloptions, ',') FROM pg_class WHERE relname = 'events_p3'")
    assert options == "autovacuum_vacuum_scale_factor=0.05"
    of_toast = "SELECT array_to_string(reloptions, ',') FROM pg_class WHERE oid = "
    toast = "(SELECT reltoastrelid FROM pg_class WHERE relname = 'events_p3')"
    assert one(of_toast + toast) == "autovacuum_enabled=false"
    # Each partition and each index of one is where the table was.
    lying = (
        "SELECT string_agg(DISTINCT COALESCE(spcname, ''), ',') FROM pg_class c "
        "LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace WHERE relname LIKE "
    )
    assert one(lying + "'events\\_p3%'") == "fast"
    again = "INSERT INTO events (id, happened, customer) SELECT id, happened, customer FROM events"
    with pytest.raises(psycopg.errors.UniqueViolation):
        session.execute(f"{again} WHERE id = 9".encode())
    # A name that statements use.
    session.execute(f"{again} WHERE id = 9 ON CONFLICT ON CONSTRAINT events_pkey DO NOTHING".encode())


def test_a_publication_that_would_publish_partitions_by_name_stops_the_script() -> None:
    build = best_build()
    with source_server(build, {"wal_level": "logical"}) as server:
        data = DATA.replace(", publish_via_partition_root = true", "") + ROWS
        run_script(build, data, server.parameters())
        found, facts = offered(server)
        with pytest.raises(subprocess.CalledProcessError) as stopped:
            run_script(build, apply_script([found], facts), server.parameters())
        assert "publication changes would publish the partitions" in stopped.value.stderr
        assert "publish_via_partition_root" in stopped.value.stderr
        kind = server.rows("SELECT relkind::text FROM pg_class WHERE oid = 'events'::regclass")
        assert kind == [("r",)]


# By what is on the table: the first words of the refusal.
REFUSED = {
    "CREATE POLICY mine ON events USING (customer = 3)": "policy mine would be lost",
    "CREATE TABLE above (happened date NOT NULL); ALTER TABLE events INHERIT above": "it inherits from above",
    "INSERT INTO pg_seclabel VALUES ('events'::regclass, 'pg_class'::regclass, 0, 'selinux', 'x')": (
        "its security label by selinux would be lost"
    ),
    "ALTER TABLE events CLUSTER ON events_pkey": "CLUSTER goes by index events_pkey",
    "ALTER EXTENSION plpgsql ADD TABLE events": "it is one of extension plpgsql",
    # What the finder refuses too, where it came since the catalogs were read.
    "CREATE TRIGGER seen BEFORE UPDATE ON events FOR EACH ROW "
    "EXECUTE FUNCTION suppress_redundant_updates_trigger()": "trigger seen would be lost",
    "CREATE RULE quiet AS ON UPDATE TO events DO ALSO NOTHING": "rule quiet would be lost",
    "ALTER TABLE events ENABLE ROW LEVEL SECURITY": "its row security would be lost",
    "ALTER TABLE events ADD COLUMN counted int GENERATED ALWAYS AS IDENTITY": (
        "column counted would be an identity no more"
    ),
    "CREATE TABLE refers (id bigint, happened date, CONSTRAINT to_it FOREIGN KEY (id, happened) "
    "REFERENCES events)": "foreign key to_it of refers would refer to the old table",
    "CREATE VIEW looked AS SELECT id FROM events": "looked would keep reading the old table",
    "CREATE FUNCTION noted(events) RETURNS text RETURN $1.note": "would keep using the old table",
    "CREATE TABLE below () INHERITS (events)": "below inherits from it",
    "CREATE UNIQUE INDEX once ON events (id, happened, customer) TABLESPACE fast": (
        "keys or indexes were added or dropped since this script was made"
    ),
    "ALTER TABLE events ADD FOREIGN KEY (size) REFERENCES customers NOT VALID": "keys or indexes were added",
}


def stopped(server: SourceServer, script: str) -> str:
    """What psql said when it stopped; nothing of the script's transaction is left."""
    with pytest.raises(subprocess.CalledProcessError) as error:
        run_script(best_build(), script, server.parameters())
    return str(error.value.stderr)


def test_what_can_not_be_carried_over_stops_the_script_before_a_row_is_moved() -> None:
    with source_server(best_build()) as server:
        run_script(best_build(), DATA.split("CREATE PUBLICATION")[0], server.parameters())
        run_script(best_build(), ROWS, server.parameters())
        found, facts = offered(server)
        script = apply_script([found], facts)
        # What makes it stands in the script's own transaction, which is rolled back.
        said = stopped(server, script.replace("BEGIN;", "BEGIN; ALTER TABLE events ADD COLUMN later int;"))
        assert "column later was added since this script was made" in said and "HINT" in said
        # Without a psql for each: up to the first partition.
        begun = script[script.index("BEGIN;") + len("BEGIN;") :].partition(" PARTITION OF ")[0]
        begun = begun.rpartition("CREATE TABLE ")[0]
        with server.connection() as session:
            for made, words in REFUSED.items():
                session.execute("BEGIN")
                session.execute(made.encode())
                with pytest.raises(psycopg.errors.RaiseException) as refused:
                    session.execute(begun.encode())
                session.execute("ROLLBACK")
                assert words in str(refused.value.diag.message_primary), made
                assert refused.value.diag.message_hint, made
        server.execute("CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler")
        server.execute("ALTER TABLE events SET ACCESS METHOD other")
        run_script(best_build(), script, server.parameters())
        methods = "SELECT DISTINCT amname::text FROM pg_class c JOIN pg_am m ON m.oid = relam "
        assert server.rows(f"{methods} WHERE relname LIKE 'events\\_p_'") == [("other",)]
        # Going back would lose what came since.
        for made, words in (
            ("ALTER TABLE events ADD COLUMN later int DEFAULT 5", "column later"),
            ("CREATE POLICY mine ON events USING (true)", "policy mine"),
        ):
            server.execute(made)
            assert f"{words} was changed since" in stopped(server, undo_script([found], facts))
            server.execute(
                "ALTER TABLE events DROP COLUMN IF EXISTS later; DROP POLICY IF EXISTS mine ON events"
            )
        assert server.rows("SELECT count(*) FROM events") == [(80000,)]
