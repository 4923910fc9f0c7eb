"""The server that statements are read from: opened read-only, asked with SELECTs of its catalogs alone.

Every session waits for no lock longer than a moment, and ends what takes long by itself. No setting that
decides a plan is changed in it, so that EXPLAIN shows the plans of the source's own sessions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import psycopg

from pgassay.environment.remote.resolve import Resolved, resolve
from pgassay.environment.remote.session_settings import READ_ONLY, SILENT, session_parameters
from pgassay.environment.server.sessions import ConnectionParameters, ControlSession, connect
from pgassay.errors import UsageError, first_line
from pgassay.tune.facts.read import read_facts
from pgassay.tune.facts.schema import SchemaFacts

# The oldest major whose catalogs are read as they are here (`facts/catalog_queries.py`).
MAJOR_MIN = 14
APPLICATION = "pgassay tune"
WHAT = "DSN"
_LIMITS = {"statement_timeout": "30s", "lock_timeout": "2s", "idle_in_transaction_session_timeout": "60s"}
# Texts are written for the grammar that reads them, to which a backslash in '' is a character as any other.
# Where it escaped, a value that ends with one would not end there, and what follows would be SQL.
_SYNTAX = {"standard_conforming_strings": "on"}
_ROLE = """
SELECT current_user::text, r.rolsuper,
    r.rolsuper OR pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
    pg_catalog.pg_is_in_recovery(), pg_catalog.version() LIKE '%linux%'
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user"""
# Where a collation is ICU's or the server's own, its locale has a name of another kind (`datlocprovider`).
_DATABASE = """
SELECT pg_catalog.pg_database_size(d.oid), d.datcollate::text, d.datctype::text,
    COALESCE(pg_catalog.to_jsonb(d) ->> 'datlocprovider', 'c'),
    COALESCE(pg_catalog.to_jsonb(d) ->> 'datlocale', pg_catalog.to_jsonb(d) ->> 'daticulocale', ''),
    COALESCE(pg_catalog.to_jsonb(d) ->> 'daticurules', ''), pg_catalog.pg_encoding_to_char(d.encoding)::text
FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()"""
_SETTINGS = """
SELECT name, pg_catalog.current_setting(name), source NOT IN ('default', 'override'), category
FROM pg_catalog.pg_settings ORDER BY name"""


@dataclass(frozen=True)
class SourceSetting:
    """A setting as SHOW prints it; `given`: somebody has set it; `category` as pg_settings has it."""

    value: str
    given: bool
    category: str


@dataclass(frozen=True)
class SourceServer:
    """A server that has answered, and what its catalogs say of the database.

    `bytes` are those of the whole database, its indexes included; `collation` and `character_type` are the
    locales of libc, `provider` is 'c' where the database's collation is libc's, `locale` its name else,
    `icu_rules` what the database adds to ICU's order ('': nothing).
    `is_here`: it is on this machine for certain (reached by a Unix socket). `checks_clients`: it can look
    whether a client is still there while it works for it (client_connection_check_interval, on Linux).
    """

    resolved: Resolved = field(repr=False)
    role: str
    is_superuser: bool
    reads_all_stats: bool
    is_standby: bool
    facts: SchemaFacts
    bytes: int
    collation: str
    character_type: str
    provider: str
    locale: str
    icu_rules: str
    encoding: str
    settings: Mapping[str, SourceSetting]
    checks_clients: bool = False

    @property
    def name(self) -> str:
        """How reports call it: HOST:PORT/DATABASE."""
        return self.resolved.server.name

    @property
    def major(self) -> int:
        """Its major version."""
        return self.resolved.server.major

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine for certain; what is forwarded to a port here may be elsewhere."""
        return self.resolved.server.host.startswith("/")

    @property
    def table_bytes(self) -> int:
        """The bytes of its tables without their indexes: what a dump reads."""
        return sum(table.bytes for table in self.facts.tables)

    def session(self) -> ControlSession:
        """A read-only session in autocommit mode; the caller closes it. Raises UsageError."""
        return read_only_session(self.resolved, is_superuser=self.is_superuser)


def open_source(connection_string: str) -> SourceServer:
    """Connect by libpq's rules and read what the catalogs say of the database.

    Raises UsageError, in one sentence without any secret, for a server that can't be reached or is too old,
    and for a role that may not read its catalogs.
    """
    resolved = resolve(connection_string, WHAT, major_min=MAJOR_MIN)
    try:
        with read_only_session(resolved, is_superuser=False) as session:
            found = session.execute(_ROLE).fetchone()
        assert found is not None, "every session has a role"
        role, is_superuser, reads_all_stats, is_standby, checks_clients = found
        with read_only_session(resolved, is_superuser=is_superuser) as session:
            database = session.execute(_DATABASE).fetchone()
            assert database is not None, "every session has a database"
            settings = session.execute(_SETTINGS).fetchall()
            facts = read_facts(session)
    except psycopg.Error as error:
        raise UsageError(
            f"{resolved.server.name}: its catalogs can't be read ({first_line(error)}): try again, or "
            f"correct the rights of {resolved.server.user}"
        ) from None
    size, collation, character_type, provider, locale, icu_rules, encoding = database
    return SourceServer(
        resolved=resolved,
        role=str(role),
        is_superuser=bool(is_superuser),
        reads_all_stats=bool(reads_all_stats),
        is_standby=bool(is_standby),
        facts=facts,
        bytes=int(size),
        collation=str(collation),
        character_type=str(character_type),
        provider=str(provider),
        locale=str(locale),
        icu_rules=str(icu_rules),
        encoding=str(encoding),
        settings={
            str(name): SourceSetting(str(value), bool(given), str(category))
            for name, value, given, category in settings
        },
        checks_clients=bool(checks_clients),
    )


def read_only_session(resolved: Resolved, *, is_superuser: bool) -> ControlSession:
    """A session that only reads, in autocommit mode, with the planner's settings as the server has them.

    The caller closes it. Raises UsageError.
    """
    try:
        return connect(_parameters(resolved, is_superuser=is_superuser))
    except psycopg.Error as error:
        raise UsageError(
            f"{resolved.server.name} refuses a read-only session: {first_line(error)}: "
            "name the server itself and not a pooler"
        ) from None


def _parameters(resolved: Resolved, *, is_superuser: bool) -> ConnectionParameters:
    settings = READ_ONLY | _LIMITS | _SYNTAX | (SILENT if is_superuser else {})
    return {**session_parameters(resolved, settings), "application_name": APPLICATION}
