"""TPC-H's data: written by `tpchgen-cli` (PyPI, Apache-2.0), and the script that loads them."""

import subprocess
from pathlib import Path

TABLES = {
    "region": ("r_regionkey integer", "r_name char(25) NOT NULL", "r_comment varchar(152)"),
    "nation": (
        "n_nationkey integer", "n_name char(25) NOT NULL", "n_regionkey integer NOT NULL",
        "n_comment varchar(152)",
    ),
    "part": (
        "p_partkey integer", "p_name varchar(55) NOT NULL", "p_mfgr char(25) NOT NULL",
        "p_brand char(10) NOT NULL", "p_type varchar(25) NOT NULL", "p_size integer NOT NULL",
        "p_container char(10) NOT NULL", "p_retailprice numeric(15,2) NOT NULL",
        "p_comment varchar(23) NOT NULL",
    ),
    "supplier": (
        "s_suppkey integer", "s_name char(25) NOT NULL", "s_address varchar(40) NOT NULL",
        "s_nationkey integer NOT NULL", "s_phone char(15) NOT NULL", "s_acctbal numeric(15,2) NOT NULL",
        "s_comment varchar(101) NOT NULL",
    ),
    "partsupp": (
        "ps_partkey integer", "ps_suppkey integer", "ps_availqty integer NOT NULL",
        "ps_supplycost numeric(15,2) NOT NULL", "ps_comment varchar(199) NOT NULL",
    ),
    "customer": (
        "c_custkey integer", "c_name varchar(25) NOT NULL", "c_address varchar(40) NOT NULL",
        "c_nationkey integer NOT NULL", "c_phone char(15) NOT NULL", "c_acctbal numeric(15,2) NOT NULL",
        "c_mktsegment char(10) NOT NULL", "c_comment varchar(117) NOT NULL",
    ),
    "orders": (
        "o_orderkey integer", "o_custkey integer NOT NULL", "o_orderstatus char(1) NOT NULL",
        "o_totalprice numeric(15,2) NOT NULL", "o_orderdate date NOT NULL",
        "o_orderpriority char(15) NOT NULL", "o_clerk char(15) NOT NULL", "o_shippriority integer NOT NULL",
        "o_comment varchar(79) NOT NULL",
    ),
    "lineitem": (
        "l_orderkey integer", "l_partkey integer NOT NULL", "l_suppkey integer NOT NULL",
        "l_linenumber integer", "l_quantity numeric(15,2) NOT NULL", "l_extendedprice numeric(15,2) NOT NULL",
        "l_discount numeric(15,2) NOT NULL", "l_tax numeric(15,2) NOT NULL", "l_returnflag char(1) NOT NULL",
        "l_linestatus char(1) NOT NULL", "l_shipdate date NOT NULL", "l_commitdate date NOT NULL",
        "l_receiptdate date NOT NULL", "l_shipinstruct char(25) NOT NULL", "l_shipmode char(10) NOT NULL",
        "l_comment varchar(44) NOT NULL",
    ),
}  # fmt: skip
KEYS = {
    "region": "r_regionkey", "nation": "n_nationkey", "part": "p_partkey", "supplier": "s_suppkey",
    "partsupp": "ps_partkey, ps_suppkey", "customer": "c_custkey", "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}  # fmt: skip


def generate(program: Path, scale: float, folder: Path) -> Path:
    """Write the tables as CSV into `folder`, and the script that loads them, with keys and statistics.

    The tables have their primary keys, as the specification's, and no other index.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "lineitem.csv").exists():
        subprocess.run(
            [program, "csv", "-s", f"{scale:g}", "--output-dir", folder],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    script = folder / "tpch.sql"
    lines = []
    for table, columns in TABLES.items():
        lines.append(f"CREATE TABLE {table} ({', '.join(columns)});")
        lines.append(rf"\copy {table} FROM '{folder.resolve() / table}.csv' WITH (FORMAT csv, HEADER)")
        lines.append(f"ALTER TABLE {table} ADD PRIMARY KEY ({KEYS[table]});")
    lines.append("VACUUM (FREEZE, ANALYZE);")
    script.write_text("\n".join(lines) + "\n")
    return script
