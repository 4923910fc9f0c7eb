"""`pgassay tune DSN` on real servers: what is read, the copy, the answer, and that nothing is written."""

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

import whole_tool
from native_servers import started_server
from pgassay.environment.cleanup.source_copies import KEPT_UNTIL_FILE, remove_kept_dumps
from pgassay.environment.home import home
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import UsageError
from pgassay.model.build import Build
from pgassay.progress import NullProgress
from pgassay.tune.source.counted import CATALOG, UTILITY, VALUES, read_counted
from pgassay.tune.source.dump import dumped
from pgassay.tune.source.gather import explained_on, gather
from pgassay.tune.source.source_server import SourceServer, open_source
from pgassay.tune.tuned_statements import measured
from remote_servers import DATABASE, PASSWORD, RemoteTestServer
from server_helpers import best_build
from source_servers import SETUP, connection_string, counting_server, load

pytestmark = pytest.mark.server


def written(session: ControlSession) -> tuple[object, ...]:
    """What changed rows since the server's start; reading commits as well, and counts rows of catalogs."""
    session.execute("SELECT pg_stat_force_next_flush()")
    session.execute("SELECT pg_stat_clear_snapshot()")
    row = session.execute(
        "SELECT tup_inserted, tup_updated, tup_deleted, temp_files FROM pg_stat_database "
        "WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return (*row, *(session.execute("SELECT pg_current_wal_insert_lsn() > '0/0'").fetchone() or ()))


@pytest.mark.shares_machine
def test_a_server_is_read_and_dumped_and_nothing_is_written_there() -> None:
    build = best_build()
    with counting_server(build) as (server, session):
        session.execute("SET pg_stat_statements.track = none")
        source = open_source(connection_string(server))
        before = written(session)
        assert (source.is_here, source.is_superuser, source.encoding) == (True, True, "UTF8")
        assert source.settings["work_mem"].value == "3MB"
        check_read(source)
        check_dumped(source, build)
        assert written(session) == before
        refused(session, server)


def check_read(source: SourceServer) -> None:
    with source.reading() as session:
        counted = read_counted(source, session, 20)
        assert {CATALOG, UTILITY} <= counted.ignored.keys()
        last = counted.chosen[-1]
        alone = read_counted(source, session, 20, [last.query_id])
        assert [(each.query_id, each.share) for each in alone.chosen] == [(last.query_id, last.share)]
        with pytest.raises(UsageError, match=r"has no statement 17 of .*: name a queryid"):
            read_counted(source, session, 20, ["17"])
        gathered = gather(source, session, counted.chosen, {}, ())
        by_text = {each.sql: each for each in gathered.statements}
        customer = next(each for sql, each in by_text.items() if "max(status)" in sql)
        # Calls are weights, and values those that the columns have.
        assert customer.weight == 12
        assert len(customer.parameters) == 2
        assert all(values[1] in ("open", "closed") for values in customer.parameters)
        recent = next(each for sql, each in by_text.items() if "interval" in sql)
        # A tenth and a hundredth of 83 days.
        frequent, rare = (str(values[0]) for values in recent.parameters)
        assert frequent.startswith("8 days") and "day" not in rare
        assert recent.parameters[0][1] == "5"
        assert [each.reason for each in gathered.left_out if "current_setting" in each.reason]
        for each in measured(gathered.statements):
            document, why = explained_on(session, each.sql)
            assert document and not why, (each.sql, why)
        assert explained_on(session, "SELECT nothing")[1] == 'column "nothing" does not exist'


def check_dumped(source: SourceServer, build: Build) -> None:
    said: list[str] = []

    class Told(NullProgress):
        def message(self, content: str) -> None:
            said.append(content)

    with dumped(source, build, Told()) as dump:
        assert dump.file.read_bytes().startswith(b"PGDMP")
        assert stat.S_IMODE(dump.file.parent.stat().st_mode) == 0o700
    assert "ACCESS SHARE locks" in said[0]
    assert not dump.file.parent.exists()
    # One that somebody may go on with stays for a day, which the next start of another run leaves alone.
    with dumped(source, build, Told()) as dump:
        dump.is_kept = True
    assert dump.file.exists() and not registered(dump.file.parent)
    remove_kept_dumps()
    assert dump.file.exists()
    (dump.file.parent / KEPT_UNTIL_FILE).write_text("1000")
    assert any(dump.file.parent.name in sentence for sentence in remove_kept_dumps())
    assert not dump.file.parent.exists()


def registered(folder: Path) -> bool:
    """Whether the next start would remove it as a dead run's."""
    return any(str(folder) in file.read_text() for file in (home() / "registry").glob("folder-*.json"))


def refused(session: ControlSession, server: Server) -> None:
    """A role that may not see others' statements, and a database without the extension."""
    source = open_source(connection_string(server))
    without = replace(source, role="app", reads_all_stats=False)
    with source.reading() as reading:
        session.execute("CREATE ROLE app")
        reading.execute("SET ROLE app")
        with pytest.raises(UsageError, match='type GRANT pg_read_all_stats TO "app" there'):
            read_counted(without, reading, 20)
        reading.execute("RESET ROLE")
        session.execute("SELECT pg_stat_statements_reset()")
        with pytest.raises(UsageError, match="has no query"):
            read_counted(source, reading, 20)
        session.execute("DROP EXTENSION pg_stat_statements")
        with pytest.raises(UsageError, match="CREATE EXTENSION pg_stat_statements in postgres"):
            read_counted(source, reading, 20)


@pytest.mark.shares_machine
def test_what_reads_a_whole_table_has_its_place_before_a_load_of_inserts() -> None:
    with counting_server(best_build()) as (server, session):
        session.execute("SET pg_stat_statements.track = none")
        session.execute(
            "CREATE TABLE members AS SELECT i AS id, i || '@x' AS email FROM generate_series(1, 20000) i"
        )
        session.execute("CREATE TABLE visits (id int, note text)")
        session.execute("SELECT pg_stat_statements_reset()")
        session.execute("SET pg_stat_statements.track = top")
        for number in range(3):
            session.execute(f"SELECT id FROM members WHERE lower(email) = '{number}@x'")
        session.execute("INSERT INTO visits SELECT i, repeat('x', 500) FROM generate_series(1, 200000) i")
        session.execute("SET pg_stat_statements.track = none")
        source = open_source(connection_string(server))
        with source.reading() as reading:
            one, both = read_counted(source, reading, 1), read_counted(source, reading, 2)
        # The load, which takes far longer, only has the place that the login leaves.
        assert {each.sql.split()[0] for each in both.chosen} == {"INSERT", "SELECT"}
        assert [each.sql.split()[0] for each in one.chosen] == ["SELECT"]
        assert one.ignored[VALUES] == 1


# --- The whole command.


def tuned(server_string: str, out: Path, *words: str, **options: object) -> dict[str, object]:
    finished = whole_tool.run(
        "tune",
        server_string,
        "--max-time",
        "6m",
        "--out",
        out,
        "--json",
        *words,
        **options,  # type: ignore[arg-type]
    )
    assert PASSWORD not in finished.stdout + finished.stderr
    assert finished.returncode == 0, finished.stderr
    assert "ACCESS SHARE locks" in finished.stderr
    document: dict[str, object] = json.loads(finished.stdout)
    assert document == json.loads((out / "tune.json").read_text())
    return document


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_role_with_a_password_is_enough_and_the_password_is_nowhere(tmp_path: Path) -> None:
    """Over TCP with TLS, the password in a file; refused without the rights, and without the password."""
    with started_server(RemoteTestServer) as server:
        counting(server)
        words = ("--statements", "3", "--pg", str(server.bin), "--quiet", "--json")
        environment = whole_tool.environment()
        passwords = tmp_path / "passwords"
        passwords.write_text(
            f"*:*:*:*:{PASSWORD.replace(chr(92), chr(92) * 2).replace(':', chr(92) + ':')}\n"
        )
        passwords.chmod(0o600)
        known = environment | {"PGPASSFILE": str(passwords)}
        name = server.uri(password=False)
        refused = whole_tool.run("tune", name, *words, env=environment | {"PGPASSFILE": "/nowhere"})
        assert "put the password into a password file" in whole_tool.assert_one_sentence(refused, 2)
        hidden = whole_tool.run("tune", name, *words, env=known)
        assert "GRANT pg_read_all_stats TO" in whole_tool.assert_one_sentence(hidden, 2)
        grant(server, "GRANT pg_read_all_stats TO bench")
        blind = whole_tool.run("tune", name, *words, env=known)
        assert "must be allowed to read the column" in whole_tool.assert_one_sentence(blind, 2)
        grant(server, "GRANT SELECT ON orders TO bench")
        closed = whole_tool.run("tune", name, *words, env=known)
        assert "GRANT pg_read_all_data TO bench" in whole_tool.assert_one_sentence(closed, 2)
        grant(server, "GRANT pg_read_all_data TO bench")
        out = tmp_path / "out"
        finished = whole_tool.run(
            "tune", server.uri(), *words, "--max-time", "90s", "--out", out, env=environment
        )
        assert finished.returncode == 0, finished.stderr
        answer = json.loads(finished.stdout)
        assert not any("another machine" in note for note in answer["symptom"]["copy_notes"])
        stored = b"".join(file.read_bytes() for file in out.rglob("*") if file.is_file())
        for secret in (PASSWORD, quote(PASSWORD, safe="")):
            assert secret.encode() not in stored
            assert secret not in finished.stdout + finished.stderr + closed.stderr + hidden.stderr


def grant(server: RemoteTestServer, sql: str) -> None:
    with psycopg.connect(**server.parameters(dbname=DATABASE), autocommit=True) as connection:
        connection.execute(sql.encode())


def counting(server: RemoteTestServer) -> None:
    """Have it count statements, of another role, on a table that this one owns."""
    with server.query_connection() as connection:
        connection.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
    server.run("pg_ctl", "-D", str(server.folder / "data"), "-w", "-m", "fast", "stop")
    server.start_again()
    with psycopg.connect(**server.parameters(dbname=DATABASE), autocommit=True) as connection:
        for sql in SETUP:
            connection.execute(sql.encode())
        connection.execute("CREATE TABLE private AS SELECT 1 AS number")
        load(connection)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_index_that_a_server_misses_is_found_and_proven_on_a_copy_of_it(tmp_path: Path) -> None:
    build = best_build()
    with counting_server(build) as (server, session):
        session.execute("SET pg_stat_statements.track = none")
        before = written(session)
        answer: Any = tuned(
            connection_string(server), tmp_path / "out", "--statements", "3", "--pg", build.bin_directory
        )
        assert written(session) == before
        best = answer["fixes"][0]
        assert (best["verdict"], best["evidence"]) == ("recommended", "proof"), answer["symptom"]
        assert "(customer" in best["sql"]
        source = answer["symptom"]["source"]
        assert source["settings"]["work_mem"] == "3MB"
        assert 0 < source["share"] <= 1
        slow = [each for each in answer["symptom"]["statements"] if "max(status)" in each["sql"]]
        assert len(slow) == 2 and all(each["source_ms"] > 0 and not each["unlike_source"] for each in slow)
        # What was measured can be given again.
        file = tmp_path / "out" / "statements.sql"
        words = ("--workload", f"sql:{file}", "--dataset", "dump:/nowhere", "--pg", build.bin_directory)
        again = whole_tool.run("tune", *words)
        assert "there is no /nowhere" in whole_tool.assert_one_sentence(again, 2)
        assert "current_setting" in (tmp_path / "out" / "left-out.sql").read_text()
