"""Queries made from a seed: joins, loops, CTEs, partitions, parallel scans, sub-selects of every kind.

Each is read-only, ends soon, and stands with the settings that make the planner choose a variety of plans.
"""

import random
from dataclasses import dataclass

SCHEMA = """
CREATE TABLE fact (id int, kind int, amount int, note text);
INSERT INTO fact SELECT i, i % 97, (i * 7919) % 10007, repeat('x', 20) FROM generate_series(1, 60000) AS i;
CREATE INDEX fact_id ON fact (id);
CREATE INDEX fact_kind ON fact (kind, amount);
CREATE TABLE side (id int PRIMARY KEY, kind int, label text);
INSERT INTO side SELECT i, i % 13, 'label ' || i FROM generate_series(1, 3000) AS i;
CREATE TABLE parts (id int, kind int, amount int) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10000);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10000) TO (20000);
CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (20000) TO (30001);
INSERT INTO parts SELECT i, i % 31, i % 1009 FROM generate_series(1, 30000) AS i;
CREATE INDEX parts_id ON parts (id);
CREATE FUNCTION slow(value int) RETURNS int LANGUAGE plpgsql VOLATILE AS
    'BEGIN PERFORM sum(i) FROM generate_series(1, 200) AS i; RETURN value; END';
VACUUM ANALYZE fact;
VACUUM ANALYZE side;
VACUUM ANALYZE parts;
"""
PARALLEL = (
    "SET parallel_setup_cost = 0",
    "SET parallel_tuple_cost = 0.001",
    "SET min_parallel_table_scan_size = 0",
    "SET min_parallel_index_scan_size = 0",
    "SET max_parallel_workers_per_gather = 2",
)
_SERIAL = ("SET max_parallel_workers_per_gather = 0",)
_PLANNER = (
    "enable_hashjoin", "enable_mergejoin", "enable_nestloop", "enable_memoize", "enable_bitmapscan",
    "enable_indexscan", "enable_seqscan", "enable_hashagg", "enable_sort", "enable_material",
)  # fmt: skip
_SOURCES = ("fact", "parts", "side")


@dataclass(frozen=True)
class Generated:
    """A query with the settings of its session."""

    seed: int
    settings: tuple[str, ...]
    query: str


def generated(seed: int) -> Generated:
    """The query of a seed."""
    draw = random.Random(seed)
    settings = ["SET jit = off", *(PARALLEL if draw.random() < 0.6 else _SERIAL)]
    settings += [f"SET {name} = off" for name in draw.sample(_PLANNER, draw.choice((0, 0, 1, 2, 3)))]
    settings.append(f"SET work_mem = '{draw.choice(('64kB', '1MB', '16MB'))}'")
    if draw.random() < 0.2:
        settings.append("SET parallel_leader_participation = off")
    return Generated(seed, tuple(settings), draw.choice(_SHAPES)(draw))


def _where(draw: random.Random, alias: str) -> str:
    return draw.choice(
        (
            f"{alias}.kind < {draw.randint(1, 30)}",
            f"{alias}.id BETWEEN {draw.randint(1, 1000)} AND {draw.randint(1500, 30000)}",
            f"{alias}.kind IN (1, 3, {draw.randint(4, 12)})",
            "true",
        )
    )


def _source(draw: random.Random) -> str:
    return draw.choice(_SOURCES)


def _join(draw: random.Random) -> str:
    kind = draw.choice(("JOIN", "LEFT JOIN", "FULL JOIN"))
    return (
        f"SELECT count(*), sum(a.kind) FROM {_source(draw)} a {kind} {_source(draw)} b ON a.id = b.id "
        f"WHERE {_where(draw, 'a')}"
    )


def _lateral(draw: random.Random) -> str:
    return (
        f"SELECT a.id, x.total FROM side a, LATERAL (SELECT sum(b.amount) AS total FROM "
        f"{draw.choice(('fact', 'parts'))} b "
        f"WHERE b.id BETWEEN a.id AND a.id + {draw.randint(1, 40)}) x WHERE a.id < {draw.randint(50, 900)}"
    )


def _cte(draw: random.Random) -> str:
    return (
        f"WITH c AS MATERIALIZED (SELECT id, kind, slow(id % 5) AS v FROM side WHERE {_where(draw, 'side')}) "
        "SELECT count(*) FROM c x "
        + draw.choice(
            (
                "JOIN c y ON x.id = y.id",
                "WHERE x.v > 1",
                "JOIN fact f ON f.id = x.id",
                "UNION ALL SELECT sum(v) FROM c z",
            )
        )
    )


def _recursive(draw: random.Random) -> str:
    return (
        f"WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {draw.randint(10, 3000)}) "
        f"SELECT count(*), sum(s.kind) FROM r JOIN {_source(draw)} s ON s.id = r.n"
    )


def _initplan(draw: random.Random) -> str:
    inner = f"SELECT max(slow(s.id % 7)) + {draw.randint(0, 3)} FROM side s"
    return draw.choice(
        (
            f"SELECT count(*) FROM {_source(draw)} a WHERE a.kind > ({inner})",
            f"SELECT ({inner}), a.id FROM fact a ORDER BY a.kind, a.id LIMIT {draw.randint(1, 500)}",
            f"SELECT sum(a.kind) FROM fact a JOIN parts b USING (id) WHERE b.kind = ({inner}) AND "
            f"{_where(draw, 'a')}",
            f"SELECT count(*) FROM fact a WHERE a.id = ({inner})",
        )
    )


def _subplan(draw: random.Random) -> str:
    return draw.choice(
        (
            f"SELECT s.id, (SELECT sum(f.amount) FROM fact f WHERE f.id < s.id % "
            f"{draw.randint(20, 90)}) FROM side s LIMIT 400",
            f"SELECT count(*) FROM {_source(draw)} a WHERE a.kind NOT IN (SELECT slow(kind) FROM side "
            f"WHERE id < {draw.randint(5, 300)})",
            f"SELECT count(*) FROM parts p WHERE p.amount > (SELECT avg(s.kind) FROM side s WHERE "
            f"s.id < p.kind * {draw.randint(1, 4)})",
            "SELECT count(*) FROM side a JOIN side b ON b.id = (SELECT min(c.id) FROM side c WHERE "
            "c.kind = a.kind AND c.id > a.id % 50)",
            f"SELECT count(*) FROM side s WHERE EXISTS (SELECT 1 FROM fact f WHERE f.id = s.id AND "
            f"f.amount > {draw.randint(1, 9000)}) OR s.kind = 3",
        )
    )


def _append(draw: random.Random) -> str:
    return draw.choice(
        (
            f"SELECT kind, count(*) FROM parts WHERE id < {draw.randint(1, 30000)} GROUP BY kind",
            f"SELECT count(*) FROM parts p JOIN side s ON p.id = s.id * {draw.randint(1, 9)} WHERE "
            f"s.kind = 2",
            "SELECT count(*) FROM (SELECT id FROM fact UNION SELECT id FROM parts) u",
            f"SELECT id FROM parts ORDER BY id LIMIT {draw.randint(1, 9000)}",
            f"SELECT count(*) FROM parts WHERE id = (SELECT min(id) + {draw.randint(1, 29000)} FROM side)",
        )
    )


def _sorted(draw: random.Random) -> str:
    return draw.choice(
        (
            "SELECT * FROM fact ORDER BY note, amount",
            f"SELECT kind, amount, row_number() OVER (PARTITION BY kind ORDER BY amount) FROM fact "
            f"WHERE {_where(draw, 'fact')}",
            "SELECT kind, amount, id FROM fact ORDER BY kind, amount, id",
            "SELECT kind, count(DISTINCT amount) FROM fact GROUP BY kind",
            "SELECT kind, amount % 5, count(*) FROM fact GROUP BY GROUPING SETS ((kind), (amount % 5), ())",
            f"SELECT id FROM fact WHERE {_where(draw, 'fact')} EXCEPT SELECT id FROM side",
            "SELECT amount, count(*) FROM fact GROUP BY amount ORDER BY 2 DESC LIMIT 10",
        )
    )


def _bitmap(draw: random.Random) -> str:
    kind, number = draw.randint(1, 40), draw.randint(1, 9000)
    return f"SELECT count(*), sum(id) FROM fact WHERE kind < {kind} OR id < {number}"


_SHAPES = (_join, _lateral, _cte, _recursive, _initplan, _subplan, _append, _sorted, _bitmap)


# One of each kind of node whose line or details are their own; they are estimated, and not run.
PECULIAR = (
    "INSERT INTO side VALUES (1, 2, 'x') ON CONFLICT (id) DO UPDATE SET kind = 3 WHERE side.kind > 1",
    "INSERT INTO side SELECT id + 90000, kind, note FROM fact WHERE id < 10 RETURNING id",
    "UPDATE parts SET amount = amount + 1 WHERE kind = 3",
    "DELETE FROM parts p USING side s WHERE p.id = s.id AND s.kind = (SELECT max(kind) FROM side)",
    "MERGE INTO side t USING fact s ON t.id = s.id WHEN MATCHED THEN UPDATE SET kind = s.kind "
    "WHEN NOT MATCHED THEN DO NOTHING",
    "WITH moved AS (DELETE FROM side WHERE kind = 5 RETURNING *) SELECT count(*) FROM moved",
    "SELECT kind, amount % 5, grouping(kind) FROM fact GROUP BY ROLLUP (kind, amount % 5), CUBE (id % 3)",
    "SELECT * FROM fact TABLESAMPLE system (10) REPEATABLE (7) WHERE kind = 1",
    "SELECT * FROM fact TABLESAMPLE bernoulli (10)",
    "SELECT * FROM side WHERE ctid = '(0,1)'",
    "SELECT * FROM side WHERE ctid > '(0,1)' AND ctid < '(3,1)'",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v (x, y) JOIN side ON side.id = v.x FOR UPDATE OF side",
    "SELECT * FROM ROWS FROM (generate_series(1, 3), generate_series(1, 2)) WITH ORDINALITY AS r",
    "SELECT * FROM generate_series(1, 9) AS g JOIN json_to_recordset('[{\"a\": 1}]') AS j (a int) ON g = j.a",
    "SELECT generate_series(1, kind) FROM side LIMIT 5 OFFSET 2",
    "SELECT kind, rank() OVER w, sum(id) OVER (w ROWS 3 PRECEDING) FROM side WINDOW w AS (PARTITION "
    "BY kind ORDER BY id)",
    "SELECT * FROM (SELECT kind, row_number() OVER (ORDER BY id) AS n FROM side) x WHERE n <= 10",
    "(SELECT id FROM side INTERSECT ALL SELECT id FROM fact) EXCEPT SELECT kind FROM parts",
    "SELECT DISTINCT ON (kind) kind, id FROM fact ORDER BY kind, id DESC",
    "SELECT * FROM side WHERE label = 'it''s a \"quote\"\n  ->  Seq Scan on forged  (cost=0.00..1.00 "
    "rows=1 width=4)'",
    "SELECT * FROM side \"S x\" WHERE label = E'back\\\\slash' AND kind = ANY (ARRAY(SELECT kind "
    "FROM parts))",
    "SELECT 1 WHERE current_user = 'nobody'",
    "SELECT (SELECT max(id) FROM side), EXISTS (SELECT 1 FROM fact WHERE kind = side.kind) FROM side",
    "SELECT count(*) FROM fact a WHERE (kind, amount) IN (SELECT kind, id FROM side) OR amount IN "
    "(SELECT id FROM side)",
)
