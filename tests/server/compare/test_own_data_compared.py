"""Whole comparisons on data of the user's own: hostile names, a long statement, an original that stays."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import report_examples as examples
import whole_tool
from pgassay.environment.builds.registry import resolve
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.programs import make_private_folder
from pgassay.environment.server.sessions import control
from server_helpers import TINY_SETTINGS, empty_cluster, own_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
TABLE = '"' + f"we'ird {examples.HOSTILE}".replace('"', '""') + '"'
STATEMENT_BYTES = 5_000_000
WORDS = (
    "compare", "work_mem=4MB,64MB", "--cache", "warm-pages", "--set", "shared_buffers=64MB",
    "--blocks", "1", "--json", "--quiet",
)  # fmt: skip


@pytest.mark.slow
def test_hostile_names_and_a_statement_of_megabytes(tmp_path: Path, require: Callable[..., None]) -> None:
    """They are run and recorded as they are, and shown as text on a page of usual size."""
    require("server")
    data, queries, out = tmp_path / "data.sql", tmp_path / "queries.sql", tmp_path / "out"
    data.write_text(f'CREATE TABLE {TABLE} AS SELECT n AS "{"q" * 60}" FROM generate_series(1, 20000) n;\n')
    long = "it''s </script> " * (STATEMENT_BYTES // 16)
    queries.write_text(
        f"-- name: {examples.HOSTILE}\nSELECT count(*) FROM {TABLE} WHERE '{long}' <> 'x';\n"
        f"-- name: short\nSELECT count(*) FROM {TABLE};\n"
    )
    words = [*WORDS, "--dataset", f"script:{data}", "--workload", f"sql:{queries}", "--out", out]
    with whole_tool.prepared_home() as home:
        result = whole_tool.result_of(whole_tool.run(*words, *whole_tool.build(), home=home))
    assert [statement["name"] for statement in result["statements"]] == [examples.HOSTILE, "short"]
    assert [arm["trials"] for arm in result["arms"]] == [1, 1]
    page = (out / "report.html").read_text()
    assert len(page) < 3_000_000
    assert "<script>alert" not in page
    plan = json.loads((out / "experiment.json").read_text())
    recorded = plan["arms"][0]["spec"]["workload"]["statements"][0]["sql"]
    assert len(recorded) > STATEMENT_BYTES
    shown = whole_tool.run("report", out)
    assert shown.returncode == 0, shown.stderr
    assert len(shown.stdout) < 20_000


@pytest.mark.slow
def test_a_data_folder_is_compared_and_stays_as_it_was(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    build = resolve("18")
    query, out = tmp_path / "query.sql", tmp_path / "out"
    query.write_text(f"SELECT sum(n) FROM {TABLE};\n")
    with whole_tool.prepared_home() as home, own_home() as theirs:
        original = theirs / "original"
        make_private_folder(original)
        empty_cluster(build, original)
        with Server(build, original, TINY_SETTINGS) as server, control(server) as session:
            session.execute(f"CREATE TABLE {TABLE} AS SELECT generate_series(1, 20000) AS n".encode())
        before = listing(original)
        words = [*WORDS, "--dataset", f"folder:{original}", "--workload", f"sql:{query}", "--out", out]
        finished = whole_tool.run(*words, "--pg", build.bin_directory, home=home)
        assert whole_tool.result_of(finished)["blocks"] == 1
        assert listing(original) == before


@pytest.mark.slow
def test_a_pgbench_script_of_own_tables_needs_none_of_pgbench(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    """Nor their scale: `\\gset` and `\\aset` take their values from tables of the user.s."""
    require("server")
    data, script, out = tmp_path / "data.sql", tmp_path / "own.sql", tmp_path / "out"
    data.write_text("CREATE TABLE thing (id int PRIMARY KEY, seen int); INSERT INTO thing VALUES (7, 0);\n")
    script.write_text(
        "\\set one random(1, 1)\n"
        "SELECT max(id) AS id FROM thing WHERE :one = 1 \\gset t_\n"
        "UPDATE thing SET seen = seen + 1 WHERE id = :t_id RETURNING 1 / (id - 6) AS held \\gset\n"
        "SELECT 1 / :held AS back FROM thing \\aset\n"
    )
    load = f"pgbench:file={script},clients=1,duration=300ms,warmup=0s"
    words = [*WORDS, "--dataset", f"script:{data}", "--workload", load, "--out", out]
    with whole_tool.prepared_home() as home:
        result = whole_tool.result_of(whole_tool.run(*words, *whole_tool.build(), home=home))
    assert [arm["trials"] for arm in result["arms"]] == [1, 1]


def listing(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Size, time of change and content of every file, by name."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }
