"""Which words of a statement stand for which tables, read from a server's catalogs.

The order between sessions of a replay is kept by table. A statement's tables are those that its words name:
tables themselves, views and the tables behind them, functions and the tables that their bodies name.
"""

import re
from dataclasses import dataclass, field

import psycopg

from pgassay.words import plural

_WORD = re.compile(r'"((?:[^"]|"")+)"|([A-Za-z_\x80-\uffff][\w$\x80-\uffff]*)')
_WRITING = re.compile(r"\b(insert|update|delete|merge|truncate|copy)\b", re.IGNORECASE)
# A partition is its root: what touches one may touch the other.
_TABLES = """
SELECT c.oid, c.relname, COALESCE(pg_partition_root(c.oid), c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
"""
_VIEWS = """
SELECT DISTINCT v.oid, v.relname, d.refobjid
FROM pg_class v JOIN pg_namespace n ON n.oid = v.relnamespace
JOIN pg_rewrite r ON r.ev_class = v.oid
JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
    AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> v.oid
WHERE v.relkind IN ('v', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""
# Before 14 a table that nobody looked at has 0 pages.
_NEVER_ANALYSED = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
    AND (c.reltuples < 0 OR c.relpages = 0) AND pg_relation_size(c.oid) > 0
ORDER BY pg_relation_size(c.oid) DESC, 1
"""
_NAMED_MAX = 3
# Defaults that ask a sequence or a function of the users', and triggers, which may ask one.
_NUMBERED = """
SELECT attrelid FROM pg_attribute WHERE attidentity <> '' AND NOT attisdropped
UNION SELECT a.adrelid FROM pg_attrdef a JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass
    AND d.objid = a.oid AND d.refclassid = 'pg_proc'::regclass
UNION SELECT a.adrelid FROM pg_attrdef a JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass
    AND d.objid = a.oid AND d.refclassid = 'pg_class'::regclass
    JOIN pg_class s ON s.oid = d.refobjid AND s.relkind = 'S'
UNION SELECT tgrelid FROM pg_trigger WHERE NOT tgisinternal
"""
# The table of whose column a sequence is.
_SEQUENCES = """
SELECT s.relname, COALESCE(a.adrelid, d.refobjid)
FROM pg_class s JOIN pg_depend d ON s.relkind = 'S'
    AND (d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.refclassid = 'pg_class'::regclass
         OR d.classid = 'pg_attrdef'::regclass AND d.refobjid = s.oid)
LEFT JOIN pg_attrdef a ON d.classid = 'pg_attrdef'::regclass AND a.oid = d.objid
"""
_FOREIGN = "SELECT conrelid, confrelid FROM pg_constraint WHERE contype = 'f'"
_FUNCTIONS = """
SELECT p.proname, {body}
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND l.lanname NOT IN ('c', 'internal')
"""
_SQL_BODY_SINCE = 140_000
_TRIGGERS = """
SELECT t.tgrelid, p.proname FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE NOT t.tgisinternal
"""
_ADVISORY = (
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
)
# Views on views, functions that call functions: so many layers.
_LAYERS = 5


TouchDocument = tuple[list[int], list[int], list[int], bool]


@dataclass
class Touch:
    """Numbers of the tables that a word makes a statement read, write, and look into by foreign keys."""

    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    refers: set[int] = field(default_factory=set)
    # Whether a new row of the table may take a value of a sequence, which lastval() tells afterwards.
    is_numbered: bool = False

    def document(self) -> TouchDocument:
        """As the native binary takes it."""
        return (sorted(self.reads), sorted(self.writes), sorted(self.refers), self.is_numbered)


def words_of(session: "psycopg.Connection[tuple[object, ...]]", first: int) -> tuple[dict[str, Touch], int]:
    """What each word stands for in this database; tables are numbered from `first`. The next free number."""
    numbers: dict[object, int] = {}
    of_oid: dict[object, int] = {}
    found: dict[str, Touch] = {}
    for oid, name, root in session.execute(_TABLES):
        number = numbers.setdefault(root, first + len(numbers))
        of_oid[oid] = number
        found.setdefault(str(name), Touch()).reads.add(number)
    names = {
        number: {word for word, touch in found.items() if number in touch.reads} for number in of_oid.values()
    }
    numbered = {of_oid[oid] for (oid,) in session.execute(_NUMBERED) if oid in of_oid}
    for touch in found.values():
        touch.is_numbered = bool(touch.reads & numbered)
    _add_views(session, of_oid, found, numbered)
    for name, table in session.execute(_SEQUENCES):
        if table in of_oid:
            found.setdefault(str(name), Touch()).reads.add(of_oid[table])
    for child, parent in session.execute(_FOREIGN):
        if child in of_oid and parent in of_oid:
            for word in names[of_oid[child]]:
                found[word].refers.add(of_oid[parent])
    _add_functions(session, of_oid, names, found)
    # Advisory locks are held until a commit, as rows' are: they are put in order like a table's writes.
    advisory = first + len(numbers)
    for name in _ADVISORY:
        found[name] = Touch(writes={advisory})
    return found, advisory + 1


def never_analysed(session: "psycopg.Connection[tuple[object, ...]]") -> str:
    """The tables with rows that neither VACUUM nor ANALYZE has seen, the largest by name; empty: none."""
    names = [str(row[0]) for row in session.execute(_NEVER_ANALYSED)]
    if not names:
        return ""
    named = ", ".join(names[:_NAMED_MAX]) + (" …" if len(names) > _NAMED_MAX else "")
    return f"{plural(len(names), 'table')} ({named})"


def _add_views(
    session: "psycopg.Connection[tuple[object, ...]]",
    of_oid: dict[object, int],
    found: dict[str, Touch],
    numbered: set[int],
) -> None:
    rows = session.execute(_VIEWS).fetchall()
    behind: dict[object, set[int]] = {oid: set() for oid, _, _ in rows}
    for _ in range(_LAYERS):
        for oid, _, on in rows:
            behind[oid] |= behind.get(on, set()) | ({of_oid[on]} if on in of_oid else set())
    for oid, name, _ in rows:
        touch = found.setdefault(str(name), Touch())
        touch.reads.update(behind[oid])
        touch.is_numbered |= bool(behind[oid] & numbered)


def _add_functions(
    session: "psycopg.Connection[tuple[object, ...]]",
    of_oid: dict[object, int],
    names: dict[int, set[str]],
    found: dict[str, Touch],
) -> None:
    bodies: dict[str, set[str]] = {}
    writing: set[str] = set()
    for name, body in session.execute(functions_query(session.info.server_version)):
        bodies.setdefault(str(name), set()).update(words_in(str(body or "")))
        if _WRITING.search(str(body or "")):
            writing.add(str(name))
    for _ in range(_LAYERS):
        for name, words in bodies.items():
            touch = found.setdefault(name, Touch())
            for each in (found[word] for word in words if word in found and word != name):
                (touch.writes if name in writing else touch.reads).update(each.reads)
                touch.writes.update(each.writes)
                touch.refers.update(each.refers)
    for table, name in session.execute(_TRIGGERS):
        fired = found.get(str(name))
        for word in names.get(of_oid.get(table, -1), set()) if fired else set():
            assert fired is not None
            # A statement that writes the table writes what it reads: the trigger's tables as well.
            found[word].reads.update(fired.writes)
            found[word].refers.update(fired.reads)
    for name in [name for name in bodies if found[name] == Touch()]:
        del found[name]


def functions_query(server_version: int) -> str:
    """What gives the users' functions and their bodies; those of BEGIN ATOMIC came with PostgreSQL 14."""
    has_sql_bodies = server_version >= _SQL_BODY_SINCE
    body = "COALESCE(pg_get_function_sqlbody(p.oid), p.prosrc)" if has_sql_bodies else "p.prosrc"
    return _FUNCTIONS.format(body=body)


def words_in(text: str) -> set[str]:
    """Words and quoted identifiers of a text, as PostgreSQL folds them."""
    return {quoted.replace('""', '"') if quoted else plain.lower() for quoted, plain in _WORD.findall(text)}
