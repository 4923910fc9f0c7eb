"""What the source's catalogs tell of the upgrade: settings, extensions, collations, pg_upgrade."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import psycopg

from pgassay.environment.server.sessions import ControlSession
from pgassay.environment.server.setting_values import parse_number
from pgassay.model.upgrades.upgrade_answer import UpgradeFinding
from pgassay.upgrade.empty_server import KnownSetting, NewVersion

# Given by nobody, or by the build and its host.
_OWN_SOURCES = frozenset({"default", "override", "client", "session", "environment variable"})
# Given to roles and databases: this session has those of its own alone, and _OF_ROLES tells of all.
_OF_ROLES_SOURCES = frozenset({"database", "user", "database user", "global"})
_OF_THE_HOST = (
    "_file",
    "_directory",
    "_path",
    "timezone",
    "lc_",
    "server_version",
    "ssl",
    "krb_",
    "shared_mem",
)
# What took their place (release notes of 17, 18 and 19).
_INSTEAD = {
    "io_workers": "io_min_workers and io_max_workers replace it",
    "old_snapshot_threshold": "nothing replaces it: limit transactions by transaction_timeout",
    "db_user_namespace": "nothing replaces it: give each database role names of its own",
    "ssl_ecdh_curve": "ssl_groups replaces it",
    "promote_trigger_file": "pg_promote() and pg_ctl promote replace it",
    "vacuum_defer_cleanup_age": "hot_standby_feedback and replication slots replace it",
    "force_parallel_mode": "debug_parallel_query replaces it",
}
# Spelled otherwise, and the same.
_SAME = {"log_connections": {"off", ""}}
_CHECKSUMS_SINCE, _MD5_WARNED_SINCE, _LOGICAL_SLOTS_KEPT_SINCE = 18, 18, 17
_STATISTICS_KEPT_SINCE, _EXTENDED_KEPT_SINCE = 18, 19

_SETTINGS = """
SELECT name, setting, boot_val, source, COALESCE(sourcefile, ''), COALESCE(sourceline, 0),
    pg_catalog.current_setting(name), COALESCE(unit, ''), category
FROM pg_catalog.pg_settings"""
_OF_ROLES = """
SELECT COALESCE('role ' || pg_catalog.quote_ident(r.rolname), ''), COALESCE('database ' ||
    pg_catalog.quote_ident(d.datname), ''), pg_catalog.split_part(c.entry, '=', 1)
FROM pg_catalog.pg_db_role_setting s CROSS JOIN pg_catalog.unnest(s.setconfig) AS c (entry)
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole
    LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase"""
_EXTENSIONS = "SELECT extname::text, extversion FROM pg_catalog.pg_extension ORDER BY 1"
_COLLATIONS = """
SELECT 'the database''s collation ' || d.datcollate, d.datcollversion,
    pg_catalog.pg_database_collation_actual_version(d.oid)
FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()
UNION ALL
SELECT 'collation ' || c.oid::pg_catalog.regcollation::text, c.collversion,
    pg_catalog.pg_collation_actual_version(c.oid)
FROM pg_catalog.pg_collation c WHERE c.collversion IS NOT NULL"""
_TEXT_INDEXES = """
SELECT count(*) FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND EXISTS (
    SELECT FROM pg_catalog.unnest(i.indcollation::oid[]) AS k (collation_)
        JOIN pg_catalog.pg_collation l ON l.oid = k.collation_ WHERE l.collname NOT IN ('C', 'POSIX'))"""
_INVALID = """
SELECT i.indexrelid::pg_catalog.regclass::text FROM pg_catalog.pg_index i WHERE NOT i.indisvalid ORDER BY 1"""
_PREPARED = (
    "SELECT gid FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database() ORDER BY 1"
)
_SLOTS = "SELECT slot_name::text FROM pg_catalog.pg_replication_slots WHERE slot_type = 'logical' ORDER BY 1"
_EXTENDED = """
SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(s.stxname)
FROM pg_catalog.pg_statistic_ext s JOIN pg_catalog.pg_namespace n ON n.oid = s.stxnamespace ORDER BY 1"""
# Columns of these types hold numbers of objects, which pg_upgrade does not keep (src/bin/pg_upgrade/check.c).
_OBJECT_NUMBERS = """
SELECT DISTINCT a.attrelid::pg_catalog.regclass::text || '.' || pg_catalog.quote_ident(a.attname)
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm', 'i') AND a.attnum > 0 AND NOT a.attisdropped
    AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND a.atttypid = ANY (ARRAY['regcollation', 'regconfig', 'regdictionary', 'regnamespace', 'regoper',
        'regoperator', 'regproc', 'regprocedure']::pg_catalog.regtype[]) ORDER BY 1"""
_MD5 = "SELECT count(*) FROM pg_catalog.pg_authid WHERE rolpassword LIKE 'md5%'"


@dataclass(frozen=True)
class GivenSetting:
    """A setting of the source: its value in its own unit and as SHOW prints it, and where it comes from."""

    name: str
    value: str
    boot: str | None
    source: str
    where: str
    shown: str
    unit: str = ""
    category: str = ""

    @property
    def is_given(self) -> bool:
        """Whether somebody set it."""
        return self.source not in _OWN_SOURCES

    @property
    def is_of_the_server(self) -> bool:
        """Whether the whole server was started with it."""
        return self.is_given and self.source not in _OF_ROLES_SOURCES


def given_settings(session: ControlSession) -> dict[str, GivenSetting]:
    """All settings of the source, by name."""
    found = {}
    for name, value, boot, source, file, line, shown, unit, category in session.execute(_SETTINGS).fetchall():
        where = f"{file}, line {line}" if file else str(source)
        found[str(name)] = GivenSetting(
            str(name), str(value), boot, str(source), where, str(shown), str(unit), str(category)
        )
    return found


def catalog_findings(
    session: ControlSession, settings: Mapping[str, GivenSetting], new: NewVersion, major: int
) -> Iterator[UpgradeFinding]:
    """Everything that the catalogs tell; `major`: the source's."""
    yield from _settings_gone(settings, new)
    yield from _settings_refused(settings, new)
    yield from _settings_of_roles(session, settings, new)
    yield from _defaults(settings, new)
    yield from _extensions(session, new)
    yield from _collations(session)
    yield from _in_the_way_of_pg_upgrade(session, settings, new, major)
    yield from _statistics(session, new)
    yield from _passwords(session, new)


def _settings_gone(settings: Mapping[str, GivenSetting], new: NewVersion) -> Iterator[UpgradeFinding]:
    for each in settings.values():
        if each.is_of_the_server and not _knows(each.name, new):
            yield UpgradeFinding(
                id=f"setting-gone:{each.name}",
                severity="in the way",
                sentence=f"{each.name} is set to {each.shown}, but {new.build.major} has no "
                "such setting and does not start with it",
                where=each.where,
                remedy=f"remove it there; {_INSTEAD.get(each.name, 'see the release notes')}",
            )


def _knows(name: str, new: NewVersion) -> bool:
    # A library's settings are known where that is loaded.
    return "." in name or name in new.settings or name in new.aliases


def _settings_refused(settings: Mapping[str, GivenSetting], new: NewVersion) -> Iterator[UpgradeFinding]:
    for each in settings.values():
        known = new.settings.get(each.name)
        if each.is_of_the_server and known is not None and (why := _why_refused(each.value, known)):
            yield UpgradeFinding(
                id=f"setting-refused:{each.name}",
                severity="in the way",
                sentence=f"{each.name} is {each.shown}, and {new.build.major} takes {why}",
                where=each.where,
                remedy="change it before the upgrade",
            )


def _why_refused(value: str, known: KnownSetting) -> str:
    if known.kind == "enum":
        return "" if value in known.words else f"only {', '.join(known.words)}"
    if known.kind in ("integer", "real") and known.least is not None and known.most is not None:
        number = parse_number(value, None)
        if number is not None and not float(known.least) <= number <= float(known.most):
            return f"{known.least} to {known.most}"
    return ""


def _settings_of_roles(
    session: ControlSession, settings: Mapping[str, GivenSetting], new: NewVersion
) -> Iterator[UpgradeFinding]:
    for role, database, name in session.execute(_OF_ROLES).fetchall():
        if name in settings and not _knows(str(name), new):
            where = " in ".join(each for each in (str(role), str(database)) if each)
            yield UpgradeFinding(
                id=f"setting-of-role-gone:{name}",
                severity="work",
                sentence=f"{name} is set for {where}, and {new.build.major} has no such setting",
                where=where,
                remedy=f"reset it there; {_INSTEAD.get(str(name), 'see the release notes')}",
            )


def _defaults(settings: Mapping[str, GivenSetting], new: NewVersion) -> Iterator[UpgradeFinding]:
    for each in settings.values():
        known = new.settings.get(each.name)
        if known is None or each.is_given or any(part in each.name.lower() for part in _OF_THE_HOST):
            continue
        if each.boot is None or known.boot is None or {each.boot, known.boot} == _SAME.get(each.name):
            continue
        unit = f" ({each.unit})" if each.unit else ""
        if each.boot != known.boot:
            yield UpgradeFinding(
                id=f"default:{each.name}",
                severity="changed",
                sentence=f"{each.name} defaults to {known.boot or 'empty'} in {new.build.major} "
                f"and to {each.boot or 'empty'} here{unit}, and it is not set",
                where=each.name,
                remedy=f"to keep the current value, set {each.name} = {each.boot or repr('')}",
            )


def _extensions(session: ControlSession, new: NewVersion) -> Iterator[UpgradeFinding]:
    for name, version in session.execute(_EXTENSIONS).fetchall():
        there = new.extensions.get(str(name))
        if there is None:
            yield UpgradeFinding(
                id=f"extension-missing:{name}",
                severity="in the way",
                sentence=f"the extension {name} is used here, and PostgreSQL {new.build.version} of "
                f"{new.build.origin} comes without it",
                where=f"extension {name}",
                remedy=f"install its package for {new.build.major}, or drop it before the upgrade",
            )
        elif there != str(version):
            yield UpgradeFinding(
                id=f"extension-version:{name}",
                severity="work",
                sentence=f"the extension {name} is {version} here and {there} there",
                where=f"extension {name}",
                remedy=f"after pg_upgrade: ALTER EXTENSION {name} UPDATE",
            )


def _collations(session: ControlSession) -> Iterator[UpgradeFinding]:
    try:
        rows = session.execute(_COLLATIONS).fetchall()
    except psycopg.Error:
        return  # before 15 a database's collation has no version
    changed = [row for row in rows if row[1] is not None and row[2] is not None and row[1] != row[2]]
    if not changed:
        return
    indexes = session.execute(_TEXT_INDEXES).fetchone()
    for name, recorded, actual in changed:
        yield UpgradeFinding(
            id=f"collation:{name}",
            severity="work",
            sentence=f"{name} was used in version {recorded} and the library is {actual}: the order of text "
            f"may have changed, and {indexes[0] if indexes else 'some'} indexes depend on collations",
            where=str(name),
            remedy="REINDEX indexes on text, then ALTER DATABASE (or COLLATION) … REFRESH COLLATION VERSION",
        )


def _in_the_way_of_pg_upgrade(
    session: ControlSession, settings: Mapping[str, GivenSetting], new: NewVersion, major: int
) -> Iterator[UpgradeFinding]:
    for gid in _names(session, _PREPARED):
        yield UpgradeFinding(
            id="prepared-transaction",
            severity="in the way",
            sentence=f"the prepared transaction {gid} is open: pg_upgrade refuses, a dump misses its rows",
            where=gid,
            remedy="COMMIT PREPARED or ROLLBACK PREPARED",
        )
    for column in _names(session, _OBJECT_NUMBERS):
        yield UpgradeFinding(
            id=f"object-numbers:{column}",
            severity="in the way",
            sentence=f"{column} stores OIDs of objects, which pg_upgrade does not preserve, so it refuses",
            where=column,
            remedy="change its type to text before the upgrade, or upgrade by dump and restore",
        )
    for index in _names(session, _INVALID):
        yield UpgradeFinding(
            id=f"invalid-index:{index}",
            severity="work",
            sentence=f"the index {index} is not valid: it is maintained but never read",
            where=index,
            remedy=f"DROP INDEX {index}, or REINDEX INDEX CONCURRENTLY {index}",
        )
    slots = _names(session, _SLOTS)
    if slots and major < _LOGICAL_SLOTS_KEPT_SINCE:
        yield UpgradeFinding(
            id="logical-slots",
            severity="work",
            sentence=f"logical replication slots are lost ({', '.join(slots)}): they are kept from 17 on",
            where=", ".join(slots),
            remedy="create them again after the upgrade, and resynchronise the subscribers",
        )
    checksums = settings.get("data_checksums")
    if checksums is not None and checksums.shown == "off" and new.build.major >= _CHECKSUMS_SINCE:
        yield UpgradeFinding(
            id="checksums",
            severity="work",
            sentence=f"this cluster has no data checksums, and initdb of {new.build.major} turns them on: "
            "pg_upgrade needs both to be the same",
            where="data_checksums",
            remedy="initdb --no-data-checksums for pg_upgrade, or pg_checksums --enable here before",
        )


def _statistics(session: ControlSession, new: NewVersion) -> Iterator[UpgradeFinding]:
    extended = _names(session, _EXTENDED)
    if new.build.major < _STATISTICS_KEPT_SINCE:
        yield UpgradeFinding(
            id="statistics",
            severity="work",
            sentence=f"pg_upgrade to {new.build.major} transfers no statistics: plans are guesses until "
            "ANALYZE",
            where="all tables",
            remedy="vacuumdb --all --analyze-in-stages right after the upgrade",
        )
    elif extended and new.build.major < _EXTENDED_KEPT_SINCE:
        yield UpgradeFinding(
            id="extended-statistics",
            severity="work",
            sentence=f"pg_upgrade transfers no extended statistics ({', '.join(extended)})",
            where=", ".join(extended),
            remedy="vacuumdb --all --missing-stats-only --analyze-in-stages right after the upgrade",
        )


def _passwords(session: ControlSession, new: NewVersion) -> Iterator[UpgradeFinding]:
    if new.build.major < _MD5_WARNED_SINCE:
        return
    try:
        row = session.execute(_MD5).fetchone()
    except psycopg.Error:
        return  # only a superuser sees passwords
    if row and row[0]:
        yield UpgradeFinding(
            id="md5-passwords",
            severity="changed",
            sentence=f"{row[0]} roles have md5 passwords, which the new version warns about",
            where="pg_authid",
            remedy="reset them with password_encryption = scram-sha-256",
        )


def _names(session: ControlSession, query: str) -> Sequence[str]:
    return [str(row[0]) for row in session.execute(query.encode()).fetchall()]
