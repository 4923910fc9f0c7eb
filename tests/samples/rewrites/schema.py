"""A shop whose data tempt: no NULL, no copy, no tie is there, and the catalog forbids none of them."""

from dataclasses import dataclass

ROWS = 24


@dataclass(frozen=True)
class Case:
    """An original, and what somebody would write for it. `kind` is the rewrite that would offer it.

    `version`: the first major version that understands its tables.
    """

    name: str
    kind: str
    original: str
    other: str = ""
    parameters: tuple[tuple[str | None, ...], ...] = ()
    version: int = 16


SCHEMA = (
    "CREATE TABLE region (id int PRIMARY KEY, name text NOT NULL UNIQUE, parent_id int)",
    "CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL, region_id int, email text UNIQUE, "
    "uid uuid NOT NULL, code char(4) NOT NULL, score real NOT NULL, balance numeric NOT NULL, "
    "joined timestamp NOT NULL, seen timestamptz NOT NULL, vip boolean)",
    "CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL, referrer_id int, "
    "amount numeric(10,2) NOT NULL, qty int NOT NULL, discount numeric, status text, weight float8 NOT NULL, "
    "placed timestamp NOT NULL, shipped timestamptz, day date NOT NULL)",
    "CREATE TABLE payment (id int PRIMARY KEY, order_id int NOT NULL, amount numeric(10,2), method text)",
    # No key, or none that holds at any moment.
    "CREATE TABLE tag (order_id int NOT NULL, label text)",
    "CREATE TABLE late_key (id int NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED, v int)",
    "CREATE TABLE part_key (id int NOT NULL, v int, live boolean NOT NULL)",
    "CREATE UNIQUE INDEX ON part_key (id) WHERE live",
    "CREATE TABLE loose_key (id int UNIQUE, v int)",
    "CREATE TABLE null_key (id int UNIQUE NULLS NOT DISTINCT, v int)",
    "CREATE TABLE lower_key (name text NOT NULL, v int)",
    "CREATE UNIQUE INDEX ON lower_key (lower(name))",
    "CREATE TABLE broken_key (id int NOT NULL, v int)",
    "INSERT INTO broken_key VALUES (1, 1), (1, 1)",
    "CREATE TABLE event (id int NOT NULL, day date NOT NULL, v int, PRIMARY KEY (id, day)) PARTITION BY "
    "RANGE (day)",
    "CREATE TABLE event_old PARTITION OF event FOR VALUES FROM ('2000-01-01') TO ('2024-01-01')",
    "CREATE TABLE event_new PARTITION OF event FOR VALUES FROM ('2024-01-01') TO ('2100-01-01')",
    "CREATE UNIQUE INDEX ON event_old (id)",
    "CREATE UNIQUE INDEX ON event_new (id)",
    "CREATE TABLE mother (id int PRIMARY KEY, v int)",
    "CREATE TABLE daughter () INHERITS (mother)",
    "CREATE TABLE guarded (id int PRIMARY KEY, v int)",
    "ALTER TABLE guarded ENABLE ROW LEVEL SECURITY",
    "CREATE VIEW looked AS SELECT id, customer_id FROM orders",
    "CREATE DOMAIN short AS int",
    "CREATE TABLE domained (id short NOT NULL, v int)",
    "CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    "CREATE TABLE person (name text COLLATE blind PRIMARY KEY, v int)",
    "CREATE TABLE visit (id int PRIMARY KEY, person text COLLATE blind NOT NULL, v int)",
    "CREATE FUNCTION dice(int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT $1'",
    "CREATE FUNCTION fixed(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1'",
)
SCHEMA_18 = (
    "CREATE TABLE late_null (id int, v int)",
    "ALTER TABLE late_null ADD CONSTRAINT filled NOT NULL id NOT VALID",
    "INSERT INTO late_null SELECT i, i FROM generate_series(1, 5) i",
)
DATA = (
    "INSERT INTO region SELECT i, 'region ' || i, i FROM generate_series(1, 4) i",
    f"INSERT INTO customer SELECT i, 'name ' || i, 1 + i % 4, i || '@shop', "
    "('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, 'c' || i, i, i, "
    "timestamp '2024-01-01' + i * interval '20 days', timestamptz '2024-01-01 12:00' + i * interval '20 "
    "days', "
    f"i % 2 = 0 FROM generate_series(1, {ROWS}) i",
    "INSERT INTO orders SELECT i, i, i, i * 10, i, 1, CASE WHEN i % 2 = 0 THEN 'paid' ELSE 'open' END, i, "
    "timestamp '2024-01-01 10:00' + i * interval '9 days', timestamptz '2024-01-01 12:00' + i * "
    "interval '9 days', "
    f"date '2024-01-01' + i * 9 FROM generate_series(1, {ROWS}) i",
    f"INSERT INTO payment SELECT i, i, i * 10, 'card' FROM generate_series(1, {ROWS}) i",
    f"INSERT INTO tag SELECT i, 'label ' || i FROM generate_series(1, {ROWS}) i",
    *(
        f"INSERT INTO {table} (id, v) SELECT i, i FROM generate_series(1, {ROWS}) i"
        for table in ("late_key", "loose_key", "null_key", "mother", "guarded", "domained")
    ),
    f"INSERT INTO part_key SELECT i, i, true FROM generate_series(1, {ROWS}) i",
    f"INSERT INTO lower_key SELECT 'n' || i, i FROM generate_series(1, {ROWS}) i",
    f"INSERT INTO event SELECT i, date '2024-01-01' + i, i FROM generate_series(1, {ROWS}) i",
    f"INSERT INTO person SELECT 'p' || i, i FROM generate_series(1, {ROWS}) i",
    f"INSERT INTO visit SELECT i, 'p' || i, i FROM generate_series(1, {ROWS}) i",
)
# Outside of a transaction; it fails and leaves an index that is not valid.
BROKEN_INDEX = "CREATE UNIQUE INDEX CONCURRENTLY broken_key_id ON broken_key (id)"
AFTERWARDS = (
    "DELETE FROM broken_key",
    f"INSERT INTO broken_key SELECT i, i FROM generate_series(1, {ROWS}) i",
)
