"""Two experiments compared: the change of each effect, and everything else that differs."""

import json
import math
import re
from pathlib import Path

import pytest

import report_examples as examples
from analysis_samples import experiment, simulate, simulate_moving
from analysis_samples import stored as stored_trials
from load_records import write_load
from pgassay.analysis.diff.differences import recorded_facts
from pgassay.analysis.diff.experiments import Diff, EffectChange, compare_experiments, statement_arms
from pgassay.analysis.verdicts.compare import analyse
from pgassay.cli.main import parser
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.trial import TrialFacts
from pgassay.model.workload import WorkloadSpec
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.report.diff import diff_page as report


def slowed(stored: StoredExperiment, arm: str, factor: float) -> StoredExperiment:
    """The same experiment with one arm's statements slower by a factor."""
    ids = {each.id for each in stored.experiment.arms if each.name == arm and each.role != "twin"}
    trials = []
    for trial in stored.trials:
        record = trial.record
        if record.arm_id in ids:
            changed = tuple(
                item.model_copy(update={"elapsed_s": item.elapsed_s * factor}) for item in record.statements
            )
            record = record.model_copy(update={"statements": changed})
        trials.append(StoredTrial(record, trial.plans, trial.folder))
    return StoredExperiment(stored.folder, stored.experiment, tuple(trials), stored.stopped)


def change_of(diff: Diff, name: str) -> EffectChange:
    return next(change for change in diff.changes if change.name == name)


def test_an_effect_that_shrank_is_smaller_and_the_other_unchanged() -> None:
    first = examples.stored(blocks=60)
    diff = compare_experiments(first, slowed(first, "io_method=worker", 1.15))
    worker, uring = change_of(diff, "io_method=worker"), change_of(diff, "io_method=io_uring")
    assert worker.ratio == pytest.approx(1 / 1.15, rel=0.01)
    assert worker.interval is not None
    assert worker.interval[0] is not None
    assert worker.interval[1] is not None
    assert worker.interval[0] < 1 / 1.15 < worker.interval[1] < 1
    assert worker.word == "smaller"
    assert uring.ratio == pytest.approx(1.0)
    assert uring.word in ("unchanged", "inconclusive")
    assert "B shows less of it" in report.page_of(diff).terminal()


def test_the_interval_is_the_union_of_both_at_half_the_error_rate() -> None:
    first, second = examples.stored(blocks=20), slowed(examples.stored(blocks=15), "io_method=worker", 1.3)
    diff = compare_experiments(first, second)
    change = change_of(diff, "io_method=worker")
    mine, other = change.first.interval, change.second.interval
    assert mine is not None
    assert other is not None
    assert change.interval == (other[0] / mine[1], other[1] / mine[0])
    # Each side is wider than the interval of its own report.
    own = next(arm for arm in analyse(first).arms if arm.name == change.name).interval
    assert own is not None
    assert mine[0] < own[0] < own[1] < mine[1]


def test_arms_without_a_partner_or_with_another_control_are_not_compared() -> None:
    first = examples.stored(levels=["sync", "worker", "io_uring"], blocks=4)
    diff = compare_experiments(first, examples.stored(levels=["sync", "worker"], blocks=4))
    assert [change.name for change in diff.changes] == ["io_method=worker"]
    assert diff.only_first == ("io_method=io_uring",)
    other = compare_experiments(first, examples.stored(levels=["worker", "sync"], blocks=4))
    assert other.changes == ()
    assert "No effect can be compared" in report.page_of(other).terminal()


def test_without_an_arm_in_common_the_difference_of_the_workloads_is_still_said() -> None:
    first = examples.stored(levels=["sync", "worker"], blocks=2)
    second = examples.stored(levels=["a", "b"], blocks=2, statement_names=("other",))
    arms = tuple(
        arm.model_copy(update={"spec": arm.spec.model_copy(update={"dataset": DatasetSpec(scale=7)})})
        for arm in second.experiment.arms
    )
    plan = second.experiment.model_copy(update={"arms": arms})
    other = StoredExperiment(second.folder, plan, second.trials, second.stopped)
    found = {each.name for each in compare_experiments(first, other).differences}
    assert "dataset.scale" in found


def test_what_else_differs_is_named_once() -> None:
    first = examples.stored(blocks=4)
    arms = tuple(
        arm.model_copy(
            update={
                "spec": arm.spec.model_copy(
                    update={"build": arm.spec.build.model_copy(update={"version": "19.0", "cflags": "-O3"})}
                )
            }
        )
        for arm in first.experiment.arms
    )
    environment = first.experiment.environment.updated(kernel="7.0")
    plan = first.experiment.model_copy(update={"arms": arms, "environment": environment})
    trials = tuple(
        StoredTrial(
            trial.record.model_copy(
                update={"facts": TrialFacts(settings=trial.record.facts.settings | {"shared_buffers": "2GB"})}
            ),
            {name: examples.scan_plan("pgbench_accounts", index=True) for name in trial.plans},
            trial.folder,
        )
        for trial in first.trials
    )
    diff = compare_experiments(first, StoredExperiment(first.folder, plan, trials, "decided"))
    named = {(each.subject, each.name): (each.first, each.second) for each in diff.differences}
    assert len(named) == len(diff.differences)
    assert named["environment", "kernel"] == ("6.18.0", "7.0")
    assert named["build", "version"] == ("18.6", "19.0")
    assert named["settings", "shared_buffers"] == ("1GB", "2GB")
    assert any(subject == "plan" and "Seq Scan" in values[0] for (subject, _), values in named.items())
    assert not compare_experiments(first, first).differences
    assert "\n- kernel: 6.18.0 -> 7.0\n" in report.page_of(diff).terminal(unicode=False)


def test_statements_are_a_family_of_their_own_whose_intervals_hold_together() -> None:
    """All arms' statements slow down alike but one, which alone has changed."""
    first = examples.stored(blocks=60)
    second = slowed_statement(first, "io_method=worker", "sum_abalance", 1.3)
    diff = compare_experiments(first, second)
    found = {(change.name, change.statement): change for change in diff.statements}
    assert len(found) == 2 * len(examples.STATEMENTS)
    changed = found["io_method=worker", "sum_abalance"]
    assert changed.ratio == pytest.approx(1 / 1.3, rel=0.01)
    assert changed.word == "smaller"
    assert {change.word for key, change in found.items() if key[1] != "sum_abalance"} <= {
        "unchanged", "inconclusive",
    }  # fmt: skip
    assert changed.interval is not None
    assert changed.interval[0] is not None
    # Six intervals share the error rate: each is wider than that of one alone.
    alone = statement_arms(first, analyse(first), 6 * diff.alpha / 2)
    own = alone["io_method=worker", ""]["sum_abalance"].interval
    shared = changed.first.interval
    assert own is not None
    assert shared is not None
    assert shared[0] < own[0] < own[1] < shared[1]


def test_statements_with_other_sql_or_a_doubtful_twin_get_no_word() -> None:
    first = examples.stored(blocks=30)
    arms = tuple(
        arm.model_copy(
            update={"spec": arm.spec.model_copy(update={"workload": other_sql(arm.spec.workload)})}
        )
        for arm in first.experiment.arms
    )
    plan = first.experiment.model_copy(update={"arms": arms})
    diff = compare_experiments(first, StoredExperiment(first.folder, plan, first.trials, "decided"))
    assert {change.statement for change in diff.statements} == {"sum_abalance", "count_filler"}
    lying = analyse(first).model_copy(update={"twins": (examples.lying_twin(),)})
    doubted = statement_arms(first, lying, 0.025)
    assert all(arm.withheld for arms in doubted.values() for arm in arms.values())


def other_sql(workload: WorkloadSpec) -> WorkloadSpec:
    """The workload with another text for its first statement."""
    changed = workload.statements[0].model_copy(update={"sql": "SELECT 2"})
    return workload.model_copy(update={"statements": (changed, *workload.statements[1:])})


def slowed_statement(stored: StoredExperiment, arm: str, statement: str, factor: float) -> StoredExperiment:
    """The same experiment with one statement of one arm slower by a factor."""
    [slow] = [each.id for each in stored.experiment.arms if each.name == arm]
    trials = []
    for trial in stored.trials:
        changed = tuple(
            item.model_copy(update={"elapsed_s": item.elapsed_s * factor})
            if item.name == statement and trial.record.arm_id == slow
            else item
            for item in trial.record.statements
        )
        record = trial.record.model_copy(update={"statements": changed})
        trials.append(StoredTrial(record, trial.plans, trial.folder))
    return StoredExperiment(stored.folder, stored.experiment, tuple(trials), stored.stopped)


def test_every_format_says_the_same_and_escapes_it() -> None:
    stored = examples.stored(levels=["sync", examples.HOSTILE], blocks=5)
    first = compare_experiments(stored, slowed(stored, f"io_method={examples.HOSTILE}", 1.2))
    markdown, page = report.page_of(first).markdown(), report.page_of(first).html()
    assert "<script" not in markdown + page
    for text in ("ratio of the two 0.833", "count_filler", "Other differences"):
        assert text in page
    assert "| count&#95;filler |" in markdown or "| count_filler |" in markdown
    document = json.loads(report.page_of(first).json())
    assert {each["statement"] for each in document["statements"]} == set(examples.STATEMENTS)


def test_the_command_writes_each_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_load(tmp_path / "a", strata=[""], blocks=2)
    write_load(tmp_path / "b", strata=[""], blocks=2)
    words = ["diff", str(tmp_path / "a"), str(tmp_path / "b")]

    def said(*options: str) -> str:
        arguments = parser().parse_args([*words, *options])
        assert arguments.run(arguments) == 0
        return capsys.readouterr().out

    assert said("--html", str(tmp_path / "page.html")).startswith("A: ")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert said("--markdown").count("|--:|--:|") == 1
    assert json.loads(said("--json"))["statements"] == []
    with pytest.raises(UsageError, match=r"can't write the page to .* name another file with --html"):
        said("--html", str(tmp_path / "nowhere" / "page.html"))


def test_without_a_block_there_is_no_word() -> None:
    diff = compare_experiments(examples.stored(blocks=0), examples.stored(blocks=5))
    assert {change.word for change in diff.changes} == {"inconclusive"}
    assert "no effect to compare" in report.page_of(diff).terminal()


def test_an_effect_that_moved_is_not_compared() -> None:
    plan = experiment()
    moved = stored_trials(plan, simulate_moving(plan, 40, "s0-1", (0.2, -0.2)))
    steady = stored_trials(plan, simulate(plan, 40, {"s0-1": -0.4}))
    for sides, where in (((moved, steady), "A"), ((steady, moved), "B"), ((moved, moved), "A and B")):
        diff = compare_experiments(*sides)
        (change,) = diff.changes
        assert (change.word, change.ratio, change.interval) == ("inconclusive", None, None)
        sentence = f"they can't be compared: no single effect fits all blocks of {where}."
        assert sentence in report.page_of(diff).terminal()
        assert {each.word for each in diff.statements} == {"inconclusive"}
        assert re.search(r"× +can't be compare", report.page_of(diff).terminal())
        document = json.loads(report.page_of(diff).json())
        assert document["changes"][0]["interval"] is None


def test_the_document_for_scripts_is_strict_json() -> None:
    diff = compare_experiments(examples.stored(blocks=2), examples.stored(blocks=2))
    document = json.loads(report.page_of(diff).json(), parse_constant=pytest.fail)
    assert document["schema"] == 1
    assert document["changes"][0]["interval"] == [None, None]
    assert math.isfinite(document["changes"][0]["ratio"])


def test_hostile_names_cannot_steer_a_terminal() -> None:
    stored = examples.stored(levels=["sync", "a\x1b[31m"], blocks=2)
    page = report.page_of(compare_experiments(stored, stored)).terminal(unicode=False)
    assert "\x1b" not in page
    assert page.isascii()


@pytest.mark.parametrize(("other_bytes", "is_alike"), [(4 << 30, True), (2 << 30, False)])
def test_machines_are_compared_by_their_limits_and_not_by_the_groups_that_set_them(
    other_bytes: int, is_alike: bool
) -> None:
    def limited(host: str, memory_bytes: int) -> dict[tuple[str, str], str]:
        found = examples.stored(blocks=2)
        limits = {"memory_bytes": memory_bytes, "memory_from": f"/sys/fs/cgroup/{host}"}
        environment = found.experiment.environment.updated(limits=limits)
        plan = found.experiment.model_copy(update={"environment": environment})
        return recorded_facts(StoredExperiment(found.folder, plan, found.trials, found.stopped))

    assert (limited("a", 4 << 30) == limited("b", other_bytes)) == is_alike
