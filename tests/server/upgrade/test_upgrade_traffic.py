"""`pgassay upgrade --capture`: a ticket system's traffic on 17 and 18, with what is planted in it."""

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from pgassay.report.schema import UPGRADE
from pgassay.traffic import manifest
from server.traffic.captures import Proxy, proxied
from source_servers import SourceServer, source_server

pytestmark = [pytest.mark.server, pytest.mark.shares_machine, pytest.mark.timeout(600)]

SCHEMA = """
CREATE TABLE tickets (id bigserial PRIMARY KEY, team int NOT NULL, customer int NOT NULL, status text);
CREATE TABLE comments (id bigserial PRIMARY KEY, ticket bigint NOT NULL REFERENCES tickets, body text);
INSERT INTO tickets (team, customer, status)
    SELECT i % 5, i * 7919 % 4000, 'closed' FROM generate_series(1, 60000) i;
CREATE INDEX tickets_team_customer ON tickets (team, customer);
CREATE VIEW "Old wal" AS SELECT wal_write FROM pg_stat_wal;
ANALYZE
"""
# 18 has no such column; it has more keywords; a clock is another one each time.
PLANTED = (
    "SELECT wal_write FROM pg_stat_wal",
    "SELECT count(*) FROM pg_get_keywords()",
    "SELECT now()",
)
# Both copies are without this view, so that it fails on the old version too; far above 1 % of the time.
ON_VIEW = 'SELECT wal_write, pg_sleep(0.01) FROM "Old wal"'
BY_CUSTOMER = "SELECT count(*) FROM tickets WHERE customer = %s"
TURNS, SESSIONS = 40, 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traffic")


@pytest.fixture(scope="module")
def source(folder: Path) -> Iterator[SourceServer]:
    """A server of 17 with a dump of the beginning and a capture of what came then."""
    with source_server(resolve("npm:17"), {"shared_preload_libraries": ""}) as server:
        server.execute(*SCHEMA.split(";\n"))
        program = Path(resolve("18").bin_directory) / "pg_dump"
        words = ["--format=custom", f"--file={folder / 'then.dump'}", f"--dbname={server.dsn()}"]
        subprocess.run([program, *words], check=True)
        with proxied(server.parameters(), folder / "monday") as proxy:
            agents = [threading.Thread(target=_agent, args=(proxy, number)) for number in range(SESSIONS)]
            for agent in agents:
                agent.start()
            for agent in agents:
                agent.join()
            proxy.end()
        manifest.write(folder / "monday", manifest.begun("proxy", 0, None, {}, []))
        yield server


def _agent(proxy: Proxy, number: int) -> None:
    with proxy.connect(prepare_threshold=2) as client:
        for turn in range(TURNS):
            with client.transaction():
                text = "INSERT INTO tickets (team, customer, status) VALUES (%s, %s, 'open') RETURNING id"
                row = client.execute(text, (turn % 5, 5000 + number)).fetchone()
                assert row is not None
                client.execute("INSERT INTO comments (ticket, body) VALUES (%s, %s)", (row[0], "hello"))
            client.execute("UPDATE tickets SET status = 'closed' WHERE id = %s", (row[0],))
            client.execute(BY_CUSTOMER, (turn * 31 % 4000,))
            for planted in (*PLANTED, ON_VIEW) if turn % 4 == 0 else ():
                client.execute(planted.encode())


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results' folder; of its own, so that a second try begins anew."""
    return tmp_path_factory.mktemp("upgrade") / "out"


@pytest.fixture(scope="module")
def answer(source: SourceServer, folder: Path, out: Path) -> dict[str, Any]:
    before = source.rows("SELECT count(*), max(id) FROM tickets")
    words = ("--capture", folder / "monday", "--copy", f"dump:{folder / 'then.dump'}", "--max-time", "10s")
    finished = whole_tool.run(
        *("upgrade", source.dsn(), "--to", "18", *words, "--out", out, "--json"),
        # Of the plays on both versions the first block is whole, however long it takes.
        constants={"pgassay.upgrade.run_upgrade._TIME_MIN_S": 5.0},
    )
    assert finished.returncode == 3, finished.stderr
    document: dict[str, Any] = json.loads(finished.stdout)
    jsonschema.validate(document, UPGRADE.schema())
    # Nothing is done to the source, and no data are left in the folder of results.
    source.wait_until_left_alone()
    assert source.rows("SELECT count(*), max(id) FROM tickets") == before
    assert not list(out.glob("source.*"))
    return document


def test_the_decision_and_what_speaks_against_it_come_first(answer: dict[str, Any], out: Path) -> None:
    assert "18 is not safe for this traffic yet" in answer["headline"]
    # A view that the new version refuses is left out of the dump, so that the rest is played.
    assert [each["id"] for each in answer["findings"] if each["severity"] == "in the way"] == [
        'refused:view public."Old wal"'
    ]
    assert "2 fail, 1 other rows" in answer["headline"] and answer["decision"] == "in the way"
    page = (out / "report.html").read_text("utf-8")
    assert "statement families the same within" in page and "played as fast as their order allows" in page
    assert "no time was left to look for fixes" not in " ".join(answer["warnings"])


def test_what_is_planted_is_found_and_what_always_differs_is_not(answer: dict[str, Any]) -> None:
    found = {each["name"]: each for each in answer["statements"]}
    gone, counted, clock = (found[name] for name in PLANTED)
    assert gone["verdict"] == "fails" and "error 42703" in gone["reason"]
    assert gone["calls"] == SESSIONS * TURNS / 4
    assert counted["verdict"] == "other rows" and "with different values, 0 of" in counted["reason"]
    assert clock["verdict"] not in ("fails", "other rows")
    wrong = [each["name"] for each in answer["statements"] if each["verdict"] in ("fails", "other rows")]
    (viewed,) = (each for name, each in found.items() if "Old wal" in name)
    assert viewed["verdict"] == "fails" and viewed["share"] > 0.01
    assert 'the view public."Old wal", which the new version refuses' in viewed["reason"]
    assert set(wrong) == {gone["name"], counted["name"], viewed["name"]}


def test_writes_are_played_on_fresh_data_and_timed(answer: dict[str, Any]) -> None:
    traffic = answer["traffic"]
    assert traffic["speed"] is None and traffic["sessions"] == SESSIONS
    assert min(traffic["plays"]) >= 1 and 0.01 < traffic["otherwise"][0] < traffic["otherwise"][1]
    found = {each["name"][:20]: each for each in answer["statements"]}
    assert found["INSERT INTO tickets "]["before_ms"] > 0 and found["UPDATE tickets SET s"]["ratio"] > 0


def test_data_of_another_moment_are_told_before_anything_is_measured(
    source: SourceServer, folder: Path, tmp_path: Path
) -> None:
    words = ("--capture", folder / "monday", "--max-time", "45s", "--out", tmp_path / "out")
    source.execute("DROP TABLE comments")
    refused = whole_tool.run("upgrade", source.dsn(), "--to", "18", *words)
    told = whole_tool.assert_one_sentence(refused, 2) if refused.stderr.count("\n") == 1 else refused.stderr
    assert "differs" in told and "--copy dump:FILE" in told and refused.returncode == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--capture", "/nowhere"), "there is no such folder"),
        (("--capture", "/tmp,sped=2"), "has no option 'sped'"),
        (("--capture", "/tmp", "--workload", "sql:x"), "leave one of them out"),
        (("--copy", "folder:/tmp"), "write dump, for one that is made now"),
    ],
)
def test_what_can_t_be_meant_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    finished = whole_tool.run("upgrade", "dbname=x", "--to", "18", *words)
    assert said in whole_tool.assert_one_sentence(finished, 2)


def test_a_redacted_capture_is_refused(folder: Path, source: SourceServer) -> None:
    out = folder / "handout"
    assert whole_tool.run("capture", "redact", folder / "monday", "--out", out).returncode == 0
    finished = whole_tool.run("upgrade", source.dsn(), "--to", "18", "--capture", out)
    assert "is redacted" in whole_tool.assert_one_sentence(finished, 2)
