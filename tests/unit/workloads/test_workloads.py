"""Workloads as typed: what each word becomes, and what is refused with a remedy."""

import re
from pathlib import Path

import pytest

from pgassay.errors import UsageError
from pgassay.factors.prepare import parse_prepare
from pgassay.factors.registry import KINDS
from pgassay.model.workload import ReadOnlyOptions
from pgassay.workloads import oltp, sysbench
from pgassay.workloads.registry import parse_workload
from pgassay.workloads.statements import changes_data


def test_full_scan_holds_the_published_statements_and_one_that_reads_the_table() -> None:
    workload = parse_workload("full-scan")
    assert [each.name for each in workload.statements] == [
        "count",
        "sum",
        "group",
        "join",
        "filter",
        "read-table",
    ]
    assert "count(filler)" in workload.statements[-1].sql
    assert not workload.writes
    assert (workload.metric.unit, workload.metric.better) == ("s", "lower")


@pytest.mark.parametrize("family", ["tpcb", "oltp_read_only", "sysbench:oltp_read_write"])
def test_several_values_are_a_factor_or_refused(family: str) -> None:
    """What a message says to write is a factor that there is."""
    script = family.partition(":")[2]
    known = (*sysbench.OPTIONS, *oltp.OPTIONS)
    for option in known:
        before = "," if script else ":"
        with pytest.raises(UsageError) as caught:
            parse_workload(f"{family}{before}{option}=1,2")
        told = re.search(r"compare them as a factor, (\w+)=1,2 before", str(caught.value))
        assert told is None or told[1] in KINDS, option
        assert told is not None or "can't be compared as a factor: write one" in str(caught.value)
    with pytest.raises(UsageError, match=r"joined by \+: write only=count\+sum"):
        parse_workload("full-scan:only=count,sum")
    with pytest.raises(UsageError, match=r"joined by \+: write users=app\+web"):
        parse_workload("replay:monday,users=app,web")
    with pytest.raises(UsageError, match="speed has several values, and it can't be compared as a factor"):
        parse_workload("replay:monday,speed=1,2")
    with pytest.raises(UsageError, match="as a factor, table_size=1,2 before"):
        parse_workload("sysbench:oltp_insert,table-size=1,2")


def test_full_scan_can_be_restricted() -> None:
    workload = parse_workload("full-scan:only=count+read-table")
    assert [each.name for each in workload.statements] == ["count", "read-table"]


def test_a_load_takes_its_options() -> None:
    load = parse_workload("tpcb:clients=20,threads=4,duration=1m,warmup=500ms,protocol=simple").load
    assert load is not None
    assert (load.clients, load.threads, load.duration_s, load.warmup_s) == (20, 4, 60.0, 0.5)
    assert load.protocol == "simple"
    assert parse_workload("tpcb").writes
    assert not parse_workload("select-only").writes


def test_sysbench_s_transaction_has_sysbench_s_names_and_defaults() -> None:
    plain = parse_workload("oltp_read_only")
    assert plain.load is not None and plain.load.oltp_read_only == ReadOnlyOptions()
    assert (plain.kind, plain.metric.unit, plain.writes) == ("load", "transactions/s", False)
    text = (
        "oltp_read_only:tables=4,table_size=1000,range_size=7,sum_ranges=0,skip_trx=on,distribution=special"
    )
    workload = parse_workload(f"{text},clients=8,duration=1s")
    assert workload.load is not None and workload.load.oltp_read_only is not None
    options = workload.load.oltp_read_only
    assert (options.tables, options.table_size, options.range_size, options.sum_ranges) == (4, 1000, 7, 0)
    assert (options.skip_trx, options.distribution, options.point_selects) == (True, "special", 10)
    assert (workload.load.clients, workload.load.duration_s) == (8, 1.0)
    explained = {statement.name: statement.sql for statement in workload.statements}
    assert list(explained) == ["point-select", "simple-range", "order-range", "distinct-range"]
    assert explained["simple-range"].endswith("BETWEEN 1 AND 7")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("oltp_read_only:tables=0", "whole number from 1 to 10000"),
        ("oltp_read_only:table_size=3000000000", "whole number from 1 to 2147483647"),
        ("oltp_read_only:skip_trx=yes", "write on or off"),
        ("oltp_read_only:distribution=zipfian", "write uniform or special"),
        ("oltp_read_only:range=5", "its options are tables"),
        (
            "oltp_read_only:point_selects=0,simple_ranges=0,sum_ranges=0,order_ranges=0,distinct_ranges=0",
            "runs no ",
        ),
        ("full-scn", "did you mean full-scan"),
        ("nothing", "write one of full-scan"),
        ("full-scan:only=nope", "its statements are count"),
        ("select-only:client=3", "write clients=3 for that many clients"),
        ("select-only:klients=3", "its options are clients"),
        ("select-only:clients=0", "whole number from 1"),
        ("select-only:clients=2,clients=3", "given twice"),
        ("select-only:clients=1,threads=2", "at most one thread for each client"),
        ("select-only:duration=5x", "not a duration"),
        ("select-only:duration=0", "too short"),
        ("select-only:protocol=parameters", "write prepared, extended or simple"),
        ("sql", "needs a file"),
        ("sql:/does/not/exist.sql", "name a readable file"),
    ],
)
def test_what_can_not_be_run_is_refused_with_a_remedy(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_workload(text)


def test_statements_of_a_file_can_be_executed_by_clients_at_once(tmp_path: Path) -> None:
    file = tmp_path / "two, with a comma.sql"
    file.write_text("SELECT 1; SELECT 2;")
    plain = parse_workload(f"sql:{file}")
    assert (plain.is_mix, plain.connections, plain.writes) == (False, 1, False)
    mixed = parse_workload(f"sql:{file},clients=8,executions=50,writes=yes")
    assert (mixed.is_mix, mixed.connections, mixed.executions, mixed.writes) == (True, 8, 50, True)
    assert parse_workload(f"sql:{file},writes=no,clients=1").is_mix
    for options, sentence in (
        ("clients=0", "whole number from 1 to 5000"),
        ("clients=2,clients=3", "given twice"),
        ("clients=2,executions=none", "option executions: 'none' is not a whole number"),
        ("writes=perhaps", "write writes=yes or writes=no"),
    ):
        with pytest.raises(UsageError, match=sentence):
            parse_workload(f"sql:{file},{options}")


@pytest.mark.parametrize(
    ("statement", "changes"),
    [
        ("SELECT 1", False),
        ("  (SELECT 1) UNION (SELECT 2)", False),
        ("WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a", True),
        ("SELECT 'delete'", False),
        ('SELECT "update" FROM t', False),
        ("SELECT * FROM t FOR UPDATE", True),
        ("SELECT * FROM t FOR SHARE", True),
        ("SELECT * FROM t FOR\nKEY SHARE SKIP LOCKED", True),
        ("SELECT share, 'for share' FROM shares", False),
        ("SELECT * INTO u FROM t", True),
        ("VACUUM t", True),
        ("EXPLAIN ANALYZE SELECT 1", True),
        ("TABLE t", False),
        ("SELECT nextval('s')", True),
    ],
)
def test_words_tell_whether_a_statement_may_write(statement: str, changes: bool) -> None:
    assert changes_data(statement) is changes


def test_a_file_says_itself_whether_it_writes(tmp_path: Path) -> None:
    file = tmp_path / "a,b:c.sql"
    file.write_text("SELECT my_function();")
    assert not parse_workload(f"sql:{file}").writes
    assert parse_workload(f"sql:{file},writes=yes").writes
    with pytest.raises(UsageError, match="write writes=yes or writes=no"):
        parse_workload(f"sql:{file},writes=perhaps")


@pytest.mark.parametrize("name", ["a.sql", "queries"])
def test_a_misspelt_option_of_a_file_is_named_with_what_to_type(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("SELECT 1;")
    for typed in ("client=4", "client=4,writes=yes", "writes=yes,client=4", " client = 4"):
        with pytest.raises(UsageError, match=r"^workload sql has no option .client.: write clients; its opt"):
            parse_workload(f"sql:{file},{typed}")
    with pytest.raises(UsageError, match="has no option 'colour': its options are writes, clients, exec"):
        parse_workload(f"sql:{file},colour=red")
    assert parse_workload(f"sql:{file}, clients = 4").clients == 4
    with pytest.raises(UsageError, match="can't read the SQL file none,a=b"):
        parse_workload("sql:none,a=b")
    odd = tmp_path / "odd,client=4"
    odd.write_text("SELECT 1;")
    assert parse_workload(f"sql:{odd},clients=2").clients == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("\\timing on\nSELECT 1;", "psql command"),
        ("SELECT 1\\g\nSELECT 2;", r"\\g is a psql command"),
        ("SELECT 1\\;", "psql command"),
        ("COPY t FROM STDIN;\n1\t2\n\\.\n", "COPY FROM STDIN takes its rows from the client"),
        ("SELECT 1 \\gset\n;", r"gset is for statements between BEGIN and COMMIT.*--workload pgbench:file="),
        ("SELECT :rows;", ":rows is a psql variable"),
        ("SELECT * FROM t WHERE name = :'name';", "is a psql variable"),
    ],
)
def test_what_only_psql_knows_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "a.sql"
    file.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        parse_workload(f"sql:{file}")


def test_a_file_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgassay.workloads.sql_files.SQL_FILE_BYTES_MAX", 1 << 20)
    for text in ("sql:/dev/zero", "pgbench:file=/dev/zero", "maintenance:/dev/zero"):
        with pytest.raises(UsageError, match="/dev/zero is larger than 64 MB"):
            parse_workload(text)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.sql"
    file.write_bytes(b"SELECT '\xff\xfe'")
    with pytest.raises(UsageError, match="not UTF-8"):
        parse_workload(f"sql:{file}")
    file.write_bytes(b"SELECT 1\0")
    with pytest.raises(UsageError, match="zero byte"):
        parse_workload(f"sql:{file}")


def test_a_home_behind_a_colon_or_an_equals_sign_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell leaves `~` alone there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "one.sql").write_text("SELECT 1;\n")
    (tmp_path / "day.csv").write_text("0,10\n60,20\n")
    assert parse_workload("sql:~/one.sql,clients=2").text == f"sql:{tmp_path}/one.sql,clients=2"
    loaded = parse_workload("pgbench:file=~/one.sql@2+~/one.sql,curve=~/day.csv,duration=30s").load
    assert loaded is not None and {each.name for each in loaded.scripts} == {f"{tmp_path}/one.sql"}
    assert parse_prepare("~/one.sql", "--prepare") == ("SELECT 1",)
    with pytest.raises(UsageError, match=re.escape(f"{tmp_path}/none.sql")):
        parse_workload("maintenance:~/none.sql")
    # Of a user whom the machine lacks it stays as it is.
    with pytest.raises(UsageError, match="~nobody-of-this-name/one"):
        parse_workload("sql:~nobody-of-this-name/one.sql")
