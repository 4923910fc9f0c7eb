"""Two ways to write one question: their results are compared on a real server before they are timed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.running.same_results import compare_results
from pgassay.workloads.registry import parse_workload
from server_helpers import session_on

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
ROWS = "SELECT n, n / 7.0::float8 FROM generate_series(1, 20000) n"
TIES = "SELECT n / 2 AS half, n FROM generate_series(1, 9) n ORDER BY half, n DESC"


@pytest.fixture(scope="module")
def session() -> Iterator["psycopg.Connection[Any]"]:
    with session_on("CREATE TABLE t (a int)") as connection:
        yield connection


def compare(session: "psycopg.Connection[Any]", folder: Path, first: str, second: str) -> list[str]:
    specs = []
    for name, text in (("a.sql", first), ("b.sql", second)):
        (folder / name).write_text(text)
        specs.append(parse_workload(f"sql:{folder / name}"))
    return compare_results(session, specs[0], specs[1])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ROWS, f"{ROWS} ORDER BY 1 DESC"),
        ("SELECT 1 AS a, NULL::text AS b;", "VALUES (1, NULL::text) -- a comment at the end"),
        ("SELECT 0.1::float8 + 0.2::float8", "SELECT 0.3::float8"),
        (
            "SELECT 'NaN'::float8, NULL::real, '-infinity'::float8",
            "SELECT 'NaN'::float8, NULL::real, '-inf'::float8",
        ),
        ("SELECT n FROM generate_series(1, 3) n ORDER BY n", "VALUES (1), (2), (3)"),
        ("SELECT n / 2 AS half, n FROM generate_series(1, 9) n ORDER BY half", TIES),
        # Equal values that are shown otherwise come in any order.
        (
            "SELECT i FROM (VALUES ('1 day'::interval), ('24 hours')) v (i) ORDER BY i",
            "SELECT i FROM (VALUES ('24 hours'::interval), ('1 day')) v (i) ORDER BY i",
        ),
        ('SELECT \'{"b": 1, "a": [1]}\'::jsonb', 'SELECT \'{"a":[1],"b":1}\'::jsonb'),
        ("SELECT '2024-01-01 12:00+02'::timestamptz", "SELECT '2024-01-01 10:00+00'::timestamptz"),
        ("SELECT ARRAY[1, NULL, 3]", "SELECT '{1,NULL,3}'::int[]"),
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


def test_without_room_for_the_floats_of_all_rows_rounding_is_not_told(
    session: "psycopg.Connection[Any]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgassay.experiment.running.result_bag.FLOAT_ROWS_MAX", 10)
    compare(session, tmp_path, ROWS, f"{ROWS} ORDER BY 1 DESC")
    with pytest.raises(UsageError, match="it can't be checked whether that is rounding: round them in both"):
        compare(session, tmp_path, ROWS, ROWS.replace("n / 7.0::float8", "n * (1 + 1e-15) / 7.0::float8"))
    with pytest.raises(UsageError, match=r"only in .*a\.sql: \(7 \| 1\)"):
        compare(session, tmp_path, ROWS, ROWS.replace("n / 7.0::float8", "n / 7.0::float8 + (n = 7)::int"))


def test_that_rounding_decided_is_said(session: "psycopg.Connection[Any]", tmp_path: Path) -> None:
    (said,) = compare(session, tmp_path, "SELECT 0.1::float8 + 0.2::float8", "SELECT 0.3::float8")
    assert said.endswith(
        "b.sql are the same: floats that differ by a relative 1e-9 or less count as the same"
    )
    assert compare(session, tmp_path, "SELECT 0.3::float8", "SELECT 0.3::float8") == []


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
        ("SELECT 0.3::float8", "SELECT 0.1::float8 + 0.2000001::float8", r"0\.3000001"),
        ("SELECT 0.3::float8::text", "SELECT (0.1::float8 + 0.2::float8)::text", r"0\.30000000000000004"),
        ("SELECT 0.5::float8", "SELECT NULL::float8", r"only in .*: \(\\N\)"),
        ("SELECT ''", "SELECT NULL::text", r"only in .*: \(\\N\)"),
        ("SELECT 1.5::numeric", "SELECT 1.50::numeric", r"a\.sql: \(1\.5\); only in .*b\.sql: \(1\.50\)"),
        ("SELECT '[1, 2]'::json", "SELECT '[1,2]'::json", r"\[1, 2\]"),
        ("SELECT ARRAY[0.3::float8]", "SELECT ARRAY[0.1::float8 + 0.2::float8]", r"\{0\.3\}"),
        ("SELECT '2024-01-01'::timestamp", "SELECT '2024-01-01 00:00:00.000001'::timestamp", r"00\.000001"),
        (
            f"{ROWS} ORDER BY 1",
            f"{ROWS} ORDER BY 1 DESC",
            "a\\.sql has an ORDER BY, and .*in a different order",
        ),
        (f"{ROWS} ORDER BY 2", f"{ROWS} ORDER BY 1 DESC", "write the same ORDER BY in both, or none"),
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
