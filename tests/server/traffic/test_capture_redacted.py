"""`pgassay capture redact`: what clients sent to a real server, and none of it in what is handed out."""

import json
import uuid
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb

import whole_tool
from native_servers import NativeTestServer, started_server
from pgassay.traffic import manifest
from pgassay.traffic.blocks import files
from pgassay.traffic.data_frames import OpenedCapture
from pgassay.traffic.events import BEGIN, events
from pgassay.traffic.statement_executions import statements
from pgassay.traffic.values import values_of
from server.traffic.captures import proxied

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]

NAME, NUMBER, BORN = "Geheimrat-Xaver", 4711081500, date(1913, 7, 19)
ID = uuid.UUID("3f2504e0-4f89-41d3-9a0c-0305e82c3301")
PLANTED = (
    NAME, NAME[:9], str(NUMBER), NUMBER.to_bytes(8), str(ID), ID.hex, ID.bytes, "1913-07-19", "815.4711",
    "Notiz-Elfriede", "Zettel-Kuno", "Kasse-Sieben", "App-Rosalinde", "Spalte-Zwei", "Wert-Achtzehn",
)  # fmt: skip
TABLE = "CREATE TEMP TABLE people (id bigserial, name text, n bigint, u uuid, d jsonb, born date)"
INSERT = "INSERT INTO people (name, n, u, d, born) VALUES (%s, %s, %s, %s, %s) RETURNING id, name, n"
VALUES: tuple[Any, ...] = (NAME, NUMBER, ID, Jsonb({"who": NAME, "n": [NUMBER]}), BORN)
LITERALS = (
    f"SELECT name FROM people WHERE name = '{NAME}' AND n = {NUMBER} -- Notiz-Elfriede",
    f"SELECT E'{NAME}', $${NAME}$$, '1913-07-19'::date, 815.4711 /* Zettel-Kuno */",
    f"SELECT '{ID}'::uuid",
    "SET app.till = 'Kasse-Sieben'",
    "PREPARE one (text) AS SELECT count(*) FROM people WHERE name = $1",
    "EXECUTE one ('Wert-Achtzehn')",
)


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    with started_server() as found:
        yield found


@pytest.fixture(scope="module")
def captured(server: NativeTestServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All ways in which a value comes into a capture."""
    folder = tmp_path_factory.mktemp("redacted") / "capture"
    with proxied(server.parameters(), folder) as proxy:
        with proxy.connect(application_name="App-Rosalinde", options="-c geqo=off") as client:
            client.execute(TABLE)
            client.execute(INSERT.replace("%s", "%t"), VALUES)
            client.execute(INSERT, VALUES, binary=True)
            with client.cursor(binary=True) as cursor:
                cursor.execute("SELECT count(*) FROM people WHERE n = ANY(%b)", ([NUMBER, 2],))
                cursor.execute("SELECT %b::float8 + %b::numeric", (815.4711, 815))
            for literal in LITERALS:
                client.execute(literal.encode())
            with client.cursor().copy("COPY people (name, n) FROM STDIN") as copy:
                copy.write_row(("Spalte-Zwei", NUMBER))
        proxy.end()
    manifest.write(folder, manifest.begun("proxy", 0, {"settings": {"cluster_name": NAME}}, {}, []))
    return folder


@pytest.fixture(scope="module")
def handout(captured: Path) -> Path:
    out = captured.parent / "handout"
    finished = whole_tool.run("capture", "redact", captured, "--out", out, "--json")
    (captured.parent / "said").write_text(finished.stderr)
    (captured.parent / "counts").write_text(json.dumps(whole_tool.result_of(finished)))
    return out


def contents(folder: Path) -> list[bytes]:
    """Every file as it lies there, and what its blocks unpack to."""
    found = [path.read_bytes() for path in folder.iterdir()]
    return found + [block.raw for file in files(folder) for block in file.blocks()]


def test_no_planted_value_is_in_any_byte(captured: Path, handout: Path) -> None:
    planted = [each.encode() if isinstance(each, str) else each for each in PLANTED]
    before, after = contents(captured), contents(handout)
    assert [each for each in planted if not any(each in content for content in before)] == []
    assert [each for each in planted if any(each in content for content in after)] == []


def test_it_says_what_was_done_and_what_stays(handout: Path) -> None:
    counts = json.loads((handout.parent / "counts").read_text())
    assert (counts["sessions"], counts["rows"], counts["comments"], counts["left_out"]) == (1, 3, 2, 1)
    assert counts["parameters"] == 13 and counts["literals"] >= 8 and counts["startup"] == 2
    said = (handout.parent / "said").read_text()
    for words in ("placeholders", "Left out", "Kept: names of tables", "A replay finds different rows"):
        assert words in said
    assert handout.stat().st_mode & 0o777 == 0o700
    shown = json.loads((handout / "manifest.json").read_text())
    assert shown["redacted"] is True and "settings" not in shown["server"]
    assert "values are placeholders" in whole_tool.run("capture", "show", handout).stdout


def test_families_times_and_rows_are_those_of_the_capture(captured: Path, handout: Path) -> None:
    before, after = OpenedCapture(captured).summary, OpenedCapture(handout).summary
    assert after.families == before.families and len(after.families) >= 10
    assert (after.seconds, after.statements, after.errors) == (before.seconds, before.statements, 0)
    assert after.moments == before.moments


def test_values_keep_type_and_length_and_equal_ones_are_equal(handout: Path) -> None:
    begun = [event.begin for event in events(handout) if event.kind == BEGIN]
    kept = {"user", "database", "client_encoding"}
    assert all(each is not None and set(each.parameters) <= kept for each in begun)
    bound = [each.bound for each in statements(events(handout)) if each.text.startswith("INSERT")]
    # One as text, one in binary form.
    first, second = (values_of(each) for each in bound if each is not None)
    assert first is not None and second is not None and first[:3] == second[:3]
    name, number, found, document, born = (each or "" for each in first)
    assert len(name) == len(NAME) and name[9] == "-" and name[0].isupper()
    assert len(number) == 10 and number.isdigit() and int(number) != NUMBER
    assert uuid.UUID(found) != ID
    assert number in document and name in document and json.loads(document)
    assert date.fromisoformat(born) != BORN


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("redact",), "write pgassay capture redact DIR --out FOLDER"),
        (("redact", "/nowhere", "--out", "x"), "holds no capture"),
        (("redact", "monday"), "--out FOLDER"),
    ],
)
def test_what_can_t_be_redacted_is_told(words: tuple[str, ...], said: str) -> None:
    assert said in whole_tool.assert_one_sentence(whole_tool.run("capture", *words), 2)


def test_a_folder_that_holds_something_is_not_written_to(captured: Path) -> None:
    finished = whole_tool.run("capture", "redact", captured, "--out", captured.parent)
    assert "is not empty" in whole_tool.assert_one_sentence(finished, 2)
