"""What could write is told from what can't by the server's own catalogs, rather too often than too seldom."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pgassay.model.workload import Statement
from pgassay.trial.measure.plan_safety import could_write
from pgassay.trial.measure.statement_plans import explain
from server_helpers import session_on

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
OBJECTS = """
CREATE TABLE t (a int, b text);
CREATE FUNCTION noisy(int) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN $1; END';
CREATE FUNCTION calm(int) RETURNS int LANGUAGE sql STABLE AS 'SELECT $1';
CREATE FUNCTION "Odd name"(int) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN $1; END';
CREATE VIEW behind AS SELECT noisy(a) AS a FROM t;
CREATE FUNCTION of_row(t) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN 1; END';
CREATE FUNCTION added(int, int) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN $1 + $2; END';
CREATE AGGREGATE loud (int) (SFUNC = added, STYPE = int, INITCOND = '0');
CREATE OPERATOR +!+ (LEFTARG = int, RIGHTARG = int, FUNCTION = added);
"""


@pytest.fixture(scope="module")
def session() -> Iterator["psycopg.Connection[Any]"]:
    with session_on(OBJECTS) as connection:
        yield connection


def reason(session: "psycopg.Connection[Any]", sql: str) -> str:
    statement = Statement(name="x", sql=sql)
    plan = explain(session, statement)
    assert plan is not None
    return could_write(session, statement, plan)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*), sum(a) FROM t WHERE b = 'insert into t; noisy(1)' GROUP BY b",
        "SELECT calm(a), random(), clock_timestamp(), gen_random_uuid() FROM t",
        "WITH x AS MATERIALIZED (SELECT a FROM t) SELECT * FROM x ORDER BY a",
        "VALUES (1), (2)",
    ],
)
def test_what_reads_is_executed(session: "psycopg.Connection[Any]", sql: str) -> None:
    assert reason(session, sql) == ""


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("INSERT INTO t VALUES (1)", "it is an INSERT"),
        ("WITH x AS (DELETE FROM t RETURNING a) SELECT * FROM x", "its plan has the node ModifyTable"),
        ("SELECT a FROM t FOR SHARE", "its plan has the node LockRows"),
        ("SELECT a INTO u FROM t", "its text changes data"),
        ("SELECT noisy(1)", "it calls noisy, which is volatile"),
        ('SELECT public."Odd name"(1)', "it calls Odd name, which is volatile"),
        ("SELECT * FROM behind", "it calls noisy, which is volatile"),
        ("SELECT t.of_row FROM t", "it calls of_row, which is volatile"),
        ("SELECT a FROM t WHERE noisy(a) = 1", "it calls noisy, which is volatile"),
        ("SELECT set_config('work_mem', '1MB', false)", "it calls set_config, which is volatile"),
        ("SELECT loud(a) FROM t", "the aggregate loud calls a function that is volatile"),
        ("SELECT a +!+ 1 FROM t", "the operator +!+ calls a function that is volatile"),
        ("SELECT lo_import('/etc/passwd')", "it calls lo_import, which is volatile"),
    ],
)
def test_what_could_write_is_not(session: "psycopg.Connection[Any]", sql: str, words: str) -> None:
    assert words in reason(session, sql)


def test_what_a_statement_does_not_show_counts_wherever_it_is(session: "psycopg.Connection[Any]") -> None:
    innocent = "SELECT a FROM t"
    assert reason(session, innocent) == ""
    hidden = {
        "the domain positive calls": (
            "CREATE DOMAIN positive AS int CHECK (noisy(VALUE) > 0)", "DROP DOMAIN positive",
        ),
        "the cast text calls": (
            "CREATE TYPE pair AS (a int); CREATE FUNCTION told(pair) RETURNS text LANGUAGE sql VOLATILE "
            "AS 'SELECT $1.a::text'; CREATE CAST (pair AS text) WITH FUNCTION told(pair) AS ASSIGNMENT",
            "DROP TYPE pair CASCADE",
        ),
    }  # fmt: skip
    for words, (make, drop) in hidden.items():
        session.execute(make.encode())
        assert words in reason(session, innocent)
        session.execute(drop.encode())
        assert reason(session, innocent) == ""
