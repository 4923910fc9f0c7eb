"""Upgrades of real servers with a dozen planted changes each, beside decoys that are not to be named."""

import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from pgassay.environment.upgraded.programs import upgrade_programs
from pgassay.errors import UsageError
from pgassay.factors import version
from pgassay.report.schema import UPGRADE
from source_servers import SourceServer, source_server

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1800)]

SETTINGS = {"shared_preload_libraries": "", "max_prepared_transactions": "5", "random_page_cost": "1.1"}
TABLE = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL, region int NOT NULL, total numeric)",
    "INSERT INTO orders SELECT i, i % 5000, i % 7, i % 1000 FROM generate_series(1, 150000) i",
    "CREATE INDEX orders_region_customer ON orders (region, customer)",
    "CREATE STATISTICS orders_st (dependencies) ON customer, region FROM orders",
    "ANALYZE orders",
)
IN_BOTH = (
    'CREATE TABLE sorted (name text COLLATE "und-x-icu")',
    "UPDATE pg_collation SET collversion = '1.2' WHERE collname = 'und-x-icu'",
    "CREATE ROLE old_hand PASSWORD 'secret'",
    "CREATE TABLE held (n int)",
    "CREATE INDEX broken ON held (n)",
    "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'broken'::regclass",
)
# Numbers of objects that are kept, views and functions that stay, words that only look like what is gone.
DECOYS = (
    "CREATE TABLE kept (what regclass, type regtype, who regrole)",
    "CREATE VIEW recent AS SELECT * FROM orders WHERE id > 100",
    "CREATE VIEW written AS SELECT buffers_clean, maxwritten_clean FROM pg_stat_bgwriter",
    "COMMENT ON TABLE orders IS 'SELECT checkpoints_timed, wal_write; CREATE VIEW nothing'",
    "CREATE FUNCTION quoted() RETURNS text LANGUAGE sql AS $$SELECT 'escape_string_warning'$$",
    "CREATE INDEX held_n ON held (n)",
    "CREATE COLLATION kept_order (provider = libc, locale = 'C')",
    "ALTER ROLE old_hand SET work_mem = '8MB'",
)
STATEMENTS = """
-- name: by-customer
SELECT count(*) FROM orders WHERE customer = 42;
-- name: gone
SELECT {gone};
-- name: wrong
SELECT no_such_column FROM orders;
-- name: chance
SELECT count(*), random() FROM recent;
-- name: keywords
SELECT count(*) FROM pg_catalog.pg_get_keywords();
-- name: raised
UPDATE orders SET total = total + 1 WHERE id = 77;
-- name: same
SELECT region, sum(total) FROM orders GROUP BY region;
"""
NOT_NAMED = {
    "default:random_page_cost", "default:server_version", "default:log_connections", "statistics",
    "logical-slots", "invalid-index:held_n", "setting-of-role-gone:work_mem", "pg-upgrade",
}  # fmt: skip


def require_versions(*versions: str) -> None:
    try:
        version.bind("version", versions)
    except UsageError as error:
        pytest.skip(str(error))


def upgraded(server: SourceServer, to: str, folder: Path, gone: str, *words: str) -> dict[str, Any]:
    (folder / "statements.sql").write_text(STATEMENTS.format(gone=gone))
    finished = whole_tool.run(
        *("upgrade", server.dsn(), "--to", to, "--workload", f"sql:{folder / 'statements.sql'}", *words),
        *("--out", folder / "out", "--json"),
    )
    assert finished.returncode == 3, finished.stderr
    document: dict[str, Any] = json.loads(finished.stdout)
    jsonschema.validate(document, UPGRADE.schema())
    return document


def ids(document: dict[str, Any], severity: str) -> set[str]:
    return {
        name if not name.startswith("collation:") else "collation"
        for each in document["findings"]
        if each["severity"] == severity
        for name in (each["id"],)
    }


def check_statements(document: dict[str, Any]) -> None:
    """What fails, what has other rows, what skips through an index, and what is none of these."""
    found = {each["name"]: each for each in document["statements"]}
    assert found["gone"]["verdict"] == "fails" and found["wrong"]["verdict"] == "fails on both"
    assert found["keywords"]["verdict"] == "other rows"
    assert found["by-customer"]["ratio"] > 1 and found["by-customer"]["plan"]
    assert found["chance"]["verdict"] not in ("fails", "other rows")
    # What writes is rolled back, and compared and timed like all others.
    assert found["raised"]["before_ms"] > 0 and found["raised"]["after_ms"] > 0
    assert found["same"]["verdict"] not in ("fails", "other rows", "not run")


def test_from_17_to_19_by_dump(tmp_path: Path) -> None:
    require_versions("17", "19")
    settings = SETTINGS | {"escape_string_warning": "off", "password_encryption": "md5"}
    # An older release: what 17.12 notes of columns is refused by 19rc1.
    with source_server(resolve("npm:17"), settings) as server:
        server.unset("jit")
        server.execute(
            *TABLE, *IN_BOTH, *DECOYS,
            "CREATE VIEW flushed AS SELECT wal_write FROM pg_stat_wal",
            "CREATE VIEW of_flushed AS SELECT wal_write + 1 AS next FROM flushed",
            "CREATE TABLE calls (id int, what regproc)",
            "CREATE DOMAIN procedure_name AS regprocedure",
            "CREATE TABLE listed (what procedure_name[])",
            "CREATE EXTENSION pg_stat_statements",
            "ALTER ROLE old_hand SET escape_string_warning TO off",
        )  # fmt: skip
        with server.connection() as session:
            session.execute("BEGIN; INSERT INTO held VALUES (1); PREPARE TRANSACTION 'left open'")
        document = upgraded(server, "19", tmp_path, "wal_write FROM pg_stat_wal", "--max-time", "60s")
    assert ids(document, "in the way") == {
        "setting-gone:escape_string_warning",
        "setting-of-role-gone:escape_string_warning",
        "prepared-transaction",
        "object-numbers:calls.what",
        "object-numbers:listed.what",
        "refused:view public.flushed",
        "refused:view public.of_flushed",
    }
    # 19 carries extended statistics.
    assert ids(document, "work") == {
        "extension-version:pg_stat_statements",
        "invalid-index:broken",
        "checksums",
        "collation",
    }
    changed = ids(document, "changed")
    assert {"default:jit", "default:effective_io_concurrency", "md5-passwords"} <= changed
    assert not {each["id"] for each in document["findings"]} & (NOT_NAMED | {"extended-statistics"})
    check_statements(document)


def test_from_16_to_18_by_pg_upgrade(tmp_path: Path) -> None:
    require_versions("16", "18")
    try:
        upgrade_programs(16, resolve("18"))
    except UsageError as error:
        pytest.skip(str(error))
    settings = SETTINGS | {"old_snapshot_threshold": "60min", "password_encryption": "md5"}
    with source_server(resolve("npm:16"), settings) as server:
        server.execute(
            *TABLE, *IN_BOTH, *DECOYS,
            "CREATE VIEW checkpoints AS SELECT checkpoints_timed FROM pg_stat_bgwriter",
            "CREATE VIEW of_checkpoints AS SELECT checkpoints_timed + 1 AS next FROM checkpoints",
        )  # fmt: skip
        backup = tmp_path / "base"
        program = Path(resolve("18").bin_directory) / "pg_basebackup"
        words = ["--pgdata", str(backup), "--dbname", server.dsn(), "--checkpoint=fast"]
        subprocess.run([program, *words], check=True, capture_output=True)
        tmp_path.chmod(0o755)
        document = upgraded(
            server, "18", tmp_path, "checkpoints_timed FROM pg_stat_bgwriter",
            "--copy", f"folder:{backup}", "--max-time", "120s",
        )  # fmt: skip
    assert ids(document, "in the way") == {
        "setting-gone:old_snapshot_threshold",
        "refused:view public.checkpoints",
        "refused:view public.of_checkpoints",
    }
    # The wheel comes without ICU, so that no collation of its could be changed.
    assert ids(document, "work") - {"collation"} == {
        "extended-statistics", "invalid-index:broken", "checksums",
    }  # fmt: skip
    assert {"default:effective_io_concurrency", "md5-passwords"} <= ids(document, "changed")
    assert not {each["id"] for each in document["findings"]} & NOT_NAMED
    # The views are dropped on the copy alone; what is lost of the statistics is counted.
    found = document["pg_upgrade"]
    assert found["statistics"][0] == found["statistics"][1] > 0 and found["extended_statistics"] == [0, 1]
    check_statements(document)
    assert [each["id"] for each in document["states"]] == ["before ANALYZE", "new defaults"]
    assert document["states"][1]["settings"]["random_page_cost"] == ["1.1", "4"]
