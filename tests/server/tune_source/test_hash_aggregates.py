"""Hash aggregates that went to disk: the memory that is asked for is enough, and not many times more."""

import json
from collections.abc import Callable, Iterator

import pytest

from finder_samples import facts
from pgassay.environment.builds.registry import resolve
from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.plans.explain_plan import read_plans
from pgassay.tune.candidate import AdvisedMachine, Candidate, Symptom, TunedStatement
from pgassay.tune.finders.registry import find
from source_servers import SourceServer, source_server
from versions.facts import MAJORS

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
DEFAULT = (16, 19)
ROWS, GROUPS = 90_000, 30_000
SETTINGS = {"enable_sort": "off", "max_parallel_workers_per_gather": "0"}
# Groups without a state need less.
WORK_MEM_KB, WORK_MEM_DISTINCT_KB = 1024, 704
PARALLEL = {
    "max_parallel_workers_per_gather": "2", "min_parallel_table_scan_size": "0", "parallel_tuple_cost": "0",
    "parallel_setup_cost": "0",
}  # fmt: skip
STATEMENTS = {
    "counted": "SELECT k, count(*) FROM t GROUP BY k",
    "summed": "SELECT k, count(*), sum(v), avg(v) FROM t GROUP BY k HAVING count(*) > 1000",
    "texts": "SELECT s, count(*) FROM t GROUP BY s",
    "distinct": "SELECT DISTINCT k, v FROM t",
    "limited": "SELECT k, count(*) FROM t GROUP BY k LIMIT 5",
}


@pytest.fixture(
    params=[pytest.param(each, marks=() if each in DEFAULT else pytest.mark.slow) for each in MAJORS]
)
def server(request: pytest.FixtureRequest, require: Callable[..., None]) -> Iterator[SourceServer]:
    require("version-19" if request.param == 19 else "versions-16-17-18")
    with source_server(resolve(str(request.param))) as made:
        made.execute(
            f"CREATE TABLE t AS SELECT (n * 7919::bigint % {GROUPS})::int k, n % 100 v, "
            f"md5((n * 7919::bigint % {GROUPS})::text) s FROM generate_series(1, {ROWS}) n",
            "VACUUM ANALYZE t",
        )
        yield made


def planned(
    server: SourceServer, sql: str, settings: dict[str, str], form: str = "JSON"
) -> tuple[ExplainedPlan, PlanNode]:
    """The executed plan, and its aggregate in hash batches that is lowest."""
    with server.connection() as session:
        for name, value in settings.items():
            session.execute("SELECT set_config(%s, %s, false)", (name, value))
        rows = session.execute(
            f"EXPLAIN (ANALYZE, VERBOSE, SETTINGS, FORMAT {form}) {sql}".encode()
        ).fetchall()
    text = json.dumps(rows[0][0]) if form == "JSON" else "\n".join(row[0] for row in rows)
    plan = read_plans(text, "the test")[0]
    return plan, [node for node in plan.nodes if node.type == "Aggregate" and node.batches][-1]


def work_mem(name: str) -> dict[str, str]:
    return {"work_mem": f"{WORK_MEM_DISTINCT_KB if name == 'distinct' else WORK_MEM_KB}kB"}


def offered(server: SourceServer, name: str, plan: ExplainedPlan) -> dict[str, Candidate]:
    version = int(server.rows("SHOW server_version_num")[0][0])
    known = facts().model_copy(
        update={"version": version, "settings": {"work_mem": work_mem(name)["work_mem"].removesuffix("kB")}}
    )
    statement = TunedStatement(name=name, sql=STATEMENTS[name])
    # Much of its time, whatever else the machine does meanwhile.
    nodes = tuple(each.model_copy(update={"own_ms": plan.execution_ms}) for each in plan.nodes)
    machine = AdvisedMachine(memory_bytes=8 << 30)
    taken = plan.model_copy(update={"nodes": nodes})
    return {
        each.kind: each for each in find(Symptom((statement,), {name: (taken,)}, known, {name: 1.0}, machine))
    }


def test_what_is_asked_for_is_enough_and_not_many_times_more(server: SourceServer) -> None:
    for name, sql in STATEMENTS.items():
        given = SETTINGS | work_mem(name)
        plan, node = planned(server, sql, given)
        assert node.disk and node.batches and node.batches > 1 and node.disk_kb, name
        found = offered(server, name, plan)
        assert "HashAggregate" in found["hash-memory"].reason and "no sort did" in found["hash-memory"].reason
        for kind in ("hash-memory", "work-mem"):
            (_, with_it) = planned(server, sql, given | found[kind].settings)
            assert with_it.batches == 1 and not with_it.disk, (name, kind)
        # A multiple of the memory in halves.
        multiplier = float(found["hash-memory"].settings["hash_mem_multiplier"])
        asked_kb = multiplier * int(given["work_mem"].removesuffix("kB"))
        assert with_it.memory_kb and asked_kb < 3 * with_it.memory_kb, (name, multiplier)


def test_processes_are_read_alike_from_text_and_json(server: SourceServer) -> None:
    sql = STATEMENTS["counted"]
    for form in ("JSON", "TEXT"):
        plan, node = planned(server, sql, SETTINGS | PARALLEL | work_mem("counted"), form)
        assert node.disk and node.batches and node.batches > 1 and node.memory_kb and node.disk_kb, form
        assert "hash-memory" in offered(server, "counted", plan)
