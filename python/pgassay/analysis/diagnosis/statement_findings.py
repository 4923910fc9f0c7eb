"""Why a statement takes the time that it takes: its plan, which was not executed, beside what its calls did.

A plan says what is read; pg_stat_statements says how many rows a call returned and how many pages it looked
at. What neither tells is left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgassay.analysis.diagnosis.interval import TableShape
from pgassay.analysis.diagnosis.statement_times import StatementTime
from pgassay.model.plans.explained_plan import ExplainedPlan, PlanNode
from pgassay.model.running_server.statement import StatementFinding
from pgassay.plans import scan_conditions
from pgassay.plans.node_wording import USUAL_SCHEMA, rows_words, statistics_in_sql, table_in_sql
from pgassay.plans.plan_cost import order_wanted, rows_estimated, share_until_limit
from pgassay.sql_text import identifier
from pgassay.words import figure, join, size

# A scan that keeps more of its table than this has use for most of what it reads.
_KEPT_MAX = 0.1
# A table of fewer rows is fully read sooner than by an index, or as soon.
_TABLE_ROWS_MIN = 1000.0
# PostgreSQL makes no index CONCURRENTLY on a partitioned table.
_LOCK = "writes wait until it is made"
_VALUE = re.compile(r"(?<!interval )'[^']*'")
_DIRECTION = re.compile(r"(?: DESC)?(?: NULLS (?:FIRST|LAST))?$")
# Of a scan that is called one of the whole table: a LIMIT ends others before.
_WHOLE_MIN = 0.9
# Of the planner's cost of the statement: what takes less decides nothing.
_COST_SHARE_MIN = 0.3
_SPILL_BYTES_MIN = 1_000_000
_MISESTIMATE_MIN, _MISESTIMATE_ROWS_MIN = 10.0, 1000.0
# One statement for each row of another: so many rows of that, and so short calls.
_ONE_BY_ONE_ROWS_MIN, _ONE_BY_ONE_MS_MAX, _ONE_BY_ONE_TOLERANCE = 5.0, 5.0, 0.25
_ONE_BY_ONE_CALLS_MIN = 100
# Without a plan: so many pages are looked at for each row that is returned.
_PAGES_MIN = 1000.0


@dataclass(frozen=True)
class Known:
    """What the findings of one statement rest on; tables by schema and name, block_bytes the server's."""

    time: StatementTime
    plan: ExplainedPlan | None
    tables: Mapping[tuple[str, str], TableShape]
    others: Sequence[StatementTime]
    settings: Mapping[str, str]
    block_bytes: int

    @property
    def rows(self) -> float | None:
        """The rows of a call."""
        counted = self.time.counted
        return counted.rows / counted.calls if counted is not None else None

    @property
    def pages(self) -> float | None:
        """The pages that a call looks at."""
        counted = self.time.counted
        if counted is None:
            return None
        return (counted.read_bytes + counted.hit_bytes) / self.block_bytes / counted.calls


def shown_table(schema: str, name: str) -> str:
    """A table's name, with its schema where that is not the usual one."""
    return name if schema in ("", USUAL_SCHEMA) else f"{schema}.{name}"


def findings_of_statement(known: Known) -> tuple[StatementFinding, ...]:
    """What is found of a statement, what matters most first."""
    rules = (_whole_tables, _foreign_keys, _misestimate, _spills, _of_plan, _one_by_one, _pages)
    found: dict[str, StatementFinding] = {}
    for rule in rules:
        for each in rule(known):
            # Pages are counted where nothing explains them.
            if each.kind != "pages" or not found:
                found.setdefault(each.sql or each.sentence, each)
    return tuple(found.values())


@dataclass(frozen=True)
class _Whole:
    """A table that a plan reads, or partitions of one: the costliest scan of them, and all of them."""

    plan: ExplainedPlan
    node: PlanNode
    table: TableShape
    scans: tuple[PlanNode, ...]


def _whole_tables(known: Known) -> Iterator[StatementFinding]:
    for whole in _read_whole(known):
        node, table = whole.node, whole.table
        condition = node.conditions.get("Filter", "")
        wanted = order_wanted(whole.plan, node)
        order = wanted[1] if wanted is not None else ()
        keys = scan_conditions.keys_of(condition, node.alias, table.types, order)
        read = _as_read(whole)
        if keys is None:
            yield _of_timestamps(read, node, table) or _of_sides(read, node, table)
            continue
        columns = [scan_conditions.plainly(key) for key in keys.columns]
        shown = ", ".join(map(scan_conditions.without_operator_class, columns))
        usable = _beginning_with(table, *keys.columns)
        if usable and not keys.method:
            yield StatementFinding(
                kind="whole-table",
                sentence=f"{read}, though {usable[0]} begins with {shown}",
            )
            continue
        method = f" USING {keys.method}" if keys.method else ""
        needs = f"{keys.needs}; " if keys.needs else ""
        yield StatementFinding(
            kind="whole-table",
            sentence=f"{read}: no index on {shown}",
            sql=f"{needs}{_create_indexes(table, [', '.join(columns)], method)}",
        )


def _as_read(whole: _Whole) -> str:
    """What is read for how many rows; of partitions the one of most cost, since an execution may skip any."""
    node, table = whole.node, whole.table
    name = shown_table(*(table.partition_of or (table.schema, table.name)))
    rows = rows_words(table.rows)
    part = share_until_limit(whole.plan, node)
    if part < _WHOLE_MIN:
        rows = f"{rows_words(part * table.rows)} of {rows.removesuffix(' rows')}"
        who = f"{name} is" if table.partition_of is None else f"each partition of {name} in question is"
        return f"{who} scanned until the LIMIT has its rows, about {rows}"
    kept = rows_words(max(1.0, round(rows_estimated(whole.plan, node)))).removesuffix(" rows")
    if table.partition_of is not None:
        return f"each partition of {name} in question is read completely, up to {rows} for about {kept}"
    return f"{name} is read completely, {rows} for about {kept}"


def _create_indexes(table: TableShape, each: Sequence[str], method: str = "", note: str = "") -> str:
    """An index for each list of columns; of a partition on the table on top, which knows no CONCURRENTLY."""
    how = "CREATE INDEX" if table.partition_of is not None else "CREATE INDEX CONCURRENTLY"
    place = table_in_sql(*(table.partition_of or (table.schema, table.name)))
    if table.partition_of is not None:
        note = "; ".join(filter(None, (note, _LOCK)))
    made = " ".join(f"{how} ON {place}{method} ({columns});" for columns in each)
    return f"{made} -- {note}" if note else made


def _of_timestamps(read: str, node: PlanNode, table: TableShape) -> StatementFinding | None:
    """Of a part of a timestamp with time zone, that no index can hold: a range of its column."""
    hidden = list(scan_conditions.hidden_timestamps(node.conditions.get("Filter", ""), table.types))
    if not hidden:
        return None
    shown = scan_conditions.plainly(scan_conditions.as_key(hidden[0].expression, node.alias))
    why = f"{read}: no index can hold {shown}, which depends on the setting TimeZone"
    if not hidden[0].as_range:
        zone = "name the zone in it (AT TIME ZONE 'UTC') and index that expression"
        return StatementFinding(kind="whole-table", sentence=f"{why}: {zone}")
    # Values of a call are its user's own.
    name, as_range = hidden[0].name, _VALUE.sub("'…'", hidden[0].as_range)
    usable = _beginning_with(table, name)
    return StatementFinding(
        kind="whole-table",
        sentence=f"{why}: write it as a range, {as_range}"
        + (f", which {usable[0]} serves" if usable else ", with an index on the column"),
        sql="" if usable else _create_indexes(table, [name], note="serves the range only"),
    )


def _beginning_with(table: TableShape, *keys: str) -> list[str]:
    """The indexes that begin with these keys of a condition, in any order."""
    return [index for index, have in table.indexes.items() if _has_first(have, keys)]


def _has_first(have: Sequence[str], keys: Sequence[str]) -> bool:
    # An index is read backwards as well, and the direction of its keys is not known here.
    wanted = [_DIRECTION.sub("", key) for key in keys]
    first = have[: len(wanted)]
    # One for patterns serves what is equal as well.
    plain = [scan_conditions.without_operator_class(each) for each in first]
    return len(first) == len(wanted) and all(
        any(scan_conditions.is_same_key(each, key) for each in (*first, *plain)) for key in wanted
    )


def _of_sides(read: str, node: PlanNode, table: TableShape) -> StatementFinding:
    """Of an OR over several columns: an index for each of its sides."""
    sides = scan_conditions.keys_of_sides(node.conditions.get("Filter", ""), node.alias, table.types)
    missing = [each.columns[0] for each in sides if not _beginning_with(table, each.columns[0])]
    if not missing:
        return StatementFinding(kind="whole-table", sentence=f"{read}: no index serves its condition")
    return StatementFinding(
        kind="whole-table",
        sentence=f"{read}: OR needs an index for each side, and there is none on {' or '.join(missing)}",
        sql=_create_indexes(table, missing),
    )


def _read_whole(known: Known) -> Iterator[_Whole]:
    """Sequential scans that take much of the statement and keep few rows of a table that is not small."""
    plan = known.plan
    if plan is None:
        return
    together: dict[tuple[object, ...], list[tuple[PlanNode, TableShape]]] = {}
    for node in sorted(plan.nodes, key=lambda node: -(node.cost_total or 0.0)):
        table = known.tables.get((node.relation_schema or "", node.relation or ""))
        if node.type == "Seq Scan" and table is not None and "Filter" in node.conditions:
            key = (node.parent, table.partition_of) if table.partition_of is not None else (node.id,)
            together.setdefault(key, []).append((node, table))
    for found in together.values():
        parts = [share_until_limit(plan, node) for node, _ in found]
        rows = sum(part * max(table.rows, 0.0) for part, (_, table) in zip(parts, found, strict=True))
        kept = sum(rows_estimated(plan, node) for node, _ in found)
        cost = sum(part * (node.cost_total or 0.0) for part, (node, _) in zip(parts, found, strict=True))
        share = cost / plan.cost_total if plan.cost_total else 0.0
        of_all = _KEPT_MAX * sum(max(table.rows, 0.0) for _, table in found)
        if rows >= _TABLE_ROWS_MIN and kept <= of_all and share >= _COST_SHARE_MIN:
            yield _Whole(plan, *found[0], tuple(node for node, _ in found))


def _foreign_keys(known: Known) -> Iterator[StatementFinding]:
    """A DELETE that has each table searched which refers to its own, whole where no index serves."""
    top = known.plan.nodes[0] if known.plan is not None and known.plan.nodes else None
    if top is None or top.type != "ModifyTable" or top.name != "Delete":
        return
    table = known.tables.get((top.relation_schema or "", top.relation or ""))
    for each in table.referencing if table is not None else ():
        if not each.is_indexed and each.rows >= _TABLE_ROWS_MIN:
            columns = ", ".join(each.columns)
            keys = ", ".join(map(identifier, each.columns))
            place = table_in_sql(each.schema, each.table)
            yield StatementFinding(
                kind="foreign-key",
                sentence=f"{shown_table(each.schema, each.table)} is searched completely, "
                f"{rows_words(each.rows)}, for references to each deleted row: its foreign key has no "
                f"index on {columns}",
                sql=f"CREATE INDEX ON {place} ({keys}); -- {_LOCK}"
                if each.is_partitioned
                else f"CREATE INDEX CONCURRENTLY ON {place} ({keys});",
            )


def _misestimate(known: Known) -> Iterator[StatementFinding]:
    """More or fewer rows than the planner expects; its estimate for any values is a mean, as theirs is."""
    top = known.plan.nodes[0] if known.plan is not None and known.plan.nodes else None
    never = [table for table in _tables_of(known) if not table.is_analyzed and table.rows != 0]
    if never:
        names = join([shown_table(table.schema, table.name) for table in never])
        has = "have" if len(never) > 1 else "has"
        yield StatementFinding(
            kind="stale-statistics",
            sentence=f"{names} {has} no statistics, so the planner guesses",
            sql=" ".join(f"ANALYZE {table_in_sql(table.schema, table.name)};" for table in never),
        )
        return
    rows = known.rows
    if top is None or rows is None or top.type in ("ModifyTable", "Limit") or top.rows_estimated is None:
        return
    expected, real = max(1.0, top.rows_estimated), max(1.0, rows)
    if max(expected, real) < _MISESTIMATE_ROWS_MIN:
        return
    if max(expected / real, real / expected) < _MISESTIMATE_MIN:
        return
    if any("((" in each.sql for each in _whole_tables(known)):
        return  # nothing is known of an expression's values before there is an index on it
    sentence = f"a call returns {rows_words(round(real))} where the planner expects {rows_words(expected)}"
    stale = [table for table in _tables_of(known) if (table.changed_rows or 0) > 0.2 * max(table.rows, 1.0)]
    if stale:
        name = shown_table(stale[0].schema, stale[0].name)
        changed = rows_words(stale[0].changed_rows)
        yield StatementFinding(
            kind="stale-statistics",
            sentence=f"{sentence}: {changed} of {name} were changed since its last ANALYZE",
            sql=f"ANALYZE {table_in_sql(stale[0].schema, stale[0].name)};",
        )
        return
    yield StatementFinding(
        kind="misestimate",
        sentence=f"{sentence}, so it may choose the wrong plan",
        sql=_statistics_of_several(known.plan),
    )


def _statistics_of_several(plan: ExplainedPlan | None) -> str:
    """Statistics of columns together, where a scan's condition has several; '' else."""
    for node in plan.nodes if plan is not None else ():
        texts = [
            node.conditions[name]
            for name in ("Index Cond", "Recheck Cond", "Filter")
            if name in node.conditions
        ]
        keys = scan_conditions.keys_of(" AND ".join(f"({text})" for text in texts), node.alias)
        columns = [each for each in (keys.columns if keys is not None else ()) if not each.startswith("(")]
        if node.relation is not None and len(columns) > 1:
            place = table_in_sql(node.relation_schema, node.relation)
            return statistics_in_sql(node.relation_schema, node.relation, columns, place)
    return ""


def _tables_of(known: Known) -> list[TableShape]:
    if known.plan is None:
        return []
    names = dict.fromkeys((node.relation_schema or "", node.relation or "") for node in known.plan.nodes)
    return [known.tables[name] for name in names if name in known.tables]


def _spills(known: Known) -> Iterator[StatementFinding]:
    counted = known.time.counted
    if counted is None or counted.temporary_bytes < _SPILL_BYTES_MIN * counted.calls:
        return
    # Each block is written once and read once.
    a_call = counted.temporary_bytes / counted.calls / 2
    work_mem = known.settings.get("work_mem", "")
    what = _what_spills(known.plan)
    yield StatementFinding(
        kind="spill",
        sentence=f"{what} of {size(a_call)} a call goes through temporary files: work_mem is {work_mem}",
    )


def _what_spills(plan: ExplainedPlan | None) -> str:
    """The node whose rows take most room by the estimate, in a word."""
    words = {"Sort": "a sort", "Hash": "a hash", "Aggregate": "a hash of groups", "Materialize": "a result"}
    nodes = [node for node in (plan.nodes if plan is not None else ()) if node.type in words]
    most = max(nodes, key=lambda node: (node.rows_estimated or 0.0) * (node.width or 0), default=None)
    return words[most.type] if most is not None else "data"


def _of_plan(known: Known) -> Iterator[StatementFinding]:
    """What else the plan calls for: an index in the order of a LIMIT, another way to write it."""
    if known.plan is None:
        return
    whole = {node.id for each in _read_whole(known) for node in each.scans}
    for advice in known.plan.advice:
        if advice.kind in ("index", "rewrite") and advice.node not in whole:
            is_sql = advice.kind == "index"
            yield StatementFinding(
                kind="plan",
                sentence=advice.sentence.rstrip("."),
                sql=(advice.sql or "").replace(f" {USUAL_SCHEMA}.", " ") if is_sql else "",
            )


def _one_by_one(known: Known) -> Iterator[StatementFinding]:
    """As many calls of a row each as another statement returned rows: the application asks for each apart."""
    child = known.time.counted
    if child is None or child.calls < _ONE_BY_ONE_CALLS_MIN or child.mean_ms > _ONE_BY_ONE_MS_MAX:
        return
    if child.rows > 2 * child.calls or not child.query.lstrip("( ").upper().startswith("SELECT"):
        return
    for other in known.others:
        parent = other.counted
        if parent is None or parent.query_id == child.query_id or parent.calls * 2 > child.calls:
            continue
        if not parent.query.lstrip("( ").upper().startswith("SELECT"):
            continue
        is_like = abs(child.calls - parent.rows) <= _ONE_BY_ONE_TOLERANCE * parent.rows
        if parent.rows >= _ONE_BY_ONE_ROWS_MIN * parent.calls and is_like:
            yield StatementFinding(
                kind="one-by-one",
                sentence=f"it is called once for each row of another statement, {child.calls:,} times for "
                f"{parent.rows:,} rows of {excerpt(parent.query)}: fetch all of them in one query, with "
                "a join or WHERE … = ANY ($1)",
            )
            return


def excerpt(query: str, characters_max: int = 70) -> str:
    """The beginning of a statement in one line."""
    text = " ".join(query.split())
    return text if len(text) <= characters_max else f"{text[: characters_max - 1].rstrip()}…"


def _pages(known: Known) -> Iterator[StatementFinding]:
    """So many pages for so few rows, where no plan says why."""
    pages, rows = known.pages, known.rows
    if known.plan is None and pages is not None and pages >= _PAGES_MIN * max(rows or 0.0, 1.0):
        yield StatementFinding(
            kind="pages",
            sentence=f"a call reads {pages:,.0f} pages ({size(pages * known.block_bytes)}) and returns "
            f"{figure(rows or 0.0)} row{'' if rows == 1 else 's'}",
        )
