"""A capture's manifest.json: what was captured, where, with which options."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from pgassay.durable import replace_file

FILE = "manifest.json"
FORMAT = 1
# These hold or may hold secrets: connection strings, keys in commands, an application's own settings.
_SECRET_SETTINGS = ("%conninfo", "%\\_command", "%.%")
_QUERIES = {
    "version": "SELECT version()",
    "version_num": "SELECT current_setting('server_version_num')::int",
    "in_recovery": "SELECT pg_is_in_recovery()",
    "lsn": "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
    "ELSE pg_current_wal_lsn() END)::text",
    "snapshot": "SELECT pg_current_snapshot()::text",
}
_SETTINGS = (
    "SELECT name, setting, unit FROM pg_settings "
    "WHERE source NOT IN ('default', 'override', 'client') AND name NOT ILIKE ALL(%s) "
    "AND setting NOT ILIKE '%%password%%' ORDER BY name"
)
_DATABASES = (
    "SELECT datname, pg_encoding_to_char(encoding), datcollate FROM pg_database "
    "WHERE datallowconn AND NOT datistemplate ORDER BY datname"
)


def described(connection: "psycopg.Connection[tuple[object, ...]]") -> dict[str, object]:
    """The server, as far as this role may read it."""
    found: dict[str, object] = {}
    for name, query in _QUERIES.items():
        with suppress(psycopg.Error):
            row = connection.execute(query).fetchone()
            found[name] = row[0] if row else None
    with suppress(psycopg.Error):
        rows = connection.execute(_SETTINGS, (list(_SECRET_SETTINGS),)).fetchall()
        found["settings"] = {str(name): f"{value}{unit or ''}" for name, value, unit in rows}
    with suppress(psycopg.Error):
        rows = connection.execute(_DATABASES).fetchall()
        keys = ("name", "encoding", "collate")
        found["databases"] = [dict(zip(keys, row, strict=True)) for row in rows]
    return found


def begun(
    source: str,
    started_unix_ns: int,
    server: Mapping[str, object] | None,
    options: Mapping[str, object],
    notes: list[str],
) -> dict[str, object]:
    """The manifest of a capture that begins."""
    return {
        "format": FORMAT,
        "source": source,
        "started_at": moment(started_unix_ns),
        "started_unix_ns": started_unix_ns,
        "ended_at": None,
        "server": server,
        "options": dict(options),
        "totals": None,
        "notes": notes,
    }


def moment(unix_ns: int) -> str:
    """A time as ISO 8601 has it, in UTC."""
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).isoformat(timespec="milliseconds")


def now() -> str:
    """The time, as `moment`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def write(folder: Path, manifest: Mapping[str, object]) -> None:
    """Write it, readable by its owner alone; raises OSError."""
    replace_file(folder / FILE, json.dumps(manifest, indent=2).encode() + b"\n", mode=0o600)


def read(folder: Path) -> dict[str, object]:
    """A capture's manifest; empty where there is none, or none that can be read."""
    try:
        found = json.loads((folder / FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
