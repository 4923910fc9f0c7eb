"""The server that statements are read from: opened read-only, asked with SELECTs of its catalogs alone."""

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg

from pgassay.environment.remote.local_server import LocalServer, server_of
from pgassay.environment.remote.read_only import (
    MAJOR_MIN,
    READING,
    ReadOnlyServer,
    open_read_only,
    unreadable,
)
from pgassay.environment.server.sessions import ControlSession
from pgassay.tune.facts.read import read_facts
from pgassay.tune.facts.schema import SchemaFacts

APPLICATION = "pgassay tune"
WHAT = "DSN"
# Where a collation is ICU's or the server's own, its locale has a name of another kind (`datlocprovider`).
_DATABASE = """
SELECT pg_catalog.pg_database_size(d.oid), d.datcollate::text, d.datctype::text,
    COALESCE(pg_catalog.to_jsonb(d) ->> 'datlocprovider', 'c'),
    COALESCE(pg_catalog.to_jsonb(d) ->> 'datlocale', pg_catalog.to_jsonb(d) ->> 'daticulocale', ''),
    COALESCE(pg_catalog.to_jsonb(d) ->> 'daticurules', ''),
    pg_catalog.pg_encoding_to_char(d.encoding)::text, pg_catalog.version() LIKE '%linux%'
        AND pg_catalog.current_setting('client_connection_check_interval', true) IS NOT NULL
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
class SourceServer(ReadOnlyServer):
    """A server that has answered, and what its catalogs say of the database.

    `bytes` are those of the whole database, its indexes included; `collation` and `character_type` are the
    locales of libc, `provider` is 'c' where the database's collation is libc's, `locale` its name else,
    `icu_rules` what the database adds to ICU's order ('': nothing).
    `is_here`: it runs on this machine, by its processes (what is forwarded to a port here may be elsewhere).
    `checks_clients`: it can look whether a client is still there while it works for it
    (client_connection_check_interval, on Linux).
    """

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
    is_here: bool = False

    @property
    def table_bytes(self) -> int:
        """The bytes of its tables without their indexes: what a dump reads."""
        return sum(table.bytes for table in self.facts.tables)

    def reading(self) -> ControlSession:
        """A session that reads catalogs and plans; the caller closes it. Raises UsageError."""
        return self.session(APPLICATION, READING)


def open_source(connection_string: str, major_min: int = MAJOR_MIN) -> SourceServer:
    """Connect by libpq's rules and read what the catalogs say of the database.

    Raises UsageError, in one sentence without any secret, for a server that can't be reached or is too old,
    and for a role that may not read its catalogs.
    """
    opened = open_read_only(connection_string, WHAT, APPLICATION, major_min=major_min)
    try:
        with opened.session(APPLICATION, READING) as session:
            database = session.execute(_DATABASE).fetchone()
            assert database is not None, "every session has a database"
            settings = session.execute(_SETTINGS).fetchall()
            facts = read_facts(session)
            is_here = isinstance(server_of(session), LocalServer)
    except psycopg.Error as error:
        raise unreadable(opened.resolved, error) from None
    size, collation, character_type, provider, locale, icu_rules, encoding, checks_clients = database
    return SourceServer(
        **vars(opened),
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
        is_here=is_here,
    )
