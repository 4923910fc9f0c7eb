"""A gate from the command line to its exit code, on a repository with two revisions; real servers."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

import whole_tool
from native_servers import NativeTestServer
from pgassay.environment.builds.registry import ORIGINS, resolve
from pgassay.model.build import Build
from pgassay.record.experiment import StoredExperiment, load
from pgassay.record.gates import load_gate

SCHEMA = json.loads((whole_tool.ROOT / "schemas" / "gate.schema.json").read_text("utf-8"))
# Thirty rows by their keys: with the index in microseconds, without it by reading the whole table for each.
POINT_READ = """-- name: point
SELECT sum((SELECT abalance FROM pgbench_accounts WHERE aid = 3000 * number))
FROM generate_series(1, 30) number;
"""
# One false alarm for each run would be allowed: so five blocks say what differs a hundredfold.
GATE = """
max-time = "5m"
margin = 0.5
{rule}

[system]
pg = "{build}"

[system.set]
{setting}

[workloads.point]
workload = "sql:point.sql"
scale = 1
cache = "warm-buffers"
blocks = {blocks}
observe = "off"

[workloads.point.set]
shared_buffers = "64MB"
enable_bitmapscan = "off"
"""

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


def git(folder: Path, *words: str) -> None:
    named = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run(["git", "-C", str(folder), *named, *words], check=True, capture_output=True)


def repository(folder: Path, before: str, after: str, **changes: object) -> Path:
    """A repository whose last commit changes the setting from `before` to `after`; the gate's file."""
    _, build = whole_tool.build()
    values = {"build": build, "blocks": 5, "rule": "runs-per-year = 2"} | changes
    (folder / "point.sql").write_text(POINT_READ)
    file = folder / "gate.toml"
    git(folder, "init", "-q")
    for setting in (before, after):
        file.write_text(GATE.format(setting=setting, **values))
        git(folder, "add", ".")
        git(folder, "commit", "-qm", setting)
    return file


@pytest.mark.parametrize("restart", ["needed", pytest.param("each", marks=pytest.mark.slow)])
def test_a_change_that_makes_a_query_a_hundred_times_slower_ends_with_1(
    restart: str, tmp_path: Path, require: Callable[..., None]
) -> None:
    """Where both sides share starts, five are enough; else each of them has as many of its own."""
    require("server")
    rule = f'runs-per-year = 2\nrestart = "{restart}"'
    file = repository(tmp_path, 'enable_indexscan = "on"', 'enable_indexscan = "off"', rule=rule)
    history, xml = tmp_path / "history", tmp_path / "gate.xml"
    finished = whole_tool.run(
        "gate", str(file), "--baseline", "HEAD~1", "--history", str(history), "--junit", str(xml), "--json",
    )  # fmt: skip
    assert finished.returncode == 1, finished.stderr
    document = json.loads(finished.stdout)
    jsonschema.validate(document, SCHEMA, cls=jsonschema.Draft202012Validator)
    (unit,) = document["units"]
    assert unit["finding"] == "slow-down"
    assert unit["ratio"] < 0.2
    assert unit["median_change"] > 5 * unit["median_baseline"]
    # The promise is made before the first trial.
    said = finished.stderr.splitlines()
    promised = next(place for place, line in enumerate(said) if line.startswith("point: 5 minutes are"))
    assert promised < next(place for place, line in enumerate(said) if line.startswith("block 1 of"))
    assert document["workloads"][0]["promise"] == said[promised]
    # Both sides were measured in one run, and all of it is kept.
    (folder,) = history.iterdir()
    assert load_gate(folder).model_dump(mode="json", by_alias=True) == document
    stored = load(folder / "point")
    settings = {arm.name: arm.spec.settings["enable_indexscan"] for arm in stored.experiment.arms}
    assert settings == {"system=baseline": "on", "system=change": "off"}
    assert (folder / "baseline" / "gate.toml").read_text() != file.read_text()
    assert ElementTree.parse(xml).getroot().get("failures") == "1"
    again = whole_tool.run("history", str(history), "--json")
    assert [run["outcome"] for run in json.loads(again.stdout)["runs"]] == ["slow-down"]


def test_where_nothing_differs_nothing_is_measured(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    file = repository(tmp_path, 'work_mem = "4MB"', 'work_mem = "4MB" # a comment')
    finished = whole_tool.run("gate", str(file), "--baseline", "HEAD~1", "--out", str(tmp_path / "out"))
    assert finished.returncode == 0, finished.stderr
    assert "nothing was measured" in finished.stdout
    assert load_gate(tmp_path / "out").units == ()


@pytest.mark.slow
def test_two_settings_that_do_the_same_pass(tmp_path: Path, require: Callable[..., None]) -> None:
    """At the threshold of a year of nights, a false alarm is rarer than one in a hundred runs."""
    require("server")
    file = repository(tmp_path, 'work_mem = "4MB"', 'work_mem = "5MB"', rule="", blocks=14)
    finished = whole_tool.run(
        "gate", str(file), "--baseline", "HEAD~1", "--out", str(tmp_path / "out"), "--json", "--quiet"
    )
    document = json.loads(finished.stdout)
    assert [unit["finding"] in ("none found", "excluded") for unit in document["units"]] == [True]
    assert finished.returncode == 0, finished.stderr


INDEX = "CREATE INDEX by_balance ON pgbench_accounts (abalance);"


def gated_migrations(folder: Path, above: str = "") -> tuple[dict[str, Any], StoredExperiment]:
    """A gate of a migration that makes an index, beside the revision before it."""
    (folder / "db").mkdir()
    empty = folder / "db" / "001.sql"
    empty.write_text("ANALYZE pgbench_branches;")
    file = repository(folder, 'work_mem = "4MB"', 'work_mem = "4MB"\n')
    content = file.read_text().replace("[system]\n", '[system]\nprepare = ["db/*.sql"]\n')
    file.write_text(above + content)
    git(folder, "commit", "-qam", "migrations")
    (folder / "db" / "002.sql").write_text(INDEX)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "an index")
    finished = whole_tool.run(
        "gate", str(file), "--baseline", "HEAD~1", "--out", str(folder / "out"), "--json", "--quiet"
    )
    document = json.loads(finished.stdout)
    assert document["units"][0]["blocks"] == 5, finished.stderr
    return document, load(folder / "out" / "point")


@pytest.mark.slow
def test_a_migration_s_index_is_on_data_of_its_own(tmp_path: Path, require: Callable[..., None]) -> None:
    """The baseline lacks the index, so it reads the whole table: the change is faster, and passes."""
    require("server")
    _, stored = gated_migrations(tmp_path)
    prepared = {arm.name: arm.spec.prepare for arm in stored.experiment.arms}
    assert prepared["system=baseline"] == ("ANALYZE pgbench_branches",)
    assert prepared["system=change"] == ("ANALYZE pgbench_branches", INDEX.rstrip(";"))


@pytest.mark.slow
def test_a_migration_s_index_is_switched_where_both_sides_share_starts(
    tmp_path: Path, require: Callable[..., None]
) -> None:
    require("server")
    document, stored = gated_migrations(tmp_path, above='restart = "needed"\n')
    assert document["units"][0]["finding"] in ("none found", "excluded")
    assert stored.experiment.contract.unit == "start"
    without = {arm.name: arm.spec.without_indexes for arm in stored.experiment.arms}
    assert without["system=baseline"] == ('"by_balance"',) and without["system=change"] == ()
    assert "starts of one server for both sides" in document["workloads"][0]["promise"]


def another_build() -> Build:
    """The newest at hand that is none of the change's."""
    change = resolve("18")
    found = [
        each for origin in ORIGINS for each in origin.builds() if each.bin_directory != change.bin_directory
    ]
    if not found:
        pytest.skip("one build of PostgreSQL alone is at hand: pgassay builds install 17")
    return max(found, key=lambda build: (build.major, build.version))


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["bin", "above"])
def test_two_builds_are_a_gate(tmp_path: Path, typed: str, require: Callable[..., None]) -> None:
    """The baseline is a folder with a server; each side has data that its own initdb made."""
    require("server")
    file = repository(tmp_path, 'work_mem = "4MB"', 'work_mem = "4MB"\n')
    before, out = another_build(), tmp_path / "out"
    folder = Path(before.bin_directory)
    baseline = folder if typed == "bin" else folder.parent
    finished = whole_tool.run(
        "gate", str(file), "--baseline", str(baseline), "--out", str(out), "--json", "--quiet"
    )
    assert finished.returncode in (0, 1, 4), finished.stderr
    document = json.loads(finished.stdout)
    jsonschema.validate(document, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert (document["baseline"]["kind"], document["baseline"]["name"]) == ("build", str(baseline))
    assert [before.version in version for version in document["baseline"]["versions"]] == [True]
    assert document["units"][0]["blocks"] == 5, document
    stored = load(out / "point")
    builds = {arm.name: arm.spec.build.version for arm in stored.experiment.arms}
    assert builds["system=baseline"] == before.version != builds["system=change"]
    # A settings' change would be seen a hundredfold, and both read the same index: no such slow-down.
    assert document["units"][0]["finding"] != "slow-down" or document["units"][0]["ratio"] > 0.2
    assert finished.returncode == document["exit_code"]


@pytest.mark.slow
def test_two_servers_are_a_gate(tmp_path: Path, require: Callable[..., None]) -> None:
    """Servers that run already; on one of them the index that every lookup needs is gone."""
    require("server")
    file = tmp_path / "gate.toml"
    (tmp_path / "point.sql").write_text(POINT_READ)
    with running_servers(2) as (baseline, change):
        file.write_text(
            f'max-time = "3m"\nmargin = 0.5\nruns-per-year = 2\n[system]\nserver = "{change.dsn}"\n'
            '[workloads.point]\nworkload = "sql:point.sql"\nblocks = 5\nobserve = "off"\n'
        )
        words = ("gate", str(file), "--json", "--quiet", "--baseline")
        same = whole_tool.run(*words, change.dsn, "--out", str(tmp_path / "same"))
        assert same.returncode == 0 and json.loads(same.stdout)["units"] == []
        equal = whole_tool.run(*words, baseline.dsn, "--out", str(tmp_path / "equal"))
        document = json.loads(equal.stdout)
        assert [each["kind"] for each in (document["baseline"], document["change"])] == ["server"] * 2
        assert document["units"][0]["blocks"] == 5, equal.stderr
        assert document["units"][0]["finding"] != "slow-down" or document["units"][0]["ratio"] > 0.2
        with change.query_connection() as connection:
            connection.execute("ALTER TABLE pgbench_accounts DROP CONSTRAINT pgbench_accounts_pkey")
        slower = whole_tool.run(*words, baseline.dsn, "--out", str(tmp_path / "slower"))
    assert slower.returncode == 1, slower.stderr
    (unit,) = json.loads(slower.stdout)["units"]
    assert unit["finding"] == "slow-down" and unit["ratio"] < 0.2
    stored = load(tmp_path / "slower" / "point")
    assert len({arm.spec.server.name for arm in stored.experiment.arms if arm.spec.server}) == 2
    again = whole_tool.run("history", str(tmp_path), "--json")
    # The one in which nothing differed is a run too, of which no unit was measured.
    assert [run["outcome"] for run in json.loads(again.stdout)["runs"]] == ["none found"] * 2 + ["slow-down"]


class RunningServer(NativeTestServer):
    """With the tables of pgbench."""

    @property
    def dsn(self) -> str:
        """How it is reached."""
        return f"host={self.folder} port={self.port} dbname=postgres user=postgres"


@contextmanager
def running_servers(count: int) -> Iterator[list[RunningServer]]:
    """Servers with the same data, by Unix sockets, as somebody else runs them."""
    servers = [RunningServer() for _ in range(count)]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.stop()


def test_a_dry_run_measures_nothing_and_leaves_nothing(tmp_path: Path, require: Callable[..., None]) -> None:
    require("server")
    file = repository(tmp_path, 'work_mem = "4MB"', 'work_mem = "8MB"')
    before = sorted(tmp_path.rglob("*"))
    finished = whole_tool.run("gate", str(file), "--baseline", "HEAD~1", "--dry-run")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("gate: point against HEAD~1 (")
    assert sorted(path for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--baseline", "nowhere"], "neither a folder nor a git revision"),
        (["--baseline", "HEAD~1", "--junit", "/nowhere/x.xml"], "can't write JUnit XML"),
        (["--baseline", "HEAD~1", "--out", "."], "is not empty"),
    ],
)
def test_what_can_not_be_done_ends_with_2_and_leaves_nothing(
    tmp_path: Path, words: list[str], complaint: str, require: Callable[..., None]
) -> None:
    require("server")
    file = repository(tmp_path, 'work_mem = "4MB"', 'work_mem = "8MB"')
    before = sorted(tmp_path.rglob("*.toml"))
    words = [str(tmp_path) if word == "." else word for word in words]
    finished = whole_tool.run("gate", str(file), *words)
    assert finished.returncode == 2
    assert complaint in finished.stderr
    assert sorted(tmp_path.rglob("*.toml")) == before
