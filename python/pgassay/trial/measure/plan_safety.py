"""Whether executing a statement once more could write: asked where what was written could not be undone.

Better one plan too few than one row too many: whatever can't be told counts as writing.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pgassay.model.workload import Statement
from pgassay.trial.trial_state import Plan
from pgassay.workloads.statement_names import literals, strip_comments, without_literals
from pgassay.workloads.statements import changes_data

if TYPE_CHECKING:
    from pgassay.environment.server.sessions import ControlSession

READING = ("select", "with", "values", "table")
# Nodes that change data or lock rows, which writes their headers; and those of which others say what they do.
_WRITING_NODES = ("ModifyTable", "LockRows", "Foreign Scan", "Custom Scan")
_FUNCTION = re.compile(r'("(?:[^"]|"")+"|[^\W\d][\w$]*)\s*\(')
_VOLATILE = """
SELECT DISTINCT proname::text FROM pg_catalog.pg_proc
WHERE provolatile = 'v' AND proname::text = ANY (%s)
  AND NOT (pronamespace = 'pg_catalog'::regnamespace AND proname::text = ANY (%s)) ORDER BY 1"""
# Volatile since they give another value each time, not since they change anything (pg_proc.dat).
_HARMLESS = [
    *("random", "random_normal", "setseed", "clock_timestamp", "timeofday", "gen_random_uuid"),
    *("uuidv4", "uuidv7", "pg_sleep", "pg_sleep_for", "pg_sleep_until", "pg_relation_size", "pg_table_size"),
    *("pg_total_relation_size", "pg_indexes_size", "pg_database_size", "pg_tablespace_size"),
]
# What calls a volatile function without its name: operators and aggregates by their own names; casts, types
# and checks of domains by none that a statement would show.
_HIDDEN = """
WITH volatile AS (
    SELECT oid FROM pg_catalog.pg_proc
    WHERE provolatile = 'v' AND pronamespace <> 'pg_catalog'::regnamespace)
SELECT 'operator', o.oprname::text FROM pg_catalog.pg_operator o JOIN volatile v ON v.oid = o.oprcode::oid
UNION SELECT 'aggregate', p.proname::text
FROM pg_catalog.pg_aggregate a JOIN pg_catalog.pg_proc p ON p.oid = a.aggfnoid::oid
JOIN volatile v ON v.oid IN (a.aggtransfn::oid, a.aggfinalfn::oid, a.aggcombinefn::oid, a.aggserialfn::oid,
    a.aggdeserialfn::oid, a.aggmtransfn::oid, a.aggminvtransfn::oid, a.aggmfinalfn::oid)
UNION SELECT 'cast', format_type(c.casttarget, NULL)
FROM pg_catalog.pg_cast c JOIN volatile v ON v.oid = c.castfunc
UNION SELECT 'type', t.typname::text FROM pg_catalog.pg_type t
JOIN volatile v ON v.oid IN (t.typinput::oid, t.typoutput::oid, t.typreceive::oid, t.typsend::oid)
UNION SELECT 'domain', t.typname::text FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_type t ON t.oid = k.contypid
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_constraint'::regclass AND d.objid = k.oid
    AND d.refclassid = 'pg_catalog.pg_proc'::regclass
JOIN volatile v ON v.oid = d.refobjid
ORDER BY 1, 2"""


def could_write(control: "ControlSession", statement: Statement, plan: Plan) -> str:
    """Why executing a statement could write, as '…: it could write: its plan has …'; '' where it could not.

    `plan`: as EXPLAIN (FORMAT JSON, VERBOSE) gives it. Raises psycopg.Error.
    """
    words = strip_comments(statement.sql)
    kind = _first_word(words)
    if kind.lower() not in READING:
        return f"it could write: it is {'an' if kind[:1] in 'AEIOU' else 'a'} {kind}"
    writing = [node for node in _node_types(plan) if node in _WRITING_NODES]
    if writing:
        return f"it could write: its plan has the node {writing[0]}"
    if changes_data(statement.sql):
        return "it could write: its text changes data"
    texts = [_code(text) for text in (statement.sql, *_texts(plan))]
    names = sorted({name for text in texts for name in called(text)})
    found = control.execute(_VOLATILE.encode(), (names, _HARMLESS)).fetchall() if names else []
    if found:
        return f"it could write: it calls {', '.join(str(row[0]) for row in found)}, which is volatile"
    for what, name in control.execute(_HIDDEN.encode()).fetchall():
        is_met = any(name in text for text in texts) if what == "operator" else name in names
        if is_met or what not in ("operator", "aggregate"):
            return f"it could write: the {what} {name} calls a function that is volatile"
    return ""


def called(text: str) -> Iterator[str]:
    """The names that stand before a parenthesis, as functions do; some are keywords or types."""
    for name in _FUNCTION.findall(text):
        yield name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _code(text: str) -> str:
    """The text without its strings, which name no function; all of it where these can't be told apart."""
    if any(each.kind == "unclear" for each in literals(text, is_plan=True)):
        return text
    return without_literals(text, is_plan=True)


def is_reading(statement: Statement) -> bool:
    """Whether a statement's words say that it reads."""
    first = _first_word(strip_comments(statement.sql)).lower()
    return first in READING and not changes_data(statement.sql)


def _first_word(words: str) -> str:
    found = words.replace("(", " ").split()
    return found[0].upper() if found else ""


def _node_types(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "Node Type" in value:
            yield str(value["Node Type"])
        for item in value.values():
            yield from _node_types(item)
    elif isinstance(value, list):
        for item in value:
            yield from _node_types(item)


def _texts(value: object) -> Iterator[str]:
    """Every text of a plan: with VERBOSE its expressions, functions of views among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
