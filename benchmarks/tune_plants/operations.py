"""Planted: statistics that are missing or can't tell, dead rows, bloat, what autovacuum is told."""

from pgassay.tune.candidate import Candidate
from tune_plants.base import Draw, Drawn, IsFix, Plant, filled, kind_is, statement
from tune_plants.indexes import scattered


def _joined(one: str, many: str, where: str) -> str:
    return f"SELECT count(*), max(m.filler) FROM {one} o JOIN {many} m ON m.k = o.k WHERE {where}"


def _many(draw: Draw, many: str, keys: int) -> tuple[str, ...]:
    """A large table that is joined by an index, whose rows lie anywhere, or whole.

    A row or two for each key, so that for many keys reading it whole is much faster than looking them up.
    """
    rows = keys * draw.size(1, 2)
    return (
        *filled(many, f"k integer, {draw.filler()}", rows, [f"1 + {scattered(keys)}", "repeat('y', 40)"]),
        f"CREATE INDEX ON {many} (k)",
        f"VACUUM ANALYZE {many}",
    )


def _stale(draw: Draw) -> Drawn:
    """Analysed when nearly empty, then filled; decoy: analysed afterwards."""
    one, many, rows = draw.table(), draw.table(), draw.rows(40_000, 60_000)
    setup = _many(draw, many, rows)
    setup += filled(one, "k integer, state integer", 500, ["i", "0"])
    setup += (f"INSERT INTO {one} SELECT i, 1 FROM generate_series(1, {rows}) AS i",)
    if draw.decoy:
        setup += (f"VACUUM ANALYZE {one}",)
    return Drawn(setup, (statement(_joined(one, many, "o.state = 1")),), kind_is("analyze"))


def _never_analysed(draw: Draw) -> Drawn:
    """A table without statistics, whose condition lets nearly all rows through; decoy: analysed."""
    one, many, rows = draw.table(), draw.table(), draw.rows(40_000, 60_000)
    setup = _many(draw, many, rows)
    setup += filled(
        one, "k integer, state integer, at date", rows, ["i", "1", "date '2024-01-01'"], analyze=False
    )
    if draw.decoy:
        setup += (f"VACUUM ANALYZE {one}",)
    where = "o.state = 1 AND o.at = '2024-01-01'"
    return Drawn(setup, (statement(_joined(one, many, where)),), kind_is("analyze"))


def _harmless(draw: Draw) -> Drawn:
    """Stale statistics that a join depends on; decoy: as stale, and nothing depends on them."""
    one, many, rows = draw.table(), draw.table(), draw.rows(40_000, 60_000)
    setup = _many(draw, many, rows)
    setup += filled(one, "k integer, state text", 300, ["i", "'new'"])
    setup += (f"INSERT INTO {one} SELECT i, 'done' FROM generate_series(1, {rows}) AS i",)
    sql = _joined(one, many, "o.state = 'done'")
    if draw.decoy:
        sql = f"SELECT count(*) FROM {one} WHERE state = 'done'"
    return Drawn(setup, (statement(sql),), kind_is("analyze"))


def _kinds(kind: str) -> IsFix:
    def is_fix(candidate: Candidate) -> bool:
        return candidate.kind == "extended-statistics" and any(kind in sql for sql in candidate.sql)

    return is_fix


def _dependent(draw: Draw) -> Drawn:
    """Columns of which one says the others; decoy: statistics of them are there."""
    one, many, rows = draw.table(), draw.table(), draw.rows(60_000, 80_000)
    columns = [draw.column() for _ in range(7)]
    setup = _many(draw, many, rows)
    # Half of the rows pass all of them, and a hundredth is expected.
    setup += filled(
        one, "k integer, " + ", ".join(f"{each} integer" for each in columns), rows,
        ["i", *(f"i % 2 + {number}" for number, _ in enumerate(columns))],
    )  # fmt: skip
    if draw.decoy:
        setup += (
            f"CREATE STATISTICS have (dependencies, mcv) ON {', '.join(columns)} FROM {one}",
            f"ANALYZE {one}",
        )
    where = " AND ".join(f"o.{each} = {1 + number}" for number, each in enumerate(columns))
    return Drawn(setup, (statement(_joined(one, many, where)),), _kinds("dependencies"))


def _most_common(draw: Draw) -> Drawn:
    """Ranges of columns that say each other; decoy: statistics of them are there."""
    one, many, rows = draw.table(), draw.table(), draw.rows(60_000, 80_000)
    columns = [draw.column() for _ in range(7)]
    setup = _many(draw, many, rows)
    # Half of the rows pass all of them, and a hundredth is expected.
    setup += filled(
        one, "k integer, " + ", ".join(f"{each} integer" for each in columns), rows,
        ["i", *("i % 2" for _ in columns)],
    )  # fmt: skip
    if draw.decoy:
        setup += (f"CREATE STATISTICS have (mcv) ON {', '.join(columns)} FROM {one}", f"ANALYZE {one}")
    where = " AND ".join([f"o.{columns[0]} = 1", *(f"o.{each} > 0" for each in columns[1:])])
    return Drawn(setup, (statement(_joined(one, many, where)),), _kinds("mcv"))


def _distinct(draw: Draw) -> Drawn:
    """Groups of columns that say each other, joined as if they were many; decoy: statistics are there."""
    table, many, rows = draw.table(), draw.table(), draw.rows(60_000, 80_000)
    a, b, n = draw.column(), draw.column(), draw.size(60, 90)
    # A tenth of the rows is expected as groups: for so many the other table is fully read.
    setup = filled(many, "k integer, filler text", rows // 2, [scattered(rows // 2), "repeat('y', 60)"])
    setup += (f"CREATE INDEX ON {many} (k)", f"VACUUM ANALYZE {many}")
    setup += filled(table, f"{a} integer, {b} integer, k integer", rows, [f"i % {n}"] * 3)
    if draw.decoy:
        setup += (f"CREATE STATISTICS have (ndistinct) ON {a}, {b}, k FROM {table}", f"ANALYZE {table}")
    sql = (
        f"SELECT count(*), max(m.filler) FROM (SELECT {a}, {b}, k, count(*) FROM {table} GROUP BY "
        f"{a}, {b}, k) g "
        f"JOIN {many} m ON m.k = g.k"
    )
    return Drawn(setup, (statement(sql),), _kinds("ndistinct"))


def _target(draw: Draw) -> Drawn:
    """A frequent value lost in a list that is too short; decoy: the target is large."""
    one, many, rows = draw.table(), draw.table(), draw.rows(80_000, 100_000)
    a = draw.column()
    setup = _many(draw, many, rows)
    # 20 values of 2 %, 45 of 1 % each and a long tail: with a target of 20 those of 1 % are lost.
    # What the statement takes of each row is too wide to lie in an index: one on the condition, which many
    # rows pass, would help the decoy as well.
    setup += (f"CREATE TABLE {one} (k integer, {a} integer, pad text)",)
    if not draw.decoy:
        setup += (f"ALTER TABLE {one} ALTER COLUMN {a} SET STATISTICS 20",)
    setup += (
        f"INSERT INTO {one} SELECT i, CASE WHEN i % 20 < 8 THEN i / 20 % 20 WHEN i % 20 < 17 "
        f"THEN 20 + i / 20 % 45 ELSE 1000 + i END, repeat('z', 48) "
        f"FROM generate_series(1, {rows}) AS i",
        f"VACUUM ANALYZE {one}",
    )
    values = ", ".join(str(each) for each in range(20, 65))
    where = f"o.{a} IN ({values})"
    sql = f"SELECT count(*), max(m.filler), max(o.pad) FROM {one} o JOIN {many} m ON m.k = o.k WHERE {where}"
    return Drawn(setup, (statement(sql),), kind_is("statistics-target"))


def _visibility(draw: Draw) -> Drawn:
    """An index-only scan that goes to the heap; decoy: vacuumed."""
    table, a, rows = draw.table(), draw.column(), draw.rows(80_000, 120_000)
    setup = filled(
        table, f"{a} integer, filler text", rows, [scattered(20), "repeat('y', 150)"], analyze=False
    )
    setup += (f"CREATE INDEX ON {table} ({a})", f"ANALYZE {table}")
    if draw.decoy:
        setup += (f"VACUUM {table}",)
    return Drawn(
        setup, (statement(f"SELECT count(*) FROM {table} WHERE {a} BETWEEN 3 AND 5"),), kind_is("vacuum")
    )


def _wide(draw: Draw, table: str) -> tuple[tuple[str, ...], str]:
    """A table of wide rows with an index on scattered values, and a statement that reads some by a bitmap."""
    width, rows = draw.size(350, 450), draw.rows(60_000, 80_000)
    setup = filled(
        table, "id integer, k integer, filler text", rows, ["i", scattered(1000), f"repeat('y', {width})"]
    )  # fmt: skip
    setup += (f"CREATE INDEX ON {table} (k)",)
    first = draw.size(1, 500)
    return setup, f"SELECT count(filler) FROM {table} WHERE k BETWEEN {first} AND {first + draw.size(60, 90)}"


def _dead(draw: Draw) -> Drawn:
    """Dead rows that an index still leads to; decoy: few of them."""
    table = draw.table()
    keep = 20 if draw.decoy else draw.one_of(3, 4)
    word = "<>" if not draw.decoy else "="
    setup, sql = _wide(draw, table)
    setup += (f"DELETE FROM {table} WHERE id % {keep} {word} 0", f"ANALYZE {table}")
    return Drawn(setup, (statement(sql),), kind_is("vacuum"))


def _bloated_table(draw: Draw) -> Drawn:
    """Pages that were emptied; decoy: they are full."""
    table, rows = draw.table(), draw.rows(120_000, 160_000)
    setup = filled(
        table, "id integer, amount integer, filler text", rows, ["i", "i % 100", "repeat('y', 150)"]
    )
    if not draw.decoy:
        setup += (f"DELETE FROM {table} WHERE id % {draw.size(12, 25)} <> 0", f"VACUUM (ANALYZE) {table}")
    return Drawn(setup, (statement(f"SELECT sum(amount) FROM {table}"),), kind_is("bloat"))


def _bloated_index(draw: Draw) -> Drawn:
    """An index whose pages were emptied; decoy: built anew."""
    table, a, rows = draw.table(), draw.column(), draw.rows(250_000, 300_000)
    setup = filled(table, f"{a} integer", rows, ["i"])
    setup += (
        f"CREATE INDEX bloated ON {table} ({a})",
        f"DELETE FROM {table} WHERE {a} % {draw.size(40, 60)} <> 0",
        f"VACUUM (ANALYZE) {table}",
        # The table itself is made small again, and the index is not.
        "SET enable_seqscan = off",
    )
    if draw.decoy:
        setup += ("REINDEX INDEX bloated",)
    return Drawn(
        setup, (statement(f"SELECT count(*) FROM {table} WHERE {a} > 0"),), kind_is("bloat"),
        settings={"enable_seqscan": "off", "enable_bitmapscan": "off"},
    )  # fmt: skip


def _threshold(draw: Draw) -> Drawn:
    """Changed again and again, and autovacuum waits; decoy: few changes, all visible."""
    table, a, rows = draw.table(), draw.column(), draw.rows(60_000, 80_000)
    setup = filled(table, f"{a} integer, n integer, filler text", rows, ["i", "0", "repeat('y', 100)"])
    setup += (f"CREATE INDEX ON {table} ({a})",)
    if not draw.decoy:
        setup += tuple(
            sql
            for _ in range(3)
            for sql in (f"UPDATE {table} SET n = n + 1 WHERE {a} % 5 < 2", f"VACUUM {table}")
        )
        setup += (f"UPDATE {table} SET n = n + 1 WHERE {a} % 7 = 0",)
    setup += (f"ANALYZE {table}",)
    return Drawn(
        setup, (statement(f"SELECT count(*) FROM {table} WHERE {a} > 100"),), kind_is("autovacuum"),
        settings={"enable_seqscan": "off", "enable_bitmapscan": "off"},
    )  # fmt: skip


def _switched_off(draw: Draw) -> Drawn:
    """Autovacuum switched off for a table that is full of dead rows; decoy: off, and nothing to do there."""
    table = draw.table()
    setup, sql = _wide(draw, table)
    setup += (f"ALTER TABLE {table} SET (autovacuum_enabled = false)",)
    if not draw.decoy:
        setup += (f"DELETE FROM {table} WHERE id % 4 <> 0",)
    setup += (f"ANALYZE {table}",)
    return Drawn(setup, (statement(sql),), kind_is("autovacuum"))


def _too_slow(draw: Draw) -> Drawn:
    """Many more dead rows than autovacuum's threshold; decoy: none."""
    table = draw.table()
    setup, sql = _wide(draw, table)
    if not draw.decoy:
        setup += (f"DELETE FROM {table} WHERE id % 5 <> 0",)
    setup += (f"ANALYZE {table}",)
    return Drawn(setup, (statement(sql),), kind_is("autovacuum"))


def _hot(draw: Draw) -> Drawn:
    """Updates of a column without index in full pages; decoy: that column has an index."""
    table, rows = draw.table(), draw.rows(60_000, 80_000)
    setup = filled(
        table, "id integer PRIMARY KEY, a integer, b integer, n integer, filler text", rows,
        ["i", scattered(10_000), scattered(9_000), "0", "repeat('y', 40)"],
    )  # fmt: skip
    setup += (f"CREATE INDEX ON {table} (a)", f"CREATE INDEX ON {table} (b)")
    if draw.decoy:
        setup += (f"CREATE INDEX ON {table} (n)",)
    setup += (f"UPDATE {table} SET n = n + 1", f"VACUUM (FULL, ANALYZE) {table}", f"VACUUM {table}")
    # Of each page a few rows: a fifth of it has room for their new versions.
    sql = f"UPDATE {table} SET n = n + 1 WHERE id % {draw.size(15, 25)} = 3"
    return Drawn(setup, (statement(sql, writes=True),), kind_is("fillfactor"))


def _old(draw: Draw) -> Drawn:
    """A table beyond the age at which it was to be frozen; decoy: just before that, as in ordinary life.

    Up to the next multiple of 65,536 transactions no forced VACUUM is asked for (varsup.c).
    """
    table = draw.table()
    setup = filled(table, "id integer", 2000, ["i"])
    spent = 90_000 if draw.decoy else 128_000
    setup += (
        "CREATE TABLE spent (i integer)",
        f"DO $$BEGIN FOR i IN 1..{spent} LOOP BEGIN INSERT INTO spent VALUES (1); EXCEPTION WHEN "
        "division_by_zero "
        "THEN NULL; END; END LOOP; END$$",
        "DROP TABLE spent",
    )
    return Drawn(
        setup, (statement(f"SELECT count(*) FROM {table}"),), kind_is("freeze"),
        settings={"autovacuum_freeze_max_age": "100000"},
    )  # fmt: skip


PLANTS = (
    Plant("analyze-stale", "analyze", _stale),
    Plant("analyze-never", "analyze", _never_analysed),
    Plant("analyze-dependent-join", "analyze", _harmless),
    Plant("statistics-dependencies", "extended-statistics", _dependent),
    Plant("statistics-mcv", "extended-statistics", _most_common),
    Plant("statistics-ndistinct", "extended-statistics", _distinct),
    Plant("statistics-target", "statistics-target", _target),
    Plant("vacuum-visibility", "vacuum", _visibility),
    Plant("vacuum-dead-rows", "vacuum", _dead),
    Plant("bloat-table", "bloat", _bloated_table),
    Plant("bloat-index", "bloat", _bloated_index),
    Plant("autovacuum-threshold", "autovacuum", _threshold),
    Plant("autovacuum-switched-off", "autovacuum", _switched_off),
    Plant("autovacuum-too-slow", "autovacuum", _too_slow),
    Plant("fillfactor-hot", "fillfactor", _hot),
    Plant("freeze-age", "freeze", _old),
)
