"""What a planted defect is: SQL that makes it, the statements that suffer, and how its fix is recognised."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pgassay.tune.candidate import AdvisedMachine, Candidate, TunedStatement

IsFix = Callable[[Candidate], bool]
_TABLES = (
    "orders", "events", "invoices", "shipments", "readings", "sessions", "tickets", "payments", "visits",
    "messages", "Bookings", "user log", "devices", "entries",
)  # fmt: skip
_COLUMNS = (
    "customer_id", "account_id", "owner", "store_id", "kind_id", "region_id", "sensor", "tenant", "parent_id",
    "source_id", "Group Id", "code", "batch", "zone", "unit_id", "partner",
)  # fmt: skip
_TIMES = ("created_at", "happened", "sent_on", "logged_at", "day_of", "Valid From")
_TEXTS = ("name", "email", "title", "label", "reference", "note", "Full Name")


@dataclass(frozen=True)
class Drawn:
    """One drawing of a plant. `setup`: SQL run one by one, outside of a transaction.

    `settings`: of the server, which is started with them. `executions`: how often a statement is executed
    for its plan; the first of several warms the caches. `counted`: what a source would have counted, and a
    copy of its data does not know (fields of the catalogs' facts). `processors_min`: on a machine with fewer
    the defect can't be there.
    """

    setup: tuple[str, ...]
    statements: tuple[TunedStatement, ...]
    fix: IsFix
    settings: dict[str, str] = field(default_factory=dict)
    machine: AdvisedMachine = field(default_factory=AdvisedMachine)
    executions: int = 4
    counted: dict[str, int] = field(default_factory=dict)
    processors_min: int = 1


class Draw:
    """The dice of one plant: the same seed gives the same names, types and sizes."""

    def __init__(self, plant: str, seed: int, *, decoy: bool) -> None:
        self.random = random.Random(f"{plant}/{seed}/{decoy}")
        self.decoy = decoy
        self._tables, self._columns, self._times, self._texts = (
            self.random.sample(names, len(names)) for names in (_TABLES, _COLUMNS, _TIMES, _TEXTS)
        )

    def table(self) -> str:
        """A table's name, as SQL has it; another each time."""
        return _quoted(self._tables.pop())

    def column(self) -> str:
        """A column's name for an integer; another each time."""
        return _quoted(self._columns.pop())

    def time(self) -> str:
        """A column's name for a date or a time."""
        return _quoted(self._times.pop())

    def text(self) -> str:
        """A column's name for a text."""
        return _quoted(self._texts.pop())

    def size(self, least: int, most: int) -> int:
        """A number between two."""
        return self.random.randint(least, most)

    def one_of(self, *values: Any) -> Any:
        """One of the values."""
        return self.random.choice(values)

    def rows(self, least: int = 60_000, most: int = 120_000) -> int:
        """How many rows a table has that an index is worth its while for."""
        return self.random.randint(least, most)

    def integer(self) -> str:
        """A type of whole numbers."""
        return str(self.random.choice(("integer", "bigint")))

    def filler(self) -> str:
        """A column that makes rows as wide as real ones."""
        return f"filler text DEFAULT repeat('x', {self.random.randint(40, 120)})"


def _quoted(name: str) -> str:
    return name if name.islower() and " " not in name else f'"{name}"'


@dataclass(frozen=True)
class Plant:
    """A kind of defect: its name, the kind of candidate that mends it, and its drawing."""

    name: str
    kind: str
    draw: Callable[[Draw], Drawn]
    slow: bool = False

    def drawn(self, seed: int, *, decoy: bool) -> Drawn:
        """The plant, or its decoy, of a seed."""
        return self.draw(Draw(self.name, seed, decoy=decoy))


def statement(sql: str, *, name: str = "q1", writes: bool = False, weight: float = 1.0) -> TunedStatement:
    """A statement without parameters."""
    return TunedStatement(name=name, sql=sql, writes=writes, weight=weight)


def index_with(*parts: str, kind: str | None = None) -> IsFix:
    """A candidate whose CREATE INDEX has all these parts in this order."""

    def is_fix(candidate: Candidate) -> bool:
        if kind is not None and candidate.kind != kind:
            return False
        for sql in candidate.sql:
            if not sql.startswith("CREATE INDEX"):
                continue
            keys, at = sql[sql.index("(") :], 0
            for part in parts:
                at = keys.find(part, at)
                if at < 0:
                    break
                at += len(part)
            else:
                return True
        return False

    return is_fix


def kind_is(*kinds: str) -> IsFix:
    """A candidate of one of these kinds."""
    return lambda candidate: candidate.kind in kinds


def setting_is(*names: str) -> IsFix:
    """A candidate that changes one of these settings."""
    return lambda candidate: bool(candidate.settings.keys() & set(names))


def filled(
    table: str, columns: str, rows: int, values: Sequence[str], *, analyze: bool = True
) -> tuple[str, ...]:
    """SQL that makes a table and fills it: `values` of i, which runs from 1 to `rows`."""
    return (
        f"CREATE TABLE {table} ({columns})",
        f"INSERT INTO {table} SELECT {', '.join(values)} FROM generate_series(1, {rows}) AS i",
        *((f"VACUUM (ANALYZE, FREEZE) {table}",) if analyze else ()),
    )
