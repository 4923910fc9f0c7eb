"""Tune begins with a statement that does not end: what makes it end is found, and proven as a lower bound."""

from pathlib import Path

import pytest

from pgassay.model.tuning.answer import TuneResult
from pgassay.record.experiment import load
from pgassay.terminal.progress import NullProgress
from pgassay.tune.finders.registry import find
from pgassay.tune.run import TOOLS, run_tune, with_rewrites
from tuned_orders import request

pytestmark = pytest.mark.server

# Each row of one table asks for rows of the other one, which is read whole for it: minutes, and with an index
# on what it asks for some milliseconds.
DATA = """
CREATE TABLE parts (id int PRIMARY KEY, size int);
CREATE TABLE items (part int, quantity int, note text);
INSERT INTO parts SELECT n, n % 50 FROM generate_series(1, 20000) n;
INSERT INTO items SELECT n * 7919 % 20000, n % 97, repeat('x', 40) FROM generate_series(1, 60000) n;
"""
ENDLESS = """-- name: endless
SELECT count(*) FROM parts
WHERE size > (SELECT avg(quantity) FROM items WHERE items.part = parts.id);
"""
QUICK = "-- name: quick\nSELECT count(*) FROM parts WHERE size = 7;\n"
# Its rows are made, and no index helps with them.
HOPELESS = """-- name: hopeless
SELECT count(*) FROM generate_series(1, 200000) a, generate_series(1, 200000) b WHERE (a * b) % 7 = 3;
"""


def tuned(folder: Path, statements: str, max_time_s: float) -> TuneResult:
    return run_tune(
        request(folder, statements, max_time_s=max_time_s, data=DATA),
        with_rewrites(TOOLS, wanted=False),
        NullProgress(),
        wait=True,
        isolates=False,
    )


@pytest.mark.timeout(600)
def test_a_statement_that_never_ends_is_made_to_end_by_an_index(tmp_path: Path) -> None:
    result = tuned(tmp_path, ENDLESS + QUICK, 90)
    print(result.model_dump_json(indent=1))
    assert find
    assert load
