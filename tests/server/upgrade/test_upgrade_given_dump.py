"""An upgrade asked for by a role that may not read the tables: somebody else's dump stands for them."""

import json
import subprocess
from pathlib import Path

import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from pgassay.environment.server.programs import make_private_folder
from source_servers import source_server

pytestmark = [pytest.mark.server, pytest.mark.shares_machine, pytest.mark.timeout(400)]

SCHEMA = (
    "CREATE ROLE watcher LOGIN IN ROLE pg_monitor",
    "CREATE ROLE clinic_app",
    "CREATE FOREIGN DATA WRAPPER anything",
    "CREATE SERVER far FOREIGN DATA WRAPPER anything",
    "CREATE USER MAPPING FOR clinic_app SERVER far OPTIONS (password 'MapSecret7')",
    "CREATE SCHEMA clinic",
    "CREATE TABLE clinic.visits (id int PRIMARY KEY, at date) TABLESPACE fast",
    "CREATE TABLE clinic.patients (id int)",
    "INSERT INTO clinic.visits SELECT n, current_date FROM generate_series(1, 1000) n",
    "GRANT SELECT ON clinic.visits TO clinic_app",
)


@pytest.mark.parametrize("kind", ["custom", "plain"])
def test_the_schema_and_the_rows_come_from_the_dump_that_was_given(kind: str, tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("SELECT count(*) FROM clinic.visits WHERE id < 500;\n")
    dump = tmp_path / "clinic.dump"
    with source_server(resolve("npm:17"), {"shared_preload_libraries": ""}) as server:
        place = server.data.parent / "fast"
        make_private_folder(place)
        server.execute(f"CREATE TABLESPACE fast LOCATION '{place}'", *SCHEMA)
        program = Path(resolve("18").bin_directory) / "pg_dump"
        words = [f"--format={kind}", "--no-tablespaces", f"--file={dump}", f"--dbname={server.dsn()}"]
        subprocess.run([program, *words], check=True, capture_output=True)
        asked = (
            *(
                "upgrade",
                server.dsn(user="watcher"),
                "--to",
                "18",
                "--workload",
                f"sql:{tmp_path / 'one.sql'}",
            ),
            *("--max-time", "10s", "--out", tmp_path / "out", "--json"),
        )
        refused = whole_tool.run(*asked)
        finished = whole_tool.run(
            *asked, "--copy", f"dump:{dump}", constants={"pgassay.upgrade.run_upgrade._TIME_MIN_S": 5.0}
        )
    said = whole_tool.assert_one_sentence(refused, 2)
    assert "permission denied for schema clinic)" in said
    assert "GRANT pg_read_all_data TO watcher" in said and said.rstrip().endswith("--copy dump:FILE")
    assert finished.returncode in (0, 3), finished.stderr
    document = json.loads(finished.stdout)
    assert not [each for each in document["findings"] if each["severity"] == "in the way"]
    assert document["statements"][0]["before_ms"] > 0
    assert "MapSecret7" not in finished.stdout + finished.stderr
