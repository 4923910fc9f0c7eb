"""An upgrade decided on a base backup: pg_upgrade brings a copy to the new version, or says why not."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from pgassay.environment.datasets import parse_dataset, snapshots
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.programs import make_private_folder
from pgassay.environment.server.sessions import control
from pgassay.environment.upgraded.programs import upgrade_programs
from pgassay.errors import UsageError
from pgassay.report.schema import UPGRADE
from source_servers import SourceServer, source_server

pytestmark = [pytest.mark.server, pytest.mark.shares_machine, pytest.mark.timeout(600)]

DATA = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, city text NOT NULL, region int NOT NULL, note regclass)",
    "INSERT INTO orders SELECT i, 'city ' || i % 50, i % 50, 'orders' FROM generate_series(1, 20000) i",
    "CREATE INDEX orders_city ON orders (city)",
    "CREATE STATISTICS orders_st (dependencies) ON city, region FROM orders",
    "CREATE DATABASE other",
    "ANALYZE",
)
STATEMENTS = "SELECT count(*) FROM orders WHERE city = 'city 7' AND region = 7;"


@contextmanager
def backed_up(version: str, folder: Path, *more: str) -> Iterator[tuple[SourceServer, Path]]:
    """A server of that version, and a base backup of it."""
    with source_server(resolve(version), {"shared_preload_libraries": ""}) as server:
        server.execute(*DATA, *more)
        program = Path(resolve("18").bin_directory) / "pg_basebackup"
        words = ["--pgdata", str(folder), "--dbname", server.dsn(), "--checkpoint=fast"]
        subprocess.run([program, *words], check=True, capture_output=True)
        folder.parent.chmod(0o755)
        yield server, folder


def listing(folder: Path) -> list[tuple[str, int, int]]:
    return sorted((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in folder.rglob("*"))


def test_a_base_backup_is_upgraded_on_a_copy_and_both_versions_compared(
    require: Callable[..., None], tmp_path: Path
) -> None:
    require("version-19")
    (tmp_path / "one.sql").write_text(STATEMENTS)
    with backed_up("18", tmp_path / "base") as (server, backup):
        before = listing(backup)
        words = ("--copy", f"folder:{backup}", "--workload", f"sql:{tmp_path / 'one.sql'}", "--json")
        finished = whole_tool.run(
            *("upgrade", server.dsn(), "--to", "19", *words, "--max-time", "10s", "--out", tmp_path / "out"),
            constants={"pgassay.upgrade.run_upgrade._TIME_MIN_S": 5.0},
        )
        assert listing(backup) == before
        server.wait_until_left_alone()
    assert finished.returncode in (0, 3), finished.stderr
    document: dict[str, Any] = json.loads(finished.stdout)
    jsonschema.validate(document, UPGRADE.schema())
    found = document["pg_upgrade"]
    assert found["programs"].startswith("from 18.") and found["seconds"] > 0 and found["mode"] == "link"
    # 19 carries all of them, those of CREATE STATISTICS among them, so nothing says that they are lost.
    assert found["statistics"][0] == found["statistics"][1] > 0 and found["extended_statistics"] == [1, 1]
    assert not [each for each in document["findings"] if "statistics" in each["id"]]
    (statement,) = document["statements"]
    assert statement["before_ms"] > 0 and statement["after_ms"] > 0
    assert [each["id"] for each in document["states"]] == ["before ANALYZE", "new defaults"]
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "pg_upgrade --link from 18." in page and "What the upgrade brings" in page


def test_the_schema_is_the_backup_s_so_that_a_weak_role_and_later_changes_are_no_matter(
    require: Callable[..., None], tmp_path: Path
) -> None:
    require("upgrade-from-16")
    (tmp_path / "one.sql").write_text("SELECT count(*) FROM shop WHERE id < 500;\n")
    plants = (
        *("DROP TABLE orders", "CREATE TABLE shop AS SELECT generate_series(1, 1000) AS id"),
        "CREATE ROLE watcher LOGIN IN ROLE pg_monitor",
        "CREATE VIEW checkpoints AS SELECT checkpoints_timed AS n FROM pg_stat_bgwriter",
        "COMMENT ON COLUMN checkpoints.n IS 'so many'",
    )
    with backed_up("npm:16", tmp_path / "base", *plants) as (server, backup):
        server.execute("CREATE VIEW later AS SELECT checkpoints_req FROM pg_stat_bgwriter")
        words = ("--copy", f"folder:{backup}", "--workload", f"sql:{tmp_path / 'one.sql'}", "--json")
        finished = whole_tool.run(
            *("upgrade", server.dsn(user="watcher"), "--to", "18", *words, "--max-time", "10s"),
            *("--out", tmp_path / "out"),
            constants={"pgassay.upgrade.run_upgrade._TIME_MIN_S": 5.0},
        )
        server.wait_until_left_alone()
    assert finished.returncode == 3, finished.stderr
    document = json.loads(finished.stdout)
    blocking = [each["id"] for each in document["findings"] if each["severity"] == "in the way"]
    assert blocking == ["refused:view public.checkpoints"]
    assert document["pg_upgrade"]["programs"].startswith("from 16.")
    (statement,) = document["statements"]
    assert statement["before_ms"] > 0 and statement["after_ms"] > 0
    assert not list((tmp_path / "out").glob("schema.*"))


def test_tablespaces_of_a_base_backup_come_along(require: Callable[..., None], tmp_path: Path) -> None:
    """Recovery takes a folder in their place for a leftover, and pg_upgrade before 19 wants links there."""
    require("upgrade-from-16")
    program = Path(resolve("18").bin_directory) / "pg_basebackup"
    with source_server(resolve("npm:16"), {"shared_preload_libraries": ""}) as server:
        place = server.data.parent / "far"
        make_private_folder(place)
        server.execute(
            f"CREATE TABLESPACE far LOCATION '{place}'", "CREATE TABLE t (n) TABLESPACE far AS SELECT 7"
        )
        words = ["--pgdata", tmp_path / "base", "--dbname", server.dsn(), "--checkpoint=fast"]
        moved = f"--tablespace-mapping={place}={tmp_path / 'backup_of_far'}"
        subprocess.run([program, *words, moved], check=True, capture_output=True)
    for version, upgrade in (("npm:16", ""), ("18", ",upgrade=on")):
        build = resolve(version)
        spec = parse_dataset(f"folder:{tmp_path / 'base'},database=postgres{upgrade}", build, 1)
        snapshot = snapshots.ensure(build, spec, (), lambda _stage, _fraction: None)
        try:
            with Server(build, snapshot.path, {}) as copy, control(copy) as session:
                assert session.execute("SELECT n FROM t").fetchall() == [(7,)]
            assert not [path for path in snapshot.path.rglob("*") if path.is_symlink()]
        finally:
            snapshots.remove(snapshot.key)


def test_what_pg_upgrade_refuses_is_a_finding_with_the_place_of_its_log(
    require: Callable[..., None], tmp_path: Path
) -> None:
    require("upgrade-from-16")
    (tmp_path / "one.sql").write_text(STATEMENTS)
    plant = "CREATE TABLE calls (id int, what regproc)"
    with backed_up("npm:16", tmp_path / "base", plant) as (server, backup):
        words = ("--copy", f"folder:{backup}", "--workload", f"sql:{tmp_path / 'one.sql'}")
        finished = whole_tool.run(
            "upgrade", server.dsn(), "--to", "18", *words, "--out", tmp_path / "out", "--json"
        )
    assert finished.returncode == 3, finished.stderr
    document = json.loads(finished.stdout)
    (refusal,) = (each for each in document["findings"] if each["id"] == "pg-upgrade")
    assert refusal["severity"] == "in the way" and document["decision"] == "in the way"
    assert "reg*" in refusal["sentence"] and "public.calls.what" in refusal["sentence"]
    log = Path(refusal["where"].removeprefix("its log: "))
    assert log == tmp_path / "out" / "pg_upgrade"
    assert "Failure, exiting" in (log / "pg_upgrade.out").read_text()
    assert "pg_upgrade" not in document and "no statement was compared" in document["warnings"][0]


@pytest.mark.parametrize(
    ("old", "new", "kept"), [("16", "17", (0, 0)), ("16", "18", (4, 0)), ("17", "19", (4, 1))]
)
@pytest.mark.slow
def test_statistics_are_carried_from_18_on_and_extended_ones_from_19_on(
    old: str, new: str, kept: tuple[int, int], tmp_path: Path
) -> None:
    build = resolve(new)
    try:
        upgrade_programs(int(old), build)
    except UsageError as error:
        pytest.skip(str(error))
    with backed_up(f"npm:{old}", tmp_path / "base") as (_, backup):
        pass
    text = f"folder:{backup},database=postgres,upgrade=on"
    spec = parse_dataset(text, build, 1).model_copy(update={"analysed": False})
    snapshot = snapshots.ensure(build, spec, (), lambda _stage, _fraction: None)
    try:
        facts = snapshot.facts["upgrade"]
        assert facts["statistics"] == [kept[0], 4] and facts["extended_statistics"] == [kept[1], 1]
        assert "orders" in snapshot.facts["relations"]
    finally:
        snapshots.remove(snapshot.key)


def test_a_folder_that_can_t_be_the_source_s_is_refused_at_once(tmp_path: Path) -> None:
    with backed_up("18", tmp_path / "base") as (_, backup):
        pass
    with source_server(resolve("npm:16"), {"shared_preload_libraries": ""}) as server:
        for text, said in (
            ("folder:/tmp", "write dump, for one that is made now"),
            (f"folder:{backup}", "is of PostgreSQL 18, and"),
        ):
            finished = whole_tool.run("upgrade", server.dsn(), "--to", "18", "--copy", text)
            assert said in whole_tool.assert_one_sentence(finished, 2)
