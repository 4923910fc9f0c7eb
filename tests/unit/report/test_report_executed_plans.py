"""The sections of executed plans and of what was found in shared buffers: words, hostile names, absence."""

import json
from dataclasses import replace
from typing import Any

import pytest

import report_examples
from pgassay.analysis.verdicts.compare import analyse
from pgassay.model.plans.executed_plan import WorkPlan
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.report.compare.page import page_of
from pgassay.report.explain.executed_plans import added

SLOW = "it would take about 9 s, and a tenth of the experiment's time leaves 2 s for plans"


def sort_document(method: str, place: str, relation: str) -> dict[str, Any]:
    """An executed plan: a sort of a table's rows."""
    figures = {"Actual Startup Time": 1.0, "Actual Total Time": 50.0, "Actual Rows": 1000, "Actual Loops": 1}
    scan = {"Node Type": "Seq Scan", "Relation Name": relation, "Alias": relation, "Plan Rows": 1000}
    top = {"Node Type": "Sort", "Sort Key": ["a"], "Sort Method": method, "Sort Space Used": 2048}
    top |= {"Sort Space Type": place, "Plan Rows": 1000, "Plans": [scan | figures]}
    return {"Plan": top | figures, "Planning Time": 0.1, "Execution Time": 51.0}


def with_plans(relation: str) -> StoredExperiment:
    """An experiment whose first arm sorts on disk and whose second does it in memory."""
    made = report_examples.stored(levels=["1MB", "64MB"], blocks=12)
    seen: set[str] = set()
    trials = []
    for trial in made.trials:
        arm = next(each for each in made.experiment.arms if each.id == trial.record.arm_id)
        if arm.role == "twin" or arm.id in seen:
            trials.append(trial)
            continue
        seen.add(arm.id)
        first = sort_document(
            *(("external merge", "Disk") if arm.role == "control" else ("quicksort", "Memory")), relation
        )
        work = {
            "count_accounts": WorkPlan(executed=True, seconds=0.06, cache="as-left", document=first),
            "count_filler": WorkPlan(executed=False, reason=SLOW, deferred=True),
        }
        trials.append(executed_after(trial, work))
    return replace(made, trials=tuple(trials))


def executed_after(trial: StoredTrial, work: dict[str, WorkPlan]) -> StoredTrial:
    record = trial.record.model_copy(update={"plans_s": 0.06})
    return replace(trial, record=record, work_plans=work)


def test_what_an_arms_plan_does_otherwise_is_said_in_every_output() -> None:
    stored = with_plans("accounts")
    result = analyse(stored)
    executed = [plan for plan in result.plans if plan.executed]
    assert [plan.nodes[0].sort_method for plan in executed] == ["external merge", "quicksort"]
    terminal = " ".join(page_of(result, stored).terminal(width=100).split())
    markdown = page_of(result, stored).markdown()
    for shown in (terminal, markdown):
        assert "The sort by a fits in memory in B: external merge 2.00 MB → quicksort 2.00 MB." in shown
        assert f"count_filler: {SLOW}." in shown
        # Twice 60 ms of 640 s.
        assert "2 plans were executed once each" in shown
        assert "It took 120 ms in all, 0.019 % of the experiment's time." in shown
    page = page_of(result, stored).html()
    assert "51.0 ms under ANALYZE" in page and "untraced in the trial before" in page


def with_changed_documents(changes: dict[str, dict[str, Any]]) -> StoredExperiment:
    """Each arm's executed plan with these keys in its topmost node."""
    made = with_plans("accounts")
    names = {arm.id: arm.name for arm in made.experiment.arms}

    def changed(trial: StoredTrial, work: WorkPlan) -> WorkPlan:
        if work.document is None:
            return work
        plan = work.document["Plan"]
        assert isinstance(plan, dict)
        more = changes[names[trial.record.arm_id]]
        scan = {**plan["Plans"][0], **more.get("scan", {})}
        top = {**plan, "Sort Method": "quicksort", **more.get("top", {}), "Plans": [scan]}
        return work.model_copy(update={"document": {**work.document, "Plan": top}})

    trials = tuple(
        replace(trial, work_plans={name: changed(trial, work) for name, work in trial.work_plans.items()})
        for trial in made.trials
    )
    return replace(made, trials=trials)


def test_the_blocks_of_both_plans_and_what_versions_print_are_said_by_every_output() -> None:
    def buffers(hit: int) -> dict[str, int]:
        return {"Shared Hit Blocks": hit, "Shared Read Blocks": 0}

    control, arm = "io_method=1MB", "io_method=64MB"
    # Until 16 times of reads have this name, from 18 on index searches are counted.
    old = {"top": buffers(163_935) | {"I/O Read Time": 1.0, "I/O Write Time": 0.0}}
    new = {"top": buffers(1_632), "scan": {"Node Type": "Index Scan", "Index Name": "i", "Index Searches": 1}}
    stored = with_changed_documents({control: old, arm: new})
    result = analyse(stored)
    (change,) = result.plan_changes
    assert (change.statement, change.arm, change.control) == ("count_accounts", arm, control)
    assert change.sentences[0] == "Total: 163,935 → 1,632 blocks."
    page = page_of(result, stored)
    assert json.loads(page.json())["plan_changes"][0]["sentences"] == [*change.sentences]
    assert any("Index Searches" in note and "from 18 on" in note for note in change.notes)
    for shown in (" ".join(page.terminal(width=100).split()), page.markdown()):
        assert "Total: 163,935 → 1,632 blocks." in shown
        assert "What the versions print differently" in shown and "a missing value is not zero" in shown
    # A few blocks more are no news where the plans do the same.
    alike = with_changed_documents(
        {
            control: {"top": buffers(1000) | {"Sort Space Type": "Memory"}},
            arm: {"top": buffers(1010) | {"Sort Space Type": "Memory"}},
        }
    )
    assert analyse(alike).plan_changes == () and "plan_changes" not in page_of(analyse(alike), alike).json()


def test_hostile_names_of_a_plan_harm_no_page() -> None:
    stored = with_plans(report_examples.HOSTILE)
    page = page_of(analyse(stored), stored).html()
    assert "under ANALYZE" in page
    assert report_examples.HOSTILE not in page


def test_an_experiment_without_executed_plans_has_no_such_section() -> None:
    stored = report_examples.stored(levels=["1MB", "64MB"], blocks=12)
    result = analyse(stored)
    assert result.plans == () and result.table_cache == ()
    shown = page_of(result, stored).terminal(width=100)
    assert "Plans with their work" not in shown and "Found in shared buffers" not in shown


def test_shares_found_in_shared_buffers_are_of_all_valid_trials() -> None:
    made = report_examples.stored(levels=["1MB", "64MB"], blocks=2, failing=frozenset({0}))
    counters = {
        "pg_statio_user_tables": [
            {"schemaname": "public", "relname": "t", "heap_blks_hit": 30, "heap_blks_read": 10}
        ],
        "pg_statio_user_indexes": [
            {
                "schemaname": "public",
                "relname": "t",
                "indexrelname": "i",
                "idx_blks_hit": 5,
                "idx_blks_read": 0,
            }
        ],
    }
    trials = [
        replace(trial, record=trial.record.model_copy(update={"counters": counters})) for trial in made.trials
    ]
    stored = replace(made, trials=tuple(trials))
    found = analyse(stored).table_cache
    assert [(each.arm, each.index, each.blocks_hit, each.blocks_read) for each in found] == [
        (arm.name, index, *counts)
        for arm in made.experiment.arms
        if arm.role != "twin"
        for index, counts in ((None, (60, 20)), ("i", (10, 0)))
    ]
    assert {each.hit_ratio for each in found} == {0.75, 1.0}
    page = page_of(analyse(stored), stored).html()
    assert "Found in shared buffers" in page and "75.0 %" in page and "i on t" in page


def warm_with(**changes: Any) -> StoredExperiment:
    """The same in warm caches, with one more thing known of what was executed."""
    made = with_plans("accounts")
    protocol = made.experiment.protocol.model_copy(update={"cache": "warm-pages"})
    trials = tuple(
        replace(
            trial,
            work_plans={
                name: work.model_copy(update=changes) if work.executed else work
                for name, work in trial.work_plans.items()
            },
        )
        for trial in made.trials
    )
    return replace(made, experiment=made.experiment.model_copy(update={"protocol": protocol}), trials=trials)


def test_what_analyze_cost_stands_beside_the_untraced_time_in_every_output() -> None:
    stored = warm_with()
    result = analyse(stored)
    for plan in result.plans:
        assert not plan.executed or plan.untraced_s
    (control,) = (plan for plan in result.plans if plan.executed and plan.arm == result.control)
    assert control.untraced_s is not None
    assert control.untraced_s > 0.051
    terminal = page_of(result, stored).terminal(width=100)
    for shown in (terminal, page_of(result, stored).markdown(), page_of(result, stored).html()):
        assert (
            "What EXPLAIN ANALYZE adds to a statement" in shown and "untraced" in shown and "51.0 ms" in shown
        )
        assert "nothing seen" in shown


@pytest.mark.parametrize(
    ("times", "words"), [(0.382, "nothing seen"), (1.08, "8 %"), (2.39, "2.39 × as long")]
)
def test_what_analyze_adds_is_never_less_than_nothing(times: float, words: str) -> None:
    assert added(times) == words


def test_what_was_rolled_back_on_restored_data_is_not_compared_and_says_so() -> None:
    stored = warm_with(cache="restarted", rolled_back=True)
    shown = " ".join(page_of(analyse(stored), stored).markdown().split())
    assert (
        "on restored data after a start of the server, and statements that could write were rolled back"
    ) in shown
    assert "other caches" in shown and "as the trial left them" not in shown
    page = page_of(analyse(stored), stored).html()
    assert "under ANALYZE, rolled back, after a start of the server" in page


def test_a_generic_plan_is_called_so() -> None:
    stored = warm_with(kind="generic")
    result = analyse(stored)
    assert {plan.kind for plan in result.plans if plan.executed} == {"generic"}
    assert "generic plan, 51.0 ms under ANALYZE" in page_of(result, stored).html()
