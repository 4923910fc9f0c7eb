"""What a replay asks a server of another version or with other rights."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from pgassay.environment.remote import read_only
from pgassay.environment.remote.connection_parameters import Resolved
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import RemoteServer
from pgassay.traffic import replaying
from pgassay.traffic.play_plan import right_to_be, role_options
from pgassay.traffic.replaying import ReplayRequest, parameters_of
from pgassay.traffic.tables import functions_query


def test_bodies_of_functions_are_asked_as_the_server_knows_them() -> None:
    assert "pg_get_function_sqlbody" not in functions_query(130_023)
    assert "p.prosrc" in functions_query(130_023)
    assert "COALESCE(pg_get_function_sqlbody(p.oid), p.prosrc)" in functions_query(140_000)


def test_a_role_is_taken_where_set_role_may_take_it() -> None:
    # A member without the SET option is refused, and with it all connections of that role.
    assert (right_to_be(150_012), right_to_be(160_000)) == ("MEMBER", "SET")


SERVER = RemoteServer(
    name="db1:5432/shop", connection="dbname=shop", host="db1", port=5432, dbname="shop", user="app",
    version="18.0", major=18, encryption="disable",
)  # fmt: skip


def test_without_leave_to_write_the_server_itself_refuses_writes() -> None:
    resolved = Resolved(SERVER, {"dbname": "shop", "options": "-c work_mem=8MB"})
    guarded = parameters_of(ReplayRequest(Path("monday"), "dbname=shop"), resolved)
    assert guarded["options"] == "-c work_mem=8MB -c default_transaction_read_only=on"
    allowed = parameters_of(ReplayRequest(Path("monday"), "dbname=shop", allow_writes="shop"), resolved)
    assert allowed["options"] == "-c work_mem=8MB"


class Session:
    """A session of a server that says this of default_transaction_read_only."""

    def __init__(self, said: str) -> None:
        self.said = said

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, _: str) -> "Session":
        return self

    def close(self) -> None:
        pass

    def fetchone(self) -> tuple[str]:
        return (self.said,)


def refused(_: object) -> Session:
    raise psycopg.OperationalError("FATAL:  unsupported startup parameter in options: default_transaction…")


@pytest.mark.parametrize(
    ("connect", "told"),
    [
        # What PgBouncer does with options that it doesn't know, and with ignore_startup_parameters = options.
        (refused, "refuses a read-only session (FATAL:  unsupported startup parameter"),
        (lambda _: Session("off"), "ignores that a session should be read-only"),
    ],
)
def test_a_pooler_that_drops_the_guard_against_writes_is_refused(
    connect: Callable[[object], Session], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        replaying, "resolve", lambda *_, **__: Resolved(SERVER, {"dbname": "shop", "options": None})
    )
    monkeypatch.setattr(replaying, "_databases", lambda _: ["shop"])
    monkeypatch.setattr(read_only, "connect", connect)
    with pytest.raises(UsageError) as found:
        replaying.replay(ReplayRequest(Path("monday"), "dbname=shop"), print, print)
    assert told in str(found.value) and "--allow-writes shop" in str(found.value)


def test_a_server_that_keeps_sessions_read_only_is_played_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        replaying, "resolve", lambda *_, **__: Resolved(SERVER, {"dbname": "shop", "options": None})
    )
    monkeypatch.setattr(replaying, "_databases", lambda _: ["shop"])
    monkeypatch.setattr(read_only, "connect", lambda _: Session("on"))
    monkeypatch.setattr(replaying, "_document", lambda *_: (_ for _ in ()).throw(MeasurementError("asked")))
    with pytest.raises(MeasurementError, match="asked"):
        replaying.replay(ReplayRequest(Path("monday"), "dbname=shop"), print, print)


def test_settings_of_roles_are_those_of_each_session_s_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """ALTER ROLE app IN DATABASE shop SET … holds in that database alone."""
    monkeypatch.setattr(replaying, "_connected", lambda _, database: Session(database))
    monkeypatch.setattr(replaying, "words_of", lambda _, first: ({}, first))
    monkeypatch.setattr(replaying, "never_analysed", lambda _: "")
    monkeypatch.setattr(replaying, "role_options", lambda each: ({"app": f"-c search_path={each.said}"}, ""))
    request = ReplayRequest(Path("monday"), "dbname=shop", allow_writes="shop,wiki")
    resolved = Resolved(SERVER, {"dbname": "shop", "options": None})
    document, _ = replaying._document(request, resolved, {"shop": "shop", "wiki": "wiki"})
    assert document["options"] == {
        "shop": {"app": "-c search_path=shop"},
        "wiki": {"app": "-c search_path=wiki"},
    }


def test_what_is_no_capture_is_refused_with_what_to_name(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match="holds no capture: name the folder that"):
            replaying.replay(ReplayRequest(folder, "host=/nowhere dbname=shop"), print, print)


class Roles:
    """A session whose user is no superuser, unless it is one; role app has settings of its own."""

    def __init__(self, *, is_superuser: bool) -> None:
        self.is_superuser = is_superuser
        self.info = SimpleNamespace(server_version=170_000)
        self.asked = ""

    def execute(self, query: str, _: object = None) -> "Roles":
        self.asked = query
        return self

    def fetchall(self) -> list[tuple[object, ...]]:
        if "rolsuper" not in self.asked:
            own = [
                "search_path=a,\tb c",
                "log_statement=all",
                "app.user=7",
                "auto_explain.log_analyze=on",
                "hidden=1",
            ]
            return [("app", True, False, own)]
        if self.is_superuser:
            return [(True, None, None)]
        known = (("search_path", True), ("log_statement", False), ("auto_explain.log_analyze", False))
        return [(False, name, may) for name, may in known]


def test_a_role_s_settings_that_this_user_may_not_set_end_no_connection() -> None:
    session = Roles(is_superuser=False)
    found, missing = role_options(cast("Any", session))
    # A tab would end the value as a space does.
    assert found == {"app": "-c role=app -c search_path=a,\\\tb\\ c -c app.user=7"}
    assert "(auto_explain.log_analyze, hidden, log_statement): sessions are without" in missing
    found, missing = role_options(cast("Any", Roles(is_superuser=True)))
    assert "log_statement=all" in found["app"] and not missing
