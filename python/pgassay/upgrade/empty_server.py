"""An empty server of the new version: what it knows, and whether the source's schema can be created there."""

import contextlib
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg

from pgassay.environment.cleanup import registry
from pgassay.environment.datasets.dump import prepare_for_dump
from pgassay.environment.home import account, home
from pgassay.environment.server.initdb import make_cluster
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import ControlSession, control
from pgassay.errors import UsageError, first_line
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.sql_text import split_statements
from pgassay.storage.file_copies import make_folder
from pgassay.tune.source.source_server import SourceServer

_SERVER_SETTINGS = {"shared_buffers": "16MB", "max_connections": "20", "fsync": "off"}
_SETTINGS = """
SELECT name, boot_val, vartype, enumvals, min_val, max_val FROM pg_catalog.pg_settings"""
_CURRENT = "SELECT pg_catalog.current_setting(%s, true) IS NOT NULL"
_EXTENSIONS = "SELECT name::text, default_version FROM pg_catalog.pg_available_extensions"
# A function's body is parsed by its language's validator, which does not execute it; a dump skips that.
_FUNCTIONS = """
SELECT p.oid, pg_catalog.format('%I.%I(%s)', n.nspname, p.proname,
    pg_catalog.pg_get_function_identity_arguments(p.oid)), l.lanvalidator::pg_catalog.regproc::text
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE l.lanname IN ('sql', 'plpgsql') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
ORDER BY 2"""
# Of this build and not of the version; and what pg_dump of a newer version sets for itself.
_NOT_OF_THE_VERSION = "ICU is not supported"
_NOT_KNOWN = "unrecognized configuration parameter"
# Of the cluster, and not of the schema.
_TABLESPACE = "default_tablespace"
_ROWS = re.compile(r"(?:\s+|--[^\n]*(?:\n|$))*INSERT\s", re.IGNORECASE)
_MADE = re.compile(
    r"\s*(?:CREATE|ALTER)\s+(?:OR\s+REPLACE\s+)?(?:UNLOGGED\s+|TRUSTED\s+|PROCEDURAL\s+)*"
    r"(?P<kind>MATERIALIZED\s+VIEW|FOREIGN\s+(?:DATA\s+WRAPPER|TABLE)|EVENT\s+TRIGGER|TEXT\s+SEARCH\s+[A-Z]+"
    r"|OPERATOR\s+(?:CLASS|FAMILY)|ACCESS\s+METHOD|USER\s+MAPPING\s+FOR|[A-Z]+(?:\s+INDEX)?)\s+"
    r"(?:ONLY\s+|IF\s+NOT\s+EXISTS\s+)?(?P<name>(?:\"(?:[^\"]|\"\")+\"|[\w$.])+)"
)


@dataclass(frozen=True)
class KnownSetting:
    """A setting as a version begins with it; least and most are those of a number, as text."""

    boot: str | None
    kind: str
    words: tuple[str, ...] = ()
    least: str | None = None
    most: str | None = None


@dataclass(frozen=True)
class Refused:
    """An object of the schema that the version to come refuses; `words`: the server's."""

    kind: str
    name: str
    words: str


@dataclass(frozen=True)
class NewVersion:
    """What a server of the version to come knows; `aliases`: old names of settings that it takes."""

    build: Build
    settings: Mapping[str, KnownSetting]
    aliases: frozenset[str]
    extensions: Mapping[str, str]


@contextlib.contextmanager
def scratch_server(build: Build) -> Iterator[Server]:
    """A server on an empty cluster, gone afterwards."""
    work = home() / "data" / "work"
    make_folder(work, account())
    folder = Path(tempfile.mkdtemp(prefix="upgrade-", dir=work))
    token = registry.register("folder", path=str(folder))
    try:
        make_folder(folder, account())
        make_cluster(build, folder / "data", DatasetSpec())
        with Server(build, folder / "data", _SERVER_SETTINGS) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        registry.forget(token)


def read_version(server: Server, names: frozenset[str]) -> NewVersion:
    """What it knows; `names`: the source's settings, of which it may take some by their old names."""
    with control(server) as session:
        settings = {
            str(name): KnownSetting(boot, str(kind), tuple(words or ()), least, most)
            for name, boot, kind, words, least, most in session.execute(_SETTINGS).fetchall()
        }
        lost = [name for name in names - settings.keys() if "." not in name]
        aliases = {name for name in lost if (session.execute(_CURRENT, (name,)).fetchone() or (False,))[0]}
        rows = session.execute(_EXTENSIONS).fetchall()
    extensions = {str(name): str(version) for name, version in rows}
    return NewVersion(server.build, settings, frozenset(aliases), extensions)


def refused_objects(server: Server, schema: Path) -> list[Refused]:
    """Make the schema that pg_dump wrote, without its rows; every object that the server refuses.

    What needs an object that was refused is refused as well, and stands behind it.
    """
    text = schema.read_text(errors="surrogateescape")
    prepare_for_dump(server, text.encode(errors="surrogateescape"))
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("\\"))
    found = []
    with control(server) as session:
        for statement in split_statements(plain, str(schema)):
            # A plain dump may have its rows so.
            if _ROWS.match(statement):
                continue
            try:
                session.execute(statement.encode(errors="surrogateescape"), prepare=False)
            except psycopg.Error as error:
                words = error.diag.message_primary or first_line(error)
                refused = _refused(statement, words)
                # A table's columns are refused one by one, for one reason.
                if refused not in found and not _is_harmless(refused):
                    found.append(refused)
    return found


def _is_harmless(refused: Refused) -> bool:
    """Whether nothing of the schema is lost with it, or this build alone refuses it."""
    is_setting = refused.name.startswith("SET ")
    is_of_the_dump = is_setting and (_NOT_KNOWN in refused.words or _TABLESPACE in refused.name)
    return is_of_the_dump or refused.name.startswith("COMMENT ON ") or _NOT_OF_THE_VERSION in refused.words


def functions_refused(server: Server, source: SourceServer) -> list[Refused]:
    """Functions of the schema that this server can't parse and the source, as far as it can be asked, can."""
    with control(server) as session:
        found = _not_parsed(session, None)
    known: dict[str, str] = {}
    # It may have been stopped while its data were copied.
    with contextlib.suppress(UsageError, psycopg.OperationalError, psycopg.InterfaceError):
        if found:
            with source.reading() as session:
                known = _not_parsed(session, found.keys())
    return [Refused("function", name, words) for name, words in found.items() if name not in known]


def _not_parsed(session: ControlSession, names: Collection[str] | None) -> dict[str, str]:
    """By name the server's words for each function whose body it refuses; `names`: of these alone."""
    found = {}
    with session.transaction(force_rollback=True):
        session.execute("SET LOCAL check_function_bodies = on")
        session.execute("SET LOCAL search_path = public")
        for oid, name, validator in session.execute(_FUNCTIONS).fetchall():
            if names is not None and name not in names:
                continue
            try:
                with session.transaction():
                    session.execute(f"SELECT {validator}(%s)".encode(), (oid,))
            except psycopg.errors.InsufficientPrivilege:
                # A role that may not execute it is not told whether it parses.
                continue
            except psycopg.Error as error:
                if session.closed:
                    raise
                found[str(name)] = error.diag.message_primary or first_line(error)
    return found


def _refused(statement: str, words: str) -> Refused:
    lines = [line for line in statement.splitlines() if line.strip() and not line.startswith("--")]
    made = _MADE.match("\n".join(lines))
    if made is None:
        return Refused("statement", " ".join(lines)[:80], words)
    return Refused(" ".join(made["kind"].split()).lower(), made["name"], words)
