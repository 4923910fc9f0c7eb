"""Plans that an experiment executes: what they show, what is not executed, that nothing is executed twice."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import whole_tool
from pgassay.design.schedule import next_step
from pgassay.experiment.planning.experiment_plan import parse_request, plan
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.run_experiment import open_target
from pgassay.model.trial import TrialRecord
from pgassay.record.experiment import StoredTrial, load_trial
from pgassay.trial.measure.work_plans import PlanWork
from pgassay.trial.run_trial import run_trial

pytestmark = pytest.mark.server

QUERIES = """
-- name: sorted
SELECT aid, filler FROM pgbench_accounts ORDER BY md5(aid::text) OFFSET 100000;
-- name: drawn
SELECT public.draw();
"""
# A function that could write and does not: the trials stay valid.
PREPARE = "CREATE FUNCTION public.draw() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1'"


def work_files(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("trials/*/attempt-*/work_plans.json"))
    return [json.loads(file.read_bytes())["statements"] for file in files]


def test_the_report_says_where_each_sort_went(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    (tmp_path / "q.sql").write_text(QUERIES)
    words = ["compare", "work_mem=1MB,64MB", "--workload", f"sql:{tmp_path / 'q.sql'}", "--prepare", PREPARE]
    words += ["--cache", "warm-buffers", *whole_tool.SMALL, "--set", "max_parallel_workers_per_gather=0"]
    words += ["--restart", "each"]
    limits = ["--blocks", "4", "--seed", "3", "--quiet", "--out", str(tmp_path / "out")]
    result = whole_tool.result_of(whole_tool.run(*words, *limits, "--json"))

    plans = {(each["statement"], each["arm"]): each for each in result["plans"]}
    assert len(plans) == len(result["plans"]) == 4
    small, large = plans["sorted", "work_mem=1MB"], plans["sorted", "work_mem=64MB"]
    methods = [
        next(node["sort_method"] for node in plan["nodes"] if node["sort_method"]) for plan in (small, large)
    ]
    assert methods == ["external merge", "quicksort"]
    for each in (small, large):
        assert each["executed"] and each["cache"] == "as-left" and each["untraced_s"] > 0
        assert each["execution_ms"] > 0 and each["planning_ms"] is not None
        assert each["nodes"][0]["buffers_hit"] is not None
    drawn = plans["drawn", "work_mem=1MB"]
    assert drawn["executed"] and not drawn["rolled_back"], "nothing can be written in its transaction"
    assert drawn["kind"] is None

    folder = tmp_path / "out"
    spent_s = sum(record.get("plans_s") or 0.0 for record in whole_tool.trials(folder))
    used_s = json.loads((folder / "state.json").read_bytes())["seconds_used"]
    print(f"plans took {spent_s:.2f} of {used_s:.2f} s")
    assert 0 < spent_s < 0.1 * used_s

    terminal = whole_tool.run("report", folder).stdout
    markdown = whole_tool.run("report", folder, "--markdown").stdout
    for shown in (terminal, markdown):
        words_shown = " ".join(shown.split())
        assert "fits in memory in B: external merge" in words_shown and "quicksort" in words_shown
        assert "under ANALYZE" in words_shown and "untraced" in words_shown
    page = tmp_path / "page.html"
    whole_tool.run("report", folder, "--html", page)
    assert "under ANALYZE" in page.read_text() and "external merge" in page.read_text()

    indexes = {(each["table"], each["index"]) for each in result["table_cache"]}
    assert ("pgbench_accounts", None) in indexes
    for each in result["table_cache"]:
        assert each["hit_ratio"] == each["blocks_hit"] / (each["blocks_hit"] + each["blocks_read"])

    executed = sum(len(each) for each in work_files(folder))
    again = whole_tool.run("resume", folder, "--blocks", "5", "--json", "--quiet")
    assert len(whole_tool.result_of(again)["plans"]) == 4
    assert len(whole_tool.valid_trials(folder)) > 12
    assert sum(len(each) for each in work_files(folder)) == executed


# One of each kind: what leaves dead rows, what takes of a sequence, what locks, what reads.
WRITING = """
-- name: added
INSERT INTO public.numbered (note) SELECT 'x' FROM generate_series(1, 100);
-- name: removed
DELETE FROM pgbench_accounts WHERE aid <= 500;
-- name: locked
SELECT bid FROM pgbench_branches WHERE bid = 1 FOR UPDATE;
-- name: counted
SELECT count(*) FROM public.numbered;
"""
NUMBERED = "CREATE TABLE public.numbered (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text)"
ALL_DUE = PlanWork(is_due=lambda _statement, _plan: True, budget_s=lambda _wall_s: 1e6)


class Trials:
    """Trials of an experiment's first arm, each with plans that have all the time they want."""

    def __init__(self, folder: Path, request: CompareRequest) -> None:
        self._folder, self._request = folder, request
        self.records: list[TrialRecord] = []

    @contextmanager
    def running(self) -> Iterator["Trials"]:
        experiment = plan(
            parse_request(self._request, lambda _stage, _share: None), lambda _stage, _share: None
        )
        self._step = next_step(experiment, ())
        with open_target(experiment, {}, lambda _stage, _share: None) as opened, opened.target as target:
            self._target = target
            yield self

    def next(self, work: PlanWork | None = ALL_DUE, **limits_s: float) -> StoredTrial:
        """The next one; a statement that is named does not run longer than its limit."""
        protocol = self._step.spec.protocol.model_copy(update={"statement_limits": limits_s})
        spec = self._step.spec.model_copy(update={"number": len(self.records), "protocol": protocol})
        path, record = run_trial(spec, self._target, self._folder, work=work)
        assert record.status == "ok", record.reason
        self.records.append(record)
        return load_trial(path)


def request(folder: Path, sql: str, *factors: str, **fields: Any) -> CompareRequest:
    (folder / "w.sql").write_text(sql)
    workload = f"sql:{folder / 'w.sql'}"
    return CompareRequest(
        factors=factors or ("work_mem=1MB,2MB",),
        workload=workload,
        scale=1,
        memory=None,
        restart="each",
        **fields,
    )


def rows_of(trial: StoredTrial, statement: str, node: str) -> float:
    """The rows of the first node of a kind in an executed plan."""
    document = trial.work_plans[statement].document
    assert document is not None
    waiting: list[Any] = [document["Plan"]]
    while waiting:
        found = waiting.pop(0)
        if found["Node Type"] == node:
            return float(found["Actual Rows"])
        waiting += found.get("Plans", [])
    raise AssertionError(node)


@pytest.mark.shares_machine
def test_what_statements_write_is_seen_in_their_plans_and_nowhere_else(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    """Their own data: not those that the trial has written to. The next trial finds no trace of them."""
    require("server")
    made = Trials(tmp_path, request(tmp_path, WRITING, prepare=(NUMBERED,), cache="as-is"))
    with made.running() as trials:
        first = trials.next()
        second = trials.next(work=None)
    works = first.work_plans
    assert {name: work.reason for name, work in works.items()} == dict.fromkeys(works, "")
    assert set(works) == {"added", "removed", "locked", "counted"}
    assert all(work.executed and work.rolled_back and work.cache == "restarted" for work in works.values())
    # The trial itself has deleted them, and added a hundred rows to an empty table.
    assert rows_of(first, "removed", "ModifyTable") == 0
    assert rows_of(first, "removed", "Index Scan") == 500
    assert rows_of(first, "counted", "Aggregate") == 1
    scanned = {node for node in ("Seq Scan", "Index Only Scan") if _has(first, "counted", node)}
    assert rows_of(first, "counted", scanned.pop()) == 100
    for before in (first.record.upkeep_before, second.record.upkeep_before):
        assert before is not None
        assert all(not table.dead_rows for table in before.tables)
    assert second.record.facts["restored"]
    assert [each.rows for each in second.record.statements] == [each.rows for each in first.record.statements]
    assert second.record.plans_s is None and second.work_plans == {}


def _has(trial: StoredTrial, statement: str, node: str) -> bool:
    return json.dumps(trial.work_plans[statement].document).count(f'"{node}"') > 0


@pytest.mark.slow
def test_sequences_and_a_failing_statement_leave_no_trace_either(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    require("server")
    # The second divides by what the sequence gave out: 1 in a fresh copy, so it fails if anything is left.
    sql = (
        "-- name: taken\nSELECT nextval('public.numbers');\n"
        "-- name: judged\nSELECT 1 / (CASE WHEN currval('public.numbers') = 1 THEN 1 ELSE 0 END), "
        "nextval('public.numbers');\n"
        "-- name: last\nUPDATE pgbench_branches SET bbalance = 1;\n"
    )
    made = Trials(
        tmp_path, request(tmp_path, sql, prepare=("CREATE SEQUENCE public.numbers",), cache="as-is")
    )
    with made.running() as trials:
        first, second, third = trials.next(), trials.next(), trials.next(work=None)
    for trial in (first, second):
        assert {work.executed for work in trial.work_plans.values()} == {True}
    assert third.record.facts["restored"]


@pytest.mark.slow
def test_a_plan_of_a_reading_list_can_write_nothing(tmp_path: Path, require: Callable[..., None]) -> None:
    """A workload that is said to read: what would write is stopped by the server, and the data stay."""
    require("server")
    sql = "SELECT public.maybe();\n"
    # It writes from its second call on: in the trial it does not, under ANALYZE it tries to.
    function = (
        "CREATE TABLE public.calls (n int); CREATE FUNCTION public.maybe() RETURNS int LANGUAGE plpgsql AS "
        "$$ BEGIN IF current_setting('transaction_read_only') = 'on' THEN "
        "INSERT INTO public.calls VALUES (1); END IF; RETURN 1; END $$"
    )
    made = Trials(tmp_path, request(tmp_path, sql, prepare=(function,), cache="as-is"))
    with made.running() as trials:
        first, second = trials.next(), trials.next()
    for trial in (first, second):
        (work,) = trial.work_plans.values()
        assert not work.executed
        assert "could write: cannot execute INSERT in a read-only transaction" in work.reason
    assert not second.record.facts["restored"], "nothing was written, so nothing is copied"


@pytest.mark.slow
def test_restoring_that_takes_too_long_is_put_off_and_what_reads_is_not(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    require("server")
    little = PlanWork(is_due=lambda _statement, _plan: True, budget_s=lambda _wall_s: 0.2)
    made = Trials(tmp_path, request(tmp_path, WRITING, prepare=(NUMBERED,), cache="as-is"))
    with made.running() as trials:
        first = trials.next(work=little)
    late = {name: work for name, work in first.work_plans.items() if not work.executed}
    assert {"added", "removed", "locked"} <= set(late)
    assert all(work.deferred for work in late.values())
    assert "restoring the data and executing all statements would take about" in late["added"].reason


@pytest.mark.shares_machine
@pytest.mark.parametrize(
    "writing",
    [
        pytest.param("", id="reading", marks=pytest.mark.slow),
        pytest.param("-- name: locked\nSELECT 1 FROM pgbench_branches FOR UPDATE;\n", id="writing as well"),
    ],
)
def test_what_a_trial_stopped_has_no_plan_since_nobody_knows_how_long_it_takes(
    writing: str, tmp_path: Path, require: Callable[..., None]
) -> None:
    require("server")
    sql = f"-- name: slept\nSELECT pg_sleep(60);\n-- name: read\nSELECT 1;\n{writing}"
    made = Trials(tmp_path, request(tmp_path, sql, cache="as-is"))
    with made.running() as trials:
        first = trials.next(slept=0.3)
    slept, read = first.work_plans["slept"], first.work_plans["read"]
    assert not slept.executed and slept.reason == "it did not end in the 0.3 s that the trial gave it"
    assert not slept.deferred, "no later trial tries it again"
    assert read.executed and not read.reason
    if writing:
        locked = first.work_plans["locked"]
        assert not locked.executed and locked.reason == f"not without slept: {slept.reason}"
    assert first.record.plans_s is not None and first.record.plans_s < 30


@pytest.mark.slow
def test_a_load_is_planned_as_its_sessions_prepare_it(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    options = (*whole_tool.SMALL, "--blocks", "1", "--quiet", "--max-time", "10m")
    workload = "tpcb:duration=2s,warmup=0s"
    words = (
        "compare",
        "plan_cache_mode=force_custom_plan,force_generic_plan",
        "--workload",
        workload,
        "--json",
    )
    result = whole_tool.result_of(whole_tool.run(*words, *options, "--out", tmp_path / "load"))
    kinds = {"plan_cache_mode=force_custom_plan": "custom", "plan_cache_mode=force_generic_plan": "generic"}
    executed = [each for each in result["plans"] if each["executed"]]
    assert executed
    for each in executed:
        assert each["kind"] == kinds[each["arm"]]
        assert ("$" in json.dumps(each["nodes"])) == (each["kind"] == "generic")
        assert each["rolled_back"] and each["cache"] == "as-left" and each["untraced_s"] is None
    assert result["plans_differ"]
    assert all(record["status"] == "ok" for record in whole_tool.trials(tmp_path / "load"))
    simple = (*words[:3], f"{workload},protocol=simple", "--json")
    typed = whole_tool.result_of(whole_tool.run(*simple, *options, "--out", tmp_path / "simple"))
    assert {each["kind"] for each in typed["plans"]} == {None}
    assert not typed["plans_differ"]


@pytest.mark.slow
def test_estimates_execute_nothing(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    load = ("compare", "work_mem=1MB,2MB", "--workload", "select-only:duration=200ms,warmup=0s", "--json")
    options = (*whole_tool.SMALL, "--blocks", "1", "--quiet")
    estimated = whole_tool.run(*load, *options, "--plans", "estimate", "--out", tmp_path / "estimate")
    assert whole_tool.result_of(estimated)["plans"] == []
    assert work_files(tmp_path / "estimate") == []
    assert list((tmp_path / "estimate").glob("trials/*/attempt-*/plans.json"))
    off = whole_tool.run(*load, *options, "--plans", "off", "--out", tmp_path / "off")
    assert whole_tool.result_of(off)["plans"] == []
    assert not list((tmp_path / "off").glob("trials/*/attempt-*/plans.json"))
