"""sysbench's rows and the data that its workload brings, without a server."""

import numpy as np
import pytest

from pgassay.environment.datasets import sysbench_data
from pgassay.environment.datasets.registry import KINDS, content, needed_bytes
from pgassay.errors import UsageError
from pgassay.experiment.planning.arm_baseline import with_own_data
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.workloads.registry import parse_workload

BUILD = Build(origin="path", version="18.6", major=18, bin_directory="/bin")


def test_rows_are_whole_across_blocks() -> None:
    size = sysbench_data.ROWS_PER_BLOCK + 3
    blocks = list(sysbench_data.row_blocks(2, size, "uniform"))
    assert [len(block) for block in blocks] == [sysbench_data.ROWS_PER_BLOCK, 3]
    rows = np.concatenate(blocks)
    assert (rows["id"] == np.arange(1, size + 1)).all()
    assert (rows["k"].min() >= 1) and (rows["k"].max() <= size)
    assert rows.dtype.itemsize == 2 + 2 * 8 + (4 + 119) + (4 + 59)
    text = rows["c"][-1].tobytes().decode()
    assert [len(group) for group in text.split("-")] == [11] * 10
    assert text.replace("-", "").isdecimal()


@pytest.mark.parametrize("distribution", ["uniform", "special"])
@pytest.mark.parametrize("largest", [1, 2, 1000])
def test_draws_stay_in_their_range(distribution: sysbench_data.Distribution, largest: int) -> None:
    drawn = sysbench_data.draw(np.random.default_rng(1), 20_000, largest, distribution)
    assert drawn.min() >= 1
    assert drawn.max() <= largest
    if distribution == "uniform":
        assert len(set(drawn)) == largest


def test_the_workload_brings_its_tables() -> None:
    workload = parse_workload("oltp_read_only:tables=4,table_size=500,distribution=special")
    request = CompareRequest(factors=("io_method=sync,worker",))
    data = with_own_data(DatasetSpec(scale=10), workload, request)
    assert (data.kind, data.tables, data.table_size, data.distribution) == ("sysbench", 4, 500, "special")
    own = DatasetSpec(kind="folder", source="/data")
    assert with_own_data(own, workload, request) == own
    pgbench = DatasetSpec(scale=10)
    assert with_own_data(pgbench, parse_workload("select-only"), request) == pgbench
    with pytest.raises(UsageError, match="--scale 5 is the size of pgbench's tables"):
        with_own_data(DatasetSpec(scale=5), workload, CompareRequest(factors=(), scale=5))


def test_only_what_decides_the_content_names_a_snapshot() -> None:
    assert "tables" not in content(DatasetSpec(scale=3))
    assert content(DatasetSpec(scale=3)) == content(DatasetSpec(scale=3, tables=9))
    sysbench = DatasetSpec(kind="sysbench", tables=2)
    assert content(sysbench) != content(DatasetSpec(kind="sysbench", tables=3))
    assert content(sysbench) == content(DatasetSpec(kind="sysbench", tables=2, scale=7))


def test_space_and_limits() -> None:
    small, large = (DatasetSpec(kind="sysbench", tables=4, table_size=size) for size in (1000, 100_000))
    assert needed_bytes(large) - needed_bytes(small) == pytest.approx(4 * 99_000 * 300)
    for spec, sentence in (
        (DatasetSpec(kind="sysbench", tables=0), "choose from 1 to 10000"),
        (DatasetSpec(kind="sysbench", table_size=0), "choose from 1 to 2147483647"),
    ):
        with pytest.raises(UsageError, match=sentence):
            KINDS["sysbench"].check(BUILD, spec)
    with pytest.raises(UsageError, match="write --workload oltp_read_only"):
        KINDS["sysbench"].specify("tables=4", BUILD, DatasetSpec())
