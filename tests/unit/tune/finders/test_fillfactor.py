"""Room in each page for updates: by the option for pages written from now on, and where pages were full."""

import json

import pytest

from finder_samples import facts, index
from pgassay.plans.explain_plan import read_plans
from pgassay.tune.answer.scripts import apply_script, undo_script
from pgassay.tune.candidate import Candidate, Symptom, TunedStatement
from pgassay.tune.finders.registry import find

UPDATED = 50_000


def updating(ms: float = 20.0) -> Symptom:
    """`UPDATE t SET b = ...`, which no index has a column of."""
    node = {
        "Node Type": "ModifyTable", "Operation": "Update", "Relation Name": "t", "Alias": "t",
        "Schema": "public", "Plan Rows": 0, "Plan Width": 0, "Startup Cost": 0, "Total Cost": 100,
        "Actual Rows": 0, "Actual Loops": 1, "Actual Startup Time": ms, "Actual Total Time": ms,
    }  # fmt: skip
    document = [{"Plan": node, "Planning Time": 0.1, "Execution Time": ms + 0.1}]
    statement = TunedStatement(name="q", sql="UPDATE t SET b = b + 1 WHERE a = 7", writes=True)
    plan = read_plans(json.dumps(document), "made")[0]
    return Symptom((statement,), {"q": (plan,)}, facts(index("i", "a")), {"q": 1.0})


def found(hot: int, elsewhere: int | None) -> list[Candidate]:
    known = facts(
        index("i", "a"), updated=UPDATED, hot_updated=hot, updated_elsewhere=elsewhere, bytes=1 << 22
    )  # fmt: skip
    made = updating()
    symptom = Symptom(made.statements, made.plans, known, made.share)
    return [each for each in find(symptom) if each.kind == "fillfactor"]


def test_rows_that_went_to_another_page_are_the_evidence() -> None:
    (fix,) = found(5_000, 45_000)
    assert "45,000 of them onto another page" in fix.reason and "10 % were HOT" in fix.reason
    # Before 16 nobody counts them.
    assert found(5_000, None)


@pytest.mark.parametrize(("hot", "elsewhere"), [(5_000, 1_000), (45_000, 5_000)])
def test_where_pages_had_room_more_of_it_is_no_remedy(hot: int, elsewhere: int) -> None:
    assert not found(hot, elsewhere)


def test_a_script_sets_the_option_and_writes_no_table_anew() -> None:
    (fix,) = found(5_000, 45_000)
    # A copy is written anew: it has no updates by which its pages come to have room.
    assert any("FULL" in sql for sql in fix.on_copy) and set(fix.on_copy) < set(fix.sql)
    for script, word in ((apply_script, "SET (fillfactor=80)"), (undo_script, "RESET (fillfactor)")):
        lines = [line for line in script([fix], None).splitlines() if not line.startswith("--")]
        assert not any("VACUUM" in line for line in lines)
        assert any(word in line.replace(" = ", "=") for line in lines)
