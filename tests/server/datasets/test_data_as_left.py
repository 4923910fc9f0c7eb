"""Data that are to stay as their preparation left them do so, page by page, until a trial reads them.

The statements of the trials look at the pages themselves (pageinspect, pg_visibility), which changes nothing,
and divide by zero when these are not as expected: then the trial fails.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whole_tool
from pgassay.record.experiment import load

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

# 3000 rows deleted and 1334 updated after a VACUUM that marked all pages all-visible; half of the marks stay.
PREPARE = """
CREATE EXTENSION pageinspect;
CREATE TABLE t (id int PRIMARY KEY, v int, f text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, 0, repeat('x', 60) FROM generate_series(1, 20000) i;
VACUUM (ANALYZE) t;
DELETE FROM t WHERE id <= 9000 AND id % 3 = 0;
UPDATE t SET v = 1 WHERE id BETWEEN 1 AND 2000;
CREATE FUNCTION pages() RETURNS text LANGUAGE sql AS $$
    SELECT md5(string_agg(concat_ws(' ', page, lp, lp_flags, t_xmin, t_xmax, t_infomask, t_ctid), ','
                          ORDER BY page, lp))
           || (SELECT md5(string_agg(m::text, ',')) FROM public.pg_visibility_map('public.t') m)
    FROM generate_series(0, pg_relation_size('public.t') / 8192 - 1) page,
         LATERAL public.heap_page_items(public.get_raw_page('public.t', page::int)) $$;
CREATE FUNCTION removable() RETURNS bigint LANGUAGE sql AS $$
    SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 't' $$;
SELECT pg_stat_force_next_flush();
CREATE TABLE seen AS SELECT pages() AS pages;
ALTER TABLE seen ADD removable bigint;
UPDATE seen SET removable = removable();
"""
AS_LEFT = """SELECT 1 / (
    pages() = pages AND removable() = 4334 AND removable = 4334 AND marked > 100 AND unmarked > 100
)::int FROM seen, LATERAL (
    SELECT count(*) FILTER (WHERE all_visible) AS marked, count(*) FILTER (WHERE NOT all_visible) AS unmarked
    FROM pg_visibility_map('t')
) map;
"""
CHANGED = "SELECT 1 / (pages() <> pages)::int FROM seen;\n"
READ = "SELECT count(*) FROM t;\n"


def statements(*texts: str) -> str:
    return "".join(f"-- name: s{number}\n{text}" for number, text in enumerate(texts))


def run(folder: Path, build: str, cache: str, settle: str, *texts: str) -> Any:
    """A control, its twin and an arm on one copy, which is used again; the result as JSON."""
    (folder / "prepare.sql").write_text(PREPARE)
    (folder / "statements.sql").write_text(statements(*texts))
    words = ["compare", "work_mem=4MB,8MB", "--workload", f"sql:{folder / 'statements.sql'}"]
    words += ["--prepare", str(folder / "prepare.sql"), "--settle", settle, "--cache", cache, "--pg", build]
    words += [*whole_tool.SMALL, "--blocks", "1", "--seed", "3", "--restart", "each", "--quiet", "--json"]
    return whole_tool.result_of(whole_tool.run(*words, "--out", folder / "out"))


@pytest.mark.parametrize(
    ("build", "cache"),
    [
        ("18", "warm-buffers"),
        pytest.param("18", "cold", marks=pytest.mark.slow),
        pytest.param("19", "warm-buffers", marks=pytest.mark.slow),
        pytest.param("17", "warm-buffers", marks=pytest.mark.slow),
        pytest.param("16", "warm-buffers", marks=pytest.mark.slow),
    ],
)
def test_a_trial_finds_dead_rows_hint_bits_and_the_visibility_map_as_they_were_left(
    build: str, cache: str, tmp_path: Path, require: Callable[..., None]
) -> None:
    """Nothing before the first statement touched a page; reading does, and the next trial does not see it."""
    require("version-19" if build == "19" else "versions-16-17-18")
    if cache == "cold":
        require("cold-cache")
    run(tmp_path, build, cache, "off", AS_LEFT, READ, CHANGED)
    trials = whole_tool.trials(tmp_path / "out")
    assert {trial["status"] for trial in trials} == {"ok"}
    assert len(trials) >= 3
    # The first reader writes: a trial that may not would have been refused.
    assert all(trial["verification"]["wal_bytes"] > 4096 for trial in trials)
    # A copy is used again after a trial has changed it.
    assert len({trial["data_copy"] for trial in trials}) < len(trials)
    (facts,) = load(tmp_path / "out").experiment.environment["datasets"].values()
    assert any("each trial is the first reader" in note for note in facts["notes"])


@pytest.mark.slow
def test_data_that_are_settled_were_read_before(tmp_path: Path, require: Callable[..., None]) -> None:
    """By default the first trial meets what any first reader leaves, and writes nothing."""
    require("versions-16-17-18")
    run(tmp_path, "18", "warm-buffers", "on", CHANGED, READ, CHANGED)
    trials = whole_tool.trials(tmp_path / "out")
    assert {trial["status"] for trial in trials} == {"ok"}
    assert all(trial["verification"]["wal_bytes"] <= 4096 for trial in trials)
