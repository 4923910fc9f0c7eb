"""What the source's catalogs tell of the upgrade: settings, extensions, collations, statistics."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import psycopg

from pgassay.environment.remote.read_only import READING
from pgassay.environment.server.sessions import ControlSession
from pgassay.environment.server.setting_values import parse_number
from pgassay.model.upgrades.upgrade_answer import UpgradeFinding
from pgassay.sql_text import identifier
from pgassay.tune.source.source_server import APPLICATION, SourceServer
from pgassay.upgrade.empty_server import KnownSetting, NewVersion
from pgassay.upgrade.pg_upgrade_checks import in_the_way_of_pg_upgrade, names_found

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
# What took their place (release notes of 14 to 19).
_INSTEAD = {
    "io_workers": "io_min_workers and io_max_workers replace it",
    "old_snapshot_threshold": "nothing replaces it: limit transactions by transaction_timeout",
    "db_user_namespace": "nothing replaces it: give each database role names of its own",
    "ssl_ecdh_curve": "ssl_groups replaces it",
    "promote_trigger_file": "pg_promote() and pg_ctl promote replace it",
    "vacuum_defer_cleanup_age": "hot_standby_feedback and replication slots replace it",
    "force_parallel_mode": "debug_parallel_query replaces it",
    "stats_temp_directory": "nothing replaces it: statistics are kept in shared memory",
    "operator_precedence_warning": "nothing replaces it: it warned of changes of 9.5",
    "vacuum_cleanup_index_scale_factor": "nothing replaces it: VACUUM decides that itself",
    "trace_recovery_messages": "nothing replaces it: log_min_messages = debug1 logs as much",
}
# Spelled otherwise, and the same.
_SAME = {"log_connections": {"off", ""}}
# Switches that stay, and can't be turned off since a version; as a switch may be written.
_ALWAYS_ON_SINCE = {"standard_conforming_strings": 19}
# Extensions of contrib that PostgreSQL itself removed (release notes of 17).
_EXTENSIONS_REMOVED = {"adminpack": 17, "old_snapshot": 17}
_OFF = frozenset({"off", "false", "no", "0", "f", "n"})
_NAMED_MAX = 5
_MD5_WARNED_SINCE, _STATISTICS_KEPT_SINCE, _EXTENDED_KEPT_SINCE = 18, 18, 19

_SETTINGS = """
SELECT name, setting, boot_val, source, COALESCE(sourcefile, ''), COALESCE(sourceline, 0),
    pg_catalog.current_setting(name), COALESCE(unit, ''), category, enumvals
FROM pg_catalog.pg_settings"""
_OF_ROLES = """
SELECT COALESCE('role ' || pg_catalog.quote_ident(r.rolname), ''), COALESCE('database ' ||
    pg_catalog.quote_ident(d.datname), ''), pg_catalog.split_part(c.entry, '=', 1),
    pg_catalog.substr(c.entry, pg_catalog.strpos(c.entry, '=') + 1)
FROM pg_catalog.pg_db_role_setting s CROSS JOIN pg_catalog.unnest(s.setconfig) AS c (entry)
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole
    LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase"""
_EXTENSIONS = "SELECT extname::text, extversion FROM pg_catalog.pg_extension ORDER BY 1"
_DATABASE_COLLATION = """
SELECT 'the database''s collation ' || d.datcollate, d.datcollversion,
    pg_catalog.pg_database_collation_actual_version(d.oid)
FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()"""
# Those that something depends on: initdb makes one for each language, whose versions all change at once. On
# those with a fixed number, as "unicode", no dependency is recorded.
_COLLATIONS = """
SELECT 'collation ' || c.oid::pg_catalog.regcollation::text, c.collversion,
    pg_catalog.pg_collation_actual_version(c.oid)
FROM pg_catalog.pg_collation c WHERE c.collversion IS NOT NULL AND (
    EXISTS (SELECT FROM pg_catalog.pg_depend d
        WHERE d.refclassid = 'pg_catalog.pg_collation'::pg_catalog.regclass AND d.refobjid = c.oid)
    OR EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attcollation = c.oid AND a.attrelid >= 16384))"""
_TEXT_INDEXES = """
SELECT count(*) FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND EXISTS (
    SELECT FROM pg_catalog.unnest(i.indcollation::oid[]) AS k (collation_)
        JOIN pg_catalog.pg_collation l ON l.oid = k.collation_ WHERE l.collname NOT IN ('C', 'POSIX'))"""
_EXTENDED = """
SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(s.stxname)
FROM pg_catalog.pg_statistic_ext s JOIN pg_catalog.pg_namespace n ON n.oid = s.stxnamespace ORDER BY 1"""
# That of each cluster's maintenance is nearly always empty.
_OTHER_DATABASES = """
SELECT pg_catalog.quote_ident(datname) FROM pg_catalog.pg_database
WHERE datallowconn AND NOT datistemplate AND pg_catalog.has_database_privilege(oid, 'CONNECT')
    AND datname NOT IN (pg_catalog.current_database(), 'postgres') ORDER BY 1"""
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
    words: tuple[str, ...] = ()

    @property
    def is_given(self) -> bool:
        """Whether somebody set it."""
        return self.source not in _OWN_SOURCES

    @property
    def is_of_the_server(self) -> bool:
        """Whether the whole server was started with it."""
        return self.is_given and self.source not in _OF_ROLES_SOURCES


def settings_of_server(source: SourceServer) -> dict[str, GivenSetting]:
    """All settings of the source, by name. Raises UsageError."""
    # A session that reads the source has its own value of these, which would hide the server's.
    limits = {name: value for name, value in READING.items() if name not in _ALWAYS_ON_SINCE}
    with source.session(APPLICATION, limits) as session:
        return given_settings(session)


def given_settings(session: ControlSession) -> dict[str, GivenSetting]:
    """All settings that the session has, by name."""
    found = {}
    for name, value, boot, source, file, line, *more in session.execute(_SETTINGS).fetchall():
        shown, unit, category, words = more
        where = f"{file}, line {line}" if file else str(source)
        found[str(name)] = GivenSetting(
            *(str(name), str(value), boot, str(source), where, str(shown), str(unit), str(category)),
            tuple(words or ()),
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
    checksums = settings.get("data_checksums")
    yield from in_the_way_of_pg_upgrade(
        *(session, major, new.build.major), has_checksums=checksums is None or checksums.shown != "off"
    )
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
        if each.is_of_the_server and known is not None and (why := _why_refused(each, known, new)):
            yield UpgradeFinding(
                id=f"setting-refused:{each.name}",
                severity="in the way",
                sentence=f"{each.name} is {each.shown}, and {new.build.major} takes {why}",
                where=each.where,
                remedy="change it before the upgrade",
            )


def _why_refused(each: GivenSetting, known: KnownSetting, new: NewVersion) -> str:
    value = each.value
    if _is_off_for_good(each.name, value, new):
        return "only on"
    if known.kind == "enum":
        # Some words are taken and not listed, in either version.
        is_taken = value in known.words or (each.words and value not in each.words)
        return "" if is_taken else f"only {', '.join(known.words)}"
    if known.kind in ("integer", "real") and known.least is not None and known.most is not None:
        number = parse_number(value, None)
        if number is not None and not float(known.least) <= number <= float(known.most):
            return f"{known.least} to {known.most}"
    return ""


def _is_off_for_good(name: str, value: str, new: NewVersion) -> bool:
    since = _ALWAYS_ON_SINCE.get(name)
    return since is not None and new.build.major >= since and value.lower() in _OFF


def _settings_of_roles(
    session: ControlSession, settings: Mapping[str, GivenSetting], new: NewVersion
) -> Iterator[UpgradeFinding]:
    for role, database, name, value in session.execute(_OF_ROLES).fetchall():
        is_gone = name in settings and not _knows(str(name), new)
        if is_gone or _is_off_for_good(str(name), str(value), new):
            where = " in ".join(each for each in (str(role), str(database)) if each) or "all roles"
            lacks = "has no such setting" if is_gone else "takes only on"
            yield UpgradeFinding(
                id=f"setting-of-role-gone:{name}",
                severity="in the way",
                sentence=f"{name} is set for {where}, and {new.build.major} {lacks}: pg_upgrade ends there, "
                "and a restored dump is without it",
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


def _missing_extension(name: str, major: int) -> str:
    since = _EXTENSIONS_REMOVED.get(name)
    if since is not None and major >= since:
        return f"drop it before the upgrade: PostgreSQL {since} removed it"
    return f"install its package for {major}, or drop it before the upgrade"


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
                remedy=_missing_extension(str(name), new.build.major),
            )
        elif there != str(version):
            yield UpgradeFinding(
                id=f"extension-version:{name}",
                severity="work",
                sentence=f"the extension {name} is {version} here and {there} there",
                where=f"extension {name}",
                remedy=f"after pg_upgrade: ALTER EXTENSION {identifier(str(name))} UPDATE",
            )


def _collations(session: ControlSession) -> Iterator[UpgradeFinding]:
    rows = []
    for query in (_DATABASE_COLLATION, _COLLATIONS):
        # Before 15 a database's collation has no version.
        with contextlib.suppress(psycopg.Error):
            rows += session.execute(query).fetchall()
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


def _statistics(session: ControlSession, new: NewVersion) -> Iterator[UpgradeFinding]:
    extended = names_found(session, _EXTENDED)
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


def others_unread(session: ControlSession) -> str:
    """A warning of the server's other databases, which pg_upgrade takes along; '' where there are none."""
    others = names_found(session, _OTHER_DATABASES)
    if not others:
        return ""
    named = ", ".join(others[:_NAMED_MAX]) + (" …" if len(others) > _NAMED_MAX else "")
    return (
        f"one database was looked at, and pg_upgrade takes all of them: run this for {named} too before you "
        "decide"
    )
