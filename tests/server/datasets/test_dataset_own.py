"""Data of the user's own: dumps, data folders and scripts become snapshots; what can't be is refused."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgassay.environment import datasets
from pgassay.environment.datasets import DATABASE, snapshots
from pgassay.environment.datasets.dump_header import read_header
from pgassay.environment.home import account
from pgassay.environment.server import private_server as server_module
from pgassay.environment.server import server_folder
from pgassay.environment.server.control_file import read_control_file
from pgassay.environment.server.initdb import initdb_command
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.programs import identity
from pgassay.environment.server.sessions import control
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from server_helpers import TINY_SETTINGS, best_build, empty_cluster, own_home, run_program, socket_folders

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
HOSTILE = 'we"ird </script> tést'
SCRIPT = f"""
CREATE ROLE "o'wner";
CREATE TABLE "{HOSTILE.replace('"', '""')}" (id int PRIMARY KEY, "co'l ""x" text);
ALTER TABLE "{HOSTILE.replace('"', '""')}" OWNER TO "o'wner";
INSERT INTO "{HOSTILE.replace('"', '""')}" SELECT n, 'value;' || n FROM generate_series(1, 1000) n;
CREATE FUNCTION three() RETURNS int LANGUAGE SQL BEGIN ATOMIC SELECT 1; SELECT 3; END;
"""


@pytest.fixture(scope="module")
def build() -> Build:
    return best_build()


@pytest.fixture
def home(build: Build) -> Iterator[Path]:
    assert build
    with own_home() as folder:
        yield folder
        assert list((folder / "registry").glob("*.json")) == []
        assert list(folder.rglob("*.partial-*")) == []
        assert socket_folders(folder) == []


def quiet(stage: str, fraction: float | None) -> None:
    del stage, fraction


def make(build: Build, text: str) -> snapshots.Snapshot:
    return snapshots.ensure(build, datasets.parse_dataset(text, build, 1), (), quiet)


def ask(build: Build, snapshot: snapshots.Snapshot, query: str) -> list[tuple[object, ...]]:
    """Rows of a query on a server on the snapshot itself; the test may spoil it."""
    with (
        Server(build, snapshot.path, TINY_SETTINGS) as server,
        control(server, snapshot.database) as session,
    ):
        return session.execute(query.encode()).fetchall()


def reachable(folder: Path) -> Path:
    """A folder in the home of a test that the servers' account may write to."""
    folder.mkdir()
    owner = account()
    if owner is not None:
        os.chown(folder, owner.uid, owner.gid)
    return folder


@pytest.fixture
def source(build: Build, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stopped cluster, as a user may have one: another superuser, its own database, its own settings."""
    folder = reachable(home / "theirs") / "data"
    command = initdb_command(build, folder, DatasetSpec(checksums=False))
    command[command.index("--username") + 1] = "the boss"
    subprocess.run(command, check=True, capture_output=True, **identity())
    with monkeypatch.context() as patched:
        for module in (server_folder, server_module):
            patched.setattr(module, "SUPERUSER", '"the boss"' if module is server_folder else "the boss")
        with Server(build, folder, TINY_SETTINGS) as server:
            with control(server) as session:
                session.execute("CREATE DATABASE shop")
                session.execute(f"CREATE TABLESPACE fast LOCATION '{reachable(home / 'fast')}'".encode())
            with control(server, "shop") as session:
                session.execute(SCRIPT.encode())
                session.execute("CREATE TABLE far TABLESPACE fast AS SELECT generate_series(1, 7) AS n")
    (folder / "postgresql.auto.conf").write_text("work_mem = '1GB'\nprimary_conninfo = 'password=secret'\n")
    return folder


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
    }


def table() -> str:
    return '"' + HOSTILE.replace('"', '""') + '"'


def test_a_script_is_run_statement_by_statement_and_its_dead_rows_are_left(build: Build, home: Path) -> None:
    script = home / "data.sql"
    script.write_text(
        "\ufeff-- a comment; with a semicolon\n" + SCRIPT + "CREATE TABLE t (a int, b text);\n"
        "COPY t FROM stdin;\n1\tone\n2\t\\N\n\\.\n"
        "CREATE TABLE parts (bid int, v int) PARTITION BY LIST (bid);\n"
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);\n"
        "INSERT INTO parts SELECT 1, n FROM generate_series(1, 5000) n;\nCREATE INDEX ON parts (bid, v);\n"
        "UPDATE parts SET v = v + 1;\n"
    )
    made = make(build, f"script:{script}")
    assert made.database == DATABASE
    assert made.facts["relations"]["parts_1"]["rows"] == 5000
    assert any("dead row versions" in note for note in made.facts["notes"])
    rows = ask(
        build,
        made,
        "SELECT (SELECT b FROM t WHERE a = 1), (SELECT count(*) FROM t WHERE b IS NULL), three(),"
        f" (SELECT count(*) FROM {table()}), (SELECT relallvisible FROM pg_class WHERE relname = 'parts_1'),"
        " pg_relation_size('parts_1') / 8192",
    )
    assert rows[0][:5] == ("one", 1, 3, 1000, 0)
    assert int(str(rows[0][5])) >= 2 * 5000 // 226  # both versions of each row: 226 such rows fill a page


def test_reading_what_a_script_left_writes_nothing(build: Build, home: Path) -> None:
    script = home / "data.sql"
    script.write_text("CREATE TABLE t AS SELECT n FROM generate_series(1, 20000) n; UPDATE t SET n = n + 1;")
    made = make(build, f"script:{script}")
    settings = {**TINY_SETTINGS, "autovacuum": "off"}
    with Server(build, made.path, settings) as server, control(server) as session:
        before = session.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        session.execute("SELECT count(*) FROM t")
        assert before is not None
        written = session.execute(
            "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)", before
        ).fetchone()
    assert written is not None
    assert written[0] < 4096


def test_a_script_that_fails_says_where(build: Build, home: Path) -> None:
    script = home / "data.sql"
    script.write_text("CREATE TABLE t (a int);\n\nINSERT INTO t VALUES ('x');\n")
    with pytest.raises(
        UsageError, match=r"data\.sql, line 3: 'INSERT INTO t VALUES \('x'\)' failed \(invalid"
    ):
        make(build, f"script:{script}")
    script.write_text("\\i other.sql\n")
    with pytest.raises(UsageError, match=r"line 1: there is no .*other\.sql"):
        make(build, f"script:{script}")
    script.write_text("-- nothing\n")
    with pytest.raises(UsageError, match="has no SQL statement"):
        make(build, f"script:{script}")
    assert snapshots.list_snapshots() == []


def test_a_script_with_commands_of_psql_is_run_by_psql(
    build: Build, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    (home / "rows.csv").write_text("1,one\n2,\n")
    (home / "tables.sql").write_text("CREATE TABLE t (a int, b text);\n")
    script = home / "data.sql"
    script.write_text(
        "\\set rows 50\n\\i tables.sql\n\\copy t from 'rows.csv' with (format csv)\n"
        "INSERT INTO t SELECT n FROM generate_series(3, :rows) n;\n"
        "SELECT 'CREATE INDEX ON t (' || c || ')' FROM unnest('{a,b}'::text[]) c \\gexec\n"
    )
    made = make(build, f"script:{script}")
    question = "SELECT count(*), count(b), (SELECT count(*) FROM pg_indexes WHERE tablename = 't') FROM t"
    assert ask(build, made, question) == [(50, 1, 2)]
    # Other rows are other data, though the script is the same.
    (home / "rows.csv").write_text("1,one\n2,two\n")
    assert ask(build, make(build, f"script:{script}"), question) == [(50, 2, 2)]
    script.write_text("\\i tables.sql\nINSERT INTO t VALUES ('x');\n")
    with pytest.raises(UsageError, match=r"psql stopped in .*data\.sql:2: ERROR:  invalid input syntax.*"):
        make(build, f"script:{script}")
    assert len(snapshots.list_snapshots()) == 2


@pytest.mark.slow
def test_a_statement_of_five_megabytes_is_run(build: Build, home: Path) -> None:
    script = home / "data.sql"
    script.write_text("CREATE TABLE t (a text);\nINSERT INTO t VALUES ('" + "it''s ;" * 750_000 + "');\n")
    made = make(build, f"script:{script}")
    assert ask(build, made, "SELECT length(a) FROM t") == [(6 * 750_000,)]


@pytest.mark.parametrize(
    "kind",
    ["custom", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("plain", "tar", "directory"))],
)
def test_a_dump_of_every_format_is_restored(build: Build, home: Path, kind: str) -> None:
    script = home / "data.sql"
    script.write_text(SCRIPT)
    original = make(build, f"script:{script}")
    dump = reachable(home / "dumps") / kind
    with Server(build, original.path, TINY_SETTINGS) as server:
        address = ["-h", str(server.socket_directory), "-U", "postgres", "-d", "postgres"]
        run_program(build, "pg_dump", f"--format={kind}", "-f", str(dump), *address)
    facts = read_header(dump)
    assert facts.format == kind
    assert facts.server_version.startswith(build.version)
    if kind != "directory" and account() is not None:
        os.chown(dump, 0, 0)  # the servers' account need not reach it
        dump.chmod(0o600)
    made = make(build, f"dump:{dump}")
    assert ask(build, made, f'SELECT count(*), max("co\'l ""x") FROM {table()}') == [(1000, "value;999")]
    older = build.model_copy(update={"version": "16.3", "major": 16})
    with pytest.raises(UsageError, match=f"16.3 can't restore .* use --pg {build.major}"):
        datasets.parse_dataset(f"dump:{dump}", older, 1)
    bare = build.model_copy(update={"bin_directory": str(home)})
    if kind == "plain":
        datasets.check_dataset(bare, datasets.parse_dataset(f"dump:{dump}", bare, 1))
    else:
        with pytest.raises(UsageError, match="comes without pg_restore"):
            datasets.parse_dataset(f"dump:{dump}", bare, 1)


@pytest.mark.slow
def test_a_build_without_client_programs_restores_a_plain_dump(build: Build, home: Path) -> None:
    script = home / "data.sql"
    script.write_text(
        SCRIPT + "CREATE TABLE empty (); INSERT INTO " + table() + " VALUES (0, E'a\\tb\\\\.');"
    )
    original = make(build, f"script:{script}")
    dump = reachable(home / "dumps") / "plain.sql"
    with Server(build, original.path, TINY_SETTINGS) as server:
        address = ["-h", str(server.socket_directory), "-U", "postgres", "-d", "postgres"]
        run_program(build, "pg_dump", "-f", str(dump), *address)
    bare = home / "bin"
    bare.mkdir()
    for program in ("postgres", "initdb"):
        (bare / program).write_text(f'#!/bin/sh\nexec "{build.bin_directory}/{program}" "$@"\n')
        (bare / program).chmod(0o755)
    made = make(build.model_copy(update={"bin_directory": str(bare)}), f"dump:{dump}")
    query = f'SELECT count(*), min("co\'l ""x") FROM {table()}'
    assert ask(build, made, query) == [(1001, "a\tb\\.")]


def test_what_is_no_dump_is_refused(build: Build, home: Path) -> None:
    other = home / "other"
    for content, complaint in (
        (b"SELECT 1;", "no pg_dump header.*--dataset script:"),
        (b"\x1f\x8b\x08rest", "is compressed: unpack it with gunzip"),
        (b"PGDMP\x01", "truncated or damaged"),
        (b"-- PostgreSQL database cluster dump\n", "a whole cluster"),
        (b"", "is not a dump"),
        (b"-- PostgreSQL database dump\nCOPY t FROM stdin;\n1\n", "is truncated .*: dump again"),
    ):
        other.write_bytes(content)
        with pytest.raises(UsageError, match=complaint):
            datasets.parse_dataset(f"dump:{other}", build, 1)
    with pytest.raises(UsageError, match="there is no"):
        datasets.parse_dataset(f"dump:{home}/nowhere", build, 1)


def test_a_dump_that_asks_for_more_than_there_is(build: Build, home: Path) -> None:
    dump = home / "plain.sql"
    for statement, complaint in (
        ("CREATE EXTENSION no_such;", "needs the extension no_such, which PostgreSQL .*--pg /path/to/bin"),
        ("SET default_tablespace = fast;", "into a tablespace: dump with pg_dump --no-tablespaces"),
    ):
        dump.write_text(f"-- PostgreSQL database dump\n{statement}\n-- PostgreSQL database dump complete\n")
        with pytest.raises(UsageError, match=complaint):
            make(build, f"dump:{dump}")


def test_a_data_folder_is_copied_and_never_written_its_tablespaces_and_links_too(
    build: Build, source: Path, home: Path
) -> None:
    before = contents(source)
    spec = datasets.parse_dataset(f"folder:{source}", build, 1)
    assert (spec.checksums, spec.wal_segment_mb) == (False, 16)
    made = snapshots.ensure(build, spec, (), quiet)
    assert contents(source) == before
    assert made.database == "shop"
    notes = " ".join(made.facts["notes"])
    assert "ALTER SYSTEM were left out: primary_conninfo, work_mem" in notes
    assert "secret" not in (made.path / "pgassay-snapshot.json").read_text()
    assert read_control_file(made.path).was_stopped
    assert ask(build, made, f"SELECT count(*), current_setting('work_mem') FROM {table()}") == [(1000, "4MB")]
    with pytest.raises(UsageError, match="has no database 'nothing': it has postgres, shop"):
        snapshots.ensure(build, spec.model_copy(update={"database": "nothing"}), (), quiet)
    (source / "base" / "1" / "PG_VERSION").touch()
    with pytest.raises(UsageError, match="has changed since the experiment was planned"):
        snapshots.ensure(build, spec.model_copy(update={"database": "shop"}), (), quiet)
    wal = home / "wal"
    shutil.move(source / "pg_wal", wal)
    (source / "pg_wal").symlink_to(wal)
    made = make(build, f"folder:{source},database=shop")
    shutil.rmtree(home / "fast")
    shutil.rmtree(wal)
    assert ask(build, made, "SELECT count(*) FROM far") == [(7,)]
    assert not [path for path in made.path.rglob("*") if path.is_symlink()]
    (source / "pg_wal").unlink()
    wal.mkdir()
    (source / "pg_wal").symlink_to(wal)
    (source / "base" / "link").symlink_to(wal)
    with pytest.raises(UsageError, match=r"base/link is a link to .* can't be followed"):
        datasets.parse_dataset(f"folder:{source}", build, 1)


def test_recovery_writes_nothing_where_the_original_has_a_tablespace(
    build: Build, home: Path, require: Callable[[str], None]
) -> None:
    """Its WAL makes one that is not in the copied folder: replayed, it would be the original's own."""
    require("enclosure")
    theirs = reachable(home / "theirs")
    original, copied, place = theirs / "original", theirs / "copied", reachable(theirs / "place")
    empty_cluster(build, original)
    with Server(build, original, TINY_SETTINGS) as server, control(server) as session:
        session.execute("CREATE TABLE near AS SELECT 1 AS n")
        session.execute("CHECKPOINT")
        shutil.copytree(original, copied)
        (copied / "postmaster.pid").unlink()
        session.execute(f"CREATE TABLESPACE far LOCATION '{place}'".encode())
        session.execute("CREATE TABLE far TABLESPACE far AS SELECT 2 AS n")
        session.execute("CHECKPOINT")
        shutil.copytree(original / "pg_wal", copied / "pg_wal", dirs_exist_ok=True)
        before = sorted((path, path.stat().st_mtime_ns) for path in place.rglob("*"))
        with pytest.raises(MeasurementError, match="its WAL creates a tablespace outside it: take a new"):
            make(build, f"folder:{copied}")
        assert before == sorted((path, path.stat().st_mtime_ns) for path in place.rglob("*"))


def test_a_running_server_another_major_and_no_folder_are_refused(build: Build, home: Path) -> None:
    folder = reachable(home / "theirs") / "data"
    empty_cluster(build, folder)
    with (
        Server(build, folder, TINY_SETTINGS) as server,
        pytest.raises(UsageError, match=rf"a server \(process {server.pid}\) is running on"),
    ):
        datasets.parse_dataset(f"folder:{folder}", build, 1)
    with pytest.raises(UsageError, match=r"no database of .* holds a table"):
        make(build, f"folder:{folder}")
    newer = build.model_copy(update={"version": "99.1", "major": 99})
    with pytest.raises(UsageError, match=rf"made by PostgreSQL {build.major} .* use --pg {build.major}"):
        datasets.parse_dataset(f"folder:{folder}", newer, 1)
    with pytest.raises(UsageError, match="has no PG_VERSION"):
        datasets.parse_dataset(f"folder:{home}", build, 1)


@pytest.mark.slow
def test_a_base_backup_and_a_crashed_folder_are_recovered_once(build: Build, home: Path) -> None:
    script = home / "data.sql"
    script.write_text(SCRIPT)
    running = make(build, f"script:{script}").path
    backup, crashed = reachable(home / "theirs") / "backup", home / "theirs" / "crashed"
    with Server(build, running, {**TINY_SETTINGS, "wal_level": "replica"}) as server:
        replication = server.socket_directory / "pg_hba.conf"
        replication.write_text(replication.read_text() + "local replication all peer map=pgassay\n")
        server.reload({})
        run_program(
            build, "pg_basebackup", "-D", str(backup), "-h", str(server.socket_directory), "-U", "postgres"
        )
        with control(server) as session:
            session.execute(f"INSERT INTO {table()} SELECT n FROM generate_series(2001, 2100) n".encode())
        server.kill()
        shutil.copytree(running, crashed)
    assert (backup / "backup_label").exists()
    made = make(build, f"folder:{backup}")
    assert "base backup" in " ".join(made.facts["notes"])
    assert ask(build, made, f"SELECT count(*) FROM {table()}") == [(1000,)]
    assert (backup / "backup_label").exists()
    recovered = make(build, f"folder:{crashed}")
    assert "not shut down cleanly" in " ".join(recovered.facts["notes"])
    assert ask(build, recovered, f"SELECT count(*) FROM {table()}") == [(1100,)]
