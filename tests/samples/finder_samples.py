"""A made-up symptom for finders: a table of three columns, its indexes, and plans that read it whole."""

import json

from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans
from pgassay.tune.candidate import Symptom, TunedStatement
from pgassay.tune.facts.schema import ColumnFacts, IndexFacts, IndexKey, SchemaFacts, TableFacts

ROWS = 100_000
COLUMNS = tuple(
    ColumnFacts(name=name, type="integer", not_null=True, distinct=distinct, width=4)
    for name, distinct in (("id", -1.0), ("a", 5000.0), ("b", 2000.0))
)


def index(name: str, *columns: str, **fields: object) -> IndexFacts:
    keys = tuple(IndexKey(column=column, opclass="int4_ops") for column in columns)
    plain = {
        "schema_": "public",
        "table": "t",
        "method": "btree",
        "bytes": 4 << 20,
        "definition": f"-- {name}",
    }
    return IndexFacts.model_validate({"name": name, "keys": keys, **plain, **fields})


def facts(*indexes: IndexFacts, **fields: object) -> SchemaFacts:
    table = TableFacts.model_validate(
        {"schema_": "public", "name": "t", "kind": "table", "columns": COLUMNS, "indexes": indexes,
         "rows": ROWS, "pages": 600, "all_visible_pages": 600, **fields}
    )  # fmt: skip
    return SchemaFacts(
        version=180000, database="d", encoding="UTF8", collation="C", tables=(table,), counted_days=400.0
    )


def plan(filter_: str = "(a = 7)", rows: int = 20, ms: float = 20.0, rest_ms: float = 0.1) -> ExplainedPlan:
    node = {
        "Node Type": "Seq Scan", "Relation Name": "t", "Alias": "t", "Schema": "public", "Filter": filter_,
        "Plan Rows": rows, "Plan Width": 12, "Startup Cost": 0, "Total Cost": 100, "Actual Rows": rows,
        "Actual Loops": 1, "Actual Startup Time": 0.1, "Actual Total Time": ms,
        "Rows Removed by Filter": ROWS - rows,
    }  # fmt: skip
    document = [{"Plan": node, "Planning Time": 0.1, "Execution Time": ms + rest_ms}]
    return read_plans(json.dumps(document), "made")[0]


def symptom(*plans: ExplainedPlan, known: SchemaFacts, share: float = 1.0) -> Symptom:
    statement = TunedStatement(name="q", sql="SELECT * FROM t WHERE a = $1")
    return Symptom((statement,), {"q": plans}, known, {"q": share})
