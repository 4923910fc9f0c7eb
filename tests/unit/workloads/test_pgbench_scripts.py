"""`pgbench:file=…`: what is typed becomes a load of scripts, or a sentence."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans_for_tests import base_spec

from pgassay.errors import UsageError
from pgassay.experiment.planning.experiment_file import read_file
from pgassay.factors.registry import parse_factor
from pgassay.fleet.spreading.machine_command import machine_command
from pgassay.native.scripts import read_scripts
from pgassay.workloads.registry import parse_workload

READING = "\\set aid random(1, :rows)\nBEGIN;\nSELECT * FROM t WHERE aid = :aid;\nEND;\n"
WRITING = "UPDATE t SET a = :Rows;\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.sql").write_text(READING)
    (tmp_path / "b, c.sql").write_text(WRITING)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_scripts_have_weights_and_variables() -> None:
    workload = parse_workload("pgbench:file=a.sql@3+b\\, c.sql,clients=20,threads=2,var.rows=100")
    assert workload.load is not None
    names = [(script.name, script.weight) for script in workload.load.scripts]
    assert names == [("a.sql", 3), ("b, c.sql", 1)]
    assert (workload.load.clients, workload.load.variables) == (20, {"rows": "100"})
    assert (workload.writes, workload.load.protocol) == (True, "simple")
    assert not parse_workload("pgbench:file=a.sql").writes
    assert parse_workload("pgbench:file=a.sql,writes=yes").writes


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pgbench", "needs a script: write --workload pgbench:file=FILE"),
        ("pgbench:clients=2", "needs a script"),
        ("pgbench:file=none.sql", "can't read the SQL file none.sql"),
        ("pgbench:file=a.sql@many", "'many' is not the weight of a.sql: write a whole number from 0 on"),
        ("pgbench:file=a.sql@-1", "'-1' is not the weight of a.sql"),
        ("pgbench:file=a.sql@2147483648", "weight: '2147483648' is not a whole number from 0 to 2147483647"),
        ("pgbench:file=a.sql@0", "gives no script a weight above 0, so none would run: write 1 or more"),
        ("pgbench:file=a.sql,rows=2", "has no option 'rows'"),
        (
            "pgbench:file=a.sql,var.row=2",
            "var.row: no script uses the variable row; the variables are",
        ),
        ("pgbench:file=bad.sql", "bad.sql:2: unexpected function name .foo. at column 8 in command .set."),
        (
            "pgbench:file=a.sql,var.rows=100,1000",
            "var.rows has several values: compare them as a factor, var.rows=100,1000 before --workload",
        ),
        ("pgbench:file=a.sql,clients=2,4,8,threads=1", "factor, clients=2,4,8 before --workload"),
        (
            "pgbench:file=a.sql,protocol=simple,prepared",
            "can't be compared as a factor: write one, protocol=",
        ),
        ("pgbench:file=pipeline.sql", "a pipeline is not possible with protocol=simple"),
        ("pgbench:file=empty.sql", "empty.sql: the script has no command"),
        ("pgbench:file=a.sql,writes=maybe", "write writes=yes or writes=no"),
    ],
)
def test_what_can_not_be_run_is_refused_with_its_place(folder: Path, text: str, sentence: str) -> None:
    (folder / "bad.sql").write_text("SELECT 1;\n\\set a foo(1)\n")
    (folder / "pipeline.sql").write_text("\\startpipeline\nSELECT 1;\n\\endpipeline\n")
    (folder / "empty.sql").write_text("-- nothing\n")
    with pytest.raises(UsageError, match=sentence):
        parse_workload(text)


@pytest.mark.usefixtures("folder")
def test_a_variable_is_a_factor() -> None:
    factor = parse_factor("var.Rows=10,1000")
    spec = base_spec().model_copy(update={"workload": parse_workload("pgbench:file=b\\, c.sql")})
    changed = factor.kind.apply(factor.name, "1000", spec).workload.load
    assert changed is not None
    assert changed.variables == {"Rows": "1000"}
    with pytest.raises(UsageError, match="no script uses the variable rows; the variables are Rows"):
        factor.kind.apply("var.rows", "10", spec)
    with pytest.raises(UsageError, match="add --workload pgbench:file=FILE"):
        factor.kind.apply("var.Rows", "10", base_spec())


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("BEGIN\\; UPDATE t SET a = 1\\; END;\n", True),
        ("SELECT 1\\; TRUNCATE t;\n", True),
        ("BEGIN\\; SELECT 1\\; END;\n", False),
        ("SELECT 'a;b'\\; SELECT 1;\n", False),
    ],
)
def test_statements_that_are_sent_at_once_write_as_others_do(folder: Path, text: str, writes: bool) -> None:
    (folder / "once.sql").write_text(text)
    assert parse_workload("pgbench:file=once.sql").writes is writes


def test_a_pause_in_a_transaction_needs_an_end_that_is_sent_by_itself(folder: Path) -> None:
    (folder / "once.sql").write_text("BEGIN\\; UPDATE t SET a = 1\\; END;\n")
    with pytest.raises(UsageError, match="idle_in_transaction pauses before the end of a transaction"):
        parse_workload("pgbench:file=once.sql,idle_in_transaction=5ms")
    assert parse_workload("pgbench:file=a.sql,idle_in_transaction=5ms").load is not None


@pytest.mark.usefixtures("folder")
def test_the_largest_weight_is_pgbench_s() -> None:
    workload = parse_workload("pgbench:file=a.sql@2147483647")
    assert workload.load is not None and workload.load.scripts[0].weight == 2**31 - 1


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("tpcb:clients=2,curve=day.csv@288", "tpcb:clients=2,curve=DIR/day.csv@288"),
        ("pgbench:file=a.sql@2,curve=sub/day.csv", "pgbench:file=DIR/a.sql@2,curve=DIR/sub/day.csv"),
        ("sysbench:oltp_insert,curve=/x/day.csv", "sysbench:oltp_insert,curve=/x/day.csv"),
        ("tpcb", "tpcb"),
    ],
)
def test_a_curve_is_looked_for_beside_an_experiments_file(tmp_path: Path, typed: str, found: str) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(f"workload = '{typed}'\n[factors]\nwork_mem = ['4MB', '8MB']\n")
    assert read_file(file, None, ()).workload == found.replace("DIR", str(tmp_path))


@pytest.mark.parametrize(
    ("text", "is_possible"),
    [
        ("\\set rows 10\nSELECT :rows;\n", False),
        ("-- :rows\n\\set  rows random(1, \\\n 9)\nSELECT :rows;\n", False),
        ("\\set rows :rows * 2\nSELECT :rows;\n", True),
        ("SELECT :rows;\n\\set rows 10\n", True),
        ("\\if :scale > 1\n\\set rows 10\n\\endif\nSELECT :rows;\n", True),
        ("\\if true\n\\endif\n\\set rows 10\nSELECT :rows, :rowset;\n", False),
    ],
)
def test_a_variable_that_its_script_sets_itself_is_refused(
    folder: Path, text: str, is_possible: bool
) -> None:
    (folder / "own.sql").write_text(text)
    factor = parse_factor("var.rows=1,2")
    spec = base_spec("pgbench:file=own.sql")
    if is_possible:
        parse_workload("pgbench:file=own.sql,var.rows=5")
        factor.kind.apply("var.rows", "1", spec)
        return
    for apply in (
        lambda: parse_workload("pgbench:file=own.sql,var.rows=5"),
        lambda: factor.kind.apply("var.rows", "1", spec),
    ):
        with pytest.raises(UsageError, match=r"own\.sql sets rows itself, .*leave its \\set rows out"):
            apply()
    # Another script that uses it, and does not set it first, sees the value.
    assert parse_workload("pgbench:file=own.sql+a.sql,var.rows=5").load is not None


def test_files_are_looked_for_beside_an_experiments_file(folder: Path) -> None:
    file = folder / "deep" / "experiment.toml"
    file.parent.mkdir()
    file.write_text('workload = "pgbench:file=../a.sql@2,clients=2"\n[factors]\nwork_mem = ["4MB", "8MB"]\n')
    request = read_file(file, None, ())
    assert request.workload == f"pgbench:file={folder}/deep/../a.sql@2,clients=2"
    assert parse_workload(request.workload).load is not None


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("big/read.sql+read.sql", "DIR/big/read.sql+DIR/read.sql"),
        ("read.sql@3+ad.sql", "DIR/read.sql@3+DIR/ad.sql"),
        ("a.sql@2+a.sql", "DIR/a.sql@2+DIR/a.sql"),
        (r"b\, c.sql", r"DIR/b\, c.sql"),
    ],
)
def test_each_file_is_looked_for_there_whatever_the_others_are_called(
    tmp_path: Path, typed: str, found: str
) -> None:
    file = tmp_path / "experiment.toml"
    text = f"workload = 'pgbench:file={typed},clients=2'\n[factors]\nwork_mem = ['4MB', '8MB']\n"
    file.write_text(text)
    expected = f"pgbench:file={found},clients=2".replace("DIR", str(tmp_path))
    assert read_file(file, None, ()).workload == expected


@pytest.mark.usefixtures("folder")
def test_a_fleet_is_sent_the_files() -> None:
    made = machine_command(["work_mem=4MB,8MB", "--workload", "pgbench:file=a.sql@2,clients=2"])
    assert made.words == ["work_mem=4MB,8MB", "--workload", "pgbench:file=a.sql@2,clients=2"]
    assert list(made.files) == ["a.sql"]
    Path("day.csv").write_text("0,1\n5,1\n")
    made = machine_command(["work_mem=4MB,8MB", "--workload", "tpcb:clients=2,curve=day.csv@5"])
    assert made.words[-1] == "tpcb:clients=2,curve=day.csv@5" and list(made.files) == ["day.csv"]


words = st.sampled_from(
    [
        "\\set ",
        "\\if ",
        "\\endif\n",
        "\\gset\n",
        "a ",
        ":a",
        "1",
        "(",
        ")",
        "+",
        "'",
        "$$",
        ";",
        "\n",
        "/*",
        "\\",
        "random(",
    ]
)


@given(st.lists(words | st.text(max_size=3), max_size=20).map("".join))
def test_any_text_is_a_script_or_gets_a_sentence(text: str) -> None:
    try:
        read_scripts([{"name": "any.sql", "text": text}])
    except UsageError as error:
        assert "any.sql" in str(error)
