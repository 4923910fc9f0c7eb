"""Findings that the source's catalogs give, from their rows."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import UsageError
from pgassay.model.build import Build
from pgassay.model.workload import Statement
from pgassay.upgrade import catalogs, empty_server, pg_upgrade_checks
from pgassay.upgrade.catalogs import GivenSetting, others_unread
from pgassay.upgrade.copied_source import _make_plain
from pgassay.upgrade.empty_server import KnownSetting, NewVersion, Refused, _is_harmless, functions_refused
from pgassay.upgrade.pg_upgrade_checks import in_the_way_of_pg_upgrade
from pgassay.upgrade.upgrade_answer import single_statements

Row = tuple[Any, ...]


class Catalogs:
    """A session that answers queries by these rows; None: the server refuses that query."""

    def __init__(self, rows: Mapping[str, Sequence[Row] | None]) -> None:
        self.rows = rows
        self.asked: list[tuple[str, Any]] = []
        self._found: Sequence[Row] = ()

    def execute(self, query: str | bytes, values: Any = None) -> "Catalogs":
        text = query.decode() if isinstance(query, bytes) else query
        self.asked.append((text, values))
        found = self.rows.get(text, ())
        if found is None:
            raise psycopg.errors.UndefinedColumn("column does not exist")
        self._found = found
        return self

    def fetchall(self) -> list[Row]:
        return list(self._found)

    def fetchone(self) -> Row | None:
        return self._found[0] if self._found else None


def session(rows: Mapping[str, Sequence[Row] | None]) -> ControlSession:
    return cast(ControlSession, Catalogs(rows))


def new(major: int, **settings: KnownSetting) -> NewVersion:
    build = Build(origin="apt", version=f"{major}.1", major=major, bin_directory="/nowhere")
    return NewVersion(build, settings, frozenset(), {})


def given(name: str, value: str, words: tuple[str, ...] = ()) -> GivenSetting:
    return GivenSetting(name, value, "", "configuration file", "postgresql.conf, line 7", value, words=words)


def test_changed_collations_are_found_where_a_database_s_own_has_no_version() -> None:
    """So it is before 15, whose ICU and libc collations have versions all the same."""
    rows = {
        catalogs._DATABASE_COLLATION: None,
        catalogs._COLLATIONS: [("collation de", "153.14", "153.120"), ("collation fr", "1", "1")],
        catalogs._TEXT_INDEXES: [(3,)],
    }
    (found,) = catalogs._collations(session(rows))
    assert found.id == "collation:collation de" and "3 indexes" in found.sentence


@pytest.mark.parametrize(("major", "value", "count"), [(19, "off", 1), (19, "on", 0), (18, "off", 0)])
def test_a_switch_that_can_t_be_turned_off_any_more_is_in_the_way(major: int, value: str, count: int) -> None:
    name = "standard_conforming_strings"
    known = new(major, **{name: KnownSetting("on", "bool")})
    found = list(catalogs._settings_refused({name: given(name, value)}, known))
    assert [each.id for each in found] == [f"setting-refused:{name}"] * count
    rows = {catalogs._OF_ROLES: [("role app", "", name, value)]}
    of_roles = list(catalogs._settings_of_roles(session(rows), {name: given(name, value)}, known))
    assert [each.id for each in of_roles] == [f"setting-of-role-gone:{name}"] * count


def test_the_server_s_own_settings_are_read_in_a_session_that_changes_none_of_them() -> None:
    """A session that reads has standard_conforming_strings=on, which hides that the server has it off."""
    row = ("standard_conforming_strings", "off", "on", "configuration file", "a.conf", 7, "off", "", "", None)
    opened: list[Mapping[str, str]] = []

    def open_session(_: str, limits: Mapping[str, str]) -> Any:
        opened.append(limits)
        return contextlib.nullcontext(session({catalogs._SETTINGS: [row]}))

    found = catalogs.settings_of_server(cast(Any, SimpleNamespace(session=open_session)))
    assert found["standard_conforming_strings"].is_of_the_server
    (limits,) = opened
    assert "standard_conforming_strings" not in limits and "statement_timeout" in limits


def test_a_removed_setting_of_all_roles_says_so() -> None:
    settings = {"gone": given("gone", "1")}
    rows = {catalogs._OF_ROLES: [("", "", "gone", "1")]}
    (found,) = catalogs._settings_of_roles(session(rows), settings, new(18))
    assert found.sentence.startswith("gone is set for all roles, and 18 has no") and found.where


def test_a_removed_setting_of_a_role_stops_pg_upgrade() -> None:
    rows = {catalogs._OF_ROLES: [("role app", "database shop", "gone", "1"), ("role app", "", "kept", "1")]}
    settings = {name: given(name, "1") for name in ("gone", "kept")}
    known = new(18, kept=KnownSetting("1", "integer"))
    (found,) = catalogs._settings_of_roles(session(rows), settings, known)
    assert found.severity == "in the way" and "pg_upgrade ends there" in found.sentence
    assert found.where == "role app in database shop"


def test_a_word_that_neither_version_lists_is_taken_by_both() -> None:
    words = ("notice", "error")
    known = {"client_min_messages": KnownSetting("notice", "enum", words)}
    listed = list(
        catalogs._settings_refused({"a": given("client_min_messages", "fatal", words)}, new(18, **known))
    )
    assert not listed
    gone = given("client_min_messages", "old", (*words, "old"))
    assert list(catalogs._settings_refused({"a": gone}, new(18, **known)))


def test_prepared_transactions_of_other_databases_stop_pg_upgrade_too() -> None:
    rows = {pg_upgrade_checks._PREPARED: [("here", True, "shop"), ("there", False, '"Stock"')]}
    here, there = in_the_way_of_pg_upgrade(session(rows), 16, 18, has_checksums=True)
    assert "a dump misses its rows" in here.sentence and "in the database" not in here.sentence
    assert there.sentence.endswith('in the database "Stock": pg_upgrade refuses')


@pytest.mark.parametrize(("old", "to", "kinds"), [(15, 18, 2), (16, 18, 1), (13, 16, 2), (17, 19, 1)])
def test_columns_of_aclitem_are_looked_for_where_their_format_changes(old: int, to: int, kinds: int) -> None:
    asked = Catalogs({pg_upgrade_checks._OBJECT_NUMBERS: [("t.c",)]})
    found = list(in_the_way_of_pg_upgrade(cast(ControlSession, asked), old, to, has_checksums=True))
    columns = [each.id for each in found if each.id != "checksums"]
    assert columns == ["object-numbers:t.c", "acl:t.c"][:kinds]
    types = [values[0] for text, values in asked.asked if text == pg_upgrade_checks._OBJECT_NUMBERS]
    assert "regproc" in types[0] and "regclass" not in types[0] and types[1:] == [["aclitem"]][: kinds - 1]


def test_a_database_that_nobody_may_connect_to_stops_pg_upgrade() -> None:
    rows = {pg_upgrade_checks._CLOSED: [('"Old shop"', False), ("half", True)]}
    closed, half = in_the_way_of_pg_upgrade(session(rows), 16, 18, has_checksums=True)
    assert closed.severity == half.severity == "in the way"
    assert closed.remedy == 'ALTER DATABASE "Old shop" ALLOW_CONNECTIONS true, or drop it'
    assert half.remedy == "DROP DATABASE half" and "interrupted" in half.sentence


@pytest.mark.parametrize(
    ("has_checksums", "to", "remedy"),
    [
        (False, 18, "initdb --no-data-checksums"),
        (True, 18, ""),
        (True, 17, "initdb --data-checksums"),
        (False, 17, ""),
    ],
)
def test_initdb_is_told_of_checksums_where_it_would_make_other_ones(
    has_checksums: bool, to: int, remedy: str
) -> None:
    found = list(in_the_way_of_pg_upgrade(session({}), 16, to, has_checksums=has_checksums))
    assert [each.remedy.startswith(remedy) for each in found] == ([True] if remedy else [])


def test_an_extension_s_name_is_written_as_sql_has_it() -> None:
    known = NewVersion(new(18).build, {}, frozenset(), {"uuid-ossp": "1.2"})
    rows = {catalogs._EXTENSIONS: [("uuid-ossp", "1.1")]}
    (found,) = catalogs._extensions(session(rows), known)
    assert found.remedy == 'after pg_upgrade: ALTER EXTENSION "uuid-ossp" UPDATE'


def test_other_databases_are_named_since_pg_upgrade_takes_them_along() -> None:
    assert others_unread(session({})) == ""
    names = [(f"db{number}",) for number in range(7)]
    said = others_unread(session({catalogs._OTHER_DATABASES: names}))
    assert "db0, db1, db2, db3, db4 …" in said


@pytest.mark.parametrize(
    ("refused", "harmless"),
    [
        (
            Refused("statement", "SET transaction_timeout = 0", 'unrecognized configuration parameter "x"'),
            True,
        ),
        (
            Refused("function", "public.f", 'unrecognized configuration parameter "escape_string_warning"'),
            False,
        ),
        (Refused("collation", "public.de", "ICU is not supported in this build"), True),
        (Refused("statement", "COMMENT ON EXTENSION a IS 'x'", "extension does not exist"), True),
        (Refused("view", "public.v", "column x does not exist"), False),
    ],
)
def test_a_function_with_a_removed_setting_is_refused_and_a_dump_s_own_settings_are_not(
    refused: Refused, harmless: bool
) -> None:
    assert _is_harmless(refused) is harmless


class Functions(Catalogs):
    """A session whose validators give these errors, by the function's name; the server may go away."""

    closed = False

    def __init__(self, errors: Mapping[str, psycopg.Error]) -> None:
        rows = {empty_server._FUNCTIONS: [(name, name, "plpgsql_validator") for name in errors]}
        super().__init__(rows)
        self.errors = errors

    def execute(self, query: str | bytes, values: Any = None) -> "Catalogs":
        if values is not None:
            raise self.errors[values[0]]
        return super().execute(query)

    def transaction(self, **_: object) -> Any:
        return contextlib.nullcontext()


def test_a_function_that_the_source_could_not_be_asked_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, denied = psycopg.errors.UndefinedColumn("no column"), psycopg.errors.InsufficientPrivilege("no")
    monkeypatch.setattr(
        empty_server, "control", lambda _: contextlib.nullcontext(Functions({"f": wrong, "g": wrong}))
    )
    source = SimpleNamespace(reading=lambda: contextlib.nullcontext(Functions({"f": wrong, "g": denied})))
    # Who may not execute a function is not told whether it was wrong before.
    (found,) = functions_refused(cast(Any, None), cast(Any, source))
    assert (found.kind, found.name) == ("function", "g")

    def gone() -> None:
        raise UsageError("db1 can't be reached")

    found_all = functions_refused(cast(Any, None), cast(Any, SimpleNamespace(reading=gone)))
    assert [each.name for each in found_all] == ["f", "g"]


def test_the_source_s_rows_are_read_by_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "given.sql").write_text("-- Dumped from database version 16.1\nSELECT 'a secret';\n")
    _make_plain(tmp_path / "given.sql", tmp_path / "source.sql")
    assert (tmp_path / "source.sql").read_text() == "SELECT 'a secret';\n"
    assert (tmp_path / "source.sql").stat().st_mode & 0o777 == 0o600


def test_what_did_not_run_says_why() -> None:
    chosen = [Statement(name="a", sql="SELECT 1")]
    (found,) = single_statements(chosen, {"a": 0.5}, (), {}, None)
    assert found.verdict == "not run" and "schema can't be made" in found.reason and found.share == 0.5
    (found,) = single_statements(chosen, {}, (), {}, None, "pg_upgrade refuses the copy")
    assert found.reason == "pg_upgrade refuses the copy"
