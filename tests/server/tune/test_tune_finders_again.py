"""What the finders offer once a plain index is in place, on a real server."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from pgassay.tune.baseline import baseline_of
from pgassay.tune.copy import TrialCopy
from pgassay.tune.finder_inputs import ask_finders_again, symptom_for
from pgassay.tune.run_tune import TOOLS
from pgassay.tune.search.finders_again import search_with_chosen
from pgassay.tune.search.record import SearchRecord
from pgassay.tune.search.search import search
from pgassay.tune.search.search_run import Clock, SearchRun
from pgassay.tune.tune_plan import plan_tune
from tuned_orders import index, request

pytestmark = [pytest.mark.server, pytest.mark.shares_machine, pytest.mark.slow]

# Each part is looked up, and of its rows, which lie anywhere, one narrow column is taken.
DATA = """
CREATE TABLE parts (id int PRIMARY KEY, kind int);
INSERT INTO parts SELECT n, n % 100 FROM generate_series(1, 4000) n;
CREATE TABLE lines (part int, quantity int, note text);
INSERT INTO lines SELECT n * 7919 % 4000 + 1, n % 50, repeat('x', 200) FROM generate_series(1, 200000) n;
VACUUM ANALYZE;
"""
STATEMENTS = """-- name: slow
SELECT count(*) FROM parts p
WHERE kind = 7 AND 20 < (SELECT avg(l.quantity) FROM lines l WHERE l.part = p.id);
"""


def test_a_covering_index_takes_the_place_of_the_plain_one_that_showed_its_worth(tmp_path: Path) -> None:
    asked = request(tmp_path, STATEMENTS, data=DATA)
    planned = plan_tune(replace(asked), lambda *_: None).with_data_format()
    plain = index("by_part", "CREATE INDEX by_part ON lines (part)")
    found, clock = SearchRecord(candidates=(plain,)), Clock(time.monotonic() + 240)
    with TrialCopy(
        planned.spec, cache="warm-buffers", statement_timeout_s=60, on_stage=lambda *_: None
    ) as copy:
        first = baseline_of(copy, planned.statements, goes_on=False)
        facts = TOOLS.read_facts(copy.session)
        symptom = symptom_for(planned, first.baseline, first.plans, facts, None, 0.0)
        run = SearchRun(copy, first.baseline, found, clock, print, gain_min=1.03, members_max=1)
        search(run)
        assert found.selection.ids == (plain.id,)
        ask = ask_finders_again(TOOLS, copy, symptom, {})
        search_with_chosen(run, ask)
        assert copy.ground == ()
        # The copy is as it was: its only index that is not hidden is the key's.
        shown = (
            "SELECT count(*) FROM pg_index WHERE indislive AND indrelid::regclass::text IN ('parts', 'lines')"
        )
        indexes = copy.session.execute(shown)
        assert indexes.fetchone() == (1,)
    offered = {each.id: each for each in found.candidates}
    covering = offered["index:lines(part) include(quantity)"]
    assert covering.reason.startswith("with index by_part: lines was read by ")
    assert found.selection.ids == (covering.id,)
    assert found.selection.beside[plain.id] == 1.0
    assert found.tried[covering.id].gain(first.baseline.weights, first.baseline.seconds) > 1.03
