"""What `compare` can be asked for, each on real servers: cache states, loads, factors, storages, grids."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whole_tool

pytestmark = pytest.mark.server
ONE_BLOCK = ("--restart", "each", *whole_tool.SMALL, "--blocks", "1", "--seed", "2", "--json", "--quiet")


def compare(folder: Path, *words: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run one block; return the document and the recorded trials."""
    finished = whole_tool.run("compare", *words, *ONE_BLOCK, "--out", folder / "out")
    result = whole_tool.result_of(finished)
    assert result["blocks"] == 1
    assert result["stopped"] == "blocks"
    return result, whole_tool.trials(folder / "out")


def statement(record: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in record["statements"] if each["name"] == name)


@pytest.mark.shares_machine
@pytest.mark.parametrize(
    "cache",
    [
        "warm-buffers",
        # Most other tests of compare run in one of these, and one without rights in cold-each.
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("cold", "cold-each", "as-is", "warm-pages")
        ),
    ],
)
def test_a_cache_state_is_made_and_verified(cache: str, tmp_path: Path, require: Callable[..., None]) -> None:
    """Two statements read the same table, so only the first can be cold once per trial."""
    require("server", "cold-cache")
    workload = "full-scan:only=sum+read-table"
    result, recorded = compare(tmp_path, "work_mem=1MB,2MB", "--workload", workload, "--cache", cache)
    assert result["cache"] == cache
    valid = [record for record in recorded if record["status"] == "ok"]
    assert len(valid) == 3
    colds = {"cold": [True, False], "cold-each": [True, True]}.get(cache, [False, False])
    assert [each["cold"] for each in result["statements"]] == colds
    for record in valid:
        facts = record["facts"]["cache"]
        first, second = (statement(record, name) for name in ("sum", "read-table"))
        assert [first["cold"], second["cold"]] == colds
        assert facts["state"] == cache
        table_bytes = 13_434_880
        if cache.startswith("cold"):
            assert facts["resident_bytes"] == 0
            assert record["facts"]["started_for_this_trial"]
            assert first["postgres_read_bytes"] >= 0.95 * table_bytes
            assert first["device_read_bytes"] >= 0.9 * table_bytes
        if cache == "cold-each":
            assert second["postgres_read_bytes"] >= 0.95 * table_bytes
            assert second["device_read_bytes"] >= 0.9 * table_bytes
        if cache == "warm-buffers":
            assert facts["buffered_fraction"] >= 0.99
            assert first["postgres_read_bytes"] < 0.01 * table_bytes
            assert first["postgres_hit_bytes"] >= 0.95 * table_bytes
        if cache == "warm-pages":
            assert facts["resident_fraction"] >= 0.99
            assert first["postgres_read_bytes"] >= 0.95 * table_bytes


@pytest.mark.shares_machine
@pytest.mark.parametrize(
    ("script", "writes"),
    [
        ("tpcb", True),
        # Its trials are those of the accounts' test as well.
        pytest.param("select-only", False, marks=pytest.mark.slow),
        # The load itself is tested with each script on a server; here it differs from tpcb in nothing.
        pytest.param("simple-update", True, marks=pytest.mark.slow),
    ],
)
def test_a_load(script: str, writes: bool, tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    workload = f"{script}:clients=4,threads=2,duration=200ms,warmup=50ms"
    result, recorded = compare(tmp_path, "synchronous_commit=on,off", "--workload", workload)
    assert result["metric"] == {"name": "throughput", "unit": "transactions/s", "better": "higher"}
    assert [each["trials"] for each in result["latencies"]] == [1, 1]
    assert all(each["latency_stddev_ms"] > 0 for each in result["latencies"])
    assert all("stddev" in record["load"]["latency_ms"] for record in recorded if record["status"] == "ok")
    assert result["statements"] == []
    used: set[int] = set()
    for record in recorded:
        load = record["load"]
        assert load["transactions"] > 0
        assert load["elapsed_s"] == 0.2
        assert set(load["latency_ms"]) >= {"p50", "p90", "p95", "p99", "p99.9", "max"}
        assert load["latency_ms"]["p50"] <= load["latency_ms"]["p99"] <= load["latency_ms"]["max"]
        assert record["facts"]["settings"]["synchronous_commit"] in ("on", "off")
        folder = tmp_path / "out" / "trials" / f"{record['number']:06d}" / "attempt-1"
        assert (folder / "latency.hdr").stat().st_size > 50
        # The arms find the same data: what one trial wrote to a copy is gone before the next on it.
        copy = record["data_copy"]
        assert record["facts"]["restored"] or not writes or copy not in used
        used.add(copy)
        assert (record["verification"]["wal_bytes"] > 4096) == writes


@pytest.mark.shares_machine
def test_a_grid_compares_within_strata(tmp_path: Path, require: Callable[..., None]) -> None:
    """`--control` names the level; every stratum has its own control and twin."""
    require("server")
    result, recorded = compare(
        tmp_path, "work_mem=1MB,2MB", "clients=1,3", "--workload", "select-only:duration=200ms,warmup=50ms",
        "--control", "work_mem=2MB",
    )  # fmt: skip
    arms = {arm["name"]: arm for arm in result["arms"]}
    assert set(arms) == {
        f"work_mem={memory} clients={count}" for memory in ("1MB", "2MB") for count in (1, 3)
    }
    assert {name for name, arm in arms.items() if arm["verdict"] == "control"} == {
        "work_mem=2MB clients=1", "work_mem=2MB clients=3",
    }  # fmt: skip
    assert {arm["stratum"] for arm in arms.values()} == {"clients=1", "clients=3"}
    assert len(result["twins"]) == 2
    assert len({record["number"] for record in recorded}) == 6  # four arms and a twin in each stratum
    experiment = json.loads((tmp_path / "out" / "experiment.json").read_bytes())
    clients = {arm["id"]: arm["spec"]["workload"]["load"]["clients"] for arm in experiment["arms"]}
    assert sorted(clients.values()) == [1, 1, 1, 3, 3, 3]
    control_of = {each["stratum"]: each["control_id"] for each in experiment["contrasts"]}
    assert {clients[identity] for identity in control_of.values()} == {1, 3}


@pytest.mark.slow
@pytest.mark.shares_machine
def test_a_rate_limit_of_the_storage_shows(tmp_path: Path, require: Callable[..., None]) -> None:
    """13 MB at 8 MB/s take more than a second and a half; without the limit a hundredth of that."""
    require("server", "cold-cache", "loop", "cgroup-limits", "root")
    result, recorded = compare(
        tmp_path, "storage=loop:read_mb_s=8,loop:read_ahead=256", "--workload", "full-scan:only=read-table"
    )
    limited, free = result["arms"]
    assert limited["verdict"] == "control"
    assert limited["median"] > 1.2
    assert free["median"] < limited["median"]
    facts = {record["arm_id"]: record["facts"]["storage"] for record in recorded}
    assert all(each["kind"] == "loop" and each["file_system"] == "xfs" for each in facts.values())
    assert sorted(each["device"]["read_ahead_kb"] for each in facts.values()) == [128, 128, 256]


@pytest.mark.shares_machine
def test_read_ahead_as_a_factor(tmp_path: Path, require: Callable[..., None]) -> None:
    """Fewer and larger requests reach the device with more read-ahead."""
    require("server", "cold-cache", "loop", "root")
    words = ("--workload", "full-scan:only=read-table", "--storage", "loop", "--set", "io_method=sync")
    result, recorded = compare(tmp_path, "read_ahead=16,1024", *words, "--set", "effective_io_concurrency=0")
    assert [arm["name"] for arm in result["arms"]] == ["read_ahead=16", "read_ahead=1024"]
    experiment = json.loads((tmp_path / "out" / "experiment.json").read_bytes())
    levels = {arm["id"]: arm["levels"]["read_ahead"] for arm in experiment["arms"]}
    requests: dict[str, list[int]] = {"16": [], "1024": []}
    for record in recorded:
        level = levels[record["arm_id"]]
        assert str(record["facts"]["storage"]["device"]["read_ahead_kb"]) == level
        requests[level].append(statement(record, "read-table")["device_read_requests"])
    assert min(requests["16"]) > max(requests["1024"])


# A function that writes can't be seen in the words of a SELECT; its WAL can.
WRITES_QUIETLY = "SELECT pg_logical_emit_message(true, 'pgassay', repeat('x', 100000));\n"


@pytest.mark.shares_machine
def test_a_read_only_workload_that_writes_is_found_before_the_first_trial(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    """What the home does not know by its file's place is rehearsed."""
    require("server")
    file = tmp_path / "quiet.sql"
    file.write_text(WRITES_QUIETLY)
    words = ["compare", "work_mem=1MB,2MB", "--workload", f"sql:{file}", *ONE_BLOCK]
    rehearsed = whole_tool.run(*words, "--out", tmp_path / "rehearsed")
    complaint = whole_tool.assert_one_sentence(rehearsed, 1)
    assert "bytes of WAL were written" in complaint
    assert "writes=yes" in complaint


@pytest.mark.slow
@pytest.mark.shares_machine
def test_a_read_only_workload_that_writes_is_invalid(tmp_path: Path, require: Callable[..., None]) -> None:
    """Where the machine knows the workload from before, there is no rehearsal: the trials say it."""
    require("server")
    file = tmp_path / "quiet.sql"
    words = ["compare", "work_mem=1MB,2MB", "--workload", f"sql:{file}", *whole_tool.build(), *ONE_BLOCK]
    with whole_tool.prepared_home() as home:
        file.write_text("SELECT 1;\n")
        assert whole_tool.run(*words, "--out", tmp_path / "harmless", home=home).returncode == 0
        file.write_text(WRITES_QUIETLY)
        longer = [*words, "--blocks", "9"]
        longer.remove("--quiet")
        finished = whole_tool.run(*longer, "--out", tmp_path / "out", home=home)
        declared = [*words[:2], "--workload", f"sql:{file},writes=yes", *whole_tool.build(), *ONE_BLOCK]
        assert whole_tool.run(*declared, "--out", tmp_path / "declared", home=home).returncode == 0
    assert finished.returncode == 1, finished.stderr
    result = json.loads(finished.stdout)
    assert result["stopped"] == "failed"
    assert result["blocks"] == 0
    recorded = whole_tool.trials(tmp_path / "out")
    # Two blocks were tried; in each the first trial was repeated once and voided it.
    assert [(record["status"], record["attempt"]) for record in recorded] == [
        ("invalid", 1),
        ("invalid", 2),
    ] * 2
    assert all("bytes of WAL" in record["reason"] for record in recorded)
    assert "invalid" in finished.stderr


@pytest.mark.shares_machine
def test_arms_that_cannot_run_are_skipped_and_named(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    words = ["compare", "io_workers=2,3,99", "--workload", "full-scan:only=sum", *ONE_BLOCK]
    complaint = whole_tool.assert_one_sentence(whole_tool.run(*words, "--out", tmp_path / "refused"), 2)
    assert "io_workers=99" in complaint
    finished = whole_tool.run(*words, "--skip-unavailable", "--out", tmp_path / "out")
    result = whole_tool.result_of(finished)
    assert [arm["name"] for arm in result["arms"]] == ["io_workers=2", "io_workers=3"]
    [skipped] = result["skipped"]
    assert skipped.startswith("io_workers=99 was skipped")
    text = whole_tool.run("report", tmp_path / "out").stdout
    assert "io_workers=99 was skipped" in " ".join(text.split())
