"""`pgassay tune DSN --redact`: no literal in what is shown, and no password anywhere."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest

import whole_tool
from server_helpers import best_build
from source_servers import PASSWORD, source_server

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]
# In the data, in the load, in values given by the user, and in a statement that fails on the copy.
COMMON, RARE, GIVEN, FAILING = "geheim-common", "geheim's rare", "geheim-given", "geheim-no-number"
SECRETS = (COMMON, "geheim''s", "geheim's", GIVEN, FAILING, PASSWORD, quote(PASSWORD, safe=""))
SETUP = (
    "CREATE EXTENSION pg_stat_statements",
    "CREATE TABLE people (id int, name text, city text)",
    f"INSERT INTO people SELECT n, CASE WHEN n % 3 = 0 THEN '{COMMON}' ELSE 'geheim''s rare' || n % 900 END,"
    " 'city' || n % 5000 FROM generate_series(1, 100000) n",
    "ANALYZE people",
    "SELECT pg_stat_statements_reset()",
    *[f"SELECT max(id) FROM people WHERE city = 'city{n}' AND name = '{COMMON}'" for n in range(5)],
    *["SELECT count(*) FROM people WHERE id = 5 AND city <> 'geheim-given'"] * 3,
    f"SELECT count(*) FROM people WHERE id = (CASE WHEN city = '{COMMON}' THEN 1 ELSE 0 END)",
    f"CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'",
    "GRANT pg_read_all_data, pg_read_all_stats TO app",
)
# The second is like none that was counted, which is said.
VALUES = f"""-- parameters: 5, '{GIVEN}'
SELECT count(*) FROM people WHERE id = $1 AND city <> $2;
-- parameters: '{FAILING}'
SELECT count(*) FROM people WHERE name = $1 AND city = '{GIVEN}';
"""


def test_what_is_shown_holds_no_literal_and_nothing_holds_the_password(tmp_path: Path) -> None:
    with source_server(best_build()) as server:
        server.execute(*SETUP)
        values, out = tmp_path / "values.sql", tmp_path / "out"
        values.write_text(VALUES)
        dsn = f"postgresql://app:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}/postgres"
        words = ("--values", values, "--statements", "5", "--max-time", "60s", "--out", out)
        finished = whole_tool.run("tune", dsn, *words, "--redact", "--json")
        assert finished.returncode == 0, finished.stderr
        answer = json.loads(finished.stdout)
        # That was measured which holds them, and the record that is the user's own has them.
        assert COMMON in (out / "statements.sql").read_text() + (out / "tune.json").read_text()
        assert GIVEN in (out / "statements.sql").read_text()
        assert [fix for fix in answer["fixes"] if fix["verdict"] in ("recommended", "not decided")]
        shown = [finished.stdout, finished.stderr, (out / "report.html").read_text()]
        for form in (("--markdown",), ()):
            again = whole_tool.run("report", out, "--redact", *form)
            assert again.returncode == 0, again.stderr
            shown += [again.stdout, again.stderr, (out / "report.html").read_text()]
        for text in shown:
            assert [secret for secret in SECRETS if secret in text] == []
        stored = b"".join(file.read_bytes() for file in out.rglob("*") if file.is_file())
        assert PASSWORD.encode() not in stored and quote(PASSWORD, safe="").encode() not in stored


def test_a_refusal_holds_no_literal_either(tmp_path: Path) -> None:
    with source_server(best_build()) as server:
        server.execute(*SETUP)
        values = tmp_path / "values.sql"
        values.write_text(f"-- parameters: '{GIVEN}', 1, 2, 3\n{VALUES.splitlines()[1]}\n")
        said = whole_tool.run("tune", server.dsn(), "--values", values, "--redact", "--quiet")
        assert GIVEN not in whole_tool.assert_one_sentence(said, 2)
