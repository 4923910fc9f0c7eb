"""The sections of what the server counted: for each statement, and for each table and index."""

from dataclasses import dataclass

from pgassay.model.result import CompareResult
from pgassay.model.server_statement import ServerStatement, TableCache
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.labels import compared_factors, short_name
from pgassay.report.section import (
    HTML,
    MARKDOWN,
    QUIET,
    TERMINAL,
    Cell,
    Column,
    Group,
    Paragraph,
    Row,
    Section,
    Table,
    plain_table,
)

HEADING = "Statements from pg_stat_statements"
NOTE = (
    "From pg_stat_statements, means per trial, those that took longest; a load's warm-up is included. "
    "Descriptive, without a verdict."
)
_HEADS = ("calls", "time", "per call", "rows", "blocks hit", "blocks read", "read wait", "temp blocks", "WAL")
_NOTHING = frozenset({"", "0", "0 s", "0 B"})
_QUERIES_MAX = 8
# A statement that took less than this share of the longest one is no reader's concern.
_SHARE_MIN = 0.001
_QUERY_CHARACTERS_MAX = 300
_TABLES_HEADING = "Found in shared buffers"
_TABLES_MAX = 12
_ARMS_MAX = 8
_DEVICE_HEADING = "The device, in iostat's columns"
# A terminal has what people look at first; --json and the page have all of them.
_DEVICE_SHORT = (
    *("r/s", "rkB/s", "r_await", "w/s", "wkB/s", "w_await"),
    *("aqu-sz", "%util", "%iowait"),
)
_DEVICE_NOTE = (
    "The device below the data, over the measured part, as the mean of the valid trials; kB are 1024 bytes, "
    "waits are in ms. %iowait belongs to the processors."
)
_TABLES_NOTE = (
    "Share of the requested blocks that was in shared buffers (pg_statio_user_tables, "
    "pg_statio_user_indexes). The rest may have been in the operating system's page cache. Descriptive, "
    "without a verdict."
)


@dataclass(frozen=True)
class StatementRow:
    """One arm's figures for a statement, in the order of the table's heads; '' where it isn't told."""

    arm: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class CountedStatement:
    """One statement by its text, cut and cleaned, with a row for each arm that ran it."""

    query: str
    rows: tuple[StatementRow, ...]


@dataclass(frozen=True)
class StatementTable:
    """The statements that took longest; columns in which nothing is counted are left out."""

    heads: tuple[str, ...]
    statements: tuple[CountedStatement, ...]


def statement_table(result: CompareResult) -> StatementTable | None:
    """What took longest in any arm, None without any; the text tells what is the same in two versions."""
    factors = compared_factors(result.arms)
    names = {(arm.name, arm.stratum): short_name(arm, factors) for arm in result.arms}
    longest: dict[str, float] = {}
    rows: dict[str, list[StatementRow]] = {}
    for arm in result.server_statements:
        name = names.get((arm.arm, arm.stratum)) or text.clean(arm.arm)
        where = f" at {text.clean(arm.stratum)}" if arm.stratum else ""
        for statement in arm.statements:
            query = _query(statement)
            longest[query] = max(longest.get(query, 0.0), statement.exec_ms)
            rows.setdefault(query, []).append(StatementRow(f"{name}{where}", _cells(statement)))
    if not rows:
        return None
    least = _SHARE_MIN * max(longest.values())
    ordered = sorted((query for query in rows if longest[query] >= least), key=lambda query: -longest[query])
    return _without_empty([CountedStatement(query, tuple(rows[query])) for query in ordered[:_QUERIES_MAX]])


def _without_empty(statements: list[CountedStatement]) -> StatementTable:
    everything = [row.cells for statement in statements for row in statement.rows]
    kept = [place for place, cells in enumerate(zip(*everything, strict=True)) if {*cells} - _NOTHING]
    return StatementTable(
        heads=tuple(_HEADS[place] for place in kept),
        statements=tuple(
            CountedStatement(
                statement.query,
                tuple(
                    StatementRow(row.arm, tuple(row.cells[place] for place in kept)) for row in statement.rows
                ),
            )
            for statement in statements
        ),
    )


def _query(statement: ServerStatement) -> str:
    words = " ".join(statement.query.split())
    shown = words if len(words) <= _QUERY_CHARACTERS_MAX else f"{words[: _QUERY_CHARACTERS_MAX - 1]}…"
    return text.clean(shown) or f"queryid {statement.query_id}"


def _cells(statement: ServerStatement) -> tuple[str, ...]:
    return (
        f"{statement.calls:,.0f}",
        text.seconds(statement.exec_ms / 1000),
        text.seconds(statement.exec_ms / 1000 / statement.calls) if statement.calls else "",
        f"{statement.rows:,.0f}",
        f"{statement.shared_blocks_hit:,.0f}",
        f"{statement.shared_blocks_read:,.0f}",
        "" if statement.read_ms is None else text.seconds(statement.read_ms / 1000),
        f"{statement.temp_blocks_read + statement.temp_blocks_written:,.0f}",
        "" if statement.wal_bytes is None else text.size(statement.wal_bytes),
    )


def section(material: Material) -> Section:
    """The statements that took longest by the server's own count."""
    found = statement_table(material.result)
    if found is None:
        return Section(HEADING, "server-statements", ())
    groups = tuple(
        Group(
            tuple(Row((Cell(row.arm), *(Cell(cell) for cell in row.cells))) for row in statement.rows),
            heading=statement.query,
            is_code=True,
        )
        for statement in found.statements
    )
    columns = (Column("arm", is_figure=False), *(Column(head) for head in found.heads))
    return Section(
        HEADING,
        "server-statements",
        (Paragraph(NOTE, QUIET, where=HTML), Table(columns, groups, grouped_by="statement")),
        link="Server counters",
        folded=MARKDOWN,
    )


def tables(material: Material) -> Section:
    """A table of the tables and indexes of which most blocks were asked; empty where nothing was counted."""
    found = material.result.table_cache
    arms = [(arm.name, arm.stratum) for arm in material.result.arms]
    counted = {(each.arm, each.stratum) for each in found}
    shown = [arm for arm in material.result.arms if (arm.name, arm.stratum) in counted][:_ARMS_MAX]
    if not shown:
        return Section(_TABLES_HEADING, "table-cache", ())
    blocks: dict[str, int] = {}
    ratios: dict[tuple[str, tuple[str, str]], str] = {}
    for each in found:
        name = _name(each)
        blocks[name] = blocks.get(name, 0) + each.blocks_hit + each.blocks_read
        ratios[name, (each.arm, each.stratum)] = text.percent_fixed(each.hit_ratio, 1)
    ordered = sorted(blocks, key=lambda name: (-blocks[name], name))[:_TABLES_MAX]
    rows = [(name, *(ratios.get((name, (arm.name, arm.stratum)), "") for arm in shown)) for name in ordered]
    left = [
        *([f"{len(blocks) - _TABLES_MAX} more tables and indexes"] if len(blocks) > _TABLES_MAX else []),
        *([f"{len(arms) - len(shown)} more arms"] if len(arms) > len(shown) else []),
    ]
    note = f"{_TABLES_NOTE} Left out, see --json: {', '.join(left)}." if left else _TABLES_NOTE
    heads = ("table or index", *(material.label_at(arm) for arm in shown))
    return Section(
        _TABLES_HEADING,
        "table-cache",
        (Paragraph(note, QUIET, where=HTML), plain_table(heads, rows)),
        link=_TABLES_HEADING,
        folded=MARKDOWN,
    )


def device(material: Material) -> Section:
    """The device below each arm's data in iostat's columns; empty where none was sampled."""
    found = material.result.iostat[:_ARMS_MAX]
    if not found:
        return Section(_DEVICE_HEADING, "iostat", ())
    # What nobody asked of the device is left out.
    names = [name for name in found[0].columns if any(each.columns.get(name) for each in found)]
    by_arm = {(arm.name, arm.stratum): arm for arm in material.result.arms}
    arms = [by_arm[each.arm, each.stratum] for each in found]
    heads = ("column", *(material.label_at(arm) for arm in arms))
    rows = [(name, *(text.figure(each.columns[name]) for each in found)) for name in names]
    short = [row for row in rows if row[0] in _DEVICE_SHORT]
    return Section(
        _DEVICE_HEADING,
        "iostat",
        (
            plain_table(heads, rows, where=HTML | MARKDOWN),
            plain_table(heads, short, where=TERMINAL),
            Paragraph(_DEVICE_NOTE, QUIET),
        ),
        link=_DEVICE_HEADING,
        folded=MARKDOWN,
    )


def _name(each: TableCache) -> str:
    schema = "" if each.table_schema == "public" else f"{each.table_schema}."
    return text.clean(
        f"{schema}{each.table}" if each.index is None else f"{schema}{each.index} on {each.table}"
    )
