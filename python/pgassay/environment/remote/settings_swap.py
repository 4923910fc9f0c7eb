"""What two servers' settings differ in, and whether a swap of them took place."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pgassay.environment.builds.default_differences import is_irrelevant, rank
from pgassay.environment.server.sessions import ControlSession
from pgassay.environment.server.settings import describe_settings, storable_value

# What belongs to a session or to a moment.
_IDENTITY = """
SELECT CASE WHEN has_function_privilege('pg_control_system()', 'execute')
       THEN (SELECT system_identifier FROM pg_control_system()) || ' ' || pg_postmaster_start_time()
       ELSE '' END"""
_PASSING = frozenset(
    {
        *("application_name", "client_encoding", "in_hot_standby", "is_superuser", "session_authorization"),
        *("transaction_isolation", "transaction_read_only", "transaction_deferrable", "seed"),
        *("server_version", "server_version_num", "wal_segment_size_kb", "ssl_library"),
    }
)
# The server computes it from others, which are in the list themselves.
_COMPUTED = frozenset(
    {"shared_memory_size", "shared_memory_size_in_huge_pages", "num_os_semaphores", "huge_pages_status"}
)
DIFFERENCES_SHOWN_MAX = 40


@dataclass(frozen=True)
class ServerFacts:
    """What a server says of itself: settings as shown with their units, extensions with their versions.

    Values that may hold secrets are not among them, since all of it is stored and shown.
    `identity` tells one running server from another, whatever the way to it; '' where it isn't told.
    """

    version: str
    settings: Mapping[str, str]
    contexts: Mapping[str, str]
    extensions: Mapping[str, str]
    identity: str = ""
    waiting_for_restart: tuple[str, ...] = ()


def read_facts(connection: ControlSession) -> ServerFacts:
    """Read them by the session's rights: what only a superuser may see is missing for others."""
    described = describe_settings(connection)
    pending = connection.execute(
        "SELECT name FROM pg_settings WHERE pending_restart ORDER BY name"
    ).fetchall()
    extensions = connection.execute("SELECT extname, extversion FROM pg_extension").fetchall()
    identity = connection.execute(_IDENTITY).fetchone()
    return ServerFacts(
        identity=str(identity[0]) if identity else "",
        version=(connection.info.parameter_status("server_version") or "").split(" ")[0],
        settings={
            name: storable_value(name, fact.shown()) for name, fact in described.items() if _counts(name)
        },
        contexts={name: fact.context for name, fact in described.items()},
        extensions={str(name): str(version) for name, version in extensions},
        waiting_for_restart=tuple(str(name) for (name,) in pending),
    )


def _counts(name: str) -> bool:
    return name not in _PASSING and name not in _COMPUTED


def differing(first: ServerFacts, second: ServerFacts) -> tuple[str, ...]:
    """The settings that both have with different values: the most relevant to a measurement first."""
    names = first.settings.keys() & second.settings.keys()
    found = [name for name in names if first.settings[name] != second.settings[name]]
    return tuple(sorted(found, key=lambda name: (is_irrelevant(name), rank(name), name)))


def differences_sentence(
    names: tuple[str, str], facts: tuple[ServerFacts, ServerFacts], factors: Collection[str]
) -> str:
    """What differs between two servers beside the factors, in one sentence; '' for nothing at all."""
    first, second = facts
    parts = []
    if first.version != second.version:
        parts.append(f"PostgreSQL {first.version} against {second.version}")
    settings = [name for name in differing(first, second) if name not in factors]
    deciding = [name for name in settings if not is_irrelevant(name)]
    words = [
        f"{name} ({first.settings[name] or '-'} against {second.settings[name] or '-'})" for name in deciding
    ]
    more = f" and {len(words) - DIFFERENCES_SHOWN_MAX} more" if len(words) > DIFFERENCES_SHOWN_MAX else ""
    if words:
        parts.append(f"settings {', '.join(words[:DIFFERENCES_SHOWN_MAX])}{more}")
    for name in sorted({*first.extensions, *second.extensions}):
        versions = [each.extensions.get(name, "none") for each in facts]
        if versions[0] != versions[1]:
            parts.append(f"extension {name} ({versions[0]} against {versions[1]})")
    places = [name for name in settings if is_irrelevant(name)]
    if places:
        parts.append(f"names of places and formats: {', '.join(places)}")
    return f"{names[0]} differs from {names[1]} in {'; '.join(parts)}" if parts else ""


@dataclass(frozen=True)
class SettingsSwap:
    """What a swap did: settings that changed places, that stayed, that are something else now."""

    swapped: tuple[str, ...]
    stayed: tuple[str, ...]
    else_changed: tuple[str, ...]


def judge_swap(
    before: tuple[ServerFacts, ServerFacts], after: tuple[ServerFacts, ServerFacts]
) -> SettingsSwap:
    """Compare two servers' settings before and after; names of places and addresses are left out."""
    swapped, stayed, changed = [], [], []
    names = set.intersection(*(set(facts.settings) for facts in (*before, *after)))
    for name in sorted(names, key=lambda name: (rank(name), name)):
        if is_irrelevant(name):
            continue
        old = tuple(facts.settings[name] for facts in before)
        new = tuple(facts.settings[name] for facts in after)
        if old[0] == old[1]:
            changed += [name] if new != old else []
        elif new == (old[1], old[0]):
            swapped.append(name)
        elif new == old:
            stayed.append(name)
        else:
            changed.append(name)
    return SettingsSwap(tuple(swapped), tuple(stayed), tuple(changed))
