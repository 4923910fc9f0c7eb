"""Functions in the data, called on an enclosed server and on one that is not: what they reach."""

import codecs
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest

from pgassay.environment.builds.io_uring_gates import io_uring_gate
from pgassay.environment.builds.registry import resolve
from pgassay.environment.cgroup.group import Cgroup, memory_limit
from pgassay.environment.server import enclosure
from pgassay.environment.server.enclosure import isolated
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.server_processes import SHARED_MEMORY_PREFIX
from pgassay.environment.server.sessions import control
from pgassay.model.build import Build
from server_helpers import (
    TINY_SETTINGS,
    answer_of,
    best_build,
    child,
    empty_cluster,
    own_home,
    socket_folders,
)
from storage_fixtures import folder_of_others

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
# Each is the body of a function that its owner, a superuser, lets everybody call.
REACHING = {
    "program": "COPY (SELECT 1) TO PROGRAM 'touch {place}/program'",
    "write": "COPY (SELECT 1) TO '{place}/written'",
    "export": "PERFORM lo_from_bytea(4711, 'x'); PERFORM lo_export(4711, '{place}/exported')",
    "read": "PERFORM pg_read_file('{place}/secret')",
    "list": "PERFORM pg_ls_dir('{place}')",
    "library": "PERFORM lo_import('{module}', 4712); PERFORM lo_export(4712, '{data}/planted.so'); "
    "LOAD '{data}/planted.so'",
    "dblink": "PERFORM dblink_exec('host={socket} port=5432 dbname=postgres', 'CREATE TABLE by_dblink ()')",
    "fdw": "INSERT INTO far VALUES (1)",
}
SETUP = (
    "CREATE EXTENSION dblink",
    "CREATE EXTENSION postgres_fdw",
    "CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw "
    "OPTIONS (host '{socket}', port '5432', dbname 'postgres')",
    "CREATE USER MAPPING FOR PUBLIC SERVER other OPTIONS (user 'postgres', password_required 'false')",
    "CREATE FOREIGN TABLE far (number int) SERVER other OPTIONS (table_name 'marks')",
    "CREATE ROLE visitor",
)


@pytest.fixture
def place() -> Iterator[Path]:
    with folder_of_others() as made:
        yield made


def build_with_dblink() -> Build:
    build = best_build()
    return build if "dblink" in build.extensions else resolve("npm:18")


def reached(server: Server, names: Mapping[str, str]) -> dict[str, str]:
    """What each planted function answers to a role without rights: '' or the server's refusal."""
    answers = {}
    with control(server) as session:
        for sql in SETUP:
            session.execute(sql.format(**names).encode())
        for name, body in REACHING.items():
            made = f"CREATE FUNCTION {name}() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS "
            session.execute(f"{made}$body$BEGIN {body.format(**names)}; END$body$".encode())
        session.execute("SET ROLE visitor")
        for name in REACHING:
            try:
                session.execute(f"SELECT {name}()".encode())
                answers[name] = ""
            except psycopg.Error as error:
                answers[name] = f"{error.diag.message_primary} {error.diag.message_detail or ''}"
    return answers


@pytest.mark.parametrize("encloses", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_function_of_the_data_reaches_nothing_outside(
    encloses: bool, place: Path, require: Callable[[str], None]
) -> None:
    """Without the enclosure all of them do: so what holds them back is that alone."""
    require("enclosure")
    build = build_with_dblink()
    if "dblink" not in build.extensions:
        pytest.skip("no build with dblink")
    with own_home() as home:
        data, others = (empty_cluster(build, home / "data" / name) for name in ("copy", "others"))
        module = next(Path(build.bin_directory).parent.rglob("pg_prewarm.so"))
        with Server(build, others, TINY_SETTINGS) as other, control(other) as session:
            session.execute("CREATE TABLE marks (number int)")
            names = {
                "place": str(place), "data": str(data), "module": str(module),
                "socket": str(other.socket_directory),
            }  # fmt: skip
            manner = isolated(leaves_network=False) if encloses else nullcontext()
            with manner, Server(build, data, TINY_SETTINGS) as server:
                answers = reached(server, names)
            marks = session.execute("SELECT count(*) FROM marks").fetchone()
            tables = session.execute("SELECT count(*) FROM pg_class WHERE relname = 'by_dblink'").fetchone()
        left = sorted(path.name for path in place.iterdir())
        if not encloses:
            assert answers == dict.fromkeys(REACHING, "")
            assert (marks, tables) == ((1,), (1,))
            assert left == ["exported", "program", "secret", "written"]
            return
        assert (marks, tables, left) == ((0,), (0,), ["secret"])
        assert "could not execute" in answers["program"] or "failed" in answers["program"]
        for name in ("write", "export", "read", "list"):
            assert "could not" in answers[name] and "No such file" in answers[name], answers
        assert "failed to map segment" in answers["library"]
        assert "could not" in answers["dblink"] and "could not" in answers["fdw"]


def test_an_enclosed_server_works_and_leaves_nothing_when_it_is_killed(
    require: Callable[[str], None],
) -> None:
    require("enclosure")
    build = best_build()
    before = {path for path in Path("/dev/shm").iterdir() if str(path).startswith(SHARED_MEMORY_PREFIX)}
    with own_home() as home, isolated(leaves_network=False):
        data = empty_cluster(build, home / "data" / "copy")
        server = Server(build, data, {**TINY_SETTINGS, "huge_pages": "try", "fsync": "off"})
        server.start()
        with control(server) as session:
            # Parallel workers share memory below /dev/shm.
            for sql in (
                "SET parallel_setup_cost = 0",
                "SET parallel_tuple_cost = 0",
                "SET work_mem = '64kB'",
            ):
                session.execute(sql)
            session.execute("CREATE TABLE numbers AS SELECT generate_series(1, 100000) AS n")
            session.execute("SET min_parallel_table_scan_size = 0")
            plan = "\n".join(row[0] for row in session.execute(
                "EXPLAIN (ANALYZE, COSTS OFF) SELECT count(*) FROM (SELECT n FROM numbers ORDER BY n) AS s"
            ).fetchall())  # fmt: skip
            assert "Workers Launched: 2" in plan
            assert session.execute("SELECT pg_backend_pid()").fetchone()[0] in server.process_ids()  # type: ignore[index]  # one row
        server.reload({"work_mem": "8MB"})
        with control(server) as session:
            assert session.execute("SHOW work_mem").fetchone() == ("8MB",)
        assert server.server_cpu_seconds() > 0
        assert "database system is ready" in server.log_tail(50)
        server.kill()
        assert not server.process_ids() and not socket_folders(home)
        with server, control(server) as session:
            assert session.execute("SELECT count(*) FROM numbers").fetchone() == (100000,)
    after = {path for path in Path("/dev/shm").iterdir() if str(path).startswith(SHARED_MEMORY_PREFIX)}
    assert not {path for path in after - before if path.stat().st_uid == os.geteuid()}


def test_what_the_data_leave_in_their_settings_and_in_the_socket_folder_harms_nothing(place: Path) -> None:
    """ALTER SYSTEM outranks a server's file of settings, not its command line; tablespaces make folders."""
    build = best_build()
    left = {
        "listen_addresses": "127.0.0.1", "port": "5433", "unix_socket_directories": str(place),
        "hba_file": str(place / "hba"), "logging_collector": "on", "log_directory": str(place),
        "external_pid_file": str(place / "pid"), "work_mem": "7MB",
    }  # fmt: skip
    with own_home() as home:
        data = empty_cluster(build, home / "data" / "copy")
        with Server(build, data, TINY_SETTINGS) as server, control(server) as session:
            for name, value in left.items():
                session.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
            session.execute(f"CREATE TABLESPACE near LOCATION '{server.socket_directory}'".encode())
        assert not socket_folders(home)
        with Server(build, data, TINY_SETTINGS) as server, control(server) as session:
            held = {name: session.execute(f"SHOW {name}".encode()).fetchone() for name in left}
            assert held["listen_addresses"] == held["external_pid_file"] == ("",)
            assert held["unix_socket_directories"] == (str(server.socket_directory),)
            assert held["hba_file"] == (str(server.socket_directory / "pg_hba.conf"),)
            assert (held["logging_collector"], held["port"]) == (("off",), ("5432",))
            # What does not concern its privacy is the data's own.
            assert held["work_mem"] == ("7MB",)
        assert [path.name for path in place.iterdir()] == ["secret"]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["16", "17", "18"])
def test_every_build_at_hand_starts_enclosed(version: str, require: Callable[[str], None]) -> None:
    """Libraries that lie beside the binaries are found, and modules that are loaded at the start."""
    require("enclosure")
    builds = {build.bin_directory: build for name in (version, f"npm:{version}") for build in [resolve(name)]}
    for build in builds.values():
        settings = {**TINY_SETTINGS, "shared_preload_libraries": "pg_stat_statements,auto_explain"}
        if build.has_io_uring and io_uring_gate(build) is None:
            settings["io_method"] = "io_uring"
        with own_home() as home, isolated(leaves_network=False):
            data = empty_cluster(build, home / "data" / "copy")
            with Server(build, data, settings) as server, control(server) as session:
                session.execute("CREATE EXTENSION pg_stat_statements")
                session.execute("SET jit = on")
                assert session.execute("SELECT count(*) > 0 FROM pg_stat_statements").fetchone() == (True,)
                now = session.execute("SELECT to_char(now() AT TIME ZONE 'Europe/Zurich', 'YYYY')")
                assert now.fetchone() is not None


def enclosed_as_ordinary(build: Build, folder: Path, python: str) -> tuple[tuple[str, ...], str, str]:
    """(what could not be had, what a program answers, what a network address answers)."""
    os.environ["PGASSAY_HOME"] = str(folder)
    enclosure.sys.executable = python  # that of the tests may lie where this account can't go
    with isolated(leaves_network=True) as missing:
        data = empty_cluster(build, folder / "copy")
        with Server(build, data, TINY_SETTINGS) as server, control(server) as session:
            answers = []
            for sql in (
                "COPY (SELECT 1) TO PROGRAM 'true'",
                "SELECT dblink_connect('host=127.0.0.1 port=9')",
            ):
                try:
                    session.execute("CREATE EXTENSION IF NOT EXISTS dblink")
                    session.execute(sql.encode())
                    answers.append("")
                except psycopg.Error as error:
                    answers.append(f"{error.diag.message_primary} {error.diag.message_detail or ''}")
    return missing, answers[0], answers[1]


@pytest.mark.slow
def test_a_server_of_an_ordinary_account_is_enclosed_and_has_no_network(
    place: Path, require: Callable[[str], None]
) -> None:
    require("enclosure")
    require("root")
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin")
    if python is None:
        pytest.skip("no Python that every account may run")
    build = build_with_dblink()
    codecs.lookup("ascii")  # the child may not read Python's library
    answer = answer_of(*child(lambda: enclosed_as_ordinary(build, place, python), "nobody"))
    missing, program, network = answer
    assert missing == ()
    assert "could not execute" in program and "No such file" in program
    assert "could not establish" in network and "refused" not in network


@pytest.mark.slow
def test_an_enclosed_server_is_held_by_its_control_group(require: Callable[[str], None]) -> None:
    require("enclosure")
    require("cgroup-memory")
    build = best_build()
    with own_home() as home, isolated(leaves_network=False):
        data = empty_cluster(build, home / "data" / "copy")
        group = Cgroup.create("enclosed", memory_limit(256 << 20))
        try:
            with Server(build, data, TINY_SETTINGS, group) as server:
                assert set(server.process_ids()) <= group.pids()
                assert server.server_cpu_seconds() > 0
        finally:
            group.remove()
