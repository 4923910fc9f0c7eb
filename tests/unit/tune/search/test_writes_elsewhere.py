"""What a write takes beside an index of another table is chance, and is not measured."""

from types import SimpleNamespace
from typing import cast

import pytest

from finder_samples import facts, plan
from pgassay.model.arm import ArmSpec
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.tune.candidate import Candidate, TunedStatement
from pgassay.tune.proof.proof_arms import can_share
from pgassay.tune.search.planner_screen import set_beside, touched_by
from pgassay.tune.search.search import with_current_estimates
from pgassay.tune.search.selection import Baseline, Tried
from pgassay.tune.tuned_statements import MeasuredStatement, measured
from tune_samples import search_run

READ = TunedStatement(name="read", sql="SELECT FROM t WHERE a = 1")
WRITE = TunedStatement(name="write", sql="INSERT INTO other VALUES (1)", writes=True)
OWN = TunedStatement(name="own", sql="INSERT INTO t VALUES (1)", writes=True)
STATEMENTS = measured((READ, WRITE, OWN))


def writing(text: str) -> ExplainedPlan:
    made = plan(text)
    return made.model_copy(update={"nodes": (made.nodes[0].model_copy(update={"type": "ModifyTable"}),)})


def test_an_index_of_another_table_has_no_write_measured() -> None:
    table = facts().tables[0]
    known = facts().model_copy(update={"tables": (table, table.model_copy(update={"name": "other"}))})
    plans = {READ.sql: plan(), WRITE.sql: writing("x"), OWN.sql: writing("y")}
    before = {"read": plan("(b = 1)", rows=5), "write": plans[WRITE.sql], "own": plans[OWN.sql]}
    baseline = Baseline(STATEMENTS, {"read": 1.0, "write": 0.001, "own": 0.001}, before)
    copy = SimpleNamespace(estimate=lambda sql, _name: plans[sql])
    index = Candidate(
        id="index:t(a)", layer="design", kind="btree", title="", reason="", statements=("read",),
        sql=("CREATE INDEX i ON public.t (a)",), undo=("DROP INDEX i",),
    )  # fmt: skip
    run = search_run(copy, baseline)
    names = [each.name for each in touched_by(run, index)[0]]
    assert {"write", "own"} <= set(names)  # nothing is known of the schema
    run = search_run(copy, baseline, facts=known)
    assert [each.name for each in touched_by(run, index)[0] if each.of.writes] == ["own"]


@pytest.mark.parametrize("has_read_statistics", [False, True])
def test_statistics_of_an_earlier_candidate_are_not_taken_for_the_effect_of_a_later_one(
    *, has_read_statistics: bool
) -> None:
    """ANALYZE beside an index of an expression stays when that is dropped, and may change another's plan."""

    def index(name: str, *more: str) -> Candidate:
        return Candidate(
            id=name, layer="design", kind="expression", title="", reason="", statements=("other",),
            sql=(f"CREATE INDEX {name} ON public.t (a)", *more), undo=(f"DROP INDEX {name}",),
        )  # fmt: skip

    earlier, later = index("earlier", *["ANALYZE t"][: int(has_read_statistics)]), index("later", "ANALYZE t")
    before = plan("(b = 1)", rows=5)
    top = before.nodes[0].model_copy(update={"cost_total": 2 * before.cost_total})
    other = before.model_copy(update={"nodes": (top,)})
    baseline = Baseline(measured((READ,)), {"read": 1.0}, {"read": before})
    copy = SimpleNamespace(estimate=lambda _sql, _name: other)
    run = search_run(
        copy, baseline, candidates=(earlier, later), tried={"earlier": Tried("earlier", {"read": 1.0})}
    )
    touched = [each.name for each in touched_by(with_current_estimates(run), later)[0]]
    assert touched == ([] if has_read_statistics else ["read"])


def test_a_write_that_looked_many_times_slower_is_set_beside_itself() -> None:
    def seconds(statement: MeasuredStatement, _sql: str, **_limits: float) -> float:
        assert statement.of.writes, "a query that much slower is slower"
        return 0.1

    copy = SimpleNamespace(seconds=seconds)
    found = set_beside(
        copy, STATEMENTS, {}, current={"read": 0.1, "write": 0.002, "own": 0.1},
        seconds={"read": 1.0, "write": 0.1, "own": 0.01},
    )  # type: ignore[arg-type]  # fmt: skip
    # The disk takes as long without it now; what looked faster is left.
    assert found == {"read": 1.0, "write": 0.002, "own": 0.01}


def test_a_slow_commit_is_no_write_of_many_rows() -> None:
    """The arms of a proof share a server unless a statement leaves many dead rows behind."""
    spec = cast(
        "ArmSpec",
        SimpleNamespace(
            memory_bytes=None, cpus=None, server=None, dataset=SimpleNamespace(settled=True),
            workload=SimpleNamespace(is_mix=False),
        ),
    )  # fmt: skip

    def shares(seconds: float, rows: int) -> bool:
        plans = {"write": plan("(x = 1)", rows=rows)} if rows else {}
        baseline = Baseline(measured((WRITE,)), {"write": seconds}, plans)
        return can_share(spec, "warm-buffers", baseline, (), 1)

    assert shares(0.05, 0) and shares(3.0, 1) and shares(0.05, 5000)
    assert not shares(3.0, 5000) and not shares(3.0, 0)
