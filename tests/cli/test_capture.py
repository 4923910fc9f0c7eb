"""`pgassay capture` as its user runs it."""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import pgassay
import whole_tool
from native_servers import NativeTestServer, started_server
from pgassay.traffic.data_frames import OpenedCapture

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as found:
        yield found


def dsn(server: NativeTestServer) -> str:
    return f"host={server.folder} port={server.port} user=postgres dbname=postgres"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_capture_is_made_until_it_is_interrupted_and_shown(
    server: NativeTestServer, tmp_path: Path
) -> None:
    port, out = free_port(), tmp_path / "monday"
    words = ("capture", dsn(server), "--listen", f"127.0.0.1:{port}", "--out", out)
    process = whole_tool.start(*words, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        assert f"Clients connect to 127.0.0.1:{port} instead of" in process.stderr.readline()
        assert "your users' data" in process.stderr.readline()
        assert "Ctrl-C" in process.stderr.readline()
        with psycopg.connect(host="127.0.0.1", port=port, user="postgres", autocommit=True) as client:
            for number in range(5):
                client.execute(f"SELECT {number}, -{number}")
            client.execute("SELECT count(*) FROM pgbench_accounts")
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(60) == 0, said
        assert f"pgassay capture show {out}" in said
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["format"] == 1 and manifest["ended_at"] is not None
    assert manifest["server"]["version"].startswith("PostgreSQL")
    assert manifest["totals"]["statements"] == 6
    assert [path.stat().st_mode & 0o777 for path in (out, out / "manifest.json")] == [0o700, 0o600]
    shown = whole_tool.run("capture", "show", out)
    assert shown.returncode == 0, shown.stderr
    assert "SELECT ?, ?" in shown.stdout and "1 session, at most 1 at once" in shown.stdout
    document = whole_tool.result_of(whole_tool.run("capture", "show", out, "--json"))
    calls = {each["text"]: each["calls"] for each in document["families"]}
    assert calls == {"SELECT ?, ?": 5, "SELECT count(*) FROM pgbench_accounts": 1}
    assert (document["schema"], document["is_finished"], document["transactions"]) == (1, True, 6)
    assert sum(each["statements"] for each in document["moments"]) == 6


def test_a_capture_ends_by_itself_and_is_opened_in_python(server: NativeTestServer, tmp_path: Path) -> None:
    out = tmp_path / "short"
    words = ("capture", dsn(server), "--listen", f"127.0.0.1:{free_port()}", "--out", out)
    document = whole_tool.result_of(whole_tool.run(*words, "--max-time", "1s", "--json"))
    assert (document["schema"], document["sessions"], document["failure"]) == (1, 0, None)
    opened = pgassay.open(out)
    assert isinstance(opened, OpenedCapture)
    assert (opened.sessions.num_rows, opened.statements.num_rows) == (0, 0)
    assert opened.summary.statements == 0
    assert "No statements" in whole_tool.run("capture", "show", out).stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("dbname=x",), "--out DIR"),
        (("monday", "--out", "x"), "is not a connection string"),
        (("dbname=x", "more=y", "--out", "x"), "too many"),
        (("show",), "takes one folder"),
        (("show", "/nowhere"), "holds no capture"),
        (("dbname=x", "--out", "x", "--only", "roles=a"), "users=NAME"),
        (("dbname=x", "--out", "x", "--tls-key", "k"), "needs its key"),
        (("dbname=x", "--out", "x", "--listen", "0.0.0.0:6432"), "--tls-certificate"),
        (("dbname=x", "--out", "x", "--listen", "nowhere"), "127.0.0.1:6432"),
        (("dbname=x", "--out", "."), "is not empty"),
        (("dbname=x", "--out", ".", "--redact"), "is not empty"),
        (("show", "monday", "--redact"), "leave it out"),
        (("dbname=x", "--out", "x", "--max-time", "0"), "--max-time: '0' is less than 1s: write"),
        (("--log", "--out", "x"), "--log needs a file: write --log FILE"),
    ],
)
def test_what_can_t_be_captured_is_refused(words: tuple[str, ...], told: str) -> None:
    assert told in whole_tool.assert_one_sentence(whole_tool.run("capture", *words), 2)


def test_an_address_that_is_taken_is_told(server: NativeTestServer, tmp_path: Path) -> None:
    words = ("capture", dsn(server), "--listen", f"127.0.0.1:{server.port}", "--out", tmp_path / "c")
    assert "can't be listened on" in whole_tool.assert_one_sentence(whole_tool.run(*words), 2)


def test_a_log_becomes_a_capture(tmp_path: Path) -> None:
    log, out = tmp_path / "postgresql.log", tmp_path / "yesterday"
    head = "2026-11-27 18:32:2{}.535 UTC [4711] app@shop LOG:  duration: 900 ms  statement: SELECT {}"
    log.write_text("".join(head.format(second, second) + "\n" for second in range(3)))
    document = whole_tool.result_of(whole_tool.run("capture", "--log", log, "--out", out, "--json"))
    assert (document["schema"], document["sessions"], document["statements"]) == (1, 1, 3)
    shown = whole_tool.run("capture", "show", out).stdout
    assert "SELECT ?" in shown and "a log doesn't say how many rows" in shown
    words = ("capture", "dbname=x", "--log", str(log), "--out", str(tmp_path / "other"))
    assert "leave 'dbname=x' out" in whole_tool.assert_one_sentence(whole_tool.run(*words), 2)


def test_what_is_captured_with_redact_has_no_values_in_the_end(
    server: NativeTestServer, tmp_path: Path
) -> None:
    port, out = free_port(), tmp_path / "handout"
    words = ("capture", dsn(server), "--listen", f"127.0.0.1:{port}", "--out", out, "--redact", "--json")
    process = whole_tool.start(*words, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        # Until then the values are beside it, and that is said.
        assert f"recorded in {out}.values" in process.stderr.readline()
        with psycopg.connect(host="127.0.0.1", port=port, user="postgres", autocommit=True) as client:
            for name in ("Geheimrat-Xaver", "Geheimrat-Xaver", "Geheimrat-Zoltan"):
                client.execute(f"SELECT '{name}', %s", (name,))
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(60) == 0, said
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
    assert "3 literals and 3 parameters replaced" in said, said
    assert [path.name for path in tmp_path.iterdir()] == ["handout"]
    assert out.stat().st_mode & 0o777 == 0o700
    texts = OpenedCapture(out).statements.column("text").to_pylist()
    assert not any("Xaver" in text or "Zoltan" in text for text in texts)
    # Equal where the values were.
    assert texts[0] == texts[1] != texts[2]


def test_a_log_may_be_captured_without_its_values(tmp_path: Path) -> None:
    log, out = tmp_path / "postgresql.log", tmp_path / "yesterday"
    head = "2026-11-27 18:32:2{}.535 UTC [4711] app@shop LOG:  duration: 900 ms  statement: SELECT 'Xaver {}'"
    log.write_text("".join(head.format(second, second) + "\n" for second in range(3)))
    finished = whole_tool.run("capture", "--log", log, "--out", out, "--redact")
    assert finished.returncode == 0, finished.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["postgresql.log", "yesterday"]
    texts = OpenedCapture(out).statements.column("text").to_pylist()
    assert len(texts) == 3 and not any("Xaver" in text for text in texts)
