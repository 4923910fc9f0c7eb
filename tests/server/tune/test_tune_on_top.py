"""What no plan uses as the server is set, and what uses it once a setting was chosen: on a real server."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from pgassay.tune.baseline import baseline_of
from pgassay.tune.copy import TrialCopy
from pgassay.tune.search.on_top import search_with_settings
from pgassay.tune.search.record import SearchRecord
from pgassay.tune.search.search import search
from pgassay.tune.search.search_run import Clock, SearchRun
from pgassay.tune.search.selection import gain_of
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
