"""Tables, columns, indexes and constraints as the catalogs have them, as frozen data."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.sql_text import identifier


class ColumnFacts(Frozen):
    """A column, and what pg_stats says of it.

    `type` is format_type's ("numeric(10,2)"), `domain_over` the type that a domain is of, `collation` its
    name ("default" for the database's; '' where the type has none), `deterministic` that collation's.
    `distinct` is n_distinct as pg_stats has it: negative for a share of the rows. `common` holds
    most_common_vals as text, with `common_share` beside it.
    """

    name: str
    type: str
    not_null: bool
    domain_over: str = ""
    collation: str = ""
    deterministic: bool = True
    generated: bool = False
    # Generated when it is read and not when it is written (18 and newer), so that reading it may fail.
    computed: bool = False
    identity: bool = False
    null_share: float | None = None
    distinct: float | None = None
    correlation: float | None = None
    width: int | None = None
    common: tuple[str, ...] = ()
    common_share: tuple[float, ...] = ()
    histogram: tuple[str, ...] = ()
    statistics_target: int | None = None

    @property
    def own_type(self) -> str:
        """The type that its operators are of: of a domain the one that it is of."""
        return self.domain_over or self.type


class IndexKey(Frozen):
    """One key of an index: a column, or an expression as pg_get_indexdef prints it."""

    column: str | None
    expression: str | None = None
    opclass: str = ""
    default_opclass: bool = True
    collation: str = ""
    descending: bool = False
    nulls_first: bool = False

    @property
    def sql(self) -> str:
        """The column or the expression as CREATE INDEX has it."""
        return f"({self.expression})" if self.column is None else identifier(self.column)


class IndexFacts(Frozen):
    """An index. `constraint`: the name of the constraint that owns it; `scans`: pg_stat_user_indexes.

    `last_scan_days`: how many days ago it was scanned last (16 and newer); None where it never was.
    """

    schema_: str
    name: str
    table: str
    method: str
    keys: tuple[IndexKey, ...]
    included: tuple[str, ...] = ()
    unique: bool = False
    primary: bool = False
    nulls_not_distinct: bool = False
    # Checked at once, and not at the end of the transaction (pg_index.indimmediate).
    immediate: bool = True
    valid: bool = True
    predicate: str | None = None
    constraint: str | None = None
    replica_identity: bool = False
    # The index that CLUSTER without a name goes by.
    clustered: bool = False
    bytes: int = 0
    pages: int = 0
    scans: int | None = None
    last_scan_days: float | None = None
    definition: str = ""


class ConstraintFacts(Frozen):
    """A constraint; `enforced` is false for NOT ENFORCED (18 and newer).

    `of_partition`: no constraint by itself, but what another foreign key of the table has for one partition
    of the table that it refers to: rows that refer to other partitions are allowed.
    """

    name: str
    kind: Literal["primary", "unique", "foreign", "check", "not null", "exclusion"]
    columns: tuple[str, ...]
    referenced_schema: str | None = None
    referenced_table: str | None = None
    referenced_columns: tuple[str, ...] = ()
    valid: bool = True
    enforced: bool = True
    deferrable: bool = False
    of_partition: bool = False
    definition: str = ""


class TableFacts(Frozen):
    """A table, partitioned table or materialised view, with pg_class's and pg_stat_user_tables's figures.

    `rows` is reltuples (-1 before the first ANALYZE). `partition_key` is pg_get_partkeydef's. `parent` is the
    partitioned table of a partition. `views` are those that read it, materialised ones included; `used_by`
    the functions, columns and types that rest on it or on the type of its rows.
    """

    schema_: str
    name: str
    kind: Literal["table", "partitioned", "materialized view", "view", "foreign"]
    columns: tuple[ColumnFacts, ...]
    indexes: tuple[IndexFacts, ...] = ()
    constraints: tuple[ConstraintFacts, ...] = ()
    rows: float = -1
    pages: int = 0
    all_visible_pages: int = 0
    bytes: int = 0
    options: dict[str, str] = Field(default_factory=dict)
    parent: str | None = None
    parent_schema: str | None = None
    partition_key: str | None = None
    partition_bound: str | None = None
    row_security: bool = False
    # Tables that inherit from it and are no partitions: its keys and some of its constraints are not theirs.
    inherited: bool = False
    has_rules: bool = False
    triggers: tuple[str, ...] = ()
    views: tuple[str, ...] = ()
    used_by: tuple[str, ...] = ()
    unlogged: bool = False
    # Updates whose new row version went to another page (16 and newer).
    updated_elsewhere: int | None = None
    live_rows: int | None = None
    dead_rows: int | None = None
    changed_since_analyze: int | None = None
    inserted: int | None = None
    updated: int | None = None
    hot_updated: int | None = None
    deleted: int | None = None
    sequential_scans: int | None = None
    last_vacuum: str | None = None
    last_analyze: str | None = None
    transactions_age: int | None = None
    multixacts_age: int | None = None

    def is_partition_of(self, table: "TableFacts") -> bool:
        """Whether it is a partition of that table, of which another schema may have one of the same name."""
        return self.parent == table.name and self.parent_schema in (None, table.schema_)

    def column(self, name: str) -> ColumnFacts | None:
        """The column of that name, if there is one."""
        return next((column for column in self.columns if column.name == name), None)


class FunctionFacts(Frozen):
    """A function, one for each signature; `volatility`: i, s or v as pg_proc.provolatile.

    `kind`: a function, an aggregate, a window function or a procedure, as pg_proc.prokind.
    """

    schema_: str
    name: str
    arguments: str
    volatility: Literal["i", "s", "v"]
    strict: bool = False
    kind: Literal["f", "a", "w", "p"] = "f"
    returns_set: bool = False


class ExtendedStatisticsFacts(Frozen):
    """CREATE STATISTICS: on which columns of which table, and which kinds (ndistinct, dependencies, mcv)."""

    name: str
    table: str
    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    table_schema: str = "public"


class SchemaFacts(Frozen):
    """What one database says of itself. Tables of the system's own schemas are left out.

    `functions` are those that users made; of the system's own, and of operators, ask the server. `settings`
    are pg_settings in their base unit, as text. `search_path` is resolved: schemas in order.
    """

    version: int
    database: str
    encoding: str
    collation: str
    deterministic: bool = True
    time_zone: str = "UTC"
    search_path: tuple[str, ...] = ("public",)
    tables: tuple[TableFacts, ...] = ()
    functions: tuple[FunctionFacts, ...] = ()
    statistics: tuple[ExtendedStatisticsFacts, ...] = ()
    settings: dict[str, str] = Field(default_factory=dict)
    extensions: tuple[str, ...] = ()
    extensions_available: tuple[str, ...] = ()
    # Of those that are installed.
    extension_schemas: dict[str, str] = Field(default_factory=dict)
    # Since the server's statistics were reset: by time, and because max_wal_size was reached or somebody
    # asked.
    checkpoints_timed: int | None = None
    checkpoints_requested: int | None = None
    # For how many days at least the server has counted; None where it is not known.
    counted_days: float | None = None
    # Those that are connected, or have a physical slot; () also where it is a copy, which has none.
    standbys: tuple[str, ...] = ()
    block_bytes: int = 8192

    def table(self, name: str, schema: str | None = None) -> TableFacts | None:
        """The table that a name without (or with) a schema means by the search path."""
        for place in (schema,) if schema else self.search_path:
            for table in self.tables:
                if table.name == name and table.schema_ == place:
                    return table
        return None

    def counted_by(self, source: "SchemaFacts") -> "SchemaFacts":
        """The same facts with what their source has counted since its statistics were reset.

        A copy starts counting anew, and so knows of no use: scans, rows written, dead rows, checkpoints, and
        the settings that these follow from.
        """
        theirs = {(table.schema_, table.name): table for table in source.tables}
        return self.model_copy(
            update={
                "tables": tuple(
                    _counted(table, theirs.get((table.schema_, table.name))) for table in self.tables
                ),
                "settings": self.settings | _named(source.settings, _OF_CHECKPOINTS),
                "checkpoints_timed": source.checkpoints_timed,
                "checkpoints_requested": source.checkpoints_requested,
                "counted_days": source.counted_days,
                "standbys": source.standbys,
            }
        )


_OF_CHECKPOINTS = ("max_wal_size", "min_wal_size", "checkpoint_timeout")
_COUNTS = (
    *("dead_rows", "inserted", "updated", "hot_updated", "updated_elsewhere", "deleted"),
    "sequential_scans",
)


def _named(settings: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: settings[name] for name in names if name in settings}


def _counted(table: TableFacts, source: TableFacts | None) -> TableFacts:
    if source is None:
        return table
    theirs = {index.name: index for index in source.indexes}
    counts = ("scans", "last_scan_days")
    indexes = tuple(
        index.model_copy(update={name: getattr(theirs.get(index.name, index), name) for name in counts})
        for index in table.indexes
    )
    return table.model_copy(update={"indexes": indexes, **{name: getattr(source, name) for name in _COUNTS}})
