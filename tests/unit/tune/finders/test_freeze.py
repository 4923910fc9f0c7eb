"""Tables that are to be frozen: not in ordinary life, and by either kind of age."""

import pytest

from finder_samples import facts, plan, symptom
from pgassay.tune.candidate import Candidate
from pgassay.tune.finders.registry import find

READ = plan(ms=0.1)


def found(transactions: int, multixacts: int = 0, **settings: str) -> list[Candidate]:
    known = facts(transactions_age=transactions, multixacts_age=multixacts)
    known = known.model_copy(update={"settings": {**known.settings, **settings}})
    return [each for each in find(symptom(READ, known=known)) if each.kind == "freeze"]


@pytest.mark.parametrize("age", [150_000_000, 200_000_000, 240_000_000])
def test_an_age_that_autovacuum_lets_every_table_reach_is_ordinary_life(age: int) -> None:
    assert not found(age)


def test_beyond_it_autovacuum_does_not_get_to_the_table() -> None:
    (freeze,) = found(260_000_000)
    assert "260,000,000 transactions old" in freeze.reason and "held up by" in freeze.reason
    assert found(160_000_000, autovacuum_freeze_max_age="100000000")


def test_rows_locked_by_several_transactions_have_an_age_of_their_own() -> None:
    (freeze,) = found(1_000_000, 600_000_000)
    assert "600,000,000 multixacts old, and autovacuum should have frozen it at 400,000,000" in freeze.reason
    assert not found(1_000_000, 450_000_000)
