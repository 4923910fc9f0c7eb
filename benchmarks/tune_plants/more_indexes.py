"""Planted: indexes of other methods that are missing, indexes that nobody needs, foreign keys without one."""

from pgassay.tune.candidate import Candidate
from tune_plants.base import Draw, Drawn, IsFix, Plant, filled, index_with, kind_is, statement
from tune_plants.indexes import scattered


def _gin_array(draw: Draw) -> Drawn:
    """Arrays that have an element; decoy: all have it."""
    table, rows = draw.table(), draw.rows(30_000, 60_000)
    element = "1" if draw.decoy else f"({scattered(3000)})"
    setup = filled(
        table, f"id integer, tags integer[], {draw.filler()}", rows,
        ["i", f"ARRAY[{element}, 100000 + i % 7]", "repeat('y', 60)"],
    )  # fmt: skip
    operator = draw.one_of("@>", "&&")
    sql = f"SELECT * FROM {table} WHERE tags {operator} ARRAY[{1 if draw.decoy else 77}]"
    return Drawn(setup, (statement(sql),), index_with("(tags", kind="gin"))


def _gin_json(draw: Draw) -> Drawn:
    """Documents that contain a pair; decoy: the index is there."""
    table, rows = draw.table(), draw.rows(30_000, 60_000)
    setup = filled(
        table, f"id integer, data jsonb, {draw.filler()}", rows,
        ["i", f"jsonb_build_object('kind', {scattered(2000)}, 'n', i)", "repeat('y', 60)"],
    )  # fmt: skip
    if draw.decoy:
        opclass = draw.one_of("", " jsonb_path_ops")
        setup += (f"CREATE INDEX ON {table} USING gin (data{opclass})", f"ANALYZE {table}")
    sql = f"SELECT * FROM {table} WHERE data @> '{{\"kind\": 5}}'"
    return Drawn(setup, (statement(sql),), index_with("jsonb_path_ops", kind="gin"))


def _trigrams(draw: Draw) -> Drawn:
    """A part of a text; decoy: the pattern has no three letters in a row, which trigrams need."""
    table, name, rows = draw.table(), draw.text(), draw.rows(30_000, 60_000)
    setup = filled(
        table, f"{name} text, {draw.filler()}", rows,
        [f"md5(i::text) || CASE WHEN i % {draw.size(400, 900)} = 5 THEN 'needle' END || 'x'",
         "repeat('y', 60)"],
    )  # fmt: skip
    setup += (
        f"UPDATE {table} SET {name} = 'plain' WHERE {name} IS NULL",
        f"VACUUM (FULL, ANALYZE) {table}",
        f"VACUUM {table}",
    )
    pattern = "%n%d%z%" if draw.decoy else draw.one_of("%needle%", "%eedle%")
    operator = draw.one_of("LIKE", "ILIKE")
    return Drawn(
        setup, (statement(f"SELECT * FROM {table} WHERE {name} {operator} '{pattern}'"),),
        index_with("gin_trgm_ops", kind="gin"),
    )  # fmt: skip


def _full_text(draw: Draw) -> Drawn:
    """A word in a text; decoy: a tsvector column with its index."""
    table, rows = draw.table(), draw.rows(15_000, 25_000)
    animal = f"CASE WHEN i % {draw.size(300, 700)} = 3 THEN 'giraffe ' ELSE 'horse ' END"
    words = f"'common words ' || {animal} || md5(i::text)"
    setup = filled(table, f"id integer, body text, {draw.filler()}", rows, ["i", words, "repeat('y', 60)"])
    expression = "to_tsvector('english', body)"
    if draw.decoy:
        setup += (f"CREATE INDEX ON {table} USING gin ({expression})", f"ANALYZE {table}")
    sql = f"SELECT * FROM {table} WHERE {expression} @@ to_tsquery('english', 'giraffe')"
    return Drawn(setup, (statement(sql),), index_with("to_tsvector", kind="gin"))


def _brin(draw: Draw) -> Drawn:
    """A range of a time in whose order the rows lie; decoy: a BRIN index is there."""
    table, at, rows = draw.table(), draw.time(), draw.rows(150_000, 200_000)
    setup = filled(
        table, f"id bigint, {at} timestamp, {draw.filler()}", rows,
        ["i", "timestamp '2024-01-01' + i * interval '1 minute'", f"repeat('y', {draw.size(80, 120)})"],
    )  # fmt: skip
    if draw.decoy:
        setup += (
            f"CREATE INDEX ON {table} USING brin ({at}) WITH (pages_per_range = 16)",
            f"ANALYZE {table}",
        )
    days = draw.size(20, 60)
    sql = (
        f"SELECT count(filler) FROM {table} WHERE {at} >= '2024-01-01'::timestamp + interval '{days} days' "
        f"AND {at} < '2024-01-01'::timestamp + interval '{days + 3} days'"
    )
    return Drawn(setup, (statement(sql),), index_with(f"({at})", kind="brin"))


def _foreign_key(draw: Draw) -> Drawn:
    """Deletes of rows that others refer to; decoy: the referring column has its index."""
    one, many, a, rows = draw.table(), draw.table(), draw.column(), draw.rows()
    setup = filled(one, "id integer PRIMARY KEY", 2000, ["i"])
    setup += filled(
        many, f"{a} integer, {draw.filler()}", rows, ["1 + i % 1000", "repeat('y', 60)"]
    )  # fmt: skip
    setup += (f"ALTER TABLE {many} ADD FOREIGN KEY ({a}) REFERENCES {one}",)
    if draw.decoy:
        setup += (f"CREATE INDEX ON {many} ({a})",)
    sql = f"DELETE FROM {one} WHERE id > {1990 - draw.size(0, 20)}"
    return Drawn(setup, (statement(sql, writes=True),), index_with(f"({a})", kind="foreign-key"))


def _unneeded(why: str) -> IsFix:
    def is_fix(candidate: Candidate) -> bool:
        return candidate.kind == "unneeded-index" and why in candidate.title

    return is_fix


# Each number once, up to this prime, and without order: where an index's entries go decides what it costs.
ONCE = "((({i}) * 7919::bigint) % 200003)::int"


def _written(draw: Draw, table: str, columns: str, values: str) -> str:
    rows = draw.size(6_000, 9_000)
    return f"INSERT INTO {table} ({columns}) SELECT {values} FROM generate_series(1, {rows}) AS i"


def _duplicate(draw: Draw) -> Drawn:
    """Two indexes of the same keys; decoy: of another operator class, or one of a constraint."""
    table, a, b, rows = draw.table(), draw.column(), draw.column(), draw.rows(40_000, 60_000)
    setup = filled(table, f"{a} integer, {b} text", rows, [ONCE.format(i="i"), "'t' || i"])
    if draw.decoy:
        setup += draw.one_of(
            (f"CREATE INDEX ON {table} ({b})", f"CREATE INDEX ON {table} ({b} text_pattern_ops)"),
            (f"ALTER TABLE {table} ADD UNIQUE ({a})", f"CREATE INDEX ON {table} ({b})"),
        )
    else:
        setup += (f"CREATE INDEX first_one ON {table} ({a})", f"CREATE INDEX ON {table} ({a})")
    sql = _written(draw, table, f"{a}, {b}", f"{ONCE.format(i=f'i + {rows}')}, 'n'")
    return Drawn(setup, (statement(sql, writes=True),), _unneeded("duplicate"))


def _prefix(draw: Draw) -> Drawn:
    """An index with whose keys another begins; decoy: the short one is unique."""
    table, a, b, rows = draw.table(), draw.column(), draw.column(), draw.rows(40_000, 60_000)
    setup = filled(table, f"{a} integer, {b} integer", rows, [ONCE.format(i="i"), "i % 100"])
    unique = "UNIQUE " if draw.decoy else ""
    setup += (f"CREATE {unique}INDEX ON {table} ({a})", f"CREATE INDEX ON {table} ({a}, {b})")
    sql = _written(draw, table, f"{a}, {b}", f"{ONCE.format(i=f'i + {rows}')}, 5")
    return Drawn(setup, (statement(sql, writes=True),), _unneeded("prefix"))


def _never_scanned(draw: Draw) -> Drawn:
    """An index that nothing reads on a table that is read often; decoy: this one is read as well."""
    table, a, b, rows = draw.table(), draw.column(), draw.column(), draw.rows(40_000, 60_000)
    setup = filled(table, f"{a} integer, {b} integer", rows, ["i", scattered(20_000)])
    setup += (
        f"CREATE INDEX used ON {table} ({a})",
        f"CREATE INDEX idle ON {table} ({b})",
        f"ANALYZE {table}",
    )
    for column in (a, b) if draw.decoy else (a,):
        setup += (
            "SET enable_seqscan = off",
            f"DO $$BEGIN FOR i IN 1..150 LOOP PERFORM * FROM {table} WHERE {column} = i; END LOOP; END$$",
            "RESET enable_seqscan",
        )
    sql = _written(draw, table, f"{a}, {b}", f"i + {rows}, {scattered(20_000)}")
    return Drawn(setup, (statement(sql, writes=True),), _unneeded("never scanned"))


def _partitioning(draw: Draw) -> Drawn:
    """Every statement asks for one month of rows that lie anywhere; decoy: most ask without the month."""
    table, at, rows = draw.table(), draw.time(), draw.rows(150_000, 200_000)
    setup = filled(
        table, f"{at} date NOT NULL, amount integer, {draw.filler()}", rows,
        [f"date '2023-01-01' + ({scattered(365)})", "i % 1000", f"repeat('y', {draw.size(80, 120)})"],
    )  # fmt: skip
    month = f"{at} >= '2023-04-01' AND {at} < '2023-05-01'"
    others = "filler <> 'z'" if draw.decoy else f"{at} >= '2023-08-01' AND {at} < '2023-09-01'"
    return Drawn(
        setup,
        (
            statement(
                f"SELECT sum(amount), max(filler) FROM {table} WHERE {month}",
                weight=0.01 if draw.decoy else 1,
            ),
            statement(f"SELECT avg(amount), min(filler) FROM {table} WHERE {others}", name="q2"),
        ),
        kind_is("partitioning"),
    )


PLANTS = (
    Plant("gin-array", "gin", _gin_array),
    Plant("gin-json", "gin", _gin_json),
    Plant("gin-trigrams", "gin", _trigrams),
    Plant("gin-full-text", "gin", _full_text),
    Plant("brin", "brin", _brin),
    Plant("foreign-key", "foreign-key", _foreign_key),
    Plant("unneeded-duplicate", "unneeded-index", _duplicate),
    Plant("unneeded-prefix", "unneeded-index", _prefix),
    Plant("unneeded-never-scanned", "unneeded-index", _never_scanned),
    Plant("partitioning-range", "partitioning", _partitioning),
)
