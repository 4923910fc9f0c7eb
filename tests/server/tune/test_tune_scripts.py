"""apply.sql and undo.sql by psql, on a server that runs: also where a run broke off, and run twice."""

import subprocess
from collections.abc import Iterator

import pytest

from native_servers import NativeTestServer, started_server
from pgassay.tune.answer.scripts import apply_script, undo_script
from pgassay.tune.candidate import Candidate
from server_helpers import best_build, run_script

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as running:
        with running.query_connection() as session:
            session.execute("CREATE TABLE orders (id int PRIMARY KEY, customer int)")
            session.execute("INSERT INTO orders SELECT i, i % 100 FROM generate_series(1, 5000) i")
        yield running


def fix(**changes: object) -> Candidate:
    known: dict[str, object] = {
        "id": "x", "layer": "design", "kind": "btree", "title": "a fix", "reason": "", "statements": (),
    }  # fmt: skip
    return Candidate.model_validate(known | changes)


INDEX = fix(
    sql=("CREATE INDEX by_customer ON public.orders (customer)",), undo=("DROP INDEX public.by_customer",)
)
MEMORY = fix(id="m", settings={"work_mem": "64MB", "hash_mem_multiplier": "3"})
COSTS = fix(id="c", settings={"random_page_cost": "1.1"})


def run(server: NativeTestServer, script: str) -> str:
    return run_script(best_build(), script, server.parameters())


def indexes(server: NativeTestServer) -> list[tuple[str, bool]]:
    with server.query_connection() as session:
        return session.execute(
            "SELECT indexrelid::regclass::text, indisvalid FROM pg_index "
            "WHERE indrelid = 'orders'::regclass AND NOT indisprimary"
        ).fetchall()


def set_by_alter_system(server: NativeTestServer) -> dict[str, str]:
    with server.query_connection() as session:
        return dict(
            session.execute(
                "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf'"
            ).fetchall()
        )


def test_an_invalid_index_of_a_run_that_broke_off_is_made_anew(server: NativeTestServer) -> None:
    script = apply_script([INDEX], None)
    with server.query_connection() as session:
        # What a cancelled CREATE INDEX CONCURRENTLY leaves.
        session.execute("CREATE INDEX by_customer ON orders (customer)")
        session.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'by_customer'::regclass")
    assert indexes(server) == [("by_customer", False)]
    for _ in range(2):  # the second time nothing is left to do
        run(server, script)
        assert indexes(server) == [("by_customer", True)]
    for _ in range(2):
        run(server, undo_script([INDEX], None))
        assert indexes(server) == []


def test_the_copy_that_a_broken_reindex_left_is_dropped_before_the_next(server: NativeTestServer) -> None:
    long = "by_" + "x" * 60
    script = apply_script([fix(sql=(f"REINDEX INDEX CONCURRENTLY public.{long}",))], None)
    left = (f"{long[:57]}_ccnew", f"{long[:56]}_ccold1")
    with server.query_connection() as session:
        session.execute(f"CREATE INDEX {long} ON orders (customer)".encode())
        for name in (*left, "by_xx_ccnew"):
            session.execute(f"CREATE INDEX {name} ON orders (customer)".encode())
            session.execute(
                f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{name}'::regclass".encode()
            )
        session.execute("CREATE INDEX valid_ccnew ON orders (customer)")
    for _ in range(2):
        run(server, script)
        # Another's stays, and what only has such a name.
        assert sorted(indexes(server)) == [("by_xx_ccnew", False), (long, True), ("valid_ccnew", True)]
    short = apply_script([fix(sql=("REINDEX INDEX CONCURRENTLY public.by_xx",))], None)
    with server.query_connection() as session:
        session.execute("CREATE INDEX by_xx ON orders (customer)")
    run(server, short)
    assert sorted(indexes(server)) == [("by_xx", True), (long, True), ("valid_ccnew", True)]
    with server.query_connection() as session:
        session.execute(f"DROP INDEX by_xx, valid_ccnew, {long}".encode())


def test_the_script_stops_at_the_first_error_whoever_runs_it(server: NativeTestServer) -> None:
    broken = fix(sql=("CREATE INDEX i ON public.missing (a)",), undo=("DROP INDEX public.i",))
    with pytest.raises(subprocess.CalledProcessError) as stopped:
        run(server, apply_script([broken, INDEX], None))
    assert stopped.value.returncode == 3 and "missing" in stopped.value.stderr
    assert indexes(server) == [], "nothing after the error was run"


def test_undo_puts_back_what_alter_system_had_set_before(server: NativeTestServer) -> None:
    with server.query_connection() as session:
        session.execute("ALTER SYSTEM SET work_mem = '12MB'")
        session.execute("SELECT pg_reload_conf()")
    before = set_by_alter_system(server)
    assert before == {"work_mem": "12MB"}
    fixes = [MEMORY, COSTS]
    for _ in range(2):  # twice: what was set before the first time is what counts
        run(server, apply_script(fixes, None))
    after = set_by_alter_system(server)
    assert after == {"work_mem": "64MB", "hash_mem_multiplier": "3", "random_page_cost": "1.1"}
    for _ in range(2):
        run(server, undo_script(fixes, None))
        assert set_by_alter_system(server) == before, "also the second time"
    with server.query_connection() as session:
        assert session.execute("SELECT to_regclass('public.pgassay_settings_kept')").fetchone() == (None,)


@pytest.mark.parametrize("is_first_undone_first", [False, True])
def test_two_tunings_of_one_setting_are_taken_back_in_any_order(
    server: NativeTestServer, is_first_undone_first: bool
) -> None:
    with server.query_connection() as session:
        session.execute("ALTER SYSTEM RESET ALL")
        session.execute("ALTER SYSTEM SET work_mem = '12MB'")
    first, second = ([fix(id="m", settings={"work_mem": each})] for each in ("64MB", "128MB"))
    for fixes in (first, second):
        for _ in range(2):
            run(server, apply_script(fixes, None))
    assert set_by_alter_system(server) == {"work_mem": "128MB"}
    between = "128MB" if is_first_undone_first else "64MB"
    one, other = (first, second) if is_first_undone_first else (second, first)
    run(server, undo_script(one, None))
    assert set_by_alter_system(server) == {"work_mem": between}
    run(server, undo_script(other, None))
    assert set_by_alter_system(server) == {"work_mem": "12MB"}
    with server.query_connection() as session:
        assert session.execute("SELECT to_regclass('public.pgassay_settings_kept')").fetchone() == (None,)


def test_what_somebody_has_set_since_is_not_taken_back(server: NativeTestServer) -> None:
    run(server, apply_script([COSTS], None))
    with server.query_connection() as session:
        session.execute("ALTER SYSTEM SET random_page_cost = '3'")
    run(server, undo_script([COSTS], None))
    assert set_by_alter_system(server)["random_page_cost"] == "3"
    with server.query_connection() as session:
        session.execute("ALTER SYSTEM RESET random_page_cost")


def test_undo_of_two_fixes_restores_each(server: NativeTestServer) -> None:
    with server.query_connection() as session:
        session.execute("ALTER SYSTEM SET random_page_cost = '2'")
        session.execute("ALTER SYSTEM SET work_mem = '12MB'")
        session.execute("SELECT pg_reload_conf()")
    before = set_by_alter_system(server)
    run(server, apply_script([MEMORY, COSTS], None))
    run(server, undo_script([MEMORY, COSTS], None))
    assert set_by_alter_system(server) == before
