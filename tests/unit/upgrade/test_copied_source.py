"""A dump that was given: what is left out when it is unpacked, and how its errors name it."""

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from pgassay.environment.datasets import folder as data_folder
from pgassay.errors import MeasurementError, PgassayError, UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.model.storage import StorageSpec
from pgassay.progress import NullProgress
from pgassay.upgrade import copied_source, physical_copy
from pgassay.upgrade.copied_source import LeftOut, check_copy, copied, has_own_schema, schema_of
from pgassay.upgrade.physical_copy import extensions_of_copies

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
    with copied(
        (f"dump:{tmp_path / 'then.dump'}", "host"), SOURCE, build, LeftOut(), tmp_path, NullProgress()
    ) as data:
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
        copied((f"dump:{given}", "host"), SOURCE, build, LeftOut(), tmp_path, NullProgress()) as data,
    ):
        raise UsageError(f"{data.removeprefix('dump:')}, line 223: failed")
    assert str(raised.value) == f"{given}, line 223: failed" and raised.value.exit_code == 2


def test_the_schema_is_that_of_the_dump_that_was_given(
    tmp_path: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "then.dump"
    with schema_of((f"dump:{given}", "host"), SOURCE, (build, build), tmp_path, NullProgress()) as schema:
        assert schema.read_text() == "SELECT 1;\n"
    assert "--schema-only" in (tmp_path / "pg_restore.words").read_text().split()
    monkeypatch.setattr(copied_source, "read_header", lambda _: SimpleNamespace(format="plain"))
    rows = "COPY public.t (a) FROM stdin;\nDROP TABLE t;\n\\.\n"
    given.write_text(f"CREATE TABLE t (a text);\n{rows}SELECT 2;\n")
    with schema_of((f"dump:{given}", "host"), SOURCE, (build, build), tmp_path, NullProgress()) as schema:
        assert schema.read_text() == "CREATE TABLE t (a text);\nSELECT 2;\n"
    assert not list(tmp_path.glob("schema.*"))


def test_no_copy_of_a_dump_that_was_made_now_stays(
    tmp_path: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "dumps" / "a" / "source.dump"
    removed: list[tuple[str, ...]] = []

    @contextlib.contextmanager
    def dumped(*_: object) -> Iterator[Any]:
        made.parent.mkdir(parents=True)
        made.write_text("-- Dumped from database version 16.1\nSELECT 1;\n")
        yield SimpleNamespace(file=made)
        shutil.rmtree(made.parent)

    def remove(storages: Iterable[StorageSpec]) -> None:
        # Their dump is gone, by which they are known.
        assert not made.parent.exists()
        removed.append(tuple(each.kind for each in storages))

    monkeypatch.setattr(copied_source, "dumped", dumped)
    monkeypatch.setattr(copied_source, "remove_source_copies", remove)
    with copied(("", "loop:size=1GB"), SOURCE, build, LeftOut(), tmp_path, NullProgress()) as data:
        plain = Path(data.removeprefix("dump:"))
        # Below pgassay's home, where the next start looks for copies of a run that was killed.
        assert plain.parent == made.parent and plain.read_text() == "SELECT 1;\n" and not made.exists()
    assert removed == [("host", "loop")]
    with copied(
        (f"dump:{tmp_path / 'then.dump'}", "host"), SOURCE, build, LeftOut(), tmp_path, NullProgress()
    ):
        pass
    assert len(removed) == 1, "what a user names is kept for the next time"


class Copied:
    """A storage with a working copy that some server has changed, and the server on it."""

    socket_directory = Path("/run/copy")

    def __init__(self) -> None:
        self.done: list[str] = []

    def clone(self, source: Path, key: str, copy: int) -> Path:
        self.done.append(f"clone {source} {key} {copy}")
        return Path("/working")

    def is_clean(self, _working: Path) -> bool:
        return False

    def reset(self, working: Path, source: Path) -> None:
        self.done.append(f"reset {working} {source}")

    def activate(self) -> None:
        pass

    def mark(self, _working: Path, *, clean: bool) -> None:
        self.done.append(f"mark {clean}")

    def remove(self) -> None:
        self.done.append("remove")

    def __enter__(self) -> "Copied":
        self.done.append("start")
        return self

    def __exit__(self, *details: object) -> None:
        self.done.append("stop")


def test_the_schema_of_a_data_folder_is_read_from_its_copy_and_not_from_the_source(
    tmp_path: Path, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, asked = Copied(), list[list[str]]()
    snapshot = SimpleNamespace(path=Path("/frozen"), key="k", bytes=1, database="shop")

    def run(command: list[str], _purpose: str) -> str:
        assert copy.done[-1] == "start"
        asked.append(command)
        return "CREATE TABLE t (a text DEFAULT '\udcff');\n"

    def refuse(*_words: object) -> None:
        raise AssertionError("the source is dumped")

    monkeypatch.setattr(copied_source, "dumped", refuse)
    for name, made in (
        ("with_data_format", lambda build: build), ("parse_dataset", lambda text, *_: text),
        ("snapshots", SimpleNamespace(ensure=lambda *_: snapshot)), ("run_program", run),
        ("provide", lambda *_: copy), ("Server", lambda *_: copy),
    ):  # fmt: skip
        monkeypatch.setattr(physical_copy, name, made)
    database = SimpleNamespace(dbname="shop")
    source = cast("Any", SimpleNamespace(name="db1", major=16, resolved=SimpleNamespace(server=database)))
    given = ("folder:/backup", "host")
    with schema_of(given, source, (build, build), tmp_path, NullProgress()) as schema:
        assert schema.read_bytes() == b"CREATE TABLE t (a text DEFAULT '\xff');\n"
        assert schema.stat().st_mode & 0o777 == 0o600
    assert not schema.exists()
    assert copy.done == [
        "clone /frozen k 0",
        "reset /working /frozen",
        "mark False",
        "start",
        "stop",
        "remove",
    ]
    (command,) = asked
    assert {"--schema-only", "--no-owner", "--host", "/run/copy", "shop"} <= set(command)
    assert command[0] == f"{tmp_path}/pg_dump"
    # What is too old to be measured is upgraded first, where something may be refused.
    assert has_own_schema("folder:/backup", source)
    assert not has_own_schema("folder:/backup", cast("Any", SimpleNamespace(major=15)))


@pytest.mark.parametrize(("major", "before"), [(16, ()), (18, ("DROP VIEW v",))])
def test_sql_before_pg_upgrade_makes_no_other_copy_where_there_is_none(
    major: int, before: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "PG_VERSION").write_text("16\n")
    (tmp_path / "before.sql").write_text("DROP VIEW v;\n")
    control = SimpleNamespace(checksums=True, wal_segment_bytes=16 * 1024**2)
    monkeypatch.setattr(data_folder, "refuse_unfit", lambda *_, **__: None)
    monkeypatch.setattr(data_folder, "read_control_file", lambda _: control)
    monkeypatch.setattr(data_folder, "listing_sha256", lambda _: "")
    build = Build(origin="apt", version=f"{major}.1", major=major, bin_directory="/nowhere")
    text = f"{tmp_path},upgrade={tmp_path / 'before.sql'}"
    assert data_folder.specify(text, build, DatasetSpec()).before_upgrade == before


def test_sql_before_pg_upgrade_that_fails_is_told_in_a_sentence() -> None:
    class Refusing:
        def execute(self, *_: object, **__: object) -> None:
            raise psycopg.errors.UndefinedTable('view "v" does not exist')

    spec = DatasetSpec(source="/backup", before_upgrade=("DROP\n VIEW v",))
    with pytest.raises(
        UsageError, match=r"^'DROP VIEW v' failed on the copy of /backup \(view \"v\" does not"
    ):
        data_folder._run_before(cast("Any", Refusing()), spec)


def test_caches_are_read_by_extensions_that_are_no_part_of_the_schema() -> None:
    source = cast("Any", SimpleNamespace(facts=SimpleNamespace(extensions=("pg_prewarm", "hstore"))))
    assert extensions_of_copies("folder:/b", source) == {"pg_buffercache", "pg_visibility"}
    assert not extensions_of_copies("dump:/b", source)


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
        copied(
            (f"dump:{tmp_path / 'then.dump'}", "host"), SOURCE, build, LeftOut(), tmp_path, NullProgress()
        ),
    ):
        pass
