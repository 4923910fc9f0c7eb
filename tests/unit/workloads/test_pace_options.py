"""`rate=`, `curve=`, `arrivals=`, `latency_limit=` and `--metric`: what is read, and what refused."""

import csv
import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.errors import UsageError
from pgassay.factors.registry import parse_factors
from pgassay.model.percentiles import transactions_min
from pgassay.model.workload import LoadSpec, WorkloadSpec
from pgassay.workloads.metric import metric_of, too_few
from pgassay.workloads.pace import MEAN_LATENCY, rates_of
from pgassay.workloads.pgbench_builtin import THROUGHPUT
from pgassay.workloads.registry import parse_workload
from whole_experiments import planned


def load(text: str) -> LoadSpec:
    found = parse_workload(text).load
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("2000", [(0, 2000)]),
        ("0.5", [(0, 0.5)]),
        ("500..5000/60s", [(0, 500), (60, 5000)]),
        ("500/30s+2000", [(0, 500), (30, 500), (30, 2000)]),
        ("100.5..200/1m+0/500ms+50", [(0, 100.5), (60, 200), (60, 0), (60.5, 0), (60.5, 50)]),
    ],
)
def test_a_rate_is_a_number_a_ramp_or_steps(text: str, points: list[tuple[float, float]]) -> None:
    assert rates_of(text) == tuple(points)
    found = load(f"tpcb:clients=4,rate={text}")
    assert found.pace is not None and found.pace.rates == tuple(points)
    assert found.pace.arrivals == "poisson"


@given(
    st.lists(
        st.tuples(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 3600)), min_size=1, max_size=6
    )
)
def test_every_list_of_ramps_is_read_as_it_is_written(ramps: list[tuple[int, int, int]]) -> None:
    points = rates_of("+".join(f"{first}..{last}/{seconds}s" for first, last, seconds in ramps))
    assert [rate for _, rate in points] == [rate for first, last, _ in ramps for rate in (first, last)]
    assert points[-1][0] == sum(seconds for *_, seconds in ramps)


def test_clients_pause_where_no_rate_says_when_they_begin() -> None:
    assert (load("tpcb:clients=4").think_s, load("tpcb:clients=4,think=50ms").think_s) == (0.0, 0.05)
    assert load("sysbench:oltp_read_write,think=1s").think_s == 1.0
    with pytest.raises(UsageError, match="already says when transactions start"):
        load("tpcb:clients=4,rate=100,think=50ms")
    with pytest.raises(UsageError, match="'4000h' is more than 100d: write for example 90s"):
        spec("tpcb:duration=4000h")
    with pytest.raises(UsageError, match="'5 parsecs' is not a duration: write for example 50ms"):
        load("tpcb:clients=4,think=5 parsecs")
    plan = planned("think=0s,50ms", seed=1)
    assert [arm.spec.workload.load.think_s for arm in plan.arms if arm.spec.workload.load] == [0, 0.05, 0]


@given(st.text(max_size=20))
def test_any_other_text_is_refused_and_told_what_to_write(text: str) -> None:
    try:
        points = rates_of(text)
    except UsageError as error:
        assert "write" in str(error) or "from 0" in str(error)
    else:
        assert all(rate >= 0 for _, rate in points)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("rate=fast", "'fast' is not a rate"),
        ("rate=0", "every rate is 0"),
        ("rate=-5", "not a rate from 0"),
        ("rate=100..200", "has no duration"),
        ("rate=100+200", "has no duration"),
        ("rate=100/forever", "not a duration"),
        ("rate=2000/s", "'2000/s' has a unit, .* write transactions a second as 2000"),
        ("arrivals=poisson", "add rate=1000 to the workload .the levels of a factor rate replace it"),
        ("rate=10,arrivals=uniform", "poisson or constant"),
        ("latency_limit=0", "less than"),
        # As pgbench's -L has it: 20 seconds would be no limit at all.
        ("latency_limit=20", "'20' has no unit: write 20ms, or 20s for seconds"),
        ("curve=/nowhere.csv", "can't read the curve"),
        ("rate=5,curve=/nowhere.csv", "leave one of them out|can't read"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy(options: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_workload(f"tpcb:{options}")


def test_a_curve_is_a_file_and_lasts_as_long_as_that(tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    file.write_text("seconds,rate\n# night\n0,10\n43200,100\n86400,20\n", encoding="utf-8")
    found = load(f"select-only:curve={file}@8640,arrivals=constant,latency_limit=20ms")
    assert found.pace is not None
    assert found.pace.rates == ((0, 10), (5, 100), (10, 20))
    assert (found.duration_s, found.pace.arrivals, found.latency_limit_ms) == (10.0, "constant", 20.0)
    assert load(f"select-only:curve={file},duration=5s").duration_s == 5.0
    with pytest.raises(UsageError, match="too short: write at least 100ms"):
        load(f"select-only:curve={file}@999999999")
    file.write_text("0,10\n1e13,20\n", encoding="utf-8")
    with pytest.raises(UsageError, match="is more than 100d"):
        load(f"select-only:curve={file}")
    file.write_text("# of a Monday\n\nseconds,rate\n0,10\n60,20\n", encoding="utf-8")
    assert load(f"select-only:curve={file}").duration_s == 60.0
    for text, words in (
        ("0,10\n5\n", "line 2"),
        ("0,10\n5,x\n", "line 2"),
        # A slip in the first line is no name of a column: the curve would begin later than it was meant to.
        ("0,1OO\n5,10\n9,20\n", "line 1"),
        ("seconds,rate\nseconds,rate\n0,10\n5,10\n", "line 2"),
        ("5,10\n1,10\n", "are not in order"),
        ("0,10\n", "1 points"),
        ("0,0\n9,0\n", "ever run"),
        ("0,1\n9,-1\n", "line 2"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=words):
            parse_workload(f"select-only:curve={file}")


@given(st.binary(max_size=60) | st.text('0123456789.,-+einfa "#\r\n\0x', max_size=60).map(str.encode))
def test_any_file_is_a_curve_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.csv"
    file.write_bytes(content)
    try:
        pace = load(f"select-only:curve={file},duration=5s").pace
    except UsageError as error:
        assert str(file) in str(error) and "\n" not in str(error).replace(str(file), "")
    else:
        assert pace is not None and len(pace.rates) >= 2
        assert all(0 <= seconds < float("inf") and rate >= 0 for seconds, rate in pace.rates)


def test_what_is_no_file_of_a_curve_is_refused(tmp_path: Path) -> None:
    # As a log that was read before leaves it.
    csv.field_size_limit(sys.maxsize)
    (wide := tmp_path / "wide.csv").write_text("0,1\n" + "9" * 200_000 + ",2\n", encoding="utf-8")
    (endless := tmp_path / "endless.csv").write_text("0,1\n1e308,2\n", encoding="utf-8")
    os.mkfifo(pipe := tmp_path / "pipe")
    for typed, words in (
        (str(wide), r"wide\.csv is no CSV file \(field larger than field limit"),
        (f"{endless}@0.000001", r"endless\.csv, line 2: the curve never ends at a speed of 1e-06"),
        (str(pipe), "the curve .*pipe is not a regular file: name a CSV file"),
        ("/dev/zero", "the curve /dev/zero is not a regular file: name a CSV file"),
        (str(tmp_path), "is not a regular file: name a CSV file"),
        ("day\0.csv", r"can't read the curve day.*null byte"),
    ):
        with pytest.raises(UsageError, match=words):
            parse_workload(f"select-only:curve={typed}")


def test_rates_arrivals_and_limits_are_factors() -> None:
    (factor,) = parse_factors(["rate=100,500..900/5s"])
    assert factor.levels == ("100", "500..900/5s")
    experiment = planned("work_mem=1MB,2MB", "rate=100,200", seed=1, workload="tpcb:clients=2")
    loads = [arm.spec.workload.load for arm in experiment.arms]
    assert {load.pace.text for load in loads if load and load.pace} == {"100", "200"}
    # At a rate of its own an arm does what is due, whatever it takes: throughput would compare nothing.
    assert experiment.contract.metric == MEAN_LATENCY
    with pytest.raises(UsageError, match="is not a load: use"):
        planned("rate=100,200", seed=1, workload="full-scan")
    other = planned("arrivals=poisson,constant", seed=1, workload="tpcb:rate=50,latency_limit=10ms")
    found = [arm.spec.workload.load for arm in other.arms]
    assert {load.pace.arrivals for load in found if load and load.pace} == {"poisson", "constant"}


def test_arrivals_rest_on_the_rate_in_whichever_order_they_are_typed() -> None:
    for factors in (
        ("arrivals=poisson,constant", "rate=50,100"),
        ("rate=50,100", "arrivals=poisson,constant"),
    ):
        found = [arm.spec.workload.load for arm in planned(*factors, seed=1, workload="tpcb").arms]
        paces = {(load.pace.text, load.pace.arrivals) for load in found if load and load.pace}
        assert paces == {(rate, arrivals) for rate in ("50", "100") for arrivals in ("poisson", "constant")}


def test_a_curve_is_not_left_aside_and_is_named_as_one(tmp_path: Path) -> None:
    (file := tmp_path / "day.csv").write_text("0,10\n60,20\n")
    workload = f"tpcb:curve={file}"
    with pytest.raises(UsageError, match=r"factor rate and curve=.*day\.csv of the workload both say"):
        planned("rate=50,100", seed=1, workload=workload)
    made = spec(workload)
    with pytest.raises(UsageError, match=r"leave curve=.*day\.csv out"):
        metric_of("throughput-at:p99<20ms", made, [made.load])
    with pytest.raises(UsageError, match=r"lower percentile \(curve=.*day\.csv\)"):
        metric_of("p99", made, [made.load])
    paced = spec("tpcb:rate=5..10/60s")
    with pytest.raises(UsageError, match=r"leave rate=5\.\.10/60s out"):
        metric_of("throughput-at:p99<20ms", paced, [paced.load])


def spec(text: str) -> WorkloadSpec:
    return parse_workload(text)


def test_the_metric_follows_the_workload_unless_it_is_named() -> None:
    closed, opened = spec("tpcb:clients=4"), spec("tpcb:clients=4,rate=500")
    assert metric_of(None, closed, [closed.load]) == THROUGHPUT
    assert metric_of(None, opened, [opened.load]) == MEAN_LATENCY
    assert (
        metric_of("tps", opened, [opened.load])
        == metric_of("throughput", closed, [closed.load])
        == THROUGHPUT
    )
    assert metric_of("mean", closed, [closed.load]) == MEAN_LATENCY
    named = metric_of("p99.9", closed, [closed.load])
    assert (named.name, named.unit, named.better, named.latency) == ("p99.9 latency", "ms", "lower", "p99.9")
    scan = spec("full-scan")
    assert metric_of(None, scan, [None]) == scan.metric
    with pytest.raises(UsageError, match="full-scan runs its statements one by one"):
        metric_of("p99", scan, [None])
    with pytest.raises(UsageError, match="write one of throughput, tps, mean, p50"):
        metric_of("p42", closed, [closed.load])


def test_a_percentile_takes_twenty_transactions_beyond_it() -> None:
    assert [transactions_min(name) for name in ("mean", "p50", "p90", "p99", "p99.9", "p99.99")] == [
        *(1, 40, 200, 2000, 20_000, 200_000)
    ]
    assert too_few("p99", 2000, 10.0) == ""
    assert "write duration=22s" in too_few("p99", 1000, 10.0)
    for text, refused in (("rate=200,duration=5s", True), ("rate=200,duration=10s", False)):
        made = spec(f"tpcb:clients=2,{text}")
        if refused:
            with pytest.raises(UsageError, match=r"about 1,000 in 5 s: write duration=11s"):
                metric_of("p99", made, [made.load])
        else:
            assert metric_of("p99", made, [made.load]).latency == "p99"


@pytest.mark.parametrize("rate", ["0/60s+100", "0..100/1h", "0.05"])
def test_a_trial_in_which_nothing_is_due_is_refused(rate: str) -> None:
    made = spec(f"tpcb:rate={rate},duration=5s")
    for metric in (None, "mean", "p50"):
        with pytest.raises(UsageError, match=f"rate={re.escape(rate)}: in the 5 s of a trial no transaction"):
            metric_of(metric, made, [made.load])


def test_what_a_curve_gives_within_the_trial_counts() -> None:
    ramp = spec("tpcb:rate=0..200/20s,duration=10s")
    # A quarter of 2000: the ramp is half done.
    with pytest.raises(UsageError, match="about 500 in 10 s"):
        metric_of("p99", ramp, [ramp.load])
