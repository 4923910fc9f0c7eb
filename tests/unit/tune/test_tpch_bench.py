"""What the bench of TPC-H asks of everybody: its statements, and the peers' formula of settings."""

import sys
from pathlib import Path

import pytest

from pgassay.tune.tuned_statements import measured, statements_of
from pgassay.workloads.registry import parse_workload
from project_files import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "tpch"))
from peers import formula
from tpch_queries import queries, refresh_functions, statements_file


def test_the_file_holds_22_queries_and_4_statements_that_write(tmp_path: Path) -> None:
    file = tmp_path / "tpch.sql"
    file.write_text(statements_file(queries(1, 0.1, sets=2) + refresh_functions(1, 0.1)))
    statements = statements_of(parse_workload(f"sql:{file}"))
    assert [each.name for each in statements if not each.writes] == [f"q{n}" for n in range(1, 23)]
    assert sum(each.writes for each in statements) == 4
    made = {each.name: each.sql for each in measured(statements)}
    assert len(made) == 2 * 22 + 4
    assert "$" not in "".join(made.values())
    assert sum(made[f"q{n} [1]"] != made[f"q{n} [2]"] for n in range(1, 23)) > 18


def test_a_seed_draws_the_same_and_another_one_others() -> None:
    assert queries(7, 1.0) == queries(7, 1.0)
    assert queries(7, 1.0) != queries(8, 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_refresh_functions_touch_orders_of_their_own_within_the_data(seed: int) -> None:
    added, _, taken, _ = (each.values[0] for each in refresh_functions(seed, 0.01))
    assert 1 <= int(added[0]) <= int(added[1]) < int(taken[0]) <= int(taken[1]) <= 4 * 15_000


def test_the_formula_is_pgtunes_for_a_data_warehouse() -> None:
    """16 GB, 8 processors, SSD, as pgtune prints it."""
    settings = formula(16 << 30, 8)
    assert settings["shared_buffers"] == f"{4 << 20}kB"
    assert settings["effective_cache_size"] == f"{12 << 20}kB"
    assert settings["maintenance_work_mem"] == f"{2 << 20}kB"
    assert settings["work_mem"] == "43690kB"
    assert settings["max_parallel_workers_per_gather"] == "4"
    assert "max_parallel_workers" not in formula(16 << 30, 2)
