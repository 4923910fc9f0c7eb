"""What helps nobody alone, and is found with a setting or a rewrite that makes it useful."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from pgassay.tune.baseline import baseline_of
from pgassay.tune.candidate import Candidate
from pgassay.tune.copy import TrialCopy
from pgassay.tune.finder_inputs import ask_finders_again, symptom_for
from pgassay.tune.run_tune import TOOLS
from pgassay.tune.search.finders_again import search_with_rewrites
from pgassay.tune.search.on_top import search_with_settings
from pgassay.tune.search.record import SearchRecord
from pgassay.tune.search.search import search
from pgassay.tune.search.search_run import Clock, SearchRun
from pgassay.tune.search.selection import Tried, gain_of
from pgassay.tune.tune_plan import plan_tune
from tuned_orders import index, request

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

STATEMENTS = """-- name: by-id
SELECT note FROM orders WHERE id = 4242;
-- name: slow
SELECT count(*), max(note) FROM orders WHERE customer = 4242;
"""


@pytest.mark.parametrize("is_chosen", [True, False], ids=["chosen", "needed"])
def test_an_index_that_a_setting_makes_useful_is_found(tmp_path: Path, *, is_chosen: bool) -> None:
    """A random page costs so much here that no index is used: alone the new one is screened out.

    The cost is chosen for another statement's sake, or changes nothing alone: then both come together.
    """
    asked = request(tmp_path, STATEMENTS if is_chosen else STATEMENTS.partition("\n")[2].partition("\n")[2])
    with (tmp_path / "data.sql").open("a") as script:
        script.write("CREATE INDEX by_id ON orders (id);\nVACUUM ANALYZE orders;\n")
    compare = replace(asked.compare, settings=("shared_buffers=64MB", "random_page_cost=100000"))
    planned = plan_tune(replace(asked, compare=compare), lambda *_: None).with_data_format()
    wanted = index("by_customer", "CREATE INDEX by_customer ON orders (customer)")
    useless = index("by_note", "CREATE INDEX by_note ON orders (note) WHERE id < 0")
    cost = index(
        "cost",
        sql=(),
        undo=(),
        kind="planner-costs",
        settings={"random_page_cost": "1.1"},
        statements=("by-id",) if is_chosen else (),
    )
    candidates = [wanted, useless, cost]
    with TrialCopy(planned.spec, cache="as-is", statement_timeout_s=60, on_stage=lambda *_: None) as copy:
        baseline = baseline_of(copy, planned.statements, goes_on=False).baseline
        clock, record = Clock(time.monotonic() + 240), SearchRecord(candidates=tuple(candidates))
        run = SearchRun(copy, baseline, record, clock, print, gain_min=1.03, members_max=2)
        found = run.found
        search(run)
        assert set(found.screened) == {wanted.id, useless.id, *(() if is_chosen else (cost.id,))}
        assert found.selection.ids == ((cost.id,) if is_chosen else ())
        assert run.waiting == {wanted.id: cost.id}
        search_with_settings(run)
        assert copy.ground == () and found.screened.keys() == {useless.id}
        # What an index takes on top stands as what it would take alone, so that its gain is its own.
        assert found.selection.ids == (cost.id, wanted.id)
        tried = found.tried[wanted.id]
        assert gain_of(baseline.weights, baseline.seconds, tried.seconds) > 1.03 and tried.bytes
        # The copy is as it was: nothing is applied, and the plans are those of the beginning.
        again = copy.estimate(baseline.statements[-1].sql, "slow")
        assert [node.type for node in again.nodes] == [node.type for node in baseline.estimates["slow"].nodes]


TICKETS = """
CREATE TABLE tickets (id int PRIMARY KEY, opened timestamptz NOT NULL, subject text);
INSERT INTO tickets SELECT n, timestamptz '2021-01-01 00:00+00' + n * 7919 % 150000 * interval '9 minutes',
    repeat('x', 60) FROM generate_series(1, 150000) n;
VACUUM ANALYZE;
"""
OF_TICKETS = """-- name: of-a-day
SELECT count(*), max(subject) FROM tickets WHERE opened::date = '2022-03-04';
-- name: whole
SELECT max(subject) FROM tickets;
"""


def test_a_rewrite_stays_with_the_index_that_serves_it_and_goes_where_nothing_does(tmp_path: Path) -> None:
    asked = request(tmp_path, OF_TICKETS, data=TICKETS)
    compare = replace(asked.compare, settings=("shared_buffers=64MB", "timezone=UTC"))
    planned = plan_tune(replace(asked, compare=compare), lambda *_: None).with_data_format()
    with TrialCopy(planned.spec, cache="as-is", statement_timeout_s=60, on_stage=lambda *_: None) as copy:
        first = baseline_of(copy, planned.statements, goes_on=False)
        symptom = symptom_for(planned, first.baseline, first.plans, TOOLS.read_facts(copy.session), None, 0.0)
        day = replace_text(
            "range",
            "of-a-day",
            "SELECT count(*), max(subject) FROM tickets "
            "WHERE opened >= timestamptz '2022-03-04 00:00 UTC' "
            "AND opened < timestamptz '2022-03-05 00:00 UTC'",
        )
        idle = replace_text("idle", "whole", "SELECT max(subject) FROM tickets WHERE id > 0")
        # As they may be found alone: neither is faster.
        tried = {
            rewrite.id: Tried(rewrite.id, {name: first.baseline.seconds[name] for name in rewrite.statements})
            for rewrite in (day, idle)
        }
        record = SearchRecord(candidates=(day, idle), tried=tried)
        clock = Clock(time.monotonic() + 240)
        run = SearchRun(copy, first.baseline, record, clock, print, gain_min=1.1, members_max=4)
        found = run.found
        search_with_rewrites(run, ask_finders_again(TOOLS, copy, symptom, {}))
        assert copy.ground == ()
    assert found.selection.ids == (day.id, "index:tickets(opened)")
    made = found.tried["index:tickets(opened)"]
    assert made.on_top and made.gain(first.baseline.weights, first.baseline.seconds) > 1.1
    assert "with range: " in found.by_id["index:tickets(opened)"].reason


def replace_text(name: str, statement: str, sql: str) -> Candidate:
    """A rewrite of a statement."""
    return index(
        name,
        id=f"rewrite:{name}",
        title=name,
        kind="rewrite",
        sql=(),
        undo=(),
        statements=(statement,),
        rewrites=({"statement": statement, "sql": sql, "condition": "the same rows", "proof": "proven"},),
    )
