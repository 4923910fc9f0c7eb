"""The workload maintenance:FILE on a real server: what it did is kept, shown, and true."""

import json
import os
import pty
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import whole_tool

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

ACCOUNTS = 100_000
FILE = """-- untimed
DELETE FROM pgbench_accounts WHERE aid % 2 = 0;
-- name: vacuum
VACUUM pgbench_accounts;
-- name: index
CREATE INDEX balance ON pgbench_accounts (md5(filler), abalance);
-- name: rewrite
CLUSTER pgbench_accounts USING pgbench_accounts_pkey;
"""


@pytest.fixture(scope="module")
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("server")
    with whole_tool.prepared_home() as folder:
        yield folder


def test_every_command_tells_what_it_did(require: Callable[..., None], home: Path, tmp_path: Path) -> None:
    require("server")
    (tmp_path / "m.sql").write_text(FILE)
    out = tmp_path / "results"
    words = ["compare", "maintenance_work_mem=1MB,64MB", "--workload", f"maintenance:{tmp_path}/m.sql"]
    options = ["--blocks", "1", "--seed", "5", "--json", "--cache", "as-is", *whole_tool.build()]
    finished = whole_tool.run(*words, *whole_tool.SMALL, *options, "--out", out, home=home)
    result = whole_tool.result_of(finished)
    trials = whole_tool.trials(out)
    assert len(trials) == 3 and {trial["status"] for trial in trials} == {"ok"}
    for trial in trials:
        vacuum, index, rewrite = trial["maintenance"]
        # Each trial starts with the whole table again: as many tuples are removed in all of them.
        assert vacuum["done"]["tuples_removed"] == ACCOUNTS / 2
        assert vacuum["done"]["pages_scanned"] == vacuum["relations"][0]["pages_scanned"] > 1600
        assert vacuum["relations"][0]["name"] == "postgres.public.pgbench_accounts"
        assert vacuum["done"]["wal_bytes"] > 1_000_000
        assert index["done"]["index_tuples_built"] == ACCOUNTS / 2
        assert index["done"]["index_bytes_built"] > 300_000
        assert rewrite["done"]["tuples_copied"] == ACCOUNTS / 2
        assert rewrite["done"]["table_bytes_written"] > 5_000_000
        assert trial["facts"]["settings"]["autovacuum"] == "off"
        observed = {item["name"]: item["elapsed_s"] for item in trial["statements"]}
        assert observed == {item["statement"]: item["elapsed_s"] for item in trial["maintenance"]}
    assert [work["statement"] for work in result["work"]] == ["vacuum", "index", "rewrite"]
    figures = {figure["name"]: figure for figure in result["work"][0]["figures"]}
    assert figures["tuples removed"]["medians"] == [ACCOUNTS / 2, ACCOUNTS / 2]
    time, per_million = figures["time"]["medians"], figures["time per million tuples removed"]["medians"]
    assert per_million == pytest.approx([value / 0.05 for value in time])
    assert figures["time per million tuples removed"]["per_unit"]
    shown = whole_tool.run("report", out, home=home, pictures=True)
    # A long name takes two lines where the terminal is narrow.
    assert "Work done" in shown.stdout and "time per million tuples" in shown.stdout
    page = (out / "report.html").read_text("utf-8")
    assert page.count("time per million index tuples") == 2 and "full-page images" in page
    markdown = whole_tool.run("report", out, "--markdown", home=home)
    assert "| WAL bytes per tuple removed |" in markdown.stdout


@pytest.fixture(scope="module")
def watched(home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The results of a comparison whose VACUUM lasts for several samples, and what its terminal showed."""
    folder = tmp_path_factory.mktemp("watched")
    # The delays alone last for more than a second: 20 of cost for each page that is dirtied, twice.
    (folder / "m.sql").write_text(
        "-- untimed\nDELETE FROM pgbench_accounts WHERE aid % 2 = 0;\n"
        "-- name: tidy\nVACUUM pgbench_accounts;\n"
    )
    words = ["compare", "vacuum_cost_delay=4ms,5ms", "--workload", f"maintenance:{folder}/m.sql"]
    options = ["--blocks", "1", "--seed", "5", "--cache", "as-is", *whole_tool.SMALL, *whole_tool.build()]
    primary, secondary = pty.openpty()
    environment = whole_tool.environment(home, TERM="xterm-256color", COLUMNS="150", LINES="30")
    child = whole_tool.start(
        *words, *options, "--out", folder / "out", home=home, stderr=secondary, env=environment
    )
    os.close(secondary)
    seen = b""
    try:
        # The terminal is closed when the last process that writes to it has ended.
        while piece := _read(primary):
            seen += piece
    finally:
        child.communicate(timeout=whole_tool.TIMEOUT_S)
        os.close(primary)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode("utf-8", "replace"))
    assert child.returncode == 0, shown
    return folder / "out", shown


@pytest.mark.slow
def test_progress_is_sampled_while_a_command_runs(watched: tuple[Path, str]) -> None:
    (trial, *_) = sorted(watched[0].glob("trials/*/attempt-1"))
    record = json.loads((trial / "trial.json").read_bytes())
    rows = pq.read_table(trial / "observations" / "progress.parquet").to_pylist()
    assert record["maintenance"][0]["progress_samples"] == len({row["clock_ns"] for row in rows}) >= 2
    phases_s = record["maintenance"][0]["phases_s"]
    assert {*phases_s} == {row["phase"] for row in rows} and "scanning heap" in phases_s
    assert sum(phases_s.values()) == pytest.approx(record["maintenance"][0]["elapsed_s"], rel=0.05)
    scanned = [row["value"] for row in rows if row["name"] == "heap_blks_scanned"]
    assert scanned == sorted(scanned) and scanned[-1] > 0
    assert {(row["view"], row["relation"], row["statement"]) for row in rows} == {
        ("vacuum", "pgbench_accounts", "tidy")
    }
    first, last = record["clock_ns"]
    assert all(first <= row["clock_ns"] <= last for row in rows)


@pytest.mark.slow
def test_the_live_view_shows_how_far_a_command_has_come(watched: tuple[Path, str]) -> None:
    """On a terminal the trial's line names the phase, with a percentage from the server's own progress."""
    shown = watched[1]
    assert re.search(r"tidy: pgbench_accounts: scanning heap, \d+ %", shown)
    assert "· settling" in shown or "· restoring" in shown or "· measuring" in shown


def _read(descriptor: int) -> bytes:
    """What comes next; nothing more when the other side is closed."""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
