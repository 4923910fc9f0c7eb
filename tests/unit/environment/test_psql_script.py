r"""Scripts with psql's commands: which they are, which files they read, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.environment.datasets.psql_script import files_read, files_sha256, meta_commands
from pgassay.environment.datasets.script import read_text
from pgassay.errors import UsageError


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
