"""What was chosen does to each statement: what is chance, and what stays as it was."""

import pytest

import tune_samples as samples
from pgassay.tune.answer.by_statement import inserts
from pgassay.tune.answer.verdicts import ranked
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.search.selection import Baseline, Tried
from pgassay.tune.tuned_statements import measured


def baseline_of(sql: str) -> Baseline:
    """A workload of one statement that writes."""
    return Baseline(measured([TunedStatement(name="add", sql=sql, writes=True)]), {"add": 1.0}, {})


@pytest.mark.parametrize(
    ("sql", "is_plain"),
    [
        ("INSERT INTO orders VALUES (1)", True),
        ("/* app */ insert into orders (id) values ($1) returning id", True),
        ("INSERT INTO orders SELECT n FROM generate_series(1, 10) n", True),
        ("INSERT INTO orders (customer) VALUES ((SELECT id FROM customers WHERE email = 'x'))", False),
        ("INSERT INTO orders (SELECT * FROM loaded)", False),
        ("INSERT INTO orders TABLE loaded", False),
        ("UPDATE orders SET total = 0", False),
        ("INSERT INTO orders OF A LATER GRAMMAR", False),
    ],
)
def test_what_inserts_the_values_that_it_is_given_can_not_gain_by_an_index(sql: str, is_plain: bool) -> None:
    baseline = baseline_of(sql)
    assert inserts(baseline) == ({"add"} if is_plain else frozenset())
    known = samples.judged(
        candidates=(samples.candidate("useless", statements=("add",)),),
        **samples.searched(tried={"index:useless": Tried("index:useless", {"add": 0.1})}),
        baseline=baseline,
        proved=None,
        unsafe={},
        left_out={},
    )
    assert bool(ranked(known)[0].statements) != is_plain
