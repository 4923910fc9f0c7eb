"""The statements of TPC-H: its 22 queries with parameters drawn by a seed, and its refresh functions.

Queries and the ranges of their parameters are those of the specification's clause 2.4, but for colours, of
which the first 40 of 92 are drawn. Query 15 has its view as a common table expression, which the
specification allows. The refresh functions of clauses 2.5 to 2.7 insert and delete 0.1 % of the orders; the
new ones take keys that the generator leaves free.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tpch_data import TABLES

REGIONS = {
    "AFRICA": ("ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"),
    "AMERICA": ("ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"),
    "ASIA": ("CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"),
    "EUROPE": ("FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"),
    "MIDDLE EAST": ("EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"),
}
NATIONS = tuple(nation for nations in REGIONS.values() for nation in nations)
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
TYPES = (
    ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
    ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
    ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
)
CONTAINERS = (
    ("SM", "LG", "MED", "JUMBO", "WRAP"),
    ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"),
)
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
COLOURS = (
    "almond", "antique", "aquamarine", "azure", "beige", "bisque", "black", "blanched", "blue", "blush",
    "brown", "burlywood", "burnished", "chartreuse", "chiffon", "chocolate", "coral", "cornflower", "cream",
    "cyan", "dark", "deep", "dim", "dodger", "drab", "firebrick", "floral", "forest", "frosted", "ghost",
    "goldenrod", "green", "grey", "honeydew", "hot", "indian", "ivory", "khaki", "lace", "lavender",
)  # fmt: skip
WORDS = ("special", "pending", "unusual", "express"), ("packages", "requests", "accounts", "deposits")
ORDERS_PER_SCALE = 1_500_000
# Of every 32 keys of orders the generator uses the first 8.
KEYS_PER_ORDER, FREE_KEYS_AFTER = 4, 8
REFRESHED_SHARE = 0.001
Values = tuple[str | int | float, ...]


@dataclass(frozen=True)
class Query:
    """A statement with $1, $2 …, and the sets of values that it is run with."""

    name: str
    sql: str
    values: tuple[Values, ...]
    writes: bool = False


QUERIES = {
    1: """
SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
    sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
    sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS avg_qty,
    avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order
FROM lineitem WHERE l_shipdate <= date '1998-12-01' - $1::integer
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    2: """
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM part, supplier, partsupp, nation, region
WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = $1 AND p_type LIKE $2
    AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = $3
    AND ps_supplycost = (
        SELECT min(ps_supplycost) FROM partsupp, supplier, nation, region
        WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey
            AND n_regionkey = r_regionkey AND r_name = $3)
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100""",
    3: """
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer, orders, lineitem
WHERE c_mktsegment = $1 AND c_custkey = o_custkey AND l_orderkey = o_orderkey
    AND o_orderdate < $2::date AND l_shipdate > $2::date
GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10""",
    4: """
SELECT o_orderpriority, count(*) AS order_count FROM orders
WHERE o_orderdate >= $1::date AND o_orderdate < $1::date + interval '3 months'
    AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority ORDER BY o_orderpriority""",
    5: """
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
    AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
    AND r_name = $1 AND o_orderdate >= $2::date AND o_orderdate < $2::date + interval '1 year'
GROUP BY n_name ORDER BY revenue DESC""",
    6: """
SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
WHERE l_shipdate >= $1::date AND l_shipdate < $1::date + interval '1 year'
    AND l_discount BETWEEN $2::numeric - 0.01 AND $2::numeric + 0.01 AND l_quantity < $3""",
    7: """
SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue
FROM (SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, extract(year FROM l_shipdate) AS l_year,
        l_extendedprice * (1 - l_discount) AS volume
    FROM supplier, lineitem, orders, customer, nation n1, nation n2
    WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
        AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
        AND ((n1.n_name = $1 AND n2.n_name = $2) OR (n1.n_name = $2 AND n2.n_name = $1))
        AND l_shipdate BETWEEN date '1995-01-01' AND date '1996-12-31') AS shipping
GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year""",
    8: """
SELECT o_year, sum(CASE WHEN nation = $1 THEN volume ELSE 0 END) / sum(volume) AS mkt_share
FROM (SELECT extract(year FROM o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume,
        n2.n_name AS nation
    FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
    WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey
        AND o_custkey = c_custkey AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey
        AND r_name = $2 AND s_nationkey = n2.n_nationkey
        AND o_orderdate BETWEEN date '1995-01-01' AND date '1996-12-31' AND p_type = $3) AS all_nations
GROUP BY o_year ORDER BY o_year""",
    9: """
SELECT nation, o_year, sum(amount) AS sum_profit
FROM (SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year,
        l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
    FROM part, supplier, lineitem, partsupp, orders, nation
    WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey
        AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey
        AND p_name LIKE $1) AS profit
GROUP BY nation, o_year ORDER BY nation, o_year DESC""",
    10: """
SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address,
    c_phone, c_comment
FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= $1::date
    AND o_orderdate < $1::date + interval '3 months' AND l_returnflag = 'R' AND c_nationkey = n_nationkey
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
ORDER BY revenue DESC LIMIT 20""",
    11: """
SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier, nation
WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = $1
GROUP BY ps_partkey
HAVING sum(ps_supplycost * ps_availqty) > (
    SELECT sum(ps_supplycost * ps_availqty) * $2::numeric FROM partsupp, supplier, nation
    WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = $1)
ORDER BY value DESC""",
    12: """
SELECT l_shipmode,
    sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS high_line_count,
    sum(CASE WHEN o_orderpriority NOT IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS low_line_count
FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND l_shipmode IN ($1, $2) AND l_commitdate < l_receiptdate
    AND l_shipdate < l_commitdate AND l_receiptdate >= $3::date
    AND l_receiptdate < $3::date + interval '1 year'
GROUP BY l_shipmode ORDER BY l_shipmode""",
    13: """
SELECT c_count, count(*) AS custdist
FROM (SELECT c_custkey, count(o_orderkey) AS c_count
    FROM customer LEFT JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE $1
    GROUP BY c_custkey) AS c_orders
GROUP BY c_count ORDER BY custdist DESC, c_count DESC""",
    14: """
SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
    / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM lineitem, part
WHERE l_partkey = p_partkey AND l_shipdate >= $1::date AND l_shipdate < $1::date + interval '1 month'""",
    15: """
WITH revenue AS (
    SELECT l_suppkey AS supplier_no, sum(l_extendedprice * (1 - l_discount)) AS total_revenue FROM lineitem
    WHERE l_shipdate >= $1::date AND l_shipdate < $1::date + interval '3 months' GROUP BY l_suppkey)
SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue
WHERE s_suppkey = supplier_no AND total_revenue = (SELECT max(total_revenue) FROM revenue)
ORDER BY s_suppkey""",
    16: """
SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part
WHERE p_partkey = ps_partkey AND p_brand <> $1 AND p_type NOT LIKE $2
    AND p_size IN ($3, $4, $5, $6, $7, $8, $9, $10)
    AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
GROUP BY p_brand, p_type, p_size ORDER BY supplier_cnt DESC, p_brand, p_type, p_size""",
    17: """
SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
WHERE p_partkey = l_partkey AND p_brand = $1 AND p_container = $2
    AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)""",
    18: """
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
FROM customer, orders, lineitem
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > $1)
    AND c_custkey = o_custkey AND o_orderkey = l_orderkey
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate LIMIT 100""",
    19: """
SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem, part
WHERE (p_partkey = l_partkey AND p_brand = $1 AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
        AND l_quantity BETWEEN $4::integer AND $4::integer + 10 AND p_size BETWEEN 1 AND 5
        AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
    OR (p_partkey = l_partkey AND p_brand = $2
        AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
        AND l_quantity BETWEEN $5::integer AND $5::integer + 10 AND p_size BETWEEN 1 AND 10
        AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
    OR (p_partkey = l_partkey AND p_brand = $3 AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
        AND l_quantity BETWEEN $6::integer AND $6::integer + 10 AND p_size BETWEEN 1 AND 15
        AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')""",
    20: """
SELECT s_name, s_address FROM supplier, nation
WHERE s_suppkey IN (
        SELECT ps_suppkey FROM partsupp
        WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE $1)
            AND ps_availqty > (
                SELECT 0.5 * sum(l_quantity) FROM lineitem
                WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey AND l_shipdate >= $2::date
                    AND l_shipdate < $2::date + interval '1 year'))
    AND s_nationkey = n_nationkey AND n_name = $3
ORDER BY s_name""",
    21: """
SELECT s_name, count(*) AS numwait FROM supplier, lineitem l1, orders, nation
WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
    AND l1.l_receiptdate > l1.l_commitdate
    AND EXISTS (SELECT * FROM lineitem l2
        WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
    AND NOT EXISTS (SELECT * FROM lineitem l3
        WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
            AND l3.l_receiptdate > l3.l_commitdate)
    AND s_nationkey = n_nationkey AND n_name = $1
GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100""",
    22: """
SELECT cntrycode, count(*) AS numcust, sum(balance) AS totacctbal
FROM (SELECT substring(c_phone FROM 1 FOR 2) AS cntrycode, c_acctbal AS balance FROM customer
    WHERE substring(c_phone FROM 1 FOR 2) IN ($1, $2, $3, $4, $5, $6, $7)
        AND c_acctbal > (SELECT avg(c_acctbal) FROM customer
            WHERE c_acctbal > 0.00 AND substring(c_phone FROM 1 FOR 2) IN ($1, $2, $3, $4, $5, $6, $7))
        AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
GROUP BY cntrycode ORDER BY cntrycode""",
}


_TABLE_OF = {column.split()[0]: table for table, columns in TABLES.items() for column in columns}
_UNQUALIFIED = re.compile(rf"(?<![.\w])(?:{'|'.join(_TABLE_OF)})\b")


def _month(draw: random.Random, first: tuple[int, int], last: tuple[int, int]) -> str:
    """The first day of a month between two."""
    month = draw.randint(12 * first[0] + first[1] - 1, 12 * last[0] + last[1] - 1)
    return f"{month // 12}-{month % 12 + 1:02}-01"


def _values(number: int, draw: random.Random, scale: float) -> Values:
    """The values of a query, drawn as the specification says."""
    nation = draw.choice(NATIONS)
    region = draw.choice(tuple(REGIONS))
    year = f"{draw.randint(1993, 1997)}-01-01"
    brands = [f"Brand#{draw.randint(1, 5)}{draw.randint(1, 5)}" for _ in range(3)]
    made: dict[int, Values] = {
        1: (draw.randint(60, 120),),
        2: (draw.randint(1, 50), f"%{draw.choice(TYPES[2])}", region),
        3: (draw.choice(SEGMENTS), f"1995-03-{draw.randint(1, 31):02}"),
        4: (_month(draw, (1993, 1), (1997, 10)),),
        5: (region, year),
        6: (year, draw.randint(2, 9) / 100, draw.randint(24, 25)),
        7: tuple(draw.sample(NATIONS, 2)),
        8: (
            nation,
            next(name for name, nations in REGIONS.items() if nation in nations),
            " ".join(draw.choice(part) for part in TYPES),
        ),
        9: (f"%{draw.choice(COLOURS)}%",),
        10: (_month(draw, (1993, 2), (1995, 1)),),
        11: (nation, f"{0.0001 / scale:.10f}"),
        12: (*draw.sample(MODES, 2), year),
        13: (f"%{draw.choice(WORDS[0])}%{draw.choice(WORDS[1])}%",),
        14: (_month(draw, (1993, 1), (1997, 12)),),
        15: (_month(draw, (1993, 1), (1997, 10)),),
        16: (
            brands[0],
            f"{draw.choice(TYPES[0])} {draw.choice(TYPES[1])}%",
            *draw.sample(range(1, 51), 8),
        ),
        17: (brands[0], " ".join(draw.choice(part) for part in CONTAINERS)),
        18: (draw.randint(312, 315),),
        19: (*brands, draw.randint(1, 10), draw.randint(10, 20), draw.randint(20, 30)),
        20: (f"{draw.choice(COLOURS)}%", year, nation),
        21: (nation,),
        22: tuple(str(code) for code in draw.sample(range(10, 35), 7)),
    }
    return made[number]


def qualified(sql: str) -> str:
    """The query with the table before each column that stands without one: postgres-mcp guesses otherwise."""
    return _UNQUALIFIED.sub(lambda match: f"{_TABLE_OF[match[0]]}.{match[0]}", sql)


def queries(seed: int, scale: float, sets: int = 1) -> list[Query]:
    """The 22 queries, each with so many sets of values: the same ones for the same seed."""
    return [
        Query(
            f"q{number}",
            qualified(sql.strip()),
            tuple(_values(number, random.Random(f"{seed}/{number}/{each}"), scale) for each in range(sets)),
        )
        for number, sql in QUERIES.items()
    ]


def refresh_functions(seed: int, scale: float) -> list[Query]:
    """Both refresh functions, each on orders and on their lines; what one touches the other leaves alone."""
    orders = round(scale * ORDERS_PER_SCALE)
    span = KEYS_PER_ORDER * max(8, round(REFRESHED_SHARE * orders))
    last = KEYS_PER_ORDER * orders
    first = random.Random(f"{seed}/refresh").randrange(1, last - 2 * span)
    added, taken = (first, first + span - 1), (first + span, first + 2 * span - 1)
    return [
        Query(
            "rf1-orders",
            f"""INSERT INTO orders SELECT o_orderkey + {FREE_KEYS_AFTER}, o_custkey, o_orderstatus,
    o_totalprice, o_orderdate, o_orderpriority, o_clerk, o_shippriority, o_comment
FROM orders WHERE o_orderkey BETWEEN $1 AND $2""",
            (added,),
            writes=True,
        ),
        Query(
            "rf1-lineitem",
            f"""INSERT INTO lineitem SELECT l_orderkey + {FREE_KEYS_AFTER}, l_partkey, l_suppkey,
    l_linenumber, l_quantity, l_extendedprice, l_discount, l_tax, l_returnflag, l_linestatus, l_shipdate,
    l_commitdate, l_receiptdate, l_shipinstruct, l_shipmode, l_comment
FROM lineitem WHERE l_orderkey BETWEEN $1 AND $2""",
            (added,),
            writes=True,
        ),
        Query(
            "rf2-lineitem", "DELETE FROM lineitem WHERE l_orderkey BETWEEN $1 AND $2", (taken,), writes=True
        ),
        Query("rf2-orders", "DELETE FROM orders WHERE o_orderkey BETWEEN $1 AND $2", (taken,), writes=True),
    ]


def statements_file(statements: list[Query], weights: Mapping[str, float] | None = None) -> str:
    """The file of statements as `pgassay tune --workload sql:FILE` reads it; `weights` by their names."""
    parts = []
    for each in statements:
        lines = [f"-- name: {each.name}"]
        if weights is not None:
            lines.append(f"-- weight: {weights[each.name]:.6g}")
        lines += [
            f"-- parameters: {', '.join(_literal(value) for value in values)}" for values in each.values
        ]
        parts.append("\n".join([*lines, f"{each.sql};"]))
    return "\n".join(parts) + "\n"


def _literal(value: str | float) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
