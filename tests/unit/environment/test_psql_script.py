r"""Scripts with psql's commands: which they are, which files they read, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.environment.datasets.psql_script import (
    ServerCopy,
    files_read,
    files_sha256,
    meta_commands,
    server_copy,
)
from pgassay.environment.datasets.run_sql_text import _BLANKS, _takes_data
from pgassay.environment.datasets.script import read_text, specify
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.sql_text import next_statement

BUILD = Build(origin="apt", version="18.0", major=18, bin_directory="/nowhere")


def names(text: str) -> list[str]:
    return [command.name for command in meta_commands(text, "s.sql")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT '\\i no.sql'; -- \\i no.sql\n/* \\! ls */ SELECT $$ \\! $$;", []),
        ("SELECT E'a\\'b \\i x'; SELECT 1 \\gset\n\\echo done\n", ["gset", "echo"]),
        ("COPY t FROM stdin;\na\t\\N\n\\i no.sql\n\\.\n\\i yes.sql\n", ["i"]),
        ("copy t (a, b) from STDIN with (format text);\n\\! no\n\\.\nSELECT 1;", []),
        ("\\copy t from stdin\nx\\! no\n\\.\n\\set n 3\n", ["copy", "set"]),
        # Several on one line; what stands in quotes is none.
        ("\\set n 1 \\! ls\n", ["set", "!"]),
        ("\\echo 'a \\! b' \"\\! c\"\n", ["echo"]),
        ("\\echo it\\\\ \\! ls\n", ["echo", "\\", "!"]),
        ("\\restrict x1\nSELECT 1;\n\\unrestrict x1\n", []),
        # Without a semicolon before the data, psql sends what stands before \g.
        ("SELECT 1 \\g\nCOPY t FROM stdin;\n\\! no\n\\.\n", ["g"]),
    ],
)
def test_commands_stand_outside_of_quotes_comments_and_data(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_lines_are_counted() -> None:
    assert [each.line for each in meta_commands("\n\nSELECT 1;\n\\i a\n\n\\i b", "s")] == [4, 6]


@given(st.text(alphabet="ab\\!;'\"$-/*\n ().copyfrmstdin", max_size=80))
def test_any_text_is_read_to_its_end_or_refused_in_a_sentence(text: str) -> None:
    try:
        found = list(meta_commands(text, "s.sql"))
    except UsageError as error:
        assert "never closed" in str(error)
    else:
        assert all(1 <= each.line <= text.count("\n") + 1 for each in found)


def test_all_files_that_decide_the_data_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    below = tmp_path / "below"
    below.mkdir()
    (tmp_path / "rows.csv").write_text("1\n")
    (tmp_path / "it's").write_text("2\n")
    (below / "tables.sql").write_text("CREATE TABLE t (a int);\n\\ir more.sql\n")
    (below / "more.sql").write_text("\\copy (SELECT 1 FROM t) to 'out.csv'\n")
    script = tmp_path / "build.sql"
    script.write_text(
        "\\set n 3\n\\i below/tables.sql\n\\copy t (a) from rows.csv with (format csv)\n"
        "\\copy t from 'it''s'\n\\copy t FROM stdin\n4\n\\.\n"
    )
    found = files_read(script, read_text)
    assert [file.name for file in found] == ["build.sql", "rows.csv", "it's", "tables.sql", "more.sql"]
    before = files_sha256(found)
    (tmp_path / "rows.csv").write_text("2\n")
    assert files_sha256(files_read(script, read_text)) != before
    script.write_text("SELECT 1;\n")
    assert files_read(script, read_text) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\\! ls", r"line 1: \\! runs a shell"),
        ("\\set x `date`", "takes the output of a shell"),
        ("SELECT 1 \\g | cat", "runs a shell"),
        ("\\copy t from program 'ls'", "reads from outside of files"),
        ("\\copy t to program 'cat'", "runs a shell"),
        ("\\copy t from pstdin", "reads from outside of files"),
        ("\\copy t from :name", "takes no variable"),
        ("\\set x y\n\\i :x", r"line 2: \\i :x: its file's name is made of a variable"),
        ("\\i", "names no file"),
        ("\\i gone.sql", "there is no .*gone.sql: names begin at the folder"),
        ("\\connect other", "leaves the database"),
        ("\\echo a \\! ls", "runs a shell"),
        ("\\i itself.sql", "includes itself"),
    ],
)
def test_what_no_file_decides_is_refused(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "itself.sql"
    script.write_text(text + "\n")
    with pytest.raises(UsageError, match=words):
        files_read(script, read_text)


def sha256(script: Path) -> str:
    return specify(str(script), BUILD, DatasetSpec(kind="script")).source_sha256


def test_other_rows_in_a_file_that_the_server_copies_are_other_data(tmp_path: Path) -> None:
    rows, script = tmp_path / "it's rows.csv", tmp_path / "build.sql"
    rows.write_text("1\n")
    quoted = str(rows).replace("'", "''")
    script.write_text(f"CREATE TABLE t (a int);\n/* rows */ COPY t (a)\nFROM '{quoted}' WITH (FORMAT csv);\n")
    before = sha256(script)
    assert sha256(script) == before
    rows.write_text("2\n")
    assert sha256(script) != before
    # The same in a script of psql.
    script.write_text(f"\\set n 1\ncopy t from E'{quoted}'\n")
    before = sha256(script)
    rows.write_text("3\n")
    assert sha256(script) != before


def test_a_file_that_a_script_writes_itself_is_no_source_of_it(tmp_path: Path) -> None:
    rows, script = tmp_path / "rows", tmp_path / "build.sql"
    text = f"COPY (SELECT 1 FROM pg_class) TO '{rows}';\nCOPY t FROM '{rows}';\nCOPY t FROM '/gone/rows';\n"
    script.write_text(text)
    before = sha256(script)
    rows.write_text("1\n")
    assert sha256(script) == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT 1;\nCOPY t FROM PROGRAM 'date';", "line 2: COPY runs a program"),
        ("\\set f /x\nCOPY t FROM :'f';", "line 2: COPY takes its file's name from a variable"),
    ],
)
def test_rows_that_no_file_holds_are_refused(text: str, words: str, tmp_path: Path) -> None:
    script = tmp_path / "build.sql"
    script.write_text(text + "\n")
    with pytest.raises(UsageError, match=words):
        sha256(script)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COPY t FROM '/a'", ServerCopy("/a", is_read=True)),
        ("copy s.t(a, b) from E'/it\\'s' where a > 1", ServerCopy("/it's", is_read=True)),
        ("COPY (SELECT 'x' FROM t) TO '/b'", ServerCopy("/b", is_read=False)),
        ("COPY t FROM stdin", None),
        ("COPY t TO stdout", None),
        ("COPY t TO PROGRAM 'cat'", None),
        ("INSERT INTO t SELECT 'a' FROM 'b'", None),
    ],
)
def test_what_the_server_copies_is_told_from_its_words(text: str, expected: ServerCopy | None) -> None:
    assert server_copy(text) == expected


def test_rows_below_a_copy_may_hold_quotes(tmp_path: Path) -> None:
    script = tmp_path / "build.sql"
    script.write_text("CREATE TABLE t (a text);\nCOPY t FROM stdin;\nO'Brien\n\\.\nSELECT 1;\n")
    assert len(sha256(script)) == 64
    script.write_text("-- nothing\n")
    with pytest.raises(UsageError, match="has no SQL statement"):
        sha256(script)


@pytest.mark.parametrize("before", ["", "-- rows\n", "/* rows */ "])
def test_a_comment_may_stand_before_a_copy_of_rows(before: str) -> None:
    text = f"{before}COPY t FROM stdin;\n1\n\\.\n"
    blanks = _BLANKS.match(text)
    assert blanks is not None
    statement, _ = next_statement(text, blanks.end(), "s.sql")
    assert statement is not None and _takes_data(statement)
    assert not _takes_data("/* copy t from stdin */ SELECT 1")
