"""What each PostgreSQL version has: settings, statistics views, wait events, functions, keys of EXPLAIN.

Read from servers themselves and kept in `facts.json`, from which docs/versions.md is made too. Rules, finders
and documents that name any of these are checked against it.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pgassay.model.build import Build
from pgassay.plans.explain_versions import SIGNS
from source_servers import SourceServer, source_server

# A name of several words in a sentence.
WORD = re.compile(r"(?<![\w/.$%-])[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?![\w-]|\.[a-z])")
FILE = Path(__file__).with_name("facts.json")
OLDEST, NEWEST = 16, 19
MAJORS = range(OLDEST, NEWEST + 1)
# The libraries add settings and views of their own.
_LIBRARIES = ("auto_explain", "pg_buffercache", "pg_prewarm", "pg_stat_statements", "pgstattuple")
_EXTENSIONS = _LIBRARIES[1:]
# What a build was configured with, or what its host has: not of the version.
_OF_THE_HOST = (
    r"lc_.*|.*timezone.*|data_directory.*|.*_(file|keyfile|path)|unix_socket_.*|server_version.*|shared_memory_.*|"
    r"debug_assertions|segment_size|wal_segment_size|block_size|.*_library_path|io_max_concurrency|num_os_.*|"
    r"huge_pages_status|ssl_(groups|library|ecdh_curve|.*ciphers)|application_name|.*encoding"
)

_SETTINGS = "SELECT name, boot_val FROM pg_settings"
_COLUMNS = """
SELECT c.relname::text, a.attname::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relkind IN ('r', 'v') AND n.nspname IN ('pg_catalog', 'public') AND a.attnum > 0 AND NOT attisdropped
"""
_FUNCTIONS = "SELECT DISTINCT proname::text FROM pg_proc WHERE proname !~ '^(bt|gist|gin|brin|hash|spg|RI_)'"
_ROLES = "SELECT rolname::text FROM pg_roles WHERE rolname LIKE 'pg\\_%'"
_EVENTS = "SELECT type, name FROM pg_wait_events"


@dataclass(frozen=True)
class Facts:
    """Of one version: settings with what each begins with, columns by relation, and names."""

    version: str
    settings: Mapping[str, str | None]
    relations: Mapping[str, frozenset[str]]
    events: frozenset[str]
    functions: frozenset[str]
    roles: frozenset[str]
    explain_keys: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """Settings, relations and their columns, wait events, functions, roles, libraries."""
        libraries = {name.split(".")[0] for name in self.settings if "." in name}
        events = {event.partition(":")[2] for event in self.events}
        plain = {*self.settings, *self.relations, *self.functions, *self.roles}
        return frozenset(plain | libraries | events).union(*self.relations.values())


def as_document(found: Mapping[int, Facts]) -> dict[str, Any]:
    """As `facts.json` keeps it: for each kind the versions, as "16 17", that have the names in the list."""
    document: dict[str, Any] = {"versions": {str(major): each.version for major, each in found.items()}}
    for kind, names_of in _KINDS.items():
        majors: dict[str, list[str]] = {}
        for major, each in found.items():
            for name in names_of(each):
                majors.setdefault(name, []).append(str(major))
        groups: dict[str, list[str]] = {}
        for name in sorted(majors):
            groups.setdefault(" ".join(majors[name]), []).append(name)
        document[kind] = dict(sorted(groups.items()))
    return document


_KINDS: Mapping[str, Callable[[Facts], Iterable[str]]] = {
    "settings": lambda each: (
        name if value is None else f"{name} = {value}" for name, value in each.settings.items()
    ),
    "columns": lambda each: (
        f"{relation}.{column}" for relation, columns in each.relations.items() for column in columns
    ),
    "events": lambda each: each.events,
    "functions": lambda each: each.functions,
    "roles": lambda each: each.roles,
    "explain_keys": lambda each: each.explain_keys,
}


def read(build: Build) -> Facts:
    """The facts of a build, from a server of it that runs for as long."""
    with source_server(build, {"shared_preload_libraries": "auto_explain, pg_stat_statements"}) as server:
        for name in _EXTENSIONS:
            server.execute(f"CREATE EXTENSION {name}")
        relations: dict[str, set[str]] = {}
        for relation, column in server.rows(_COLUMNS):
            relations.setdefault(relation, set()).add(column)
        return Facts(
            version=build.version,
            settings=_settings(server),
            relations={name: frozenset(columns) for name, columns in relations.items()},
            # 16 has no view of them.
            events=frozenset(f"{kind}:{name}" for kind, name in server.rows(_EVENTS))
            if build.major > OLDEST
            else frozenset(),
            functions=frozenset(name for (name,) in server.rows(_FUNCTIONS)),
            roles=frozenset(name for (name,) in server.rows(_ROLES)),
            explain_keys=_explain_keys(build),
        )


def _settings(server: SourceServer) -> dict[str, str | None]:
    return {
        name: None if re.fullmatch(_OF_THE_HOST, name, re.IGNORECASE) else value
        for name, value in server.rows(_SETTINGS)
    }


def _explain_keys(build: Build) -> frozenset[str]:
    """Those of the keys that pgassay tells versions by which are strings of the server's program.

    A string may stand there as the end of a longer one, as linkers put them together.
    """
    program = (Path(build.bin_directory) / "postgres").read_bytes()
    asked = {key for sign in SIGNS for key in sign.keys if not key.startswith("<")}
    return frozenset(key for key in asked if key.encode() + b"\0" in program)


@cache
def recorded() -> Mapping[int, Facts]:
    """The facts of each version that were recorded, by major."""
    document = json.loads(FILE.read_text())
    return {int(major): _recorded(document, major) for major in document["versions"]}


def _recorded(document: Mapping[str, Any], major: str) -> Facts:
    names = {
        kind: [name for majors, group in document[kind].items() if major in majors.split() for name in group]
        for kind in _KINDS
    }
    relations: dict[str, set[str]] = {}
    for relation, column in (name.split(".", 1) for name in names["columns"]):
        relations.setdefault(relation, set()).add(column)
    settings: dict[str, str | None] = {}
    for name, is_set, value in (each.partition(" = ") for each in names["settings"]):
        settings[name] = value if is_set else None
    return Facts(
        version=document["versions"][major],
        settings=settings,
        relations={name: frozenset(columns) for name, columns in relations.items()},
        events=frozenset(names["events"]),
        functions=frozenset(names["functions"]),
        roles=frozenset(names["roles"]),
        explain_keys=frozenset(names["explain_keys"]),
    )
