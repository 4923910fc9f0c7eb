"""Transactions in a file of statements: BEGIN … COMMIT is timed as one unit, with its statements as parts."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pgassay.errors import UsageError
from pgassay.model.workload import Statement, TransactionPart
from pgassay.sql_text import strip_comments
from pgassay.workloads.row_variables import split_at_gset
from pgassay.workloads.statement_names import given_name, headed, headed_statements

_BEGIN = re.compile(r"\s*(begin|start\s+transaction)\b", re.IGNORECASE)
_TO_SAVEPOINT = re.compile(r"\s*rollback(\s+work|\s+transaction)?\s+to\b", re.IGNORECASE)
_END = re.compile(r"\s*(commit|end|rollback|abort)\b", re.IGNORECASE)
_SAVEPOINT = re.compile(r"\s*(savepoint|release)\b", re.IGNORECASE)
_TWO_PHASES = re.compile(r"\s*(prepare\s+transaction|(commit|rollback)\s+prepared)\b", re.IGNORECASE)
_CHAIN = re.compile(r"\band\s+chain\b", re.IGNORECASE)


def begins(sql: str) -> bool:
    """Whether a statement begins a transaction."""
    return _BEGIN.match(strip_comments(sql)) is not None


def ends(sql: str) -> bool:
    """Whether a statement ends the transaction that is open; back to a savepoint is no end."""
    words = strip_comments(sql)
    return _END.match(words) is not None and _TO_SAVEPOINT.match(words) is None


def rolls_back(statement: Statement) -> bool:
    """Whether a transaction is written to end without a change."""
    return bool(statement.parts) and strip_comments(statement.parts[-1].sql).split()[0].lower() in (
        "rollback",
        "abort",
    )


def controls(sql: str) -> bool:
    """Whether a statement begins, ends or divides a transaction, and does nothing else."""
    return begins(sql) or ends(sql) or is_of_savepoint(sql)


def is_of_savepoint(sql: str) -> bool:
    """Whether a statement makes a savepoint, releases one or goes back to one."""
    words = strip_comments(sql)
    return _SAVEPOINT.match(words) is not None or _TO_SAVEPOINT.match(words) is not None


@dataclass
class _Open:
    """A transaction whose end has not been read yet."""

    name: str
    parts: list[TransactionPart] = field(default_factory=list)

    def add(self, heading: str, sql: str, number: int, source: str, gset: str | None = None) -> None:
        """One more statement; raises UsageError for a name that the transaction has already."""
        given, names = given_name(heading), [part.name for part in self.parts]
        words = _words(sql)[: 3 if is_of_savepoint(sql) else 1]
        name = given or (" ".join(words) if controls(sql) else f"statement-{number}")
        if given and given in names:
            raise UsageError(
                f"{source}: two statements of {self.name} are named '{given}': give each its own name"
            )
        while name in names:
            name += "'"
        self.parts.append(TransactionPart(name=name, sql=sql, gset=gset))

    def statement(self) -> Statement:
        """What is timed."""
        text = "".join(f"{part.sql}{_end(part)}\n" for part in self.parts).strip()
        return Statement(name=self.name, sql=text, parts=tuple(self.parts))


def with_transactions(text: str, source: str) -> tuple[Statement, ...]:
    """The statements of a file, those from a BEGIN to its COMMIT or ROLLBACK as one.

    Raises UsageError for text without a statement, a name used twice, and transactions that don't match.
    """
    units: list[Statement] = []
    opened: _Open | None = None
    for number, (heading, sql, gset) in enumerate(_with_gset(text, source), start=1):
        _refuse(sql, f"{source}, statement {number}", is_open=opened is not None)
        if gset is not None and (opened is None or controls(sql)):
            raise UsageError(
                f"{source}, statement {number}: \\gset is for statements between BEGIN and COMMIT: write "
                f"BEGIN; before that statement, or run a script as --workload pgbench:file={source}"
            )
        if opened is None and begins(sql):
            place = 1 + sum(bool(each.parts) for each in units)
            opened = _Open(given_name(heading) or f"transaction-{place}")
            opened.add("", sql, number, source)
        elif opened is not None:
            opened.add(heading, sql, number, source, gset)
            if ends(sql):
                units.append(opened.statement())
                opened = None
        else:
            units.append(Statement(name=given_name(heading) or f"statement-{number}", sql=sql))
    if opened is not None:
        raise UsageError(f"{source}: {opened.name} is not closed: write COMMIT; after its last statement")
    if not units:
        raise UsageError(f"{source} has no SQL statement: write at least one")
    names = [unit.name for unit in units]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{source}: two statements are named '{name}': give each its own name")
    return tuple(units)


def _end(part: TransactionPart) -> str:
    return ";" if part.gset is None else f" \\gset {part.gset}".rstrip()


def _with_gset(text: str, source: str) -> Iterator[tuple[str, str, str | None]]:
    """Each statement with its comments, and the prefix of what it keeps where `\\gset` ends it."""
    for heading, sql in headed_statements(text, source):
        for place, (part, gset) in enumerate(split_at_gset(sql, source)):
            yield (heading, part.strip(), gset) if place == 0 else (*headed(part), gset)


def _refuse(sql: str, where: str, *, is_open: bool) -> None:
    words = strip_comments(sql)
    first = " ".join(_words(sql)[:2])
    if _TWO_PHASES.match(words):
        raise UsageError(f"{where}: {first} belongs to two-phase commit: end the transaction with COMMIT")
    if (ends(sql) or is_of_savepoint(sql)) and not is_open:
        raise UsageError(f"{where}: {_words(sql)[0]} is outside a transaction: write BEGIN; before it")
    if begins(sql) and is_open:
        raise UsageError(f"{where}: {_words(sql)[0]} within a transaction: write COMMIT; before it")
    if ends(sql) and _CHAIN.search(words):
        raise UsageError(f"{where}: AND CHAIN begins a transaction without BEGIN: write COMMIT; BEGIN;")


def _words(sql: str) -> list[str]:
    return [word.upper() if place == 0 else word for place, word in enumerate(strip_comments(sql).split())]
