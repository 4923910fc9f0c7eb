"""A plan as `explain --json` prints it: a list of nodes, parents first, each with its own work.

Figures are those that EXPLAIN prints (src/backend/commands/explain.c) unless a comment says otherwise. One
that the plan does not have is null; `0` is a figure that was counted.
"""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen

EXPLAIN_SCHEMA = 1


class PlanWorker(Frozen):
    """What EXPLAIN tells of one parallel worker in a node; its times and rows need VERBOSE."""

    number: int
    # Milliseconds for each loop, as printed.
    loop_ms: float | None = None
    rows: float | None = None
    loops: float | None = None
    sort_method: str | None = None
    sort_kb: int | None = None
    memory_kb: int | None = None
    disk_kb: int | None = None
    batches: int | None = None
    disk: bool | None = None


class PlanNode(Frozen):
    """A node. Block counts include the nodes below, as EXPLAIN prints them; those named `own_` do not."""

    id: int
    parent: int | None
    depth: int
    # "Node Type" of EXPLAIN (FORMAT JSON), and the name that its text gives the node.
    type: str
    name: str
    # "InitPlan 1", "SubPlan 2" or "CTE name" where the node is the top of one.
    subplan: str | None = None
    # A table, or what else is scanned: a function, a CTE, an alias.
    relation: str | None = None
    # "schema" is a method of the library's base class.
    relation_schema: str | None = None
    alias: str | None = None
    index: str | None = None
    join_type: str | None = None
    parallel: bool = False
    disabled: bool = False
    # Milliseconds of the statement's time: of this node alone, and with the nodes below it. Below a Gather
    # the mean of the processes that took part; see plans/own_time.py.
    own_ms: float | None = None
    total_ms: float | None = None
    # Summed over all processes and loops.
    processes_ms: float | None = None
    # How much own_ms can be wrong because EXPLAIN rounds to a microsecond for each loop.
    rounding_ms: float | None = None
    # As printed: for each loop.
    startup_loop_ms: float | None = None
    loop_ms: float | None = None
    cost_startup: float | None = None
    cost_total: float | None = None
    rows_estimated: float | None = None
    # For each loop, as printed.
    rows: float | None = None
    loops: float | None = None
    width: int | None = None
    never_executed: bool = False
    # Removed by filters, join filters and rechecks, for each loop.
    rows_removed: float | None = None
    # Those of rows_removed that an index's recheck removed: its bitmap was lossy, or its operator is.
    rows_rechecked: float | None = None
    heap_fetches: int | None = None
    index_searches: int | None = None
    heap_blocks_exact: int | None = None
    heap_blocks_lossy: int | None = None
    sort_method: str | None = None
    # Of the leader and the workers together.
    sort_kb: int | None = None
    memory_kb: int | None = None
    disk_kb: int | None = None
    batches: int | None = None
    batches_planned: int | None = None
    # Whether a sort, hash or buffer of rows went to temporary files; null where nothing could.
    disk: bool | None = None
    cache_hits: int | None = None
    cache_misses: int | None = None
    cache_evictions: int | None = None
    cache_overflows: int | None = None
    buffers_hit: int | None = None
    buffers_read: int | None = None
    buffers_dirtied: int | None = None
    buffers_written: int | None = None
    local_hit: int | None = None
    local_read: int | None = None
    local_dirtied: int | None = None
    local_written: int | None = None
    temp_read: int | None = None
    temp_written: int | None = None
    own_buffers_hit: int | None = None
    own_buffers_read: int | None = None
    own_temp_read: int | None = None
    own_temp_written: int | None = None
    own_wal_records: int | None = None
    own_io_read_ms: float | None = None
    own_io_write_ms: float | None = None
    io_read_ms: float | None = None
    io_write_ms: float | None = None
    temp_io_read_ms: float | None = None
    temp_io_write_ms: float | None = None
    wal_records: int | None = None
    wal_fpi: int | None = None
    wal_bytes: int | None = None
    workers_planned: int | None = None
    workers_launched: int | None = None
    # How many processes ran the node, on average over the executions of its Gather; 1 outside of one.
    processes: float = 1.0
    subplans_removed: int | None = None
    # Filter, Index Cond, Sort Key and their like; lists are joined by ", ".
    conditions: dict[str, str] = Field(default_factory=dict)
    output: str | None = None
    # Whatever else EXPLAIN printed, as text.
    other: dict[str, str] = Field(default_factory=dict)
    workers: tuple[PlanWorker, ...] = ()


class PlanTrigger(Frozen):
    """A trigger's calls. `ran`: after the plan, or within a node's own time; null: EXPLAIN can't tell."""

    name: str
    constraint: str | None = None
    relation: str | None = None
    ms: float | None = None
    calls: float | None = None
    ran: Literal["after", "within"] | None = None


class PlanBlocks(Frozen):
    """Blocks of planning or of serialization."""

    buffers_hit: int = 0
    buffers_read: int = 0
    buffers_dirtied: int = 0
    buffers_written: int = 0


class PlanFinding(Frozen):
    """Something worth a look in a node: its kind, and a sentence."""

    kind: Literal[
        "misestimate", "spill", "rows-removed", "heap-fetches", "workers", "uneven-workers", "index-searches",
        "lossy", "jit", "unattributed", "loops", "subplan", "offset", "whole-table",
        "trigger",
    ]  # fmt: skip
    node: int | None
    sentence: str


class PlanAdvice(Frozen):
    """What to do about a plan: its kind, the node that calls for it, a sentence, the SQL or the command."""

    kind: Literal["index", "rewrite", "maintenance", "statistics", "setting", "tune", "nothing"]
    node: int | None = None
    sentence: str
    sql: str | None = None


class ExplainedPlan(Frozen):
    """One plan. Times are null where EXPLAIN did not run the statement, or without TIMING."""

    # Its place in what was read, from 1.
    number: int
    format: Literal["json", "text"]
    # From a log: the line's beginning, the statement.
    logged: str | None = None
    statement: str | None = None
    # The statement's SQL, where `statement` is its name in an experiment.
    sql: str | None = None
    executed: bool
    # The oldest and the newest version that print a plan like this one.
    major_min: int | None = None
    major_max: int | None = None
    planning_ms: float | None = None
    # "Execution Time"; in a log the duration that auto_explain gives.
    execution_ms: float | None = None
    # All nodes' own times together.
    nodes_ms: float | None = None
    triggers_ms: float | None = None
    serialization_ms: float | None = None
    # execution_ms without the nodes, the triggers that ran after them, and the serialization.
    unattributed_ms: float | None = None
    rounding_ms: float | None = None
    planning_blocks: PlanBlocks | None = None
    planning_memory_used_kb: int | None = None
    planning_memory_allocated_kb: int | None = None
    serialization_kb: int | None = None
    serialization_format: str | None = None
    query_id: str | None = None
    settings: dict[str, str] = Field(default_factory=dict)
    jit_functions: int | None = None
    jit_ms: float | None = None
    jit_options: tuple[str, ...] = ()
    triggers: tuple[PlanTrigger, ...] = ()
    nodes: tuple[PlanNode, ...]
    findings: tuple[PlanFinding, ...] = ()
    # What to do, the most promising first.
    advice: tuple[PlanAdvice, ...] = ()

    @property
    def cost_total(self) -> float:
        """What the planner says that the whole plan costs; 0 where it was not asked."""
        return (self.nodes[0].cost_total or 0.0) if self.nodes else 0.0

    @property
    def shape(self) -> list[tuple[str, str | None, str | None]]:
        """Its nodes with their indexes and tables: what makes it another plan, whatever it costs."""
        return [(node.type, node.index, node.relation) for node in self.nodes]


class PlanMatch(Frozen):
    """A node of the first plan and its like in the second; null: the other has none."""

    first: int | None
    second: int | None
    changed: bool = False


class PlansBeside(Frozen):
    """What became of the first plan in the second."""

    sentences: tuple[str, ...]
    # What the two versions print differently, where it is seen.
    notes: tuple[str, ...]
    matches: tuple[PlanMatch, ...]


class ExplainResult(Frozen):
    """What `explain --json` prints."""

    schema_: int = Field(default=EXPLAIN_SCHEMA, alias="schema")
    plans: tuple[ExplainedPlan, ...]
    beside: PlansBeside | None = None
