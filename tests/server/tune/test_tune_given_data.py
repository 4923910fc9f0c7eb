"""`pgassay tune DSN --dataset …`: the statements of a server, on a copy that was made otherwise."""

import json
from pathlib import Path

import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from server_helpers import best_build
from source_servers import SourceServer, source_server, tuned

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]
INDEX = "(customer"


def base_backup(server: SourceServer, name: str = "backup") -> Path:
    """A physical copy of a running server, in a folder of its account."""
    folder = server.folder / name
    places = ("-h", str(server.folder), "-p", str(server.port), "-U", "postgres")
    server.run("pg_basebackup", "-D", str(folder), "-c", "fast", "-X", "stream", *places)
    return folder


def dump(server: SourceServer, name: str, *words: str) -> Path:
    file = server.folder / name
    places = ("-h", str(server.folder), "-p", str(server.port), "-U", "postgres")
    server.run("pg_dump", *words, "-f", str(file), *places, "postgres")
    return file


def test_a_base_backup_and_a_dump_take_the_place_of_the_dump_of_the_server(tmp_path: Path) -> None:
    with source_server(best_build()) as server:
        server.fill()
        for kind, made in (("folder", base_backup(server)), ("dump", dump(server, "d", "-Fc"))):
            words = ("--dataset", f"{kind}:{made}", "--statements", "2")
            answer = tuned(server.dsn(), tmp_path / kind, *words)
            assert "ACCESS SHARE locks" not in answer["stderr"]
            notes = " ".join(answer["symptom"]["copy_notes"])
            assert "the data were given and may be older than the source's" in notes
            found = [fix for fix in answer["fixes"] if INDEX in fix["sql"]]
            assert found and found[0]["verdict"] in ("recommended", "not decided"), answer["stderr"]
            assert answer["symptom"]["source"]["statements"] > 4
            assert not [each for each in answer["symptom"]["statements"] if each["unlike_source"]]
        # The dump is still there, so its proof goes on without the server, in the folder of the answer.
        again = whole_tool.run("tune", str(tmp_path / "dump"), "--max-time", "30s", "--json")
        assert again.returncode == 0, again.stderr
        further = json.loads(again.stdout)
        assert further["proof"]["members"] == answer["proof"]["members"]
        assert further["proof"]["blocks"] >= answer["proof"]["blocks"]


def test_data_that_do_not_fit_the_server_are_refused_in_a_sentence() -> None:
    """A backup of another major version, a dump with an extension, and one without the tables."""
    with source_server(best_build()) as server, source_server(resolve("17")) as older:
        server.fill()
        words = ("--max-time", "60s", "--quiet")
        said = whole_tool.run("tune", server.dsn(), "--dataset", f"folder:{older.data}", *words)
        assert "was made by PostgreSQL 17 and can't be read by 18" in whole_tool.assert_one_sentence(said, 2)
        plain = dump(server, "plain.sql", "-Fp")
        text = plain.read_text()
        needs = "CREATE EXTENSION IF NOT EXISTS of_nobody;\n\nSET default_table_access_method = heap;"
        plain.write_text(text.replace("SET default_table_access_method = heap;", needs))
        said = whole_tool.run("tune", server.dsn(), "--dataset", f"dump:{plain}", *words)
        assert "needs the extension of_nobody" in whole_tool.assert_one_sentence(said, 2)
        empty = dump(server, "empty.dump", "-Fc", "--exclude-table", "orders")
        said = whole_tool.run("tune", server.dsn(), "--dataset", f"dump:{empty}", *words)
        assert 'relation "orders" does not exist' in whole_tool.assert_one_sentence(said, 2)
        said = whole_tool.run("tune", server.dsn(), "--dataset", "folder:/nowhere", *words)
        assert "there is no /nowhere" in whole_tool.assert_one_sentence(said, 2)
