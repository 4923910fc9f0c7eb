"""Planted: indexes that are missing."""

from tune_plants.base import Draw, Drawn, Plant, filled, index_with, kind_is, statement

# A value that differs from row to row without order: a multiplicative step through the numbers.
SCATTERED = "(i * 7919::bigint) % {n}"


def scattered(distinct: int) -> str:
    """SQL of a value of `distinct` ones, without order on the disk."""
    return f"(({SCATTERED.format(n=distinct * 97 + 1)}) % {distinct})::int"


def scattered_time(rows: int) -> str:
    """SQL of a minute among as many as there are rows, without order on the disk."""
    return f"timestamp '2024-01-01' + ({scattered(rows)}) * interval '1 minute'"


def _equality(draw: Draw) -> Drawn:
    """One column, one value; decoy: the index exists, or the table is small, or half of the rows match."""
    table, a, b, rows = draw.table(), draw.column(), draw.column(), draw.rows()
    why = draw.one_of("exists", "small", "unselective") if draw.decoy else ""
    rows = 150 if why == "small" else rows
    distinct = 2 if why == "unselective" else rows // draw.size(5, 40)
    setup = filled(
        table, f"{a} {draw.integer()}, {b} {draw.integer()}, {draw.filler()}", rows,
        [scattered(distinct), "i", f"repeat('y', {draw.size(40, 90)})"],
    )  # fmt: skip
    if why == "exists":
        setup += (f"CREATE INDEX ON {table} ({a})",)
    return Drawn(
        setup, (statement(f"SELECT * FROM {table} WHERE {a} = 1"),), index_with(f"({a})", kind="btree")
    )


def _two_columns(draw: Draw) -> Drawn:
    """Two equalities of which neither alone is selective."""
    table, a, b, rows = draw.table(), draw.column(), draw.column(), draw.rows()
    setup = filled(
        table, f"{a} integer, {b} {draw.integer()}, {draw.filler()}", rows,
        [scattered(30), "((i / 31) * 7919 % 37)::int", "repeat('y', 80)"],
    )  # fmt: skip
    if draw.decoy:
        setup += (f"CREATE INDEX ON {table} ({b}, {a})", f"ANALYZE {table}")
    sql = f"SELECT * FROM {table} WHERE {a} = 3 AND {b} = 5"
    either = lambda candidate: index_with(a, b)(candidate) or index_with(b, a)(candidate)  # noqa: E731
    return Drawn(setup, (statement(sql),), either)


def _equality_and_range(draw: Draw) -> Drawn:
    """An equality and a range; decoy: the range lets nearly all rows through and the equality half."""
    table, a, at, rows = draw.table(), draw.column(), draw.time(), draw.rows()
    distinct = 2 if draw.decoy else draw.size(10, 40)
    setup = filled(
        table, f"{a} integer, {at} timestamp, {draw.filler()}", rows,
        [scattered(distinct), scattered_time(rows), "repeat('y', 80)"],
    )  # fmt: skip
    days = 0 if draw.decoy else rows // 1440 - draw.size(2, 4)
    sql = f"SELECT * FROM {table} WHERE {a} = 1 AND {at} >= timestamp '2024-01-01' + interval '{days} days'"
    return Drawn(setup, (statement(sql),), index_with(f"({a}, {at})", kind="btree"))


def _order_and_limit(draw: Draw) -> Drawn:
    """The newest of one owner; decoy: an index on (owner, time), read backwards."""
    table, a, at, rows = draw.table(), draw.column(), draw.time(), draw.rows()
    setup = filled(
        table, f"{a} {draw.integer()}, {at} timestamp, {draw.filler()}", rows,
        [scattered(draw.size(5, 30)), scattered_time(rows), "repeat('y', 80)"],
    )  # fmt: skip
    if draw.decoy:
        setup += (f"CREATE INDEX ON {table} ({a}, {at})", f"ANALYZE {table}")
    sql = f"SELECT * FROM {table} WHERE {a} = 1 ORDER BY {at} DESC LIMIT {draw.size(5, 30)}"
    return Drawn(setup, (statement(sql),), index_with(f"({a}, {at} DESC", kind="btree"))


def _mixed_directions(draw: Draw) -> Drawn:
    """Sorted by two keys in opposite directions; decoy: that index is there. A plain index is no use."""
    table, a, b, rows = draw.table(), draw.column(), draw.column(), draw.rows()
    setup = filled(
        table, f"{a} integer, {b} integer, {draw.filler()}", rows,
        [scattered(5000), "(i * 31 % 1009)::int", "repeat('y', 80)"],
    )  # fmt: skip
    setup += (
        f"CREATE INDEX ON {table} ({a} DESC, {b})" if draw.decoy else f"CREATE INDEX ON {table} ({b}, {a})",
        f"ANALYZE {table}",
    )
    sql = f"SELECT * FROM {table} ORDER BY {a}, {b} DESC LIMIT {draw.size(5, 30)}"
    return Drawn(setup, (statement(sql),), index_with(f"({a}, {b} DESC", kind="btree"))


def _join(draw: Draw) -> Drawn:
    """Few rows joined to a large table without an index; decoy: all rows are joined, so that a hash wins.

    One sum over all of them: where they were grouped, adding up before the join would help the decoy as well.
    """
    one, many, a, b = draw.table(), draw.table(), draw.column(), draw.column()
    rows = draw.rows(80_000, 150_000)
    few = rows // 20
    setup = filled(one, f"id {draw.integer()} PRIMARY KEY, {b} integer", few, ["i", "i % 500"])
    setup += (f"CREATE INDEX ON {one} ({b})",)
    setup += filled(
        many, f"{a} {draw.integer()}, amount numeric, {draw.filler()}", rows,
        [scattered(few), "i % 100", "repeat('y', 60)"],
    )  # fmt: skip
    where = "" if draw.decoy else f" WHERE o.{b} = 7"
    sql = f"SELECT max(o.{b}), sum(m.amount) FROM {one} o JOIN {many} m ON m.{a} = o.id{where}"
    return Drawn(setup, (statement(sql),), index_with(f"({a})"))


def _correlated(draw: Draw) -> Drawn:
    """A subquery for each row that reads a table whole; decoy: its index is there."""
    one, many, a = draw.table(), draw.table(), draw.column()
    rows = draw.rows(20_000, 40_000)
    setup = filled(one, "id integer PRIMARY KEY", 60, ["i"])
    setup += filled(many, f"{a} integer, {draw.filler()}", rows, [scattered(2000), "repeat('y', 60)"])
    if draw.decoy:
        setup += (f"CREATE INDEX ON {many} ({a})", f"VACUUM ANALYZE {many}")
    sql = f"SELECT id, (SELECT count(*) FROM {many} m WHERE m.{a} = o.id) FROM {one} o"
    return Drawn(setup, (statement(sql),), index_with(f"({a})"))


def _extreme(draw: Draw) -> Drawn:
    """max() of a column; decoy: it has an index."""
    table, a, rows = draw.table(), draw.column(), draw.rows()
    setup = filled(
        table, f"{a} {draw.integer()}, {draw.filler()}", rows, [scattered(rows), "repeat('y', 60)"]
    )
    if draw.decoy:
        setup += (f"CREATE INDEX ON {table} ({a})", f"VACUUM ANALYZE {table}")
    sql = f"SELECT {draw.one_of('max', 'min')}({a}) FROM {table}"
    return Drawn(setup, (statement(sql),), index_with(f"({a})"))


def _prefix(draw: Draw) -> Drawn:
    """LIKE 'abc%' with a plain index; decoy: with text_pattern_ops, or every text begins so."""
    table, name, rows = draw.table(), draw.text(), draw.rows()
    type_ = draw.one_of("text", "varchar(100)")
    why = draw.one_of("exists", "all") if draw.decoy else ""
    setup = filled(
        table, f'{name} {type_} COLLATE "en-x-icu", {draw.filler()}', rows,
        ["'ab' || i" if why == "all" else "md5(i::text)", "repeat('y', 60)"],
    )  # fmt: skip
    setup += (
        f"CREATE INDEX ON {table} ({name}{' text_pattern_ops' if why == 'exists' else ''})",
        f"ANALYZE {table}",
    )
    pattern = "ab" if why == "all" else draw.one_of("abc", "f00", "12d")
    sql = f"SELECT * FROM {table} WHERE {name} LIKE '{pattern}%'"
    return Drawn(setup, (statement(sql),), index_with("pattern_ops", kind="like-prefix"))


def _partial(draw: Draw) -> Drawn:
    """A status that few rows have; decoy: nearly all have it."""
    table, a, at, rows = draw.table(), draw.column(), draw.time(), draw.rows()
    state, value = draw.one_of(("state", "'open'"), ("status", "'failed'"))
    share = "i % 100 <> 7" if draw.decoy else "i % 100 = 7"
    setup = filled(
        table, f"{a} integer, {state} text, {at} timestamp, {draw.filler()}", rows,
        [scattered(1000), f"CASE WHEN {share} THEN {value} ELSE 'done' END",
         "timestamp '2024-01-01' + i * interval '1 minute'", "repeat('y', 60)"],
    )  # fmt: skip
    sql = f"SELECT * FROM {table} WHERE {state} = {value}"
    return Drawn(setup, (statement(sql),), index_with("WHERE", value, kind="partial"))


def _partial_null(draw: Draw) -> Drawn:
    """Rows that wait: a time that is null; decoy: that partial index is there."""
    table, a, at, rows = draw.table(), draw.column(), draw.time(), draw.rows()
    setup = filled(
        table, f"{a} integer, {at} timestamp, {draw.filler()}", rows,
        [scattered(rows), "CASE WHEN i % 60 <> 3 THEN now()::timestamp END", "repeat('y', 60)"],
    )  # fmt: skip
    if draw.decoy:
        setup += (f"CREATE INDEX ON {table} ({a}) WHERE {at} IS NULL", f"ANALYZE {table}")
    sql = f"SELECT * FROM {table} WHERE {at} IS NULL ORDER BY {a} LIMIT {draw.size(5, 40)}"
    return Drawn(setup, (statement(sql),), index_with(f"({a})", "IS NULL", kind="partial"))


def _expression(draw: Draw) -> Drawn:
    """lower(email) compared; decoy: that index is there."""
    table, name, rows = draw.table(), draw.text(), draw.rows()
    function = draw.one_of("lower", "upper")
    setup = filled(
        table, f"{name} {draw.one_of('text', 'varchar')}, {draw.filler()}", rows,
        ["'User' || i || '@example.com'", "repeat('y', 60)"],
    )  # fmt: skip
    if draw.decoy:
        setup += (f"CREATE INDEX ON {table} ({function}({name}))", f"ANALYZE {table}")
    sql = f"SELECT * FROM {table} WHERE {function}({name}) = {function}('User77@example.com')"
    return Drawn(setup, (statement(sql),), index_with(f"{function}(", kind="expression"))


def _part_of_time(draw: Draw) -> Drawn:
    """The day of a timestamp without time zone compared; decoy: that index is there."""
    table, at, rows = draw.table(), draw.time(), draw.rows()
    expression = draw.one_of(f"date_trunc('day', {at})", f"({at})::date")
    setup = filled(
        table, f"id integer, {at} timestamp, {draw.filler()}", rows,
        ["i", f"timestamp '2020-01-01' + (i * 7919 % {rows}) * interval '17 minutes'", "repeat('y', 60)"],
    )  # fmt: skip
    if draw.decoy:
        setup += (f"CREATE INDEX ON {table} (({expression}))", f"ANALYZE {table}")
    sql = f"SELECT * FROM {table} WHERE {expression} = '2020-02-03'"
    return Drawn(setup, (statement(sql),), index_with("((", kind="expression"))


def _or_conditions(draw: Draw) -> Drawn:
    """OR over two columns without indexes; decoy: both are there."""
    table, one, other, rows = draw.table(), draw.column(), draw.column(), draw.rows()
    setup = filled(
        table, f"id integer, {one} integer, {other} integer, {draw.filler()}", rows,
        ["i", scattered(2000), f"{scattered(3000)} + i % 2", "repeat('y', 60)"],
    )  # fmt: skip
    if draw.decoy:
        setup += (
            f"CREATE INDEX ON {table} ({one})", f"CREATE INDEX ON {table} ({other})", f"ANALYZE {table}",
        )  # fmt: skip
    sql = f"SELECT * FROM {table} WHERE {one} = 77 OR {other} = 99"
    return Drawn(setup, (statement(sql),), kind_is("or-conditions"))


def _expression_json(draw: Draw) -> Drawn:
    """A key of a document compared; decoy: one value for all rows."""
    table, rows = draw.table(), draw.rows(30_000, 60_000)
    key = draw.one_of("sku", "ref")
    value = "'1'" if draw.decoy else "i"
    setup = filled(
        table, f"id integer, data jsonb, {draw.filler()}", rows,
        ["i", f"jsonb_build_object('{key}', {value}::text, 'n', i)", "repeat('y', 60)"],
    )  # fmt: skip
    sql = f"SELECT * FROM {table} WHERE data ->> '{key}' = '{1 if draw.decoy else 77}'"
    return Drawn(setup, (statement(sql),), index_with("->>", kind="expression"))


def _covering(draw: Draw) -> Drawn:
    """Many rows of an index fetched from the heap for one narrow column; decoy: all columns are read."""
    table, a, b, rows = draw.table(), draw.column(), draw.column(), draw.rows(100_000, 150_000)
    setup = filled(
        table, f"{a} integer, {b} integer, filler text", rows,
        [scattered(25), "i % 1000", f"repeat('y', {draw.size(200, 300)})"],
    )  # fmt: skip
    setup += (f"CREATE INDEX ON {table} ({a})", f"VACUUM ANALYZE {table}")
    what = "count(filler || 'x')" if draw.decoy else f"sum({b})"
    sql = f"SELECT {what} FROM {table} WHERE {a} = 3"
    return Drawn(setup, (statement(sql),), index_with(f"({a})", f"INCLUDE ({b})", kind="covering"))


PLANTS = (
    Plant("index-equality", "btree", _equality),
    Plant("index-two-columns", "btree", _two_columns),
    Plant("index-equality-and-range", "btree", _equality_and_range),
    Plant("index-order-and-limit", "btree", _order_and_limit),
    Plant("index-mixed-directions", "btree", _mixed_directions),
    Plant("index-join", "join", _join),
    Plant("index-correlated-subquery", "btree", _correlated),
    Plant("index-extreme", "btree", _extreme),
    Plant("index-prefix", "like-prefix", _prefix),
    Plant("index-partial", "partial", _partial),
    Plant("index-partial-null", "partial", _partial_null),
    Plant("index-expression", "expression", _expression),
    Plant("index-part-of-time", "expression", _part_of_time),
    Plant("index-or-conditions", "or-conditions", _or_conditions),
    Plant("index-expression-json", "expression", _expression_json),
    Plant("index-covering", "covering", _covering),
)
