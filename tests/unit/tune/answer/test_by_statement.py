"""What was chosen does to each statement: what is chance, and what stays as it was."""

from dataclasses import replace

import pytest

import tune_samples as samples
from pgassay.model.tuning.tune_answer import Ends, FixStatement
from pgassay.tune.answer.by_statement import answers, inserts
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


@pytest.mark.parametrize(
    ("recommended", "rejected", "made_faster", "verdict"),
    [
        # A server of its own for each arm: all have figures of all statements.
        ((1.0, (0.99, 1.01)), (0.8, (0.7, 0.94)), (), "as it was"),
        ((0.97, (0.9, 1.05)), (0.8, (0.7, 0.94)), (), "as it was"),
        (None, (0.8, (0.7, 0.94)), (), "as it was"),
        # The recommended one changes it as well.
        ((0.9, (0.85, 0.95)), (0.8, (0.7, 0.94)), (), "slower"),
        ((1.2, (1.1, None)), (0.8, (0.7, 0.94)), (), "slower"),
        ((1.05, (0.9, 1.2)), (0.8, (0.7, 0.94)), ("report",), "slower"),
        # The data bound nothing.
        ((1.1, None), (0.8, (0.7, 0.94)), (), "slower"),
        ((1.01, (None, None)), (0.8, (0.7, 0.94)), (), "as it was"),
        ((1.0, (0.99, 1.01)), (0.8, None), (), "as it was"),
        # Nothing says that the rejected one did it.
        ((0.9, (0.8, 1.01)), (0.97, (0.9, 1.05)), (), "slower"),
    ],
)
def test_a_read_is_as_it_was_where_only_a_rejected_fix_was_found_to_slow_it(
    recommended: tuple[float, Ends | None] | None,
    rejected: tuple[float, Ends | None],
    made_faster: tuple[str, ...],
    verdict: str,
) -> None:
    proved = samples.proved("good", "second", words={"second": "faster"})
    slow = FixStatement(name="report", ratio=0.8, interval=(0.7, 0.94))
    proved = replace(proved, together=replace(proved.together, slowed=("report",), statements=(slow,)))
    given = {"good": recommended, "second": rejected}
    fixes = [
        fix.model_copy(
            update={
                "verdict": {"good": "recommended", "second": "worse"}[name],
                "statements": tuple(
                    FixStatement(name="report", ratio=ratio, interval=interval)
                    for ratio, interval in filter(None, [given[name]])
                ),
            }
        )
        for fix in ranked(samples.judged())
        if (name := fix.id.removeprefix("index:")) in given
    ]
    members = tuple(f"index:{name}" for name in given)
    found = answers(samples.BASELINE, {}, members, {"index:good": made_faster}, fixes, proved)
    (report,) = (each for each in found if each.name == "report")
    assert report.verdict == verdict
