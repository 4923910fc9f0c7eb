"""What a record has of a server's settings: none of the secrets in them."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgassay.environment.remote.settings_swap import differences_sentence, read_facts
from pgassay.environment.server.sessions import ControlSession
from pgassay.environment.server.settings import NOT_SHOWN, storable_value

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        # As pg_basebackup -R writes it.
        ("primary_conninfo", f"user=replicator password={SECRET} host=10.0.0.5 port=5432"),
        ("archive_command", f"AWS_SECRET_ACCESS_KEY={SECRET} wal-g wal-push %p"),
        ("ssl_passphrase_command", f"echo {SECRET}"),
        ("cron.host_password", SECRET),
        ("somebody.connection", f"postgresql://app:{SECRET}@db/shop"),
        ("somebody.dsn", f"host=db password = '{SECRET}'"),
    ],
)
def test_what_may_hold_a_secret_is_not_shown(name: str, value: str) -> None:
    assert storable_value(name, value) == NOT_SHOWN
    assert storable_value(name, "") == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password_encryption", "scram-sha-256"),
        ("shared_preload_libraries", "passwordcheck,pg_stat_statements"),
        ("auto_explain.log_min_duration", "1s"),
        ("pg_stat_statements.track", "all"),
        ("compute_query_id", "auto"),
        ("work_mem", "4MB"),
    ],
)
def test_all_else_is_stored_as_it_is(name: str, value: str) -> None:
    assert storable_value(name, value) == value


class Session:
    """A superuser's session of a server that was made by pg_basebackup -R."""

    def __init__(self, conninfo: str) -> None:
        self.info = SimpleNamespace(parameter_status=lambda _: "18.1 (Debian)")
        self._rows: list[tuple[object, ...]] = [
            ("primary_conninfo", "sighup", "string", None, conninfo, None, None, [], ""),
            ("work_mem", "user", "integer", "kB", "4096", "64", "2147483647", [], "4096"),
        ]

    def execute(self, query: str) -> Any:
        rows = self._rows if "boot_val" in query else []
        return SimpleNamespace(fetchall=lambda: rows, fetchone=lambda: None)


def test_two_servers_differ_in_a_connection_string_that_is_not_shown() -> None:
    first, second = (
        read_facts(cast("ControlSession", Session(text)))
        for text in (f"user=replicator password={SECRET} host=a", "")
    )
    sentence = differences_sentence(("a", "b"), (first, second), ())
    assert sentence == "a differs from b in settings primary_conninfo (not shown against -)"
    assert SECRET not in repr(first)
