"""Plans of prepared statements: those that a load's sessions come to execute, generic or custom."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pgassay.model.workload import Statement, WorkloadSpec
from pgassay.trial.measure.prepared_plans import explain_prepared, rolled_back
from pgassay.trial.measure.statement_plans import explain
from pgassay.workloads.registry import parse_workload
from server_helpers import session_on

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
# Nearly all rows have one value: what is best for it is bad for all others.
SKEWED = """
CREATE TABLE skewed AS SELECT CASE WHEN i % 100 = 0 THEN i ELSE 1 END AS a, repeat('x', 100) AS b
FROM generate_series(1, 20000) i;
CREATE INDEX ON skewed (a);
ANALYZE skewed;
"""
RARE, COMMON = (Statement(name="q", sql=f"SELECT b FROM skewed WHERE a = {value}") for value in (500, 1))
OPTIONS = "FORMAT JSON"


@pytest.fixture(scope="module")
def session() -> Iterator["psycopg.Connection[Any]"]:
    with session_on(SKEWED) as connection:
        yield connection


@pytest.fixture
def load() -> WorkloadSpec:
    return parse_workload("select-only")


def planned(session: "psycopg.Connection[Any]", load: WorkloadSpec, of: Statement) -> tuple[str, str | None]:
    """The plan as text, and its kind; nothing prepared is left over."""
    with rolled_back(session, "READ ONLY"):
        plan, kind = explain_prepared(session, load, of, OPTIONS)
    left = session.execute(
        "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'pgassay%'"
    ).fetchone()
    assert left == (0,)
    return json.dumps(plan), kind


@pytest.mark.parametrize(
    ("mode", "kinds"),
    [
        # A generic plan is taken where those for the values were no cheaper.
        ("auto", {"rare": "custom", "common": "generic"}),
        ("force_custom_plan", {"rare": "custom", "common": "custom"}),
        ("force_generic_plan", {"rare": "generic", "common": "generic"}),
    ],
)
def test_the_server_s_own_choice_is_found(
    session: "psycopg.Connection[Any]", load: WorkloadSpec, mode: str, kinds: dict[str, str]
) -> None:
    session.execute(f"SET plan_cache_mode = {mode}")
    try:
        for name, statement, value in (("rare", RARE, "500"), ("common", COMMON, "1")):
            text, kind = planned(session, load, statement)
            assert kind == kinds[name], (name, text)
            assert ("$1" in text) == (kind == "generic")
            assert (f"= {value})" in text) == (kind == "custom")
    finally:
        session.execute("RESET plan_cache_mode")


def test_what_an_error_left_prepared_is_no_obstacle(
    session: "psycopg.Connection[Any]", load: WorkloadSpec
) -> None:
    broken = Statement(name="q", sql="SELECT b FROM skewed WHERE a = 1 / 0")
    for _ in range(2):
        with pytest.raises(psycopg.Error), rolled_back(session, "READ ONLY"):
            explain_prepared(session, load, broken, f"ANALYZE, {OPTIONS}")
    assert planned(session, load, COMMON)[1] is not None


def test_loads_of_the_simple_protocol_are_planned_with_their_values(
    session: "psycopg.Connection[Any]", load: WorkloadSpec
) -> None:
    simple = parse_workload("select-only:protocol=simple")
    session.execute("SET plan_cache_mode = force_generic_plan")
    try:
        assert "$1" in json.dumps(explain(session, COMMON, load))
        for prepared_by in (simple, None):
            assert "$1" not in json.dumps(explain(session, COMMON, prepared_by))
    finally:
        session.execute("RESET plan_cache_mode")


def test_sysbench_s_parameters_have_the_type_that_the_load_declares(
    session: "psycopg.Connection[Any]",
) -> None:
    """A bigint against an integer column, which is another operator than the column's own type would have."""
    oltp = parse_workload("oltp_read_only")
    session.execute("SET plan_cache_mode = force_custom_plan")
    try:
        text, kind = planned(session, oltp, COMMON)
    finally:
        session.execute("RESET plan_cache_mode")
    assert kind == "custom" and "= '1'::bigint)" in text
