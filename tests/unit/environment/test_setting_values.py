"""Values as typed against values as shown, by PostgreSQL's own rules, and what a record has of them."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.environment.remote.settings_swap import differences_sentence, read_facts
from pgassay.environment.server.server_folder import check_settings, format_settings
from pgassay.environment.server.sessions import ControlSession
from pgassay.environment.server.setting_values import SettingFact, equal_value, parse_bool, parse_number
from pgassay.environment.server.settings import NOT_SHOWN, storable_value
from pgassay.environment.server.start_failure import explain
from pgassay.errors import UsageError


def fact(vartype, unit=None, enumvals=()):
    return SettingFact("name", "user", vartype, unit, "0", "0", "1000", enumvals, "0")


@pytest.mark.parametrize(
    ("wanted", "shown", "unit", "same"),
    [
        ("1GB", "1GB", "8kB", True),
        ("1GB", "131072", "8kB", True),
        ("1024MB", "1GB", "8kB", True),
        ("131072", "1GB", "8kB", True),
        ("1GB", "1023MB", "8kB", False),
        ("1000001kB", "1000000kB", "8kB", True),
        ("0.5GB", "512MB", "8kB", True),
        ("30.1GB", "30822MB", "kB", True),
        ("15min", "900", "s", True),
        ("0.5h", "30min", "s", True),
        ("250ms", "250", "ms", True),
        ("1.5s", "1500ms", "ms", True),
        ("0x10", "16", None, True),
        ("010", "8", None, True),
        ("1e3", "1000", None, True),
        (" 5 ", "5", None, True),
        ("5GB", "5", None, False),
        ("5 gb", "5GB", "kB", False),
        ("many", "5", None, False),
        ("-1", "-1", "kB", True),
        ("10ms", "10", "kB", False),
    ],
)
def test_integers(wanted, shown, unit, same):
    assert equal_value("work_mem", wanted, shown, fact("integer", unit)) is same


@given(st.integers(0, 2**20), st.sampled_from(["kB", "MB", "GB", "TB", "B"]))
def test_memory_in_any_unit_is_that_many_bytes(amount, unit):
    factor = {"B": 1, "kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}[unit]
    assert parse_number(f"{amount}{unit}", "B") == amount * factor
    assert parse_number(f"{amount}{unit}", "8kB") == amount * factor / 8192


@pytest.mark.parametrize(
    ("text", "truth"),
    [("on", True), ("off", False), ("T", True), ("f", False), ("ye", True), ("1", True), ("0", False),
     ("o", None), ("of", False), ("", None), ("maybe", None), ("onn", None)],
)  # fmt: skip
def test_booleans(text, truth):
    assert parse_bool(text) is truth


def test_other_types():
    assert equal_value("random_page_cost", "1.10", "1.1", fact("real"))
    assert not equal_value("random_page_cost", "1.1", "1.2", fact("real"))
    assert equal_value("vacuum_cost_delay", "2ms", "2", fact("real", "ms"))
    assert equal_value("huge_pages", "FALSE", "off", fact("enum", enumvals=("off", "on", "try")))
    assert equal_value("wal_level", "hot_standby", "replica", fact("enum"))
    assert not equal_value("io_method", "sync", "worker", fact("enum"))
    assert equal_value("wal_buffers", "-1", "16MB", fact("integer", "8kB"))
    assert not equal_value("work_mem", "-1", "16MB", fact("integer", "kB"))
    assert equal_value("search_path", '"$user",public', '"$user", public', fact("string"))


@given(st.text(alphabet=st.characters(exclude_characters="\n\r\0", exclude_categories=("Cs",))))
def test_a_written_value_reads_back(value):
    (line,) = format_settings({"some.setting": value}).split("\n")[:-1] or [""]
    body = line.removeprefix("some.setting = '").removesuffix("'")
    # PostgreSQL's reader: a doubled quote is one, a backslash escapes what follows it.
    assert body.replace("''", "'").replace("\\\\", "\\") == value or "\\" in value


@pytest.mark.parametrize("name", ["", "a b", "x=1", "1st", "a.", "work_mem\n", "a'b"])
def test_impossible_names(name):
    with pytest.raises(UsageError):
        check_settings({name: "1"})


def test_the_log_of_a_failed_start_is_explained():
    log = """2026-01-01 GMT [7] LOG:  unrecognized configuration parameter "a" in file "/x" line 2
2026-01-01 GMT [7] FATAL:  configuration file "/x" contains errors"""
    assert explain(log, {}).setting == "a"
    ring = """[7] FATAL:  could not setup io_uring queue: Too many open files
[7] HINT:  Consider increasing "ulimit -n"."""
    assert "ulimit -n" in explain(ring, {}).sentence()
    refused = "[7] FATAL:  could not setup io_uring queue: Operation not permitted"
    assert "kernel.io_uring_disabled" in explain(refused, {}).sentence()
    assert "nothing to its log" in explain("", {}).sentence()


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
