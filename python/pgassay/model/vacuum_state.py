"""What VACUUM has left to do in a database, and who keeps it from doing so."""

import math
from typing import ClassVar, Literal

from pgassay.model.base import PAGE_BYTES, Extended, Frozen

# Of a page (src/include/storage/bufpage.h, SizeOfPageHeaderData).
_HEADER_BYTES = 24
# And of a B-tree's page the links to its neighbours (src/include/access/nbtree.h, BTPageOpaqueData).
_LINKS_BYTES = 16


class TableState(Extended):
    """One table: its pages, and the rows in them as the server's statistics estimate them.

    `pages` of its main fork; `dead_rows` is None where the statistics were lost (a crash resets them).
    `row_bytes`: what a live row takes in a page, by the average widths of ANALYZE; None without these.
    `vacuumed_s`: how long ago a VACUUM of it ended, by whomever; None when none is known.
    `changed_rows`: those written since the last ANALYZE; None where the statistics were lost.
    `page_bytes`: the server's block size.
    """

    LATER_FIELDS = ("page_bytes",)

    schema_name: str
    name: str
    pages: int
    live_rows: float
    dead_rows: float | None
    row_bytes: float | None
    fillfactor: int = 100
    vacuumed_s: float | None = None
    changed_rows: float | None = None
    page_bytes: int = PAGE_BYTES

    def pages_for(self, rows: float) -> float | None:
        """The pages that so many rows fill, packed up to the fillfactor; None where widths are not known."""
        if self.row_bytes is None:
            return None
        a_page = max(
            1, math.floor((self.page_bytes - _HEADER_BYTES) * self.fillfactor / 100 / self.row_bytes)
        )
        return min(float(self.pages), float(math.ceil(rows / a_page)))


class IndexState(Frozen):
    """One B-tree index: its pages, and the rows that it points to by the last ANALYZE or VACUUM.

    `entry_bytes`: what a row takes in a leaf page by the average widths of ANALYZE, as if no two keys were
    equal (deduplication saves space then); None without these. `page_bytes`: the server's block size.
    """

    schema_name: str
    table: str
    name: str
    pages: int
    rows: float
    entry_bytes: float | None
    fillfactor: int = 90
    page_bytes: int = PAGE_BYTES

    @property
    def entries_of_a_page(self) -> float | None:
        """How many entries fill a leaf page up to the fillfactor; None where widths are not known."""
        if self.entry_bytes is None:
            return None
        usable_bytes = self.page_bytes - _HEADER_BYTES - _LINKS_BYTES
        return max(2.0, math.floor(usable_bytes * self.fillfactor / 100 / self.entry_bytes))

    @property
    def pages_needed(self) -> float | None:
        """The leaf pages that its rows fill, at most those there are; None where widths are not known."""
        entries = self.entries_of_a_page
        return None if entries is None else min(float(self.pages), float(math.ceil(self.rows / entries)))


class Holder(Frozen):
    """Who may still need row versions of the past, so that VACUUM keeps them.

    `transactions`: how many have begun since what it sees; `seconds`: how long it has existed, of a standby
    or a slot since when it needs what it sees, by the rate of transactions; None where that is not known.
    `name`: of a session its process and application, else its own name. A standby is one that is connected,
    and asks for its queries' sake (hot_standby_feedback).
    """

    kind: Literal["session", "prepared transaction", "standby", "replication slot"]
    name: str
    transactions: int
    seconds: float | None = None


class VacuumState(Extended):
    """The largest tables and B-tree indexes, and holders by the age of what they see, the oldest first."""

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("indexes",)

    tables: tuple[TableState, ...] = ()
    holders: tuple[Holder, ...] = ()
    indexes: tuple[IndexState, ...] = ()
