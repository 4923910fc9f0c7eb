"""What is run, and what is measured from it."""

from typing import ClassVar, Literal

from pydantic import Field

from pgassay.model.base import Extended, Frozen

QueryProtocol = Literal["prepared", "extended", "simple"]
Distribution = Literal["uniform", "special", "gaussian", "pareto", "zipfian"]
Arrivals = Literal["poisson", "constant"]
# What stands before the host of a client on another one.
BY_SSH = "ssh:"
# A thread that has work for so much of the time has nothing left to give.
POOLER_BUSY_MIN = 0.9


class Metric(Extended):
    """The primary metric of a workload: its name, unit, and which direction is better.

    `latency`: which figure of a load's latencies it is, as "p99" or "mean"; '' for every other metric.
    `bound_ms`: the highest rate is wanted at which that figure stays below it; 0 where no rate is looked for.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("latency", "bound_ms")

    name: str
    unit: str
    better: Literal["lower", "higher"]
    latency: str = ""
    bound_ms: float = 0.0


class TransactionPart(Extended):
    """A statement of a transaction: its BEGIN, what it does, its COMMIT; `name` is unique within it.

    `gset`: the prefix of the variables that keep the columns of its one row, '' for none; None where nothing
    is kept.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("gset",)

    name: str
    sql: str
    gset: str | None = None


class Statement(Extended):
    """One timed SQL statement, or a whole transaction; `name` is unique within its workload.

    `before` is SQL that is run just before it and not timed (of maintenance files alone). `parts`: the
    statements of a transaction, which are sent one by one; `sql` is then all of their text.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("parts",)

    name: str
    sql: str
    before: tuple[str, ...] = ()
    parts: tuple[TransactionPart, ...] = ()


class ReadOnlyOptions(Frozen):
    """Options of sysbench's oltp_read_only, with its names and defaults.

    `tables` of `table_size` rows each; `range_size` rows a range; how many statements of each kind a
    transaction has; without BEGIN and COMMIT when `skip_trx`; how keys are drawn.
    """

    tables: int = 1
    table_size: int = 10_000
    range_size: int = 100
    point_selects: int = 10
    simple_ranges: int = 1
    sum_ranges: int = 1
    order_ranges: int = 1
    distinct_ranges: int = 1
    skip_trx: bool = False
    distribution: Distribution = "uniform"


class SysbenchOptions(Extended):
    """Options of any of sysbench's scripts, with its names and defaults; those it has no use for are ignored.

    `script`: as sysbench calls it. `distribution`: of ids, with sysbench's own parameters; `range_selects`:
    whether there are ranges at all; `random_points`, `number_of_ranges` of select_random_points and _ranges,
    each range `delta` long. `series`: of `micro`, the micro-benchmarks that share the duration.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("series",)

    script: str
    tables: int = 1
    table_size: int = 10_000
    range_size: int = 100
    point_selects: int = 10
    simple_ranges: int = 1
    sum_ranges: int = 1
    order_ranges: int = 1
    distinct_ranges: int = 1
    range_selects: bool = True
    index_updates: int = 1
    non_index_updates: int = 1
    delete_inserts: int = 1
    skip_trx: bool = False
    random_points: int = 10
    number_of_ranges: int = 10
    delta: int = 5
    distribution: Distribution = "uniform"
    series: tuple[str, ...] = ()


class LoadScript(Frozen):
    """A script in pgbench's language; `name` is its file, `weight` how often it is run beside the others."""

    name: str
    text: str
    weight: int = 1


class Pace(Frozen):
    """An open loop: when transactions are due.

    `text`: the rate or the curve as typed. `rates`: points of seconds of the measured interval and the rate a
    second that is due then, with straight lines between them; two points of one time are a step.
    """

    text: str
    arrivals: Arrivals = "poisson"
    rates: tuple[tuple[float, float], ...]


class PartOfCapture(Extended):
    """Which sessions of a capture are played, and how long.

    `folder`: the capture's, absolute. `database`: the capture's whose sessions they are; `users`: these
    alone, all of them with (). `from_s`, `until_s`: nothing that was sent earlier or later. `sample`: so
    large a share of them.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("from_s",)

    folder: str
    database: str
    users: tuple[str, ...] = ()
    until_s: float | None = None
    sample: float | None = None
    from_s: float | None = None


class ReplayOptions(PartOfCapture):
    """A capture that is played in each trial: `trial/measure/replayed_load.py`.

    `identity`: what its files were when the experiment was planned. `speed`: by which times between
    statements are divided, None for as fast as their order allows. `bound`: the share of the captured time
    that may come out otherwise. `statements`, `seconds_captured`: of what is played.
    """

    identity: str
    speed: float | None = 1.0
    bound: float = 0.01
    statements: int
    seconds_captured: float


class LoadSpec(Extended):
    """Transactions over `clients` connections on `threads` threads: a closed loop, with a `pace` an open one.

    `script`: the name of a transaction of pgassay's own. `scripts`: a user's, which replace it, with the
    texts of `variables` that they are given. `sysbench`: options of the script of that name, any of
    sysbench's; `oltp_read_only`: of the one that has a name of its own. `latency_limit_ms`: longer
    transactions are counted; those of an open loop that are later than that already are skipped.
    `replay`: a capture that is played instead; each of its statements counts as a transaction, `clients` is
    how many sessions were open at once, and `duration_s` what it takes at its speed, or took. `think_s`: the
    mean of the pauses that a client of a closed loop makes before its transactions; `idle_in_transaction_s`:
    within each, before its end. `pool`: so many connections are shared by the clients, each for a
    transaction; None: each client has its own. `lifetime_s`: when one is closed and opened again, 0 after
    each transaction; None: never. `reconnects`: whether one that the server ended is opened again. `host`:
    where the load generator runs, as ssh knows it; '' for here.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = (
        *("scripts", "variables", "pace", "latency_limit_ms", "sysbench", "replay", "think_s"),
        *("idle_in_transaction_s", "pool", "lifetime_s", "reconnects", "host"),
    )

    script: str
    clients: int = 1
    threads: int = 1
    protocol: QueryProtocol = "prepared"
    duration_s: float = 10.0
    warmup_s: float = 2.0
    oltp_read_only: ReadOnlyOptions | None = None
    scripts: tuple[LoadScript, ...] = ()
    variables: dict[str, str] = Field(default_factory=dict)
    pace: Pace | None = None
    latency_limit_ms: float | None = None
    sysbench: SysbenchOptions | None = None
    replay: ReplayOptions | None = None
    think_s: float = 0.0
    idle_in_transaction_s: float = 0.0
    pool: int | None = None
    lifetime_s: float | None = None
    reconnects: bool = False
    host: str = ""

    @property
    def connections(self) -> int:
        """How many connections it has open."""
        return self.clients if self.pool is None else self.pool

    @property
    def has_pauses(self) -> bool:
        """Whether clients wait of their own accord."""
        return self.think_s > 0 or self.idle_in_transaction_s > 0

    @property
    def of_sysbench(self) -> SysbenchOptions | None:
        """What sysbench's script is run with; None of a load that is none of sysbench's."""
        if self.oltp_read_only is None:
            return self.sysbench
        return SysbenchOptions(script="oltp_read_only", **self.oltp_read_only.model_dump())


def typed_script(workload: "WorkloadSpec") -> str:
    """What stands before the options of a script of sysbench's, as typed after --workload."""
    own = workload.load.sysbench if workload.load else None
    return f"{workload.family}:" if own is None else f"{workload.family}:{own.script},"


class ClientCeiling(Frozen):
    """What the load generator can do at most, against a server that answers at once.

    Times of the client are per transaction in microseconds, latencies in milliseconds.
    `busy`: the share of its threads' time in which they had something to do. `memory_bytes`: the most that
    the process held, None where the system does not tell.
    """

    clients: int
    threads: int
    transactions_per_s: float
    cpu_us: float
    busy: float
    latency_p50_ms: float
    latency_p99_ms: float
    own_delay_p99_ms: float
    memory_bytes: int | None = None


class LoadStatement(Frozen):
    """The latencies of one statement of a load's transactions, from its send to its answer.

    `name`: its place in a script, as "my.sql:3"; '' of a transaction of pgassay's own. `text`: its first
    line.
    """

    name: str = ""
    text: str
    executions: int
    latency_ms: dict[str, float] = Field(default_factory=dict)


class Outage(Frozen):
    """A stretch in which no transaction ended and connections were lost.

    `from_s`: when the last one before it had ended, from the beginning of the measured interval. `is_over`:
    whether transactions ended again before the load did.
    """

    from_s: float
    length_s: float
    is_over: bool


class ConnectionUse(Frozen):
    """What became of the connections of a load that shares, closes or reopens them.

    `opened`: in the measured interval, `opening_ms`: how long it took. `wait_ms`: how long transactions
    waited for a connection, a part of their latency. `lost`: ended by the server; `refused`: attempts that
    failed, by SQLSTATE, with the first message of each. `abandoned`: transactions that got none until the
    load ended.
    """

    opened: int
    opening_ms: dict[str, float] = Field(default_factory=dict)
    wait_ms: dict[str, float] = Field(default_factory=dict)
    lost: int = 0
    refused: dict[str, int] = Field(default_factory=dict)
    refused_examples: dict[str, str] = Field(default_factory=dict)
    abandoned: int = 0
    outages: tuple[Outage, ...] = ()


class PoolerUse(Frozen):
    """What the pooler in front of the server did in a load's measured interval.

    `version`: PgBouncer's. `size`: the most server connections that it may open. `cpu_s`: of its one thread;
    `waited_s`: for how long that was ready and had no processor. `client_wait_s`: for how long transactions
    waited for a server connection, summed. `server_connections_max`, `waiting_clients_max`: the most at a
    time.
    """

    version: str
    size: int
    elapsed_s: float
    cpu_s: float
    waited_s: float
    transactions: int
    client_wait_s: float
    server_connections_max: int
    waiting_clients_max: int

    @property
    def busy(self) -> float:
        """The share of the time in which its thread had work, on a processor or waiting for one."""
        return (self.cpu_s + self.waited_s) / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def is_full(self) -> bool:
        """Whether it could do no more: all of PgBouncer's work is one thread's."""
        return self.busy >= POOLER_BUSY_MIN


class WorkloadSpec(Extended):
    """Either a list of statements, timed one by one, or a load.

    `text` is the workload as the user typed it. `writes` says whether it changes data: a
    read-only workload that dirties blocks or writes WAL makes its trial invalid. `weights`: how often each
    statement of a list counts in their total time, by its name; one that is not named counts once. `clients`:
    by how many sessions at once the statements of a list are executed, each several times; 0: one after the
    other by one session, each once. `executions`: how often each then; 0: as `trial/measure/mix.py` has it.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("weights", "clients", "executions")

    text: str
    family: str
    kind: Literal["statements", "load"]
    metric: Metric
    writes: bool
    statements: tuple[Statement, ...] = ()
    load: LoadSpec | None = None
    weights: dict[str, float] = Field(default_factory=dict)
    clients: int = 0
    executions: int = 0

    @property
    def connections(self) -> int:
        """How many sessions run it at once."""
        return max(1, self.clients) if self.load is None else self.load.connections

    @property
    def is_mix(self) -> bool:
        """Whether sessions execute its statements at once, whoever is free the next one."""
        return self.kind == "statements" and self.clients > 0

    @property
    def has_transactions(self) -> bool:
        """Whether its list of statements has a transaction, which is timed as a whole."""
        return any(statement.parts for statement in self.statements)

    @property
    def is_series(self) -> bool:
        """Whether it is a series of loads, each of which is timed like a statement."""
        return self.load is not None and self.load.sysbench is not None and bool(self.load.sysbench.series)

    @property
    def is_replay(self) -> bool:
        """Whether it plays a capture."""
        return self.load is not None and self.load.replay is not None

    @property
    def replay(self) -> ReplayOptions:
        """How it plays a capture; only for one that does (`is_replay`)."""
        if self.load is None or self.load.replay is None:
            raise AssertionError(f"{self.text} plays no capture")
        return self.load.replay

    @property
    def times_statements(self) -> bool:
        """Whether it is a load that times statements, or benchmarks, of its own each for itself."""
        return self.is_series or self.is_replay

    @property
    def is_maintenance(self) -> bool:
        """Whether its statements are maintenance commands, of which is kept what they did."""
        return self.family == "maintenance"

    @property
    def wants_autovacuum(self) -> bool:
        """Whether autovacuum runs as in production; it would do a maintenance command's work before it."""
        return self.writes and not self.is_maintenance
