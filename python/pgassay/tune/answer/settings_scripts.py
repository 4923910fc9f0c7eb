"""Settings in apply.sql and undo.sql: by ALTER SYSTEM, with what it had set before kept in a table.

The table has a row for each value that a script gave a setting. So of two tunings of the same setting either
can be taken back, in any order: the later one leads back to what was before both once the earlier is gone.
"""

from collections.abc import Mapping, Sequence

from pgassay.sql_text import constant
from pgassay.tune.answer.side_costs import MEMORY_OF_EACH

Given = Sequence[tuple[str, str]]

_KEPT = "public.pgassay_settings_kept"
_TABLE = (
    f"CREATE TABLE IF NOT EXISTS {_KEPT} (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "name text, given text, setting text);"
)
# Another apply.sql may have put values there, which its own undo.sql needs.
KEPT_DROPPED = f"SELECT 'DROP TABLE {_KEPT}' WHERE NOT EXISTS (SELECT FROM {_KEPT}) \\gexec"
_ALL_SESSIONS = (
    "-- For each sort and hash of every session; ALTER ROLE ... SET gives it to one role's sessions alone."
)
_RELOADED = "SELECT pg_reload_conf();"
# A value that waits for a restart is there with an error.
_NOW = "f.name = {name} AND f.sourcefile LIKE '%postgresql.auto.conf'"
# The last row of each setting that this script has made, and whether the setting is as the script left it.
_MINE = (
    "SELECT DISTINCT ON (k.name) k.number, k.name, k.setting, f.setting AS now, "
    "COALESCE((k.name, f.setting) IN ({own}), false) AS is_own "
    f"FROM {_KEPT} k LEFT JOIN pg_catalog.pg_file_settings f ON {_NOW.format(name='k.name')} "
    "WHERE (k.name, k.given) IN ({own}) ORDER BY k.name, k.number DESC, f.seqno DESC"
)
# What a later script has set over it leads back to what was before both.
_LED_PAST = (
    f"UPDATE {_KEPT} AS later SET setting = mine.setting WHERE (later.name, later.setting) IN ({{own}}) "
    f"AND later.number = (SELECT min(n.number) FROM {_KEPT} n "
    "WHERE n.name = mine.name AND n.number > mine.number);"
)
_SET_SINCE = (
    "RAISE WARNING '%', pg_catalog.format('%s was changed since, to %s: it stays so', "
    "mine.name, COALESCE(mine.now, 'what it is without ALTER SYSTEM')) "
    "USING HINT = CASE WHEN FOUND THEN 'The undo.sql of what changed it takes it back to what was before "
    "both.' WHEN mine.setting IS NULL THEN pg_catalog.format('To take it back, run: ALTER SYSTEM RESET %s', "
    "mine.name) ELSE pg_catalog.format('To take it back, run: ALTER SYSTEM SET %s = %L', mine.name, "
    "mine.setting) END;"
)
_NOT_KEPT = (
    "SELECT DISTINCT f.name, f.setting FROM pg_catalog.pg_file_settings f WHERE "
    "f.sourcefile LIKE '%postgresql.auto.conf' AND (f.name, f.setting) IN ({own}) "
    f"AND NOT EXISTS (SELECT FROM {_KEPT} k WHERE k.name = f.name AND (k.name, k.given) IN ({{own}}))"
)
_STAYS = (
    "RAISE WARNING '%', pg_catalog.format('%s stays %s: this database does not have what it was before', "
    "mine.name, mine.setting) USING HINT = pg_catalog.format('It may have been so before. If apply.sql "
    "was run in another database, run undo.sql there; else ALTER SYSTEM RESET %s takes it back.', mine.name);"
)
# In one line, as a script without its literals is read line by line.
_TOLD = (
    "DO $pgassay$ DECLARE mine record; BEGIN "
    f"FOR mine IN {_MINE} LOOP CONTINUE WHEN mine.is_own; {_LED_PAST} "
    f"CONTINUE WHEN mine.now IS NOT DISTINCT FROM mine.setting; {_SET_SINCE} END LOOP; "
    f"FOR mine IN {_NOT_KEPT} LOOP {_STAYS} END LOOP; END $pgassay$;"
)


def settings_told(settings: Mapping[str, str], measured_on: str) -> list[str]:
    """What to set on a server like the one that it was measured on, for somebody who knows his own."""
    told = f"Measured on: {measured_on}. If your server is similar, set"
    return [
        *(f"-- {line}" for line in told.splitlines()),
        *(f"-- ALTER SYSTEM SET {name} = {constant(value)};" for name, value in settings.items()),
    ]


def settings_applied(settings: Mapping[str, str], given: Given) -> list[str]:
    """ALTER SYSTEM, and before it what ALTER SYSTEM has set already, kept for undo.sql in a table.

    `given`: what the whole script sets.
    """
    mine = _values([pair for pair in given if pair in settings.items()])
    return [
        "-- If the provider refuses ALTER SYSTEM, set these in its parameter group instead.",
        f"-- The table {_KEPT} keeps what ALTER SYSTEM had set before, for undo.sql.",
        _TABLE,
        # What this script has set is not what was before it, when it is run again; what an earlier one had
        # set is. A run that broke off before ALTER SYSTEM has kept that already.
        f"INSERT INTO {_KEPT} (name, given, setting) SELECT DISTINCT ON (s.name) s.name, o.given, f.setting "
        f"FROM (VALUES {mine}) o (name, given) JOIN pg_catalog.pg_settings s ON s.name = o.name "
        f"LEFT JOIN pg_catalog.pg_file_settings f ON {_NOW.format(name='s.name')} "
        f"WHERE (s.name, COALESCE(f.setting, '')) NOT IN ({_values(given)}) AND NOT EXISTS (SELECT FROM "
        f"(SELECT k.given, k.setting FROM {_KEPT} k WHERE k.name = s.name ORDER BY k.number DESC LIMIT 1) k "
        "WHERE k.given = o.given AND k.setting IS NOT DISTINCT FROM f.setting) "
        "ORDER BY s.name, f.seqno DESC;",
        *([_ALL_SESSIONS] if settings.keys() & MEMORY_OF_EACH else []),
        *(f"ALTER SYSTEM SET {name} = {constant(value)};" for name, value in settings.items()),
        _RELOADED,
    ]


def settings_undone(settings: Mapping[str, str], given: Given) -> list[str]:
    """Each setting as ALTER SYSTEM had it, or reset where that had not set it; what stays is told.

    `given`: what the whole script sets. What somebody else has set since is left as it is.
    """
    own = _values([(name, value) for name, value in given if name in settings])
    return [
        _TABLE,
        _TOLD.format(own=own),
        "SELECT CASE WHEN mine.setting IS NULL THEN pg_catalog.format('ALTER SYSTEM RESET %s', mine.name) "
        "ELSE pg_catalog.format('ALTER SYSTEM SET %s = %L', mine.name, mine.setting) END "
        f"FROM ({_MINE.format(own=own)}) mine WHERE mine.is_own \\gexec",
        # What now leads back to what it gave itself tells nothing any more.
        f"DELETE FROM {_KEPT} WHERE given = setting OR number IN (SELECT max(k.number) FROM {_KEPT} k "
        f"WHERE (k.name, k.given) IN ({own}) GROUP BY k.name);",
        _RELOADED,
    ]


def _values(pairs: Given) -> str:
    return ", ".join(f"({constant(name)}, {constant(value)})" for name, value in pairs)
