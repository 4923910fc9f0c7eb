"""Published experiments on storage, each run by the one command that ships, at a fraction of its size.

What a volume counted is looked at, and what was named as the limit; no times.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import whole_tool

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.shares_machine]

EXAMPLES = whole_tool.ROOT / "examples"
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(require: Callable[..., None], tmp_path: Path) -> Run:
    require("server", "loop", "fuse", "cgroup-memory", "cold-cache")

    def run_one(name: str, blocks: int = 1, changes: dict[str, str] | None = None) -> dict[str, Any]:
        """The JSON document of one run at scale 4, with these words of its file replaced."""
        for sql in EXAMPLES.glob("*.sql"):
            (tmp_path / sql.name).write_text(sql.read_text("utf-8"), "utf-8")
        text = (EXAMPLES / f"{name}.toml").read_text("utf-8")
        # The volumes stay as they are; data, memory and time are a fraction.
        text = re.sub(r"^scale = \d+$", "scale = 10", text, flags=re.M)
        text = text.replace('memory = "384MB"', 'memory = "128MB"')
        text = re.sub(r'shared_buffers = "\w+"', 'shared_buffers = "32MB"', text)
        for old, new in (changes or {}).items():
            assert old in text, old
            text = text.replace(old, new)
        file = tmp_path / f"{name}.toml"
        file.write_text(f"blocks = {blocks}\nseed = 7\n{text}", "utf-8")
        return whole_tool.result_of(
            whole_tool.run("run", file, "--out", tmp_path / "out", "--json", "--quiet")
        )

    return run_one


def trials(folder: Path) -> list[tuple[str, dict[str, Any], dict[str, list[float]]]]:
    """Of each valid trial the arm, the record and the series of its volume."""
    names = {arm["id"]: arm["name"] for arm in json.loads((folder / "experiment.json").read_bytes())["arms"]}
    found = []
    for file in sorted(folder.glob("trials/*/attempt-*/trial.json")):
        record = json.loads(file.read_bytes())
        if record["status"] == "ok":
            series = pyarrow.parquet.read_table(file.parent / "observations/volume.parquet").to_pydict()
            found.append((names[record["arm_id"]], record, series))
    return found


def test_the_credits_of_gp2_end_in_their_second_and_the_volume_collapses(run: Run, tmp_path: Path) -> None:
    """With few credits, so that it happens within 20 s: a clock is never compressed."""
    changes = {"duration=12s": "duration=20s", "credits=9000": "credits=4000"}
    result = run("volume-credits-end", changes=changes)
    measured = trials(tmp_path / "out")
    assert {name.split("=")[-1] for name, _, _ in measured} == {"3", "32"}
    for name, record, series in measured:
        ended_s = record["facts"]["volume"]["credits_ended_s"]
        assert ended_s is not None, name
        ends = [sum(series["elapsed_s"][: index + 1]) for index in range(len(series["clock_ns"]))]
        after = [
            (operations, elapsed_s)
            for operations, elapsed_s, end_s in zip(
                series["operations"], series["elapsed_s"], ends, strict=True
            )
            if end_s - elapsed_s > ended_s
        ]
        before = sum(series["operations"]) - sum(operations for operations, _ in after)
        # What was given until then are the credits and what flowed in; then it is the base, 120 a second.
        assert before >= 4000
        assert sum(each for each, _ in after) <= 1.05 * 120 * sum(each for _, each in after) + 120
        assert record["facts"]["volume"]["would_last"][0]["volume"].startswith("rds-gp2,size=")
    assert all(
        volume["per_month"] is None for volume in result["volumes"]
    )  # the catalogue has no prices of RDS
    assert "burst-credits" in {cause["cause"] for cause in result["causes"]}


def test_both_storages_of_rds_are_what_was_ordered(run: Run, tmp_path: Path) -> None:
    changes = {"duration=6s": "duration=4s", "warmup=2s": "warmup=1s"}
    result = run("volume-gp2-against-gp3", changes=changes)
    assert {arm["stratum"] for arm in result["arms"]} == {"io_method=sync", "io_method=worker"}
    for name, record, _ in trials(tmp_path / "out"):
        imitated = record["facts"]["storage"]["volume"]
        rates = {limiter["name"]: limiter for limiter in imitated["model"]["limiters"]}
        stripes = imitated["model"]["stripes"]["count"]
        expected = (1, 120, 3000) if "rds-gp2" in name else (4, 3000, 3000)
        assert (stripes, rates["operations"]["rate"], rates["operations"]["peak"]) == expected
        assert imitated["latency"]["assumed"] is True


def test_more_throughput_serves_the_first_visit_and_not_the_second(run: Run, tmp_path: Path) -> None:
    run("volume-throughput", changes={'shared_buffers = "32MB"': 'shared_buffers = "640MB"'})
    for name, record, series in trials(tmp_path / "out"):
        first, second = record["statements"]
        table_bytes = first["device_read_bytes"]
        # 10 million of 100 bytes and their headers; the second visit reads nothing of them.
        assert table_bytes > 120e6 and (second["device_read_bytes"] or 0) < 0.05 * table_bytes, name
        limit = 500 if "throughput=500" in name else 125
        # As fast as the bucket of 10 ms allows at most.
        assert table_bytes <= limit * 1024**2 * (first["elapsed_s"] + 0.02)
        assert sum(series["bytes_read"]) >= table_bytes


def test_the_matrix_is_planned_with_its_prices_and_the_local_disk_simulated(
    require: Callable[..., None],
) -> None:
    require("server", "loop", "fuse", "cgroup-memory", "cold-cache")
    finished = whole_tool.run("run", EXAMPLES / "volume-matrix.toml", "--plan", "--json", "--quiet")
    planned = whole_tool.result_of(finished)
    assert planned["trial_s_from"] == "length of the load"
    # 17 without a method and 18 with each that it was built with, three numbers of connections, two ranges.
    assert len(planned["cells"]) in ((1 + 2) * 3 * 2, (1 + 3) * 3 * 2)
    assert {len(cell["arms"]) for cell in planned["cells"]} == {2}
    (local,) = [sentence for sentence in planned["skipped"] if "local-i7i.2xlarge" in sentence]
    assert "this machine can imitate" in local and "Simulated in its place" in local
    assert "for 551.15 USD a month, a million of them for 0.0" in local
    assert all(isinstance(cell["is_decidable"], bool) for cell in planned["cells"])


def test_a_server_s_commits_wait_for_the_volume_of_the_wal(
    require: Callable[..., None], tmp_path: Path
) -> None:
    require("server", "loop", "fuse")
    volume = "volume:gp3,size=40GiB"
    finished = whole_tool.run(
        *("compare", f"storage={volume},{volume},wal=volume:io2,size=10GiB,iops=3000,flush_latency=5ms"),
        *("--workload", "simple-update:clients=1,duration=3s,warmup=0s", "--scale", "1", "--blocks", "1"),
        *("--json", "--quiet", "--out", tmp_path / "out"),
    )
    result = whole_tool.result_of(finished)
    for trial in whole_tool.valid_trials(tmp_path / "out"):
        facts = trial["facts"]
        if "wal" not in facts["storage"]:
            assert "wal_volume" not in facts
            continue
        transactions = trial["load"]["transactions"]
        # Each commit is a flush of some milliseconds, and nobody else commits.
        assert facts["wal_volume"]["requests"] >= transactions > 0
        assert trial["load"]["latency_ms"]["mean"] > 4
        assert trial["load"]["elapsed_s"] >= 0.004 * transactions
    prices = {volume["per_month"] for volume in result["volumes"]}
    assert prices == {3.2, 3.2 + 1.25 + 195.0}
