"""What is told of a dump that can't be restored: the server's error, and no password of the dump."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from pgassay.environment.datasets import dump
from pgassay.environment.datasets.run_sql_text import shown
from pgassay.environment.server.program_errors import said_on_failure
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.build import Build
from pgassay.model.redaction import without_secrets

BUILD = Build(origin="npm", version="16.14", major=16, bin_directory="/nowhere")
ADMINPACK = """pg_restore: while PROCESSING TOC:
pg_restore: from TOC entry 2; 3079 16388 EXTENSION adminpack (no owner)
pg_restore: error: could not execute query: ERROR:  extension "adminpack" is not available
DETAIL:  Could not open extension control file "adminpack.control": No such file or directory.
HINT:  The extension must first be installed on the system where PostgreSQL is running.
Command was: CREATE EXTENSION IF NOT EXISTS adminpack WITH SCHEMA pg_catalog;


"""
MAPPING = """pg_restore: while PROCESSING TOC:
pg_restore: from TOC entry 3301; 1418 16413 USER MAPPING USER MAPPING clinic_app SERVER far postgres
pg_restore: error: could not execute query: ERROR:  role "clinic_app" does not exist
Command was: CREATE USER MAPPING FOR clinic_app SERVER far OPTIONS (
    password 'MapSecret7',
    "user" 'u'
);
"""


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (MAPPING, 'pg_restore: error: could not execute query: ERROR:  role "clinic_app" does not exist'),
        (
            "psql:<stdin>:7: ERROR:  role \"x\" already exists\nLINE 1: CREATE ROLE x PASSWORD 'Secret7';\n"
            "                    ^\n",
            'psql:<stdin>:7: ERROR:  role "x" already exists',
        ),
        (
            "psql:a.sql:2: ERROR:  syntax error at or near \"'Secret7'\"\nLINE 1: ...WORD x 'Secret7'\n   ^",
            'psql:a.sql:2: ERROR:  syntax error at or near "***"',
        ),
        (
            "psql:a.sql:2: ERROR:  no\nCONTEXT:  SQL statement \"CREATE ROLE x PASSWORD 'it''s Secret7'\"\n",
            'psql:a.sql:2: ERROR:  no / CONTEXT:  SQL statement "CREATE ROLE x PASSWORD ***"',
        ),
        ("one\ntwo\n\nthree\nfour\n", "two / three / four"),
        ("", ""),
    ],
)
def test_the_error_is_told_and_the_command_is_not(output: str, told: str) -> None:
    assert said_on_failure(output) == told


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("CREATE ROLE a ENCRYPTED PASSWORD 'S' LOGIN", "CREATE ROLE a ENCRYPTED PASSWORD *** LOGIN"),
        ("ALTER ROLE a PASSWORD E'S\\'S'", "ALTER ROLE a PASSWORD ***"),
        ("ALTER ROLE a PASSWORD $x$S$x$ LOGIN", "ALTER ROLE a PASSWORD *** LOGIN"),
        ("OPTIONS (\"password\" 'S', \"user\" 'u')", 'OPTIONS ("password" ***, "user" \'u\')'),
        ("ALTER ROLE a PASSWORD NULL", "ALTER ROLE a PASSWORD NULL"),
    ],
)
def test_a_statement_is_shown_without_its_password(sql: str, told: str) -> None:
    assert without_secrets(sql) == told == shown(sql)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MeasurementError(said_on_failure(ADMINPACK)), "needs the extension adminpack, .* name a build"),
        # Without psql the statements of a plain dump are run one by one.
        (
            UsageError('line 4: failed (extension "adminpack" is not available)'),
            "needs the extension adminpack",
        ),
        (
            MeasurementError("pg_restore: error: ERROR:  ICU is not supported in this build"),
            r"collation of ICU, which PostgreSQL 16\.14 of npm was built without: .* --pg apt:16",
        ),
    ],
)
def test_what_a_build_lacks_is_told_with_a_build_that_has_it(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(dump, "_restore", fail)
    monkeypatch.setattr(dump, "read_header", lambda _: None)
    with pytest.raises(UsageError, match=said):
        dump._restore_explained(SimpleNamespace(build=BUILD), Path("clinic.dump"), lambda *_: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "roles"),
    [
        ("CREATE USER MAPPING FOR clinic_app SERVER far OPTIONS (\n    password 'x'\n);", {"clinic_app"}),
        ('CREATE USER MAPPING IF NOT EXISTS FOR "Odd one" SERVER far;', {"Odd one"}),
        ("CREATE USER MAPPING FOR public SERVER far;", set()),
        ("CREATE USER MAPPING FOR CURRENT_USER SERVER far;", set()),
        ("GRANT SELECT ON TABLE t TO a, b;", {"a", "b"}),
        (
            "ALTER DEFAULT PRIVILEGES FOR ROLE a IN SCHEMA s GRANT SELECT ON TABLES TO b;",
            {"a", "b"},
        ),
    ],
)
def test_every_role_that_a_dump_names_is_known(line: str, roles: set[str]) -> None:
    assert dump.roles_named(f"SET a = 1;\n{line}\n".encode()) == roles
