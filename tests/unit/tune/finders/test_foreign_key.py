"""An index for a foreign key: of the table whose rows refer to those that go, and of no other."""

import json

from finder_samples import COLUMNS, facts
from pgassay.plans.explain_plan import read_plans
from pgassay.tune.candidate import Symptom, TunedStatement
from pgassay.tune.facts.schema import ConstraintFacts
from pgassay.tune.finders.registry import find


def offered(relation: str) -> list[str]:
    """The indexes for a statement on `relation` that waits for the constraint `f`, which two tables have."""
    node = {
        "Node Type": "ModifyTable", "Operation": "Delete", "Relation Name": relation, "Schema": "public",
        "Alias": relation, "Plan Rows": 0, "Plan Width": 0, "Startup Cost": 0, "Total Cost": 1,
        "Actual Rows": 0, "Actual Loops": 1, "Actual Startup Time": 1, "Actual Total Time": 1,
    }  # fmt: skip
    trigger = {
        "Trigger Name": "RI_ConstraintTrigger_a_1", "Constraint Name": "f", "Relation": relation,
        "Time": 80.0, "Calls": 10,
    }  # fmt: skip
    document = [{"Plan": node, "Planning Time": 0.1, "Triggers": [trigger], "Execution Time": 90.0}]
    seen = read_plans(json.dumps(document), "made")[0]
    tables = [
        facts(
            name=name,
            constraints=[ConstraintFacts(name="f", kind="foreign", columns=("a",), referenced_table=other)],
        ).tables[0]
        for name, other in (("lines", "orders"), ("visits", "doctors"))
    ]
    tables += [facts(name=name, columns=COLUMNS).tables[0] for name in ("orders", "doctors")]
    known = facts().model_copy(update={"tables": tuple(tables)})
    statement = TunedStatement(name="q", sql=f"DELETE FROM {relation}", writes=True)
    return [each.id for each in find(Symptom((statement,), {"q": (seen,)}, known, {"q": 1.0}))]


def test_another_table_may_have_a_constraint_of_the_same_name() -> None:
    assert offered("orders") == ["index:lines(a)"]
    # The check that a row's reference is there reads the other table, by its key.
    assert offered("lines") == []
