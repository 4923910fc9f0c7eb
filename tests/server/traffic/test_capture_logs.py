"""Captures made from what a real server logged, in each of its three forms, whole and cut."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from native_servers import NativeTestServer, started_server
from pgassay.errors import UsageError
from pgassay.traffic.capturing import make_folder
from pgassay.traffic.events import events
from pgassay.traffic.logs.convert_log import Converted, convert
from pgassay.traffic.statement_executions import ExecutedStatement, statements
from pgassay.traffic.summary import summarise
from server.traffic.captures import messages

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
PREFIX = "%m [%p] %q%u@%d "
SETTINGS = {
    "logging_collector": "on",
    "log_destination": "csvlog,jsonlog,stderr",
    "log_filename": "all.log",
    "log_line_prefix": PREFIX,
    "log_min_duration_statement": "0",
    "log_connections": "on",
    "log_disconnections": "on",
}
FORMS = ("all.csv", "all.json", "all.log")
TEXT = "SELECT 'a\nb', 'it''s'"
SECRET = "CREATE ROLE from_log PASSWORD 'hunter2'"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The logs of a server on which one session did what the tests look for."""
    with started_server() as server:
        with server.query_connection() as admin:
            for name, value in SETTINGS.items():
                admin.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        server.run("pg_ctl", "-D", str(server.folder / "data"), "-w", "-m", "fast", "stop")
        server.start_again()
        work(server)
        server.run("pg_ctl", "-D", str(server.folder / "data"), "-w", "-m", "fast", "stop")
        folder = tmp_path_factory.mktemp("logs")
        for name in FORMS:
            shutil.copy(server.folder / "data" / "log" / name, folder / name)
        yield folder


def work(server: NativeTestServer) -> None:
    with psycopg.connect(
        host=str(server.folder), port=server.port, user="postgres", application_name="logged", autocommit=True
    ) as client:
        client.execute("SELECT pg_sleep(0.2)")
        client.execute(TEXT)
        client.execute("SELECT %s::text, %s::int", ("it's, $2 = 'x'", None))
        for number in range(3):
            client.execute("SELECT %s::int + 1", (number,), prepare=True)
        with pytest.raises(psycopg.errors.UndefinedTable):
            client.execute("SELECT * FROM nowhere")
        with client.transaction():
            client.execute("SELECT 'within'")
        client.execute(SECRET)
        client.execute("CREATE TEMPORARY TABLE t (v text)")
        with client.cursor().copy("COPY t FROM STDIN") as copy:
            copy.write_row(("x",))


def converted(path: Path, folder: Path, prefix: str | None = None) -> Converted:
    make_folder(folder)
    return convert([path], folder, prefix)


def of_session(folder: Path) -> tuple[int, list[ExecutedStatement]]:
    """The session that did the work, and its statements."""
    done = [each for each in statements(events(folder)) if each.protocol != "sync"]
    number = next(each.session for each in done if "pg_sleep" in each.text)
    return number, [each for each in done if each.session == number]


@pytest.mark.parametrize("form", FORMS)
def test_statements_come_with_text_values_times_and_outcomes(logs: Path, tmp_path: Path, form: str) -> None:
    found = converted(logs / form, tmp_path / "c")
    assert found.cut == 0
    number, done = of_session(tmp_path / "c")
    texts = [each.text for each in done]
    assert texts[:3] == ["SELECT pg_sleep(0.2)", TEXT, "SELECT $1::text, $2::int"]
    assert texts.count("SELECT $1::int + 1") == 3
    assert "CREATE ROLE from_log PASSWORD '***'" in texts
    first = done[0]
    assert first.end_ns is not None and first.end_ns - first.start_ns >= 200_000_000
    failed = [each for each in done if each.sqlstate]
    assert [each.text for each in failed] == ["SELECT * FROM nowhere"]
    assert failed[0].sqlstate == ("42P01" if form != "all.log" else "XX000")
    begun = texts.index("BEGIN")
    assert [each.status for each in done[begun : begun + 3]] == ["T", "T", "I"]
    binds = [each.body for each in messages(tmp_path / "c", number) if each.tag == "B"]
    # The first value with its quote, then null.
    assert b"\0\0\0\x0eit's, $2 = 'x'\xff\xff\xff\xff" in binds[0]
    parses = [each for each in messages(tmp_path / "c", number) if each.tag == "P"]
    assert [each.text for each in parses].count("SELECT $1::int + 1") == 1
    summary = summarise(tmp_path / "c")
    assert summary.source == "log" and summary.users["postgres"] >= 1
    reasons = {each.reason: each for each in summary.unreplayable}
    assert any("COPY FROM STDIN" in reason for reason in reasons)
    types = next(each for reason, each in reasons.items() if "types" in reason)
    assert types.count == 4 and types.share is not None and 0 < types.share < 0.5
    assert "hunter2" not in str(list(events(tmp_path / "c")))


@pytest.mark.parametrize("form", FORMS)
def test_a_log_that_was_cut_anywhere_gives_what_is_whole_and_counts_the_rest(
    logs: Path, tmp_path: Path, form: str
) -> None:
    content = (logs / form).read_text("utf-8")
    place = content.index({"all.csv": "a\nb", "all.json": "a\\nb", "all.log": "a\n\tb"}[form])
    # The middle of a statement of several lines is gone: what follows must be read all the same.
    following = re.search(r"\n(?=\{|\d{4}-\d\d-\d\d )", content[place + 3 :])
    assert following is not None
    cut = content[: place + 1] + content[place + 3 + following.start() :]
    path = tmp_path / form
    path.write_text(cut[: len(cut) - 20], "utf-8")
    found = converted(path, tmp_path / "c")
    _, done = of_session(tmp_path / "c")
    assert [each.text for each in done].count("SELECT $1::int + 1") == 3
    if form != "all.log":
        assert found.cut >= 1
        assert any("cut" in str(each["reason"]) for each in found.lacks)


def test_a_prefix_of_one_s_own_is_taken_and_a_wrong_one_refused(logs: Path, tmp_path: Path) -> None:
    changed = tmp_path / "own"
    lines = (logs / "all.log").read_text("utf-8")
    stamp = r"^(\d{4}-\S+ \S+ \S+) \[(\d+)\] (?:postgres@postgres )?"
    changed.write_text(re.sub(stamp, r"<\2|\1> ", lines, flags=re.MULTILINE), "utf-8")
    with pytest.raises(UsageError, match="--log-prefix"):
        converted(changed, tmp_path / "refused")
    with pytest.raises(UsageError, match="sessions can't be identified"):
        converted(changed, tmp_path / "wrong", "<%m>")
    assert converted(changed, tmp_path / "c", "<%p|%m> ").statements > 10
    with pytest.raises(UsageError, match="no statement was logged"):
        empty = tmp_path / "empty.csv"
        empty.write_text("")
        converted(empty, tmp_path / "nothing")
