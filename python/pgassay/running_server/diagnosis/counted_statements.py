"""The statements of a running server by pg_stat_statements, at both ends of an interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from pgassay.errors import first_line
from pgassay.model.running_server.diagnosis import QUERY_CHARACTERS_MAX, CalledStatement
from pgassay.tune.rewrites.tree import RefusedError, read
from pgassay.tune.source.counted import CATALOG, HIDDEN_TEXT, kind_of
from pgassay.words import percent_fixed, plural

STATEMENTS_MAX = 10
# So many are looked at for those of catalogs, of which a server's monitoring has many.
_LOOKED_AT_MAX = 40
# Of the time of all statements: what is passed over for less is not worth a sentence.
_SHARE_MIN = 0.1
# The number under which those that the role may not see are added up.
_HIDDEN = ""
_ZEROS = (0.0,) * 6
# A statement's number, its user and its database; the figures as `_read` has them.
_Key = tuple[str, str, str]
Calls = Mapping[_Key, tuple[float, ...]]


@dataclass(frozen=True)
class CalledStatements:
    """Those that took most time, the seconds of all, and sentences about those that are left out."""

    chosen: tuple[CalledStatement, ...]
    total_s: float
    passed_over: tuple[str, ...]


class Statements:
    """pg_stat_statements at two moments, wherever it is installed; `reason` says why it can't be read."""

    def __init__(self, session: psycopg.Connection) -> None:
        self._session = session
        self._function: sql.Composed | None = None
        self.reason = ""
        row = session.execute(
            "SELECT nspname::text, EXISTS (SELECT FROM pg_proc WHERE proname = 'pg_stat_statements' "
            "AND pronamespace = extnamespace AND 'toplevel' = ANY (proargnames)) "
            "FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace "
            "WHERE extname = 'pg_stat_statements'"
        ).fetchone()
        self._top = sql.SQL("true")
        if row is None:
            self.reason = (
                "statements by their calls and times: pg_stat_statements is not in this database: add it to "
                "shared_preload_libraries and type CREATE EXTENSION pg_stat_statements"
            )
        else:
            self._function = sql.SQL("{}.pg_stat_statements").format(sql.Identifier(row[0]))
            # The time of a statement within a function is that of the call as well.
            self._top = sql.SQL("toplevel" if row[1] else "true")
        self._before = self._read()

    def _read(self) -> Calls:
        """By statement, user and database: calls, milliseconds, rows, blocks read, found, temporary."""
        if self._function is None:
            return {}
        # Without their texts, which lie in a file.
        query = sql.SQL(
            "SELECT coalesce(queryid::text, ''), userid::text, dbid::text, "
            "sum(calls)::float8, sum(total_exec_time), "
            "sum(rows)::float8, sum(shared_blks_read)::float8, sum(shared_blks_hit)::float8, "
            "sum(temp_blks_read + temp_blks_written)::float8 FROM {}(false) WHERE {} GROUP BY 1, 2, 3"
        ).format(self._function, self._top)
        try:
            return {row[:3]: row[3:] for row in self._session.execute(query).fetchall()}
        except psycopg.Error as error:
            self.reason = f"statements by their calls and times: pg_stat_statements says: {first_line(error)}"
            self._function = None
            return {}

    def difference(self, block_bytes: int) -> CalledStatements | None:
        """The statements that took longest since the first reading; None where that can't be read."""
        after = self._read()
        if self._function is None:
            return None
        moved, anew = moved_by_statement(self._before, after)
        hidden_s = moved.pop(_HIDDEN, _ZEROS)[1] / 1000
        ordered = sorted(moved, key=lambda number: -moved[number][1])
        looked_at = ordered[:_LOOKED_AT_MAX]
        texts = self._texts(looked_at)
        of_catalogs = [number for number in looked_at if _reads_catalogs(texts.get(number, ""))]
        kept = [number for number in ordered if number not in of_catalogs]
        total_s = sum(moved[number][1] for number in kept) / 1000
        catalogs_s = sum(moved[number][1] for number in of_catalogs) / 1000
        return CalledStatements(
            tuple(
                _called(number, texts.get(number, ""), moved[number], block_bytes)
                for number in kept[:STATEMENTS_MAX]
            ),
            total_s,
            (*_passed_over(total_s, catalogs_s, len(of_catalogs), hidden_s), *_counted_anew(anew)),
        )

    def _texts(self, numbers: list[str]) -> dict[str, str]:
        return {number: text[:QUERY_CHARACTERS_MAX] for number, text in self.whole_texts(numbers).items()}

    def whole_texts(self, numbers: Sequence[str]) -> dict[str, str]:
        """The texts of these numbers, constants as $1, $2 …, as far as the role may read them."""
        if self._function is None or not numbers:
            return {}
        query = sql.SQL("SELECT queryid::text, min(query) FROM {}(true) WHERE queryid = ANY (%s) GROUP BY 1")
        rows = self._session.execute(
            query.format(self._function), ([int(number) for number in numbers],)
        ).fetchall()
        return {str(number): str(text) for number, text in rows if text and text != HIDDEN_TEXT}


def moved_by_statement(before: Calls, after: Calls) -> tuple[dict[str, tuple[float, ...]], int]:
    """By number what was counted between two readings, where there were calls; how many were counted anew.

    A statement's counts fall when they are reset, or put out to make room (pg_stat_statements.max) and begun
    anew: then what they are is what was counted since.
    """
    moved: dict[str, tuple[float, ...]] = {}
    anew = 0
    for key, row in after.items():
        figures = tuple(new - old for new, old in zip(row, before.get(key, _ZEROS), strict=True))
        if min(figures) < 0:
            # Of those that the role may not see it is not known which were.
            is_known = key[0] != _HIDDEN
            anew += is_known
            figures = tuple(row) if is_known else tuple(max(0.0, each) for each in figures)
        sums = moved.get(key[0], _ZEROS)
        moved[key[0]] = tuple(one + other for one, other in zip(sums, figures, strict=True))
    return {number: figures for number, figures in moved.items() if figures[0] > 0}, anew


def _counted_anew(statements: int) -> list[str]:
    if not statements:
        return []
    return [
        f"The counts of {plural(statements, 'statement')} were reset within the interval, or put out by "
        "others (pg_stat_statements.max): they begin there."
    ]


def _called(number: str, text: str, moved: Sequence[float], block_bytes: int) -> CalledStatement:
    calls, milliseconds, rows, blocks_read, blocks_hit, blocks_temporary = moved
    return CalledStatement(
        query_id=number,
        query=text,
        calls=int(calls),
        total_s=milliseconds / 1000,
        mean_ms=milliseconds / calls,
        rows=int(rows),
        read_bytes=int(blocks_read) * block_bytes,
        hit_bytes=int(blocks_hit) * block_bytes,
        temporary_bytes=int(blocks_temporary) * block_bytes,
    )


def _reads_catalogs(text: str) -> bool:
    """Whether a statement looks at the server itself, as monitoring does, pgassay's own among it."""
    try:
        return kind_of(read(text)) == CATALOG
    except RefusedError:
        # Cut, or of another grammar: pgassay's own are told by what they ask.
        return "pg_stat_" in text or "pg_catalog." in text


def _passed_over(total_s: float, catalogs_s: float, catalogs: int, hidden_s: float) -> list[str]:
    every_s = total_s + catalogs_s + hidden_s
    said = []
    if hidden_s > 0:
        said.append(
            f"Statements of other roles took {hidden_s:.1f} s, {percent_fixed(hidden_s / every_s)} of the "
            "time of all: this role may not read them."
        )
    if every_s and catalogs_s >= _SHARE_MIN * every_s:
        said.append(
            f"{plural(catalogs, 'statement')} that only read system catalogs, as monitoring does, took "
            f"{catalogs_s:.1f} s, {percent_fixed(catalogs_s / every_s)} of the time of all."
        )
    return said
