"""SQL that differs between a gate's baseline and its change."""

from pathlib import Path

import pytest
from gate_files_for_tests import SERVER, SMALL, git, plan, write

from pgassay.errors import UsageError
from pgassay.experiment.gating.gate_baseline import find_baseline
from pgassay.experiment.gating.gate_file import read_gate_file


def test_sql_that_differs_is_run_by_each_side_as_it_has_it(folder: Path) -> None:
    content = "-- name: two\nSELECT 22;\n-- name: one\nSELECT 1;\n"
    write(folder, content, "before/orders.sql")
    change = read_gate_file(write(folder, SMALL + '[workloads.same]\nworkload = "full-scan"'))
    before = read_gate_file(write(folder / "before", SMALL + '[workloads.same]\nworkload = "full-scan"'))
    made = plan(before, change)
    assert made.equal == ("same",)
    kind = made.planned[0].request.made_factors[0].kind
    systems = kind.apply.args[0]
    # By their names, in the change's order; what the baseline lacks it runs as the change has it.
    assert [each.sql for each in systems["baseline"].workload.statements] == ["SELECT 1", "SELECT 22"]
    assert systems["change"].workload is None
    assert made.planned[0].units == ("", "one", "two")


def test_the_baseline_is_the_same_one_each_night_and_in_all_but_its_statements_the_change(
    folder: Path,
) -> None:
    write(folder, SMALL.replace("orders.sql", "orders.sql,clients=8"))
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    write(folder, "-- name: one\nSELECT 11;\n-- name: two\nSELECT 2;\n", "orders.sql")
    change = read_gate_file(write(folder, SMALL.replace("orders.sql", "orders.sql,clients=2")))
    ran = []
    for night in ("monday", "tuesday"):
        (made,) = plan(find_baseline("HEAD", change, folder / night).file, change).planned
        ran.append(made.request.made_factors[0].kind.apply.args[0]["baseline"].workload)
    assert ran[0] == ran[1]
    assert (ran[0].clients, [each.sql for each in ran[0].statements]) == (2, ["SELECT 1", "SELECT 2"])


@pytest.mark.parametrize(
    ("before", "now", "ran"),
    [
        # One more before the others is new; they are the same as they were.
        ("SELECT 1; SELECT 2;", "SELECT 3; SELECT 1; SELECT 2;", None),
        ("SELECT 1; SELECT 2;", "SELECT 2; SELECT 1;", None),
        (
            "SELECT 1; SELECT 2; SELECT 3;",
            "SELECT 22; SELECT 3; SELECT 1;",
            ["SELECT 2", "SELECT 3", "SELECT 1"],
        ),
        ("SELECT 1; SELECT 2;", "SELECT 1; SELECT 22;", ["SELECT 1", "SELECT 2"]),
        ("-- name: a\nSELECT 1; SELECT 2;", "SELECT 2;\n-- name: a\nSELECT 11;", ["SELECT 2", "SELECT 1"]),
        ("SELECT 1;", "-- name: a\nSELECT 1;", None),
        ("BEGIN; SELECT 1; COMMIT;", "SELECT 2; BEGIN; SELECT 1; COMMIT;", None),
    ],
)
def test_statements_without_a_name_belong_together_by_their_sql(
    folder: Path, before: str, now: str, ran: list[str] | None
) -> None:
    write(folder, now, "orders.sql")
    write(folder, before, "before/orders.sql")
    change, baseline = read_gate_file(write(folder, SMALL)), read_gate_file(write(folder / "before", SMALL))
    made = plan(baseline, change)
    if ran is None:
        assert made.equal == ("orders",)
    else:
        systems = made.planned[0].request.made_factors[0].kind.apply.args[0]
        assert [each.sql for each in systems["baseline"].workload.statements] == ran


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("SELECT 1; SELECT 2;", "SELECT 11; SELECT 3; SELECT 2;"),
        ("SELECT 1; SELECT 2;", "SELECT 11;"),
        ("SELECT 1;", "-- name: a\nSELECT 11;"),
    ],
)
def test_where_it_is_not_clear_which_statement_is_which_names_are_asked_for(
    folder: Path, before: str, now: str
) -> None:
    write(folder, now, "orders.sql")
    write(folder, before, "before/orders.sql")
    change, baseline = read_gate_file(write(folder, SMALL)), read_gate_file(write(folder / "before", SMALL))
    with pytest.raises(UsageError, match="name the statements in both"):
        plan(baseline, change)


def test_sql_that_differs_is_seen_on_a_server_that_both_sides_share(folder: Path) -> None:
    write(folder, "-- name: one\nSELECT 11;\n", "before/orders.sql")
    change = read_gate_file(write(folder, SMALL + SERVER))
    before = read_gate_file(write(folder / "before", SMALL + SERVER))
    made = plan(before, change)
    assert (len(made.planned), made.equal) == (1, ())
    request = made.planned[0].request
    systems = request.made_factors[0].kind.apply.args[0]
    assert request.server == "host=new dbname=app"
    assert [each.sql for each in systems["baseline"].workload.statements] == ["SELECT 11", "SELECT 2"]
    other = read_gate_file(write(folder / "before", SMALL + SERVER.replace("new", "old")))
    with pytest.raises(UsageError, match="both the servers and the SQL"):
        plan(other, change)
    assert plan(change, change).equal == ("orders",)


def test_maintenance_commands_that_differ_are_run_by_each_side_as_it_has_them(folder: Path) -> None:
    content = '[workloads.w]\nworkload = "maintenance:m.sql"\n'
    write(folder, "VACUUM FULL t;", "m.sql")
    write(folder, "VACUUM t;", "before/m.sql")
    change, before = read_gate_file(write(folder, content)), read_gate_file(write(folder / "before", content))
    (made,) = plan(before, change).planned
    systems = made.request.made_factors[0].kind.apply.args[0]
    assert [each.sql for each in systems["baseline"].workload.statements] == ["VACUUM (VERBOSE) t"]


def test_scripts_of_pgbench_that_differ_are_refused(folder: Path) -> None:
    content = '[workloads.w]\nworkload = "pgbench:file=p.sql@2,clients=2"\n'
    write(folder, "SELECT 1;", "p.sql")
    change = read_gate_file(write(folder, content))
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    same = find_baseline("HEAD", change, folder / "read")
    assert plan(same.file, change).equal == ("w",)
    write(folder, "SELECT pg_sleep(1);", "p.sql")
    with pytest.raises(UsageError, match=r"p\.sql is not the baseline's, .* as sql:FILE"):
        plan(same.file, change)
