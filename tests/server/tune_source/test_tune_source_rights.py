"""`pgassay tune DSN` of a standby, by roles without rights, and of servers that can't be tuned."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import whole_tool
from server_helpers import best_build
from source_servers import COUNTED, SourceServer, source_server, standby_of, tuned

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]
QUIET = ("--statements", "2", "--quiet", "--max-time", "60s")


def refused(server: SourceServer, *words: str, dsn: str = "", status: int = 2, **options: object) -> str:
    said = whole_tool.run("tune", dsn or server.dsn(user="app"), *QUIET, *words, **options)  # type: ignore[arg-type]
    return whole_tool.assert_one_sentence(said, status)


def test_a_standby_is_tuned_by_what_it_counted_itself(tmp_path: Path) -> None:
    with source_server(best_build()) as primary:
        primary.fill()
        with standby_of(primary) as standby:
            said = refused(standby, dsn=standby.dsn())
            assert "has no query" in said
            with standby.connection() as session:
                for number in range(5):
                    session.execute(
                        f"SELECT max(placed) FROM orders WHERE customer = {number}".encode(), prepare=False
                    )
            answer = tuned(standby.dsn(), tmp_path / "out", "--statements", "2")
            assert "a standby" in answer["stderr"] and "max_standby_streaming_delay" in answer["stderr"]
            assert any("is a standby" in note for note in answer["symptom"]["copy_notes"])
            assert "(customer" in answer["fixes"][0]["sql"], answer["verdict"]
            standby.wait_until_left_alone()


def test_each_right_that_is_missing_is_named(tmp_path: Path) -> None:
    with source_server(best_build()) as server:
        server.fill()
        server.execute("CREATE ROLE app LOGIN", "CREATE SCHEMA secret", "CREATE TABLE secret.t (x int)")
        assert 'type GRANT pg_read_all_stats TO "app" there' in refused(server)
        server.execute("GRANT pg_read_all_stats TO app")
        assert "must be allowed to read the column" in (unread := refused(server))
        assert "the role app may not read the tables: type GRANT pg_read_all_data TO" in unread
        server.execute("GRANT SELECT ON orders TO app")
        assert "permission denied for schema secret" in (closed := refused(server))
        assert "GRANT pg_read_all_data TO app" in closed
        server.execute("GRANT pg_read_all_data TO app")
        server.execute(
            "ALTER TABLE orders ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON orders USING (customer > 10)"
        )
        assert "row-level security" in refused(server)
        with server.connection() as session:
            for _ in range(20):
                session.execute("SELECT status, count(*), max(placed) FROM orders GROUP BY status")
        limited = refused(server)
        assert "row-level security" in limited and "ALTER ROLE app BYPASSRLS" in limited
        server.execute("ALTER ROLE app BYPASSRLS", "ALTER ROLE app SET statement_timeout = '1ms'")
        server.execute("ALTER ROLE app SET lock_timeout = '1ms'", "ALTER ROLE app SET work_mem = '5MB'")
        answer = tuned(server.dsn(user="app"), tmp_path / "out", "--statements", "2")
        assert answer["symptom"]["source"]["settings"]["work_mem"] == "5MB"
        assert "statement_timeout" not in answer["symptom"]["source"]["settings"]


def test_a_server_that_counts_nothing_says_how_it_would(tmp_path: Path) -> None:
    with source_server(best_build(), {"shared_preload_libraries": ""}) as server:
        server.execute("CREATE TABLE t (x int)")
        without = refused(server, dsn=server.dsn())
        assert "has no pg_stat_statements" in without and "CREATE EXTENSION pg_stat_statements in" in without
        server.execute("CREATE EXTENSION pg_stat_statements")
        assert "add it to shared_preload_libraries and restart" in refused(server, dsn=server.dsn())
        server.configure(shared_preload_libraries=COUNTED["shared_preload_libraries"])
        server.run("pg_ctl", "-D", str(server.data), "-w", "-m", "fast", "stop")
        server.start_again()
        server.fill("postgres")
        # An older version of the extension than the server's has other columns.
        server.execute(
            "DROP EXTENSION pg_stat_statements", "CREATE EXTENSION pg_stat_statements VERSION '1.8'"
        )
        with server.connection() as session:
            for number in range(5):
                session.execute(f"SELECT count(*) FROM orders WHERE customer = {number}".encode())
        answer = tuned(server.dsn(), tmp_path / "out", "--statements", "2")
        assert "(customer" in answer["fixes"][0]["sql"], answer["verdict"]


def test_a_copy_that_the_disk_cannot_hold_is_refused(require: Callable[[str], None]) -> None:
    require("loop")  # only root mounts
    with source_server(best_build()) as server, whole_tool.private_home() as home:
        server.fill()
        small = ("-t", "tmpfs", "-o", "size=200m,mode=755", "tmpfs", str(home))
        subprocess.run(["mount", *small], check=True)
        try:
            said = refused(server, *whole_tool.build(), dsn=server.dsn(), home=home)
            assert "are free: free some space there, or name a folder with more space" in said
            assert not [*home.glob("dumps/*")]
        finally:
            subprocess.run(["umount", home], check=True)
