"""Two ways to write one question: their results are compared on a real server before they are timed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgassay.environment.server.server import Server
from pgassay.environment.server.sessions import control
from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.running.same_results import compare_results
from pgassay.workloads.registry import parse_workload
from server_helpers import TINY_SETTINGS, best_build, empty_cluster, own_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
ROWS = "SELECT n, n / 7.0::float8 FROM generate_series(1, 20000) n"


@pytest.fixture(scope="module")
def session() -> Iterator["psycopg.Connection[Any]"]:
    build = best_build()
    with own_home() as home:
        folder = empty_cluster(build, home / "data" / "cluster")
        with Server(build, folder, TINY_SETTINGS) as server, control(server) as connection:
            connection.execute("CREATE TABLE t (a int)")
            yield connection


def compare(session: "psycopg.Connection[Any]", folder: Path, first: str, second: str) -> None:
    specs = []
    for name, text in (("a.sql", first), ("b.sql", second)):
        (folder / name).write_text(text)
        specs.append(parse_workload(f"sql:{folder / name}"))
    compare_results(session, specs[0], specs[1])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ROWS, f"{ROWS} ORDER BY 1 DESC"),
        ("SELECT 1 AS a, NULL::text AS b;", "VALUES (1, NULL::text) -- a comment at the end"),
        ("SELECT 0.1::float8 + 0.2::float8", "SELECT 0.30000000000000004::float8"),
        ("SHOW work_mem", "SHOW work_mem"),
        (
            "INSERT INTO t VALUES (1); SELECT count(*) FROM t",
            "INSERT INTO t SELECT 1; SELECT count(a) FROM t",
        ),
    ],
)
def test_the_same_rows_are_the_same(
    session: "psycopg.Connection[Any]", tmp_path: Path, first: str, second: str
) -> None:
    compare(session, tmp_path, first, second)
    assert session.execute("SELECT count(*) FROM t").fetchone() == (0,)


@pytest.mark.parametrize(
    ("first", "second", "complaint"),
    [
        (
            ROWS,
            f"{ROWS} WHERE n <> 777",
            r"a\.sql \(20000 rows\) and .*b\.sql \(19999 rows\) .*only in .*a\.sql: \(777 \| 111\)",
        ),
        (
            f"{ROWS} UNION ALL SELECT 1, 2",
            f"{ROWS} UNION ALL SELECT 1, 3",
            r"\(1 \| 2\); only in .*\(1 \| 3\)",
        ),
        ("VALUES (1), (1), (2)", "VALUES (1), (2), (2)", r"a\.sql: \(1\); only in .*b\.sql: \(2\)"),
        ("SELECT 0.3::float8", "SELECT 0.1::float8 + 0.2::float8", r"0\.30000000000000004"),
        ("SELECT 1::int", "SELECT 1::bigint", "column 1 is integer in .* and bigint in .*: add a cast"),
        ("SELECT 'a'::varchar(3)", "SELECT 'a'::varchar(4)", r"character varying\(3\)"),
        ("SELECT 1", "SELECT 1, 2", "returns 1 columns and .* 2"),
        ("SELECT 1", "ANALYZE t", "returns rows and .* returns no rows"),
        ("SELECT 1; SELECT 2", "SELECT 1; SELECT 3", r"statement-2 of .*a\.sql"),
    ],
)
def test_a_difference_is_an_error_that_shows_it(
    session: "psycopg.Connection[Any]", tmp_path: Path, first: str, second: str, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        compare(session, tmp_path, first, second)


def test_a_statement_that_fails_is_named(session: "psycopg.Connection[Any]", tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"can't be compared: the server said '.*\"nowhere\""):
        compare(session, tmp_path, "SELECT 1", "SELECT * FROM nowhere")
    compare(session, tmp_path, "SELECT 1", "SELECT 1")
