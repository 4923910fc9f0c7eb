"""The section of the accounts: where the time of the connections and their helpers went."""

from dataclasses import dataclass

from pgassay.model.account import Account, AccountItem, ArmAccounts
from pgassay.model.result import CompareResult
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.labels import compared_factors, short_name
from pgassay.report.section import (
    HTML,
    QUIET,
    STRONG,
    Block,
    Cell,
    Column,
    Figure,
    Fold,
    Group,
    Paragraph,
    Row,
    Section,
    Table,
)

HEADING = "Where the time went (means over the trials)"
# Arms that share a start are observed once in each: what the first of them paid for caches is in its figures.
HEADING_OF_STARTS = "Where the time went (means over one execution in each start; not judged)"
# Kinds of threads that are shown; all others are in the JSON document.
SHOWN = {
    "backend": "connections",
    "parallel worker": "parallel workers",
    "io worker": "I/O workers",
    "io_uring worker": "io_uring's kernel workers",
}
# Smaller parts than this of the wall time, in every arm, are added up in one row.
_SHARE_MIN = 0.01
RESIDUE = "residue"
_REST = "everything else"


@dataclass(frozen=True)
class AccountRow:
    """One item with its seconds in each arm; None where an arm has no such account."""

    name: str
    kind: str
    seconds: tuple[float | None, ...]
    shares: tuple[float | None, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """Each arm's time and share as words; '-' where there is none."""
        return tuple(
            "-"
            if seconds is None or share is None
            else f"{text.seconds(seconds)} ({text.percent_fixed(share, 1)})"
            for seconds, share in zip(self.seconds, self.shares, strict=True)
        )


@dataclass(frozen=True)
class AccountTable:
    """The accounts of one kind of threads in the arms of one stratum."""

    title: str
    process: str
    stratum: str
    arms: tuple[str, ...]
    walls_s: tuple[float | None, ...]
    rows: tuple[AccountRow, ...]


def account_tables(result: CompareResult) -> tuple[AccountTable, ...]:
    """One table per stratum and kind of threads that any arm has; names cleaned for a terminal."""
    factors = compared_factors(result.arms)
    labels = {(arm.name, arm.stratum): short_name(arm, factors) for arm in result.arms}
    tables = []
    for stratum in dict.fromkeys(arm.stratum for arm in result.accounts):
        arms = [arm for arm in result.accounts if arm.stratum == stratum]
        names = tuple(labels.get((arm.arm, stratum), text.clean(arm.arm)) for arm in arms)
        for process in SHOWN:
            table = _table(arms, names, process, stratum)
            tables += [table] if table else []
    return tuple(tables)


def _table(
    arms: list[ArmAccounts], names: tuple[str, ...], process: str, stratum: str
) -> AccountTable | None:
    accounts = [next((item for item in arm.accounts if item.process == process), None) for arm in arms]
    if not any(account and account.wall_s > 0 for account in accounts):
        return None
    where = f" at {text.clean(stratum)}" if stratum else ""
    return AccountTable(
        title=f"{SHOWN[process]}{where}",
        process=process,
        stratum=text.clean(stratum),
        arms=names,
        walls_s=tuple(account.wall_s if account else None for account in accounts),
        rows=(*_rows(accounts), _residue(accounts)),
    )


def _rows(accounts: list[Account | None]) -> list[AccountRow]:
    """The items that matter in any arm, in the order of the accounts, then all others in one row."""
    keys: dict[tuple[str, str], None] = {}
    for account in accounts:
        for item in account.items if account else ():
            keys[item_label(item), item.kind] = None
    rows: list[AccountRow] = []
    small: list[AccountRow] = []
    for label, kind in sorted(keys, key=lambda key: _ORDER.index(key[1])):
        row = _row(accounts, label, kind)
        (rows if any(abs(share or 0.0) >= _SHARE_MIN for share in row.shares) else small).append(row)
    if small:
        rows.append(
            AccountRow(
                _REST,
                "rest",
                tuple(_sum([row.seconds[place] for row in small]) for place in range(len(accounts))),
                tuple(_sum([row.shares[place] for row in small]) for place in range(len(accounts))),
            )
        )
    return rows


_ORDER = ("cpu", "runnable", "wait", "network", "client")


def _row(accounts: list[Account | None], label: str, kind: str) -> AccountRow:
    matching = [
        None
        if account is None
        else [item for item in account.items if (item_label(item), item.kind) == (label, kind)]
        for account in accounts
    ]
    return AccountRow(
        label,
        kind,
        tuple(None if items is None else sum(item.seconds for item in items) for items in matching),
        tuple(None if items is None else sum(item.share for item in items) for items in matching),
    )


def _residue(accounts: list[Account | None]) -> AccountRow:
    return AccountRow(
        RESIDUE,
        RESIDUE,
        tuple(account.residue_s if account else None for account in accounts),
        tuple(
            account.residue_s / account.wall_s if account and account.wall_s > 0 else None
            for account in accounts
        ),
    )


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def item_label(item: AccountItem) -> str:
    """An item in words: what the threads did or waited for."""
    event = text.clean(f"{item.wait_event_type}:{item.wait_event}".strip(":"))
    if item.kind == "cpu":
        return f"on CPU within {event}" if event else "on CPU"
    if item.kind == "runnable":
        return "waiting for a CPU"
    if item.kind == "client":
        return "waiting for the client"
    if item.kind == "network":
        return "sending and receiving"
    if not event:
        return "asleep, no wait event reported"
    return f"{event}, waiting for a device" if item.state == "device" else event


def section(material: Material) -> Section:
    """Where the connections' time went, and that of the processes that worked for them."""
    tables = account_tables(material.result)
    heading = HEADING_OF_STARTS if any(arm.starts for arm in material.result.arms) else HEADING
    if not tables:
        return Section(heading, "accounts", ())
    blocks: list[Block] = [
        Paragraph(
            "CPU and the queue for it are the scheduler's own counts; waits are samples that found the "
            "process asleep. The residue is the wall time minus all of these, and may be negative.",
            QUIET,
            where=HTML,
        ),
        Figure("accounts"),
    ]
    blocks += [
        Fold(table.title, (_account(table),), is_open=number == 0, is_titled=False)
        for number, table in enumerate(tables)
    ]
    return Section(heading, "accounts", tuple(blocks), link="Where the time went")


def _account(account: AccountTable) -> Table:
    rows = [Row((Cell(row.name), *(Cell(cell) for cell in row.cells))) for row in account.rows]
    walls = (Cell(text.quantity(wall, "s")) for wall in account.walls_s)
    rows.append(Row((Cell("wall time", STRONG), *walls)))
    return Table(
        (Column(account.title, is_figure=False), *(Column(arm) for arm in account.arms)),
        (Group(tuple(rows)),),
    )
