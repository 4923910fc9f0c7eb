"""An upgrade of a real server: what is planted is found and named, what is harmless is not."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from pgassay.environment.datasets import snapshots
from pgassay.errors import UsageError
from pgassay.record.experiment import load_experiment
from pgassay.report.schema import UPGRADE
from source_servers import SourceServer, source_server

# What is found is no matter of time, and what is timed differs many times over.
pytestmark = [pytest.mark.server, pytest.mark.shares_machine, pytest.mark.timeout(400)]

SETTINGS = {
    "shared_preload_libraries": "",
    "old_snapshot_threshold": "60min",
    "max_prepared_transactions": "5",
    "password_encryption": "md5",
    "random_page_cost": "1.1",
}
TABLE = """
CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL, region int NOT NULL,
    at timestamptz NOT NULL, total numeric NOT NULL);
INSERT INTO orders SELECT i, i % 5000, i % 7, timestamptz '2024-01-01' + i * interval '1 min', i % 1000
    FROM generate_series(1, 150000) i;
CREATE INDEX orders_region_customer ON orders (region, customer);
ANALYZE orders;
"""
PLANTED = (
    "CREATE TABLE calls (id int, what regproc)",
    "CREATE STATISTICS orders_st (dependencies) ON customer, region FROM orders",
    "CREATE VIEW checkpoints AS SELECT checkpoints_timed, checkpoints_req FROM pg_stat_bgwriter",
    "CREATE VIEW of_checkpoints AS SELECT checkpoints_timed + 1 AS next FROM checkpoints",
    # What goes with a view that is refused.
    "COMMENT ON COLUMN checkpoints.checkpoints_req IS 'asked for'",
    "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "CREATE TRIGGER writes INSTEAD OF INSERT ON checkpoints FOR EACH ROW EXECUTE FUNCTION nothing()",
    "CREATE RULE changes AS ON UPDATE TO checkpoints DO INSTEAD NOTHING",
    "CREATE MATERIALIZED VIEW kept AS SELECT checkpoints_timed AS n FROM pg_stat_bgwriter",
    "CREATE UNIQUE INDEX kept_n ON kept (n)",
    "CREATE FUNCTION timed() RETURNS bigint LANGUAGE sql AS 'SELECT checkpoints_timed FROM pg_stat_bgwriter'",
    "CREATE EXTENSION adminpack",
    "CREATE EXTENSION pg_stat_statements",
    "CREATE ROLE old_hand PASSWORD 'secret'",
    'CREATE TABLE sorted (name text COLLATE "und-x-icu")',
    "UPDATE pg_collation SET collversion = '1.2' WHERE collname IN ('und-x-icu', 'de-x-icu')",
    "CREATE TABLE held (n int)",
    "CREATE INDEX broken ON held (n)",
    "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'broken'::regclass",
)
# Views that stay, a setting that stays, an extension of the same version, a text that only looks like one.
HARMLESS = (
    "CREATE VIEW recent AS SELECT * FROM orders WHERE at > '2024-03-01'",
    "CREATE VIEW written AS SELECT buffers_clean, maxwritten_clean FROM pg_stat_bgwriter",
    "COMMENT ON TABLE orders IS 'SELECT checkpoints_timed; CREATE VIEW nothing'",
    "CREATE FUNCTION quoted() RETURNS text LANGUAGE sql AS $$SELECT 'CREATE TABLE x; old_snapshot'$$",
    # Neither version can parse it.
    "SET check_function_bodies = off",
    "CREATE FUNCTION wrong_before() RETURNS int LANGUAGE sql AS 'SELECT no_such_column FROM orders'",
    "SET check_function_bodies = on",
)
STATEMENTS = """
-- name: by-customer
SELECT count(*) FROM orders WHERE customer = 42;
-- name: by-region
SELECT region, sum(total) FROM orders GROUP BY region;
-- name: checkpoints
SELECT checkpoints_timed FROM pg_stat_bgwriter;
-- name: wrong
SELECT no_such_column FROM orders;
-- name: chance
SELECT count(*), random() FROM recent;
-- name: keywords
SELECT count(*) FROM pg_catalog.pg_get_keywords();
"""


# All of this time goes into blocks, and no test asks more than that there is one: the first is always whole.
SHORT = {"pgassay.upgrade.run_upgrade._TIME_MIN_S": 5.0}


@pytest.fixture(scope="module")
def source() -> Iterator[SourceServer]:
    with source_server(resolve("npm:16"), SETTINGS) as server:
        server.execute(*(each for each in TABLE.split(";") if each.strip()), *PLANTED, *HARMLESS)
        with server.connection() as session:
            session.execute("BEGIN; INSERT INTO held VALUES (1); PREPARE TRANSACTION 'left open'")
        yield server


@pytest.fixture(scope="module")
def answer(source: SourceServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("upgrade")
    (folder / "statements.sql").write_text(STATEMENTS)
    words = ("--workload", f"sql:{folder / 'statements.sql'}", "--max-time", "10s", "--out", folder / "out")
    finished = whole_tool.run("upgrade", source.dsn(), "--to", "18", *words, "--json", constants=SHORT)
    assert finished.returncode == 3, finished.stderr
    document: dict[str, Any] = json.loads(finished.stdout)
    jsonschema.validate(document, UPGRADE.schema())
    assert json.loads((folder / "out" / "upgrade.json").read_text()) == document
    assert "old_snapshot_threshold" in (folder / "out" / "report.html").read_text()
    # The data of the copies are not left in the folder of results, nor is a session on the source.
    assert not (folder / "out" / "source.sql").exists()
    source.wait_until_left_alone()
    # Nor are copies of them left in pgassay's home.
    made_of = {arm.spec.dataset.source for arm in load_experiment(folder / "out" / "experiment").arms}
    assert not [each for each in snapshots.list_snapshots() if each.facts["dataset"]["source"] in made_of]
    return document


def test_what_is_planted_is_found_and_named(answer: dict[str, Any]) -> None:
    found = {each["id"]: each for each in answer["findings"]}
    assert {name for name, each in found.items() if each["severity"] == "in the way"} == {
        "setting-gone:old_snapshot_threshold",
        "extension-missing:adminpack",
        "prepared-transaction",
        "object-numbers:calls.what",
        "refused:view public.checkpoints",
        "refused:view public.of_checkpoints",
        "refused:materialized view public.kept",
    }
    assert {name for name, each in found.items() if each["severity"] == "work"} == {
        "extension-version:pg_stat_statements",
        "function:public.timed()",
        "invalid-index:broken",
        "checksums",
        "extended-statistics",
        *(name for name in found if name.startswith("collation:")),
    }
    gone = found["setting-gone:old_snapshot_threshold"]
    assert "postgresql.conf, line " in gone["where"] and "remove it" in gone["remedy"]
    assert "PostgreSQL 17 removed it" in found["extension-missing:adminpack"]["remedy"]
    # Of the collations of all languages that initdb makes only one has a column.
    (collation,) = (name for name, each in found.items() if "1.2" in each["sentence"])
    assert collation.startswith("collation:") and "und-x-icu" in collation
    changed = {name for name, each in found.items() if each["severity"] == "changed"}
    assert {"default:effective_io_concurrency", "md5-passwords"} <= changed
    assert not changed & {"default:random_page_cost", "default:server_version", "default:log_connections"}


def test_every_statement_is_judged_on_both_versions(answer: dict[str, Any]) -> None:
    assert answer["decision"] == "in the way" and "7 things in the way (" in answer["headline"]
    assert "adminpack" in answer["headline"]
    found = {each["name"]: each for each in answer["statements"]}
    assert found["checkpoints"]["verdict"] == "fails"
    assert "checkpoints_timed" in found["checkpoints"]["reason"]
    assert found["wrong"]["verdict"] == "fails on both"
    assert found["keywords"]["verdict"] == "other rows"
    assert "run" in found["chance"]["reason"] and found["chance"]["verdict"] != "other rows"
    # 18 skips through the index by region, where 16 reads all of it.
    fast = found["by-customer"]
    assert fast["verdict"] in ("faster", "not decided") and fast["plan"]
    # Milliseconds, of which other work of this machine may take any: which version is faster needs its quiet.
    assert fast["before_ms"] > 0 and fast["after_ms"] > 0 and fast["ratio"] > 0
    assert found["by-region"]["ratio"] is not None
    order = [each["verdict"] for each in answer["statements"]]
    assert order[:2] == ["fails", "other rows"]


@pytest.mark.slow
def test_a_server_that_is_clean_has_nothing_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("SELECT count(*) FROM orders WHERE id < 1000;")
    with source_server(resolve("npm:17"), {"shared_preload_libraries": ""}) as server:
        server.execute(*(each for each in TABLE.split(";") if each.strip()), *HARMLESS)
        finished = whole_tool.run(
            *("upgrade", server.dsn(), "--to", "18", "--workload", f"sql:{tmp_path / 'one.sql'}"),
            *("--max-time", "20s", "--out", tmp_path / "out"),
        )
    lines = finished.stdout.splitlines()
    assert lines[0].startswith("From 17.") and "in the way" not in finished.stdout.replace(
        "nothing is in", ""
    )
    assert "go" in lines[0] or "check the statements" in lines[0]
    assert finished.returncode == (3 if "look at" in lines[0] else 0)
    assert "checksums" in finished.stdout and "refused" not in finished.stdout


@pytest.mark.slow
def test_from_18_to_19_a_role_s_setting_and_the_default_of_jit(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("SELECT sum(total) FROM orders;")
    settings = {"shared_preload_libraries": "", "io_workers": "5", "standard_conforming_strings": "off"}
    with source_server(resolve("18"), settings) as server:
        server.execute(*(each for each in TABLE.split(";") if each.strip()), *HARMLESS)
        server.execute("ALTER ROLE postgres SET escape_string_warning TO off")
        server.unset("jit")
        finished = whole_tool.run(
            *("upgrade", server.dsn(), "--to", "19", "--workload", f"sql:{tmp_path / 'one.sql'}"),
            *("--max-time", "20s", "--out", tmp_path / "out", "--json"),
        )
    found = {each["id"]: each for each in json.loads(finished.stdout)["findings"]}
    assert {name for name, each in found.items() if each["severity"] == "in the way"} == {
        "setting-gone:io_workers",
        "setting-refused:standard_conforming_strings",
        "setting-of-role-gone:escape_string_warning",
    }
    assert "io_min_workers and io_max_workers" in found["setting-gone:io_workers"]["remedy"]
    assert found["setting-of-role-gone:escape_string_warning"]["where"] == "role postgres"
    assert found["default:jit"]["sentence"].startswith("jit defaults to off in 19 and to on here")


@pytest.mark.slow
def test_a_server_of_13_is_read_and_measured_as_16(tmp_path: Path) -> None:
    try:
        build = resolve("13")
    except UsageError as error:
        pytest.skip(f"{error} Or: pgassay builds install npm:13")
    settings = {"shared_preload_libraries": "", "operator_precedence_warning": "on"}
    (tmp_path / "statements.sql").write_text(STATEMENTS)
    with source_server(build, settings) as server:
        server.execute(
            *(each for each in TABLE.split(";") if each.strip()), *HARMLESS, PLANTED[2], PLANTED[3]
        )
        finished = whole_tool.run(
            *("upgrade", server.dsn(), "--to", "18", "--workload", f"sql:{tmp_path / 'statements.sql'}"),
            *("--max-time", "40s", "--out", tmp_path / "out", "--json"),
        )
    assert finished.returncode == 3, finished.stderr
    answer = json.loads(finished.stdout)
    assert answer["source_version"].startswith("13.") and answer["from_version"].startswith("16.")
    assert any("measured as 16, the oldest version" in each for each in answer["warnings"])
    assert {each["id"] for each in answer["findings"] if each["severity"] == "in the way"} == {
        "setting-gone:operator_precedence_warning",
        "refused:view public.checkpoints",
        "refused:view public.of_checkpoints",
        "refused:materialized view public.kept",
    }
    found = {each["name"]: each for each in answer["statements"]}
    assert found["checkpoints"]["verdict"] == "fails" and found["by-customer"]["plan"]
    assert found["by-customer"]["before_ms"] > 0 and found["by-region"]["after_ms"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--to", "16"), "runs PostgreSQL 16"),
        (("--to", "15"), "name a newer major version"),
        (("--to", "never"), "is not a PostgreSQL version"),
        (("--to", "18", "--workload", "sql:/nowhere.sql"), "/nowhere.sql"),
        (("--to", "18"), "has no pg_stat_statements"),
    ],
)
def test_what_can_t_be_is_said_in_one_sentence(
    source: SourceServer, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    dsn = source.dsn("template1") if words == ("--to", "18") else source.dsn()
    finished = whole_tool.run("upgrade", dsn, *words, "--out", tmp_path / "out")
    assert said in whole_tool.assert_one_sentence(finished, 2)
    assert not (tmp_path / "out").exists()
