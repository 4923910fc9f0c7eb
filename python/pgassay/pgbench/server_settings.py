"""The server's settings that differ from PostgreSQL's defaults: what a figure of throughput is of."""

from typing import TypedDict

import psycopg

from pgassay.environment.server.sessions import ControlSession

# Where and in which language, and not how fast.
_OF_NO_SPEED = (
    "DateStyle",
    "TimeZone",
    "application_name",
    "client_encoding",
    "cluster_name",
    "default_text_search_config",
    "dynamic_shared_memory_type",
    "event_source",
    "listen_addresses",
    "log_timezone",
    "port",
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
)
_QUERY = """
select name, pg_catalog.current_setting(name) from pg_catalog.pg_settings
where source not in ('default', 'override', 'client') and setting is distinct from boot_val
  and context <> 'internal' and name <> all(%s)
  and name !~ '^(lc_|ssl_.*_file|unix_socket|.*_directory$|.*_file$|log_)'
order by name"""


class ChangedSetting(TypedDict):
    """A setting with its value, as SHOW prints it."""

    name: str
    value: str


def changed_settings(session: ControlSession) -> list[ChangedSetting]:
    """Those that somebody set to another value than the default; none where they can't be read."""
    try:
        rows = session.execute(_QUERY, [list(_OF_NO_SPEED)]).fetchall()
    except psycopg.Error:
        return []
    return [{"name": str(name), "value": str(value)} for name, value in rows]
