"""What a parameter of a statement is used for."""

from dataclasses import dataclass
from typing import Literal

from pgassay.tune.facts.schema import ColumnFacts, TableFacts

UseKind = Literal[
    "equal",
    "list",
    "array",
    "below",
    "above",
    "like",
    "age",
    "limit",
    "offset",
    "stored",
    "output",
    "word",
    "field",
    "key",
    "assumed",
    "unknown",
]
# Functions of which an argument is a word out of a list, and a word that serves where any does: which unit a
# time is cut to, or which zone it is shown in, changes what comes out and hardly the work.
WORDS = {"date_trunc": "day", "date_part": "day", "extract": "day", "timezone": "UTC"}


@dataclass(frozen=True)
class Use:
    """Where a parameter stands.

    `column` is what it is compared with or stored into, `table` that column's. `function`: the column's value
    goes through lower or upper first; of a 'word' the function that asks for it. `element` and `elements`:
    its place in a list of so many. `is_top`: the LIMIT or OFFSET is the whole statement's. `reason`: why its
    value is 'unknown', or what an 'output' decides all the same. Of a 'field' of a JSON document `key` is the
    key, or `key_number` the parameter that has it; `known`: the values that documents have (`few_rows`), the
    most frequent first. `is_sampled`: the column's values are those of a few rows, since the statistics hold
    none. `expression`: what is compared, where it is more than a column, as SQL; `column` then goes by that
    name. Of 'assumed' the `known` value serves where nothing tells it, as in `id % $1`. Of an 'age',
    `is_before`: the column's values are to be older than that, as in `seen < now() - $1`.
    """

    number: int
    kind: UseKind
    table: TableFacts | None = None
    column: ColumnFacts | None = None
    function: str = ""
    element: int = 0
    elements: int = 1
    is_top: bool = False
    reason: str = ""
    key: str = ""
    key_number: int | None = None
    known: tuple[str, ...] = ()
    is_sampled: bool = False
    expression: str = ""
    is_before: bool = False

    @property
    def side(self) -> Literal["below", "above"] | None:
        """On which side of a bound the column's values are to be; None where it is no bound."""
        if self.kind == "age":
            return "below" if self.is_before else "above"
        return self.kind if self.kind in ("below", "above") else None
