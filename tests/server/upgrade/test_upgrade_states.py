"""The new version against itself: what is slow until ANALYZE has run, and what old settings keep away."""

from pathlib import Path

import pytest

from pgassay.environment.builds.registry import resolve
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.workload import Statement
from pgassay.progress import NullProgress
from pgassay.upgrade.version_states import StatesToMeasure, measured_states

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]

# Five columns that say the same: without statistics the planner expects one row of 100 on both sides, and
# joins in a loop that reads the table a hundred times.
DATA = """--
-- PostgreSQL database dump
--

-- Dumped from database version 18.0
-- Dumped by pg_dump version 18.0

CREATE TABLE parts (a int, b int, c int, d int, e int, k int);
INSERT INTO parts SELECT i % 400, i % 400, i % 400, i % 400, i % 400, i FROM generate_series(1, 40000) i;
CREATE TABLE orders (id int PRIMARY KEY, note text);
INSERT INTO orders SELECT i, repeat('x', 40) FROM generate_series(1, 200000) i;
CREATE STATISTICS parts_st (dependencies) ON a, b, c, d, e FROM parts;

--
-- PostgreSQL database dump complete
--
"""
JOINED = Statement(
    name="joined",
    sql="SELECT sum(p.k + q.k) FROM parts p JOIN parts q USING (k, a, b, c, d, e) "
    "WHERE p.a = 3 AND p.b = 3 AND p.c = 3 AND p.d = 3 AND p.e = 3",
)
BY_ID = Statement(name="by-id", sql="SELECT note FROM orders WHERE id = 4711")
HELD = {"enable_indexscan": ("off", "on"), "enable_bitmapscan": ("off", "on")}


@pytest.mark.slow
def test_a_join_waits_for_analyze_and_a_look_up_for_the_new_defaults(tmp_path: Path) -> None:
    (tmp_path / "shop.sql").write_text(DATA)
    settings = tuple(f"{name}={own}" for name, (own, _) in HELD.items())
    request = CompareRequest(
        factors=(), dataset=f"dump:{tmp_path / 'shop.sql'}", settings=settings, baseline="shipped",
        cache="warm-pages",
    )  # fmt: skip
    asked = StatesToMeasure(request, None, (JOINED, BY_ID), {"joined": 0.5}, HELD, resolve("18"), "off")
    before, defaults = measured_states(asked, tmp_path, 120.0, NullProgress())
    found = {each.name: each for each in before.statements}
    assert before.id == "before ANALYZE" and found["joined"].share == 0.5
    assert found["joined"].ratio is not None and found["joined"].ratio < 0.7
    assert found["joined"].plan and found["by-id"].ratio is not None
    found = {each.name: each for each in defaults.statements}
    assert defaults.settings == HELD and "enable_indexscan on instead of off" in defaults.sentence
    assert found["by-id"].ratio is not None and found["by-id"].ratio > 3
    assert found["by-id"].plan and "the plan is the same" in found["joined"].reason


@pytest.mark.shares_machine
def test_without_time_both_say_so(tmp_path: Path) -> None:
    asked = StatesToMeasure(CompareRequest(factors=()), None, (BY_ID,), {}, HELD, resolve("18"), "off")
    before, defaults = measured_states(asked, tmp_path, 5.0, NullProgress())
    assert "give a longer --max-time" in before.sentence and before.sentence == defaults.sentence
    assert not any(tmp_path.iterdir())
    (_, defaults) = measured_states(
        StatesToMeasure(CompareRequest(factors=()), None, (BY_ID,), {}, {}, resolve("18"), "off"),
        *(tmp_path, 5.0, NullProgress()),
    )
    assert defaults.sentence.startswith("nothing: no setting")
