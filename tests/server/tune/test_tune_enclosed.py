"""`pgassay tune` on data with planted functions: nothing outside is reached, and the rest goes on."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whole_tool
from server_helpers import best_build
from source_servers import BY_CUSTOMER, SourceServer, source_server, tuned
from storage_fixtures import folder_of_others

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]
# What a function does when it is called, by its name.
BODIES = {
    "runs_a_program": "COPY (SELECT 1) TO PROGRAM 'touch {place}/program'",
    "writes_a_file": "COPY (SELECT 1) TO '{place}/written'",
    "exports_an_object": "PERFORM lo_export(made, '{place}/exported')",
    "reads_a_file": "PERFORM pg_read_file('{place}/secret')",
    "lists_a_folder": "PERFORM pg_ls_dir('{place}')",
    "calls_a_server": "PERFORM public.dblink_exec('host={socket} port={port} dbname=postgres user=postgres', "
    "'INSERT INTO public.marks VALUES (1)')",
}
CALL = "SELECT {name}(), count(*) FROM orders WHERE customer = 7"


@pytest.fixture
def place() -> Iterator[Path]:
    with folder_of_others() as made:
        yield made


def plant(server: SourceServer, place: Path) -> None:
    """Functions that reach out, owned by the superuser, and one that hides what it tries."""
    names = {"place": place, "socket": server.folder, "port": server.port}
    server.execute("CREATE TABLE marks (number int)", "CREATE EXTENSION dblink")
    for name, body in BODIES.items():
        server.execute(
            f"CREATE FUNCTION {name}() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $body$DECLARE "
            "made oid := (SELECT oid FROM pg_largeobject_metadata LIMIT 1); "
            f"BEGIN {body.format(**names)}; RETURN 1; END$body$"
        )
    tries = " ".join(
        f"BEGIN PERFORM public.{name}(); EXCEPTION WHEN OTHERS THEN NULL; END;" for name in BODIES
    )
    server.execute(
        "SELECT lo_from_bytea(4711, 'planted')",
        f"CREATE FUNCTION hides() RETURNS int LANGUAGE plpgsql AS $body$BEGIN {tries} RETURN 1; END$body$",
        # An index on an expression, so that restoring the dump calls it as well.
        "CREATE FUNCTION key_of(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
        "$body$BEGIN PERFORM public.hides(); RETURN $1; END$body$",
        "CREATE TABLE trapped AS SELECT 1 AS number",
        "CREATE INDEX trap ON trapped (key_of(number))",
    )


def forget(server: SourceServer, place: Path) -> None:
    """Take away what the functions have done on the source, where nothing held them back."""
    assert {path.name for path in place.iterdir()} == {"exported", "program", "secret", "written"}
    assert server.rows("SELECT count(*) > 0 FROM marks") == [(True,)]
    for name in ("exported", "program", "written"):
        (place / name).unlink()
    server.execute("TRUNCATE marks")


def assert_nothing_was_reached(server: SourceServer, place: Path) -> None:
    assert [path.name for path in place.iterdir()] == ["secret"]
    assert server.rows("SELECT count(*) FROM marks") == [(0,)]


def test_planted_functions_reach_nothing_and_the_rest_is_tuned(
    tmp_path: Path, place: Path, require: Callable[[str], None]
) -> None:
    require("enclosure")
    with source_server(best_build()) as server:
        server.fill()
        plant(server, place)
        for name in (*BODIES, "hides"):
            for _ in range(3):
                server.execute(CALL.format(name=name))
        for number in range(30):
            server.execute(BY_CUSTOMER.format(number))
        forget(server, place)
        answer = tuned(server.dsn(), tmp_path / "out", "--statements", "20", max_time="60s")
        assert_nothing_was_reached(server, place)
        refused = [each for each in answer["warnings"] if "sees no file, program or server" in each]
        assert len(refused) >= 4, answer["warnings"]
        assert not [each for each in answer["warnings"] if "not enclosed" in each]
        measured = [each["sql"] for each in answer["symptom"]["statements"]]
        assert [sql for sql in measured if "hides" in sql]
        assert not [sql for sql in measured for name in BODIES if name in sql]
        assert [fix for fix in answer["fixes"] if "customer" in fix["sql"] and fix["gain"]]


@pytest.mark.parametrize("packed", ["plain", "custom", "directory"])
def test_a_hostile_dump_reaches_nothing_while_it_is_loaded(
    packed: str,
    tmp_path: Path,
    place: Path,
    require: Callable[[str], None],
    request: pytest.FixtureRequest,
) -> None:
    """Its functions run as the superuser; a plain one has commands of psql as well."""
    require("enclosure")
    build = best_build()
    with source_server(build) as server:
        server.execute(
            "CREATE TABLE orders AS SELECT n AS id, n % 100 AS customer FROM generate_series(1, 30000) n"
        )
        plant(server, place)
        shelf = place.with_name(f"{place.name}-dumps")
        request.addfinalizer(lambda: shutil.rmtree(shelf, ignore_errors=True))
        shelf.mkdir()
        shelf.chmod(0o777)
        dump = shelf / "dump"
        server.run("pg_dump", f"--format={packed}", "-f", str(dump), "-h", str(server.folder), "-p",
                   str(server.port), "-U", "postgres", "postgres")  # fmt: skip
        forget(server, place)
        if packed == "plain":
            dump.write_text(f"\\! touch {place}/program\n{dump.read_text()}")
        (tmp_path / "slow.sql").write_text(
            "-- name: slow\nSELECT count(*) FROM orders WHERE customer = 7;\n"
            "-- name: hides\nSELECT hides();\n"
        )
        finished = whole_tool.run(
            "tune", "--dataset", f"dump:{dump}", "--workload", f"sql:{tmp_path / 'slow.sql'}", "--json",
            "--out", tmp_path / "out", "--max-time", "20s", *whole_tool.build(),
        )  # fmt: skip
        assert finished.returncode == 0, finished.stderr
        assert_nothing_was_reached(server, place)
