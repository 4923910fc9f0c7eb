"""A dump that was given: what is left out when it is unpacked, and how its errors name it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgassay.errors import MeasurementError, PgassayError, UsageError
from pgassay.model.build import Build
from pgassay.progress import NullProgress
from pgassay.upgrade import copied_source
from pgassay.upgrade.copied_source import LeftOut, check_copy, copied, schema_of

SOURCE = cast("Any", SimpleNamespace(name="db1:5432/shop"))
PG_RESTORE = """#!/bin/sh
echo "$@" > "$0.words"
for word; do case "$word" in --file=*) echo 'SELECT 1;' > "${word#--file=}";; esac; done
"""


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """One whose pg_restore notes its words; the dump beside it is an archive."""
    program = tmp_path / "pg_restore"
    program.write_text(PG_RESTORE)
    program.chmod(0o755)
    (tmp_path / "then.dump").touch()
    monkeypatch.setattr(copied_source, "read_header", lambda _: SimpleNamespace(format="custom"))
    return Build(origin="apt", version="18.4", major=18, bin_directory=str(tmp_path))


def test_an_archive_is_unpacked_without_what_a_copy_can_t_have(tmp_path: Path, build: Build) -> None:
    with copied(f"dump:{tmp_path / 'then.dump'}", SOURCE, build, LeftOut(), tmp_path, NullProgress()) as data:
        assert Path(data.removeprefix("dump:")).read_text() == "SELECT 1;\n"
    words = (tmp_path / "pg_restore.words").read_text().split()
    assert {
        "--no-tablespaces", "--no-publications", "--no-subscriptions", "--no-security-labels", "--no-owner",
        "--no-privileges",
    } <= set(words)  # fmt: skip
    assert not list(tmp_path.glob("source.*"))


def test_an_error_names_the_dump_that_was_given_and_not_the_one_that_is_gone(
    tmp_path: Path, build: Build
) -> None:
    given = tmp_path / "then.dump"
    with (
        pytest.raises(PgassayError) as raised,
        copied(f"dump:{given}", SOURCE, build, LeftOut(), tmp_path, NullProgress()) as data,
    ):
        raise UsageError(f"{data.removeprefix('dump:')}, line 223: failed")
    assert str(raised.value) == f"{given}, line 223: failed" and raised.value.exit_code == 2


def test_the_schema_is_that_of_the_dump_that_was_given(
    tmp_path: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "then.dump"
    with schema_of(f"dump:{given}", SOURCE, build, tmp_path, NullProgress()) as schema:
        assert schema.read_text() == "SELECT 1;\n"
    assert "--schema-only" in (tmp_path / "pg_restore.words").read_text().split()
    monkeypatch.setattr(copied_source, "read_header", lambda _: SimpleNamespace(format="plain"))
    rows = "COPY public.t (a) FROM stdin;\nDROP TABLE t;\n\\.\n"
    given.write_text(f"CREATE TABLE t (a text);\n{rows}SELECT 2;\n")
    with schema_of(f"dump:{given}", SOURCE, build, tmp_path, NullProgress()) as schema:
        assert schema.read_text() == "CREATE TABLE t (a text);\nSELECT 2;\n"
    assert not list(tmp_path.glob("schema.*"))


def test_what_is_no_dump_is_refused_with_what_this_command_takes(tmp_path: Path) -> None:
    script = tmp_path / "clinic.sql"
    script.write_text("CREATE TABLE t ();\n")
    with pytest.raises(UsageError, match=r"has no pg_dump header: name what pg_dump wrote$"):
        check_copy(f"dump:{script}")
    with pytest.raises(UsageError, match=r"for a server's data folder write --copy folder:PATH"):
        check_copy(f"dump:{tmp_path}")


def test_what_pg_restore_says_first_is_told(tmp_path: Path, build: Build) -> None:
    said = "pg_restore: error: could not read\npg_restore: hint: look\nCommand was: CREATE ROLE a 'S7'"
    (tmp_path / "pg_restore").write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 1\n")
    with (
        pytest.raises(MeasurementError, match=r"18\.4: pg_restore: error: could not read .*look$"),
        copied(f"dump:{tmp_path / 'then.dump'}", SOURCE, build, LeftOut(), tmp_path, NullProgress()),
    ):
        pass
