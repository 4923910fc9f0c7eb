"""Statements that are prepared once for all values: an index that only custom plans use is told as such."""

from pathlib import Path

import pytest

from pgassay.progress import NullProgress
from pgassay.tune.candidate import Candidate, Symptom
from pgassay.tune.facts.read import read_facts
from pgassay.tune.run_tune import run_tune
from pgassay.tune.stored_search import read_folder
from pgassay.tune.tools import TuneTools
from tuned_orders import index, request

pytestmark = [pytest.mark.server, pytest.mark.shares_machine, pytest.mark.timeout(600)]

DATA = """
CREATE TABLE orders (id int, customer int, status text, note text);
INSERT INTO orders SELECT n, n * 7919 % 20000, CASE WHEN n % 3000 = 0 THEN 'open' ELSE 'done' END,
        repeat('x', 60)
    FROM generate_series(1, 150000) n;
"""
STATEMENTS = """
-- name: by-status
-- parameters: 'open'
SELECT count(*), max(note) FROM orders WHERE status = $1;

-- name: by-customer
-- parameters: 4242
SELECT count(*), max(note) FROM orders WHERE customer = $1;
"""


def test_an_index_that_only_custom_plans_use_is_told(tmp_path: Path) -> None:
    open_ones = "CREATE INDEX open_ones ON orders (id) WHERE status = 'open'"
    by_customer = "CREATE INDEX by_customer ON orders (customer)"

    def finders(_symptom: Symptom) -> tuple[Candidate, ...]:
        return (
            index("open_ones", open_ones, statements=("by-status",)),
            index("by_customer", by_customer, statements=("by-customer",)),
        )

    asked = request(tmp_path, STATEMENTS, max_time_s=180, data=DATA)
    result = run_tune(asked, TuneTools(read_facts, finders), NullProgress(), wait=True, isolates=False)
    fixes = {fix.id: fix for fix in result.fixes}
    assert {fix.verdict for fix in fixes.values()} == {"recommended"}
    assert "prepared once for all values" in fixes["index:open_ones"].note
    assert "only custom plans use it" in fixes["index:open_ones"].note
    assert "prepared once" not in fixes["index:by_customer"].note
    statements = {each.name: each for each in result.statements}
    told = statements["by-status"]
    assert told.generic_after is not None and told.generic_before is not None
    # Under its generic plan it reads the table as it did, and takes many times as long as for its value.
    assert told.seconds_after is not None and told.generic_after > 3 * told.seconds_after
    assert statements["by-customer"].generic_after is None
    search, _ = read_folder(Path(result.folder))
    assert [each.unused for each in search.generic] == [("index:open_ones",)]
