"""`sysbench:SCRIPT` as a workload: what words become, what its data are, what its factors change."""

import numpy as np
import pytest
from plans_for_tests import base_spec

from pgassay.analysis.descriptive.round_trips import round_trips
from pgassay.analysis.gate.units import units_of
from pgassay.environment.datasets.sysbench_data import draw
from pgassay.errors import UsageError
from pgassay.factors.registry import parse_factor
from pgassay.model.workload import Distribution
from pgassay.native.load import load_document
from pgassay.sizing.recordings import refuse_workloads
from pgassay.workloads.registry import parse_workload
from pgassay.workloads.sysbench import SCRIPTS, calls_of


def test_options_are_sysbench_s_with_dashes_or_underscores() -> None:
    workload = parse_workload(
        "sysbench:oltp_read_write,tables=4,table-size=5000,index_updates=3,skip-trx=on,rand-type=zipfian,clients=8"
    )
    assert workload.load is not None and workload.load.sysbench is not None
    options = workload.load.sysbench
    assert (options.script, options.tables, options.table_size) == ("oltp_read_write", 4, 5000)
    assert (options.index_updates, options.skip_trx, options.distribution) == (3, True, "zipfian")
    assert (workload.load.clients, workload.writes, workload.kind) == (8, True, "load")
    document = load_document({}, workload.load, scale=1, seed=1)
    assert document["script"] == "sysbench" and "scale" not in document
    sent = document["sysbench"]
    assert isinstance(sent, dict) and sent["random"] == {"distribution": "zipfian"}


@pytest.mark.parametrize(
    ("script", "trips"),
    [
        ("oltp_read_only", 16),
        ("oltp_read_write", 20),
        ("oltp_write_only", 6),
        ("oltp_point_select", 1),
        ("oltp_update_index", 1),
        ("oltp_update_non_index", 1),
        ("oltp_insert", 1),
        ("oltp_delete", 1),
        ("select_random_points", 1),
        ("select_random_ranges", 1),
    ],
)
def test_each_script_has_its_statements(script: str, trips: int) -> None:
    workload = parse_workload(f"sysbench:{script}")
    assert workload.load is not None and workload.load.sysbench is not None
    assert round_trips(workload) == trips
    names = [statement.name for statement in workload.statements]
    assert names == [name for name in names if name in calls_of(workload.load.sysbench)] and names
    assert workload.writes == SCRIPTS[script]


def test_the_text_of_explained_statements_follows_the_options() -> None:
    workload = parse_workload("sysbench:select_random_points,random-points=3")
    assert workload.statements[0].sql.endswith("WHERE k IN (1, 2, 3)")
    workload = parse_workload("sysbench:select_random_ranges,number-of-ranges=2,delta=9")
    assert workload.statements[0].sql.endswith("WHERE k BETWEEN 1 AND 10 OR k BETWEEN 1 AND 10")
    workload = parse_workload("sysbench:oltp_read_only,range-selects=off")
    assert [statement.name for statement in workload.statements] == ["point-select"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sysbench", "needs a script first: write sysbench:oltp_read_write"),
        ("sysbench:tables=4", "needs a script first"),
        ("sysbench:oltp_read_writ", "did you mean sysbench:oltp_read_write"),
        ("sysbench:nothing", "write one of oltp_read_only"),
        ("sysbench:bulk_insert", "write sysbench:oltp_insert"),
        ("sysbench:oltp_insert,tables=0", "whole number from 1 to 10000"),
        ("sysbench:oltp_insert,rand-type=normal", "write uniform or special"),
        ("sysbench:oltp_insert,skip-trx=yes", "write on or off"),
        ("sysbench:oltp_insert,table_size=1,table-size=2", "given twice"),
        ("sysbench:oltp_insert,range=2", "its options are tables"),
        ("sysbench:oltp_update_index,index-updates=0", "runs no "),
        ("oltp_read_write", "write sysbench:oltp_read_write"),
        ("sysbench:micro,only=scans", "has no benchmark 'scans': they are hot-points, point-query"),
        (
            "sysbench:micro,duration=2s",
            "28 benchmarks share the duration of 2 s: write duration=2.8s at least",
        ),
        ("sysbench:micro,rate=5", "has no option 'rate'"),
        ("sysbench:micr", "did you mean sysbench:micro"),
    ],
)
def test_what_is_refused_says_what_to_write(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_workload(text)
    assert sentence in str(caught.value)


def test_the_series_is_one_workload_with_a_statement_for_each() -> None:
    workload = parse_workload("sysbench:micro,tables=2,range-size=7,clients=3")
    assert workload.load is not None and workload.load.sysbench is not None
    series = workload.load.sysbench.series
    assert [statement.name for statement in workload.statements] == list(series)
    assert len(series) == 28 and series[-2:] == ("insert", "delete")
    assert (workload.writes, workload.load.duration_s, round_trips(workload)) == (True, 60.0, 1)
    sql = {statement.name: statement.sql for statement in workload.statements}
    assert sql["read-only-sum"].endswith("BETWEEN 1 AND 7") and sql["random-points-1000"].count(",") == 1002
    reading = parse_workload("sysbench:micro,only=scan+point-query,duration=1s")
    assert not reading.writes and [each.name for each in reading.statements] == ["point-query", "scan"]
    spec = base_spec("sysbench:micro")
    with pytest.raises(UsageError, match="sysbench:micro is a series"):
        parse_factor("rate=1,2").kind.apply("rate", "2", spec)
    assert units_of(workload) == ("", *series) and units_of(parse_workload("sysbench:oltp_read_write")) == (
        "",
    )
    with pytest.raises(UsageError, match="pgassay size is for one load, not for a series"):
        refuse_workloads([workload], "--workload sysbench:micro")
    wider = parse_factor("range_size=1,2").kind.apply("range_size", "2", spec)
    assert wider.workload.load is not None and wider.workload.load.sysbench is not None
    assert wider.workload.load.sysbench.series == series


def test_options_are_factors() -> None:
    spec = base_spec("sysbench:oltp_write_only")
    dataset = spec.dataset.model_copy(update={"kind": "sysbench"})
    spec = spec.model_copy(update={"dataset": dataset})
    more = parse_factor("index_updates=1,4").kind.apply("index_updates", "4", spec)
    load = more.workload.load
    assert load is not None and load.sysbench is not None and load.sysbench.index_updates == 4
    drawn = parse_factor("rand_type=uniform,pareto").kind.apply("rand_type", "pareto", spec)
    assert drawn.dataset.distribution == "pareto"
    larger = parse_factor("table_size=10,20").kind.apply("table_size", "20", spec)
    assert larger.dataset.table_size == 20
    with pytest.raises(UsageError, match="is not an option of oltp_read_only"):
        parse_factor("delta=1,2").kind.apply("delta", "2", base_spec("oltp_read_only"))
    with pytest.raises(UsageError, match="use --workload oltp_read_only or sysbench:SCRIPT"):
        parse_factor("delta=1,2").kind.apply("delta", "2", base_spec("tpcb"))


@pytest.mark.parametrize(
    ("distribution", "part", "share"),
    [("gaussian", 0.5, 0.5), ("pareto", 0.2, 0.8), ("zipfian", 0.01, 0.3706)],
)
def test_k_is_drawn_by_each_distribution(distribution: Distribution, part: float, share: float) -> None:
    """The share in the first part of 10,000: of zipfian the sum of n^-0.8 up to 100 over that of all."""
    if distribution == "zipfian":
        weights = np.arange(1, 10_001) ** -0.8
        share = float(weights[:100].sum() / weights.sum())
    found = draw(np.random.default_rng(3), 100_000, 10_000, distribution)
    assert found.min() >= 1 and found.max() <= 10_000
    assert np.mean(found <= part * 10_000) == pytest.approx(share, abs=0.01)
