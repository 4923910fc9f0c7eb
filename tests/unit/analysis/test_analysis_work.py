"""What maintenance commands did: medians per arm, costs of a unit of work, and the table of every report."""

from typing import Any

import pytest

from analysis_samples import experiment, record, stored
from pgassay.analysis.descriptive.maintenance_work import COUNTS, work_results
from pgassay.analysis.verdicts.compare import analyse
from pgassay.analysis.verdicts.study import gather_study
from pgassay.model.experiment import Experiment
from pgassay.model.maintenance import MaintenanceCommand, MaintenanceObservation, WorkResult
from pgassay.model.trial import TrialRecord
from pgassay.report.compare import page as comparison
from pgassay.report.compare.maintenance_section import HOW_SERVED, work_tables


def vacuum(
    elapsed_s: float, name: str = "vacuum", command: MaintenanceCommand = "vacuum", **done: float
) -> MaintenanceObservation:
    return MaintenanceObservation(statement=name, command=command, elapsed_s=elapsed_s, done=done)


def records_of(
    plan: Experiment, *blocks: dict[str, tuple[MaintenanceObservation, ...]], **changes: Any
) -> list[TrialRecord]:
    """A trial of every arm in each block, with what its commands did by arm id."""
    made = []
    for block, works in enumerate(blocks):
        for arm in plan.arms:
            done = works.get(arm.id, ())
            made.append(record(plan, len(made), block, arm.id, 1.0, maintenance=done, **changes))
    return made


def results_of(plan: Experiment, records: list[TrialRecord]) -> tuple[WorkResult, ...]:
    return work_results(gather_study(stored(plan, records)))


def medians(result: WorkResult) -> dict[str, tuple[float | None, ...]]:
    return {figure.name: figure.medians for figure in result.figures}


def test_medians_are_over_the_trials_of_an_arm_and_costs_are_per_trial() -> None:
    """The median of the costs, and not the cost of the medians: each trial is one measurement."""
    plan = experiment()
    blocks = [
        {
            "s0-0": (vacuum(elapsed, tuples_removed=removed, pages_scanned=1000.0, wal_bytes=5000.0),),
            "s0-1": (vacuum(2 * elapsed, tuples_removed=removed, pages_scanned=500.0),),
        }
        for elapsed, removed in ((1.0, 1e6), (2.0, 4e6), (9.0, 3e6))
    ]
    (result,) = results_of(plan, records_of(plan, *blocks))
    assert result.statement == "vacuum" and result.command == "vacuum"
    assert result.arms == ("io_method=sync", "io_method=method1"), "the twin is not an arm of its own"
    found = medians(result)
    assert found["time"] == (2.0, 4.0)
    assert found["tuples removed"] == (3e6, 3e6)
    assert found["time per million tuples removed"] == (1.0, 2.0)
    assert found["time per thousand pages scanned"] == (2.0, 8.0)
    assert found["WAL bytes per page scanned"] == (5.0, None), "the second arm's version doesn't say"
    units = {figure.name: (figure.unit, figure.per_unit) for figure in result.figures}
    assert units["time per million tuples removed"] == ("s", True)
    assert units["tuples removed"] == ("tuples", False)
    assert next(iter(units)) == "time", "what it took stands first"


def test_what_no_arm_has_or_is_nothing_everywhere_is_left_out() -> None:
    plan = experiment()
    works = {
        "s0-0": (vacuum(1.0, tuples_removed=0.0, pages_scanned=10.0, tuples_frozen=0.0),),
        "s0-1": (vacuum(1.0, tuples_removed=0.0, pages_scanned=10.0, tuples_frozen=7.0),),
    }
    (result,) = results_of(plan, records_of(plan, works))
    found = medians(result)
    assert "tuples removed" not in found
    assert "time per million tuples removed" not in found, "nothing can't be divided by"
    assert found["tuples frozen"] == (0.0, 7.0)
    cost = found["time per million tuples frozen"]
    assert cost[0] is None and cost[1] == pytest.approx(1e6 / 7)


def test_a_trial_that_is_not_valid_counts_for_nothing() -> None:
    plan = experiment()
    good = {arm.id: (vacuum(1.0, pages_scanned=10.0),) for arm in plan.arms}
    bad = {arm.id: (vacuum(50.0, pages_scanned=9999.0),) for arm in plan.arms}
    records = records_of(plan, good) + [
        each.model_copy(update={"status": "invalid", "block": 1, "number": 10 + each.number})
        for each in records_of(plan, bad)
    ]
    (result,) = results_of(plan, records)
    assert medians(result)["time"] == (1.0, 1.0)
    assert medians(result)["pages scanned"] == (10.0, 10.0)


def test_every_command_has_a_result_in_the_order_of_the_workload() -> None:
    plan = experiment(arms=2)
    works = (
        vacuum(1.0, pages_scanned=10.0),
        vacuum(2.0, "index", "create index", index_tuples_built=2e6, index_bytes_built=2 * 1048576.0),
    )
    first, second = results_of(plan, records_of(plan, {arm.id: works for arm in plan.arms}))
    assert (first.statement, second.statement, second.command) == ("vacuum", "index", "create index")
    assert medians(second)["time per million index tuples"] == (1.0, 1.0, 1.0)
    assert medians(second)["time per MB of index"] == (1.0, 1.0, 1.0)
    assert len(first.arms) == len(first.strata) == 3


def test_a_workload_without_maintenance_has_no_results() -> None:
    plan = experiment()
    assert results_of(plan, records_of(plan, {})) == ()


def test_the_table_has_an_arm_per_column_and_is_split_by_stratum() -> None:
    plan = experiment(strata=("clients=1", "clients=8"))
    sizes = {arm.id: 1048576.0 * (place + 1) for place, arm in enumerate(plan.arms)}
    works = {
        arm.id: (vacuum(0.5, wal_bytes=sizes[arm.id], tuples_removed=1234567.0, delay_ms=1500.0),)
        for arm in plan.arms
        if arm.role != "twin"
    }
    result = analyse(stored(plan, records_of(plan, works, works, works, works)))
    first, second = work_tables(result)
    assert first.title == "vacuum (VACUUM) at clients=1"
    assert second.title == "vacuum (VACUUM) at clients=8"
    assert first.arms == ("io_method=sync", "io_method=method1")
    cells = {row.name: row.cells for row in first.rows}
    assert cells["tuples removed"] == ("1,234,567", "1,234,567")
    assert cells["WAL bytes"] == ("1.00 MB", "2.00 MB")
    assert {row.name: row.cells for row in second.rows}["WAL bytes"][0] == "4.00 MB"
    assert cells["cost delay"] == ("1.500 s", "1.500 s")
    assert cells["time"] == ("500 ms", "500 ms")


@pytest.mark.parametrize(
    ("second", "differing"),
    [
        ({}, ""),
        ({"tuples_frozen": 1005.0}, ""),
        ({"tuples_frozen": 2000.0, "wal_bytes": 9e6}, "tuples frozen, WAL bytes"),
        ({"tuples_frozen": 0.0}, "tuples frozen"),
        ({"buffer_reads": 5000.0, "read_ms": 90.0}, ""),
    ],
)
def test_it_is_said_whether_the_arms_did_the_same_work(second: dict[str, float], differing: str) -> None:
    """A time compares like with like only then."""
    plan = experiment()
    first = {"tuples_frozen": 1000.0, "wal_bytes": 1e6, "buffer_reads": 100.0, "read_ms": 1.0}
    works = {
        "s0-0": (vacuum(1.0, **first),),
        "s0-1": (vacuum(2.0, **{**first, "pages_set_all_frozen": 7.0, **second}),),
    }
    found = stored(plan, records_of(plan, works, works))
    result = analyse(found)
    (table,) = work_tables(result)
    expected = (
        f"The arms did not do the same work; counts that differ by more than 1 %: {differing}."
        if differing
        else "The arms did the same work: no count differs by more than 1 %."
    )
    assert table.sentence == expected
    assert ", ".join(row.name for row in table.rows if row.differs) == differing
    assert expected in comparison.page_of(result, found).terminal(width=200, unicode=False)
    assert expected in comparison.page_of(result, found).markdown()
    page = comparison.page_of(result, found).html()
    assert expected.replace(" %", "\u00a0%") in page, "a figure and its sign stay together"
    assert page.count('<tr class="differs"><td class="name">tuples frozen') == ("frozen" in differing)


def test_what_is_no_work_is_named_as_the_table_names_it() -> None:
    assert {words for words, _ in COUNTS.values()} >= HOW_SERVED


def test_the_server_s_own_time_of_a_command_stands_beside_it() -> None:
    """From 18 on its statistics have it; not where two such commands share a trial."""
    plan = experiment()
    work = (vacuum(3.0, tuples_removed=1e6),)
    rows = {"pg_stat_user_tables": [{"relname": "t", "total_vacuum_time": 2900.0}]}
    records = records_of(plan, {"s0-0": work, "s0-1": work}, counters=rows)
    (result,) = results_of(plan, records)
    (time,) = result.server_times
    assert time.name == "total_vacuum_time (pg_stat_user_tables)" and time.medians == (2900.0, 2900.0)
    (table,) = work_tables(analyse(stored(plan, records)))
    row = next(row for row in table.rows if row.name == time.name)
    assert row.cells == ("2.900 s", "2.900 s") and not row.differs
    both = (*work, vacuum(1.0, name="again"))
    twice = results_of(plan, records_of(plan, {"s0-0": both, "s0-1": both}, counters=rows))
    assert [each.server_times for each in twice] == [(), ()]
    (older,) = results_of(plan, records_of(plan, {"s0-0": work, "s0-1": work}))
    assert older.server_times == () and "server_times" not in older.model_dump()


def test_the_phases_of_a_command_stand_below_its_time_and_the_one_that_differs_is_named() -> None:
    plan = experiment()

    def phased(elapsed_s: float, **phases_s: float) -> tuple[MaintenanceObservation, ...]:
        named = {name.replace("_", " "): seconds for name, seconds in phases_s.items()}
        return (vacuum(elapsed_s, tuples_removed=1e6).model_copy(update={"phases_s": named}),)

    first = phased(1.0, scanning_heap=0.6, vacuuming_indexes=0.4)
    second = phased(3.0, scanning_heap=0.7, vacuuming_indexes=2.2, truncating_heap=0.1)
    result = analyse(found := stored(plan, records_of(plan, {"s0-0": first, "s0-1": second})))
    (work,) = result.work
    assert {phase.name: phase.medians for phase in work.phases} == {
        "scanning heap": (0.6, 0.7),
        "vacuuming indexes": (0.4, 2.2),
        "truncating heap": (0.0, 0.1),
    }
    (table,) = work_tables(result)
    assert [row.name for row in table.rows][:2] == ["time", "phase: scanning heap"]
    assert not any(row.differs for row in table.rows)
    told = (
        "The times differ most in the phase vacuuming indexes: 400 ms with io_method=sync and 2.200 s with "
        "io_method=method1."
    )
    truncating = next(row for row in table.rows if row.name == "phase: truncating heap")
    assert truncating.cells == ("not seen", "100 ms")
    assert table.phases == told
    shown = " ".join(comparison.brief_page(result, found).terminal(width=200).split())
    assert told in shown
    alike = records_of(plan, {"s0-0": first, "s0-1": phased(3.0, scanning_heap=0.6, vacuuming_indexes=0.5)})
    assert work_tables(analyse(stored(plan, alike)))[0].phases == ""
    (unseen,) = results_of(plan, records_of(plan, {"s0-0": phased(1.0), "s0-1": phased(1.0)}))
    assert unseen.phases == () and "phases" not in unseen.model_dump()
