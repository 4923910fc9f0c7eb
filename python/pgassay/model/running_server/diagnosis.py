"""What `pgassay diagnose` says of a server that runs already."""

from pydantic import Field

from pgassay.model.account import Account
from pgassay.model.base import Frozen
from pgassay.model.cause import Cause
from pgassay.model.running_server.statement import DiagnosedStatement
from pgassay.model.vacuum_state import Holder

DIAGNOSIS_SCHEMA = 1
# Longer texts of statements are cut: enough to know one by, and little to read.
QUERY_CHARACTERS_MAX = 300


class DiagnosedServer(Frozen):
    """The server: `name` is HOST:PORT/DATABASE, `is_local` whether its processes are on this machine.

    `vcpus`: the number of its processors as the user gave it, None where it was not given. `connection`: the
    connection string as it was typed, without its secrets.
    """

    name: str
    version: str
    role: str
    is_local: bool
    is_standby: bool
    postmaster_pid: int | None
    data_directory: str | None
    device: str | None
    vcpus: float | None = None
    connection: str = ""


class Activity(Frozen):
    """What went on, on average over the interval; None where it was not seen.

    `connections_busy`: client connections within a statement or a transaction, `connections_idle` those
    without work, whose time counts nowhere; `parallel_workers`: processes that helped them. Rates are
    those of the whole server, all databases.
    `server_read_mb_s`: what the device delivered to the server's processes (to anybody where these are
    hidden); `device_read_mb_s`: to anybody; `device_write_mb_s`: what anybody wrote to it. `server_cpus`,
    `clients_cpus`, `others_cpus`: processors that the server, its clients on this machine and all other
    processes used; `others`: the greatest of the last by name.
    """

    connections_busy: float | None
    connections_idle: float | None
    transactions_s: float
    rollbacks_s: float
    postgres_read_mb_s: float
    postgres_hit_mb_s: float
    temporary_mb_s: float
    wal_mb_s: float
    server_read_mb_s: float | None
    device_read_mb_s: float | None
    server_cpus: float | None
    clients_cpus: float | None
    others_cpus: float | None
    others: dict[str, float]
    parallel_workers: float | None = None
    device_write_mb_s: float | None = Field(default=None, exclude_if=lambda rate: rate is None)


class SampledStatement(Frozen):
    """A statement among the samples of pg_stat_activity, without its constants where they could be told.

    `seconds`: of connections that worked on it, about; `share`: of all busy ones; `waits`: the same by wait
    event ('' for none), a fraction of `seconds` each, the longest first.
    """

    query_id: str | None
    query: str
    seconds: float
    share: float
    waits: dict[str, float]


class CalledStatement(Frozen):
    """A statement by the difference of pg_stat_statements over the interval, its times summed over the calls.

    A call that was still running at the end is not in it. `hit_bytes`: found in shared buffers.
    """

    query_id: str
    query: str
    calls: int
    total_s: float
    mean_ms: float
    rows: int
    read_bytes: int
    temporary_bytes: int
    hit_bytes: int = 0


class Blocker(Frozen):
    """A session that others waited for and that waited for nobody: the head of a chain of locks.

    `state` and `query` as last seen; `waiting_max`: sessions behind it at once, in the whole chain;
    `waiting_s`: their time together, about; `chain`: one path to it by process ids, the longest seen.
    """

    pid: int
    user: str
    application: str
    state: str
    query: str
    transaction_s: float | None
    waiting_max: int
    waiting_s: float
    chain: tuple[int, ...]


class Change(Frozen):
    """A figure whose mean changed within the interval, `at_s` seconds after its beginning."""

    what: str
    unit: str
    at_s: float
    before: float
    after: float


class Sampling(Frozen):
    """What looking took, in seconds of CPU over the interval, and as a share of one core.

    `tool_cpu_s`: pgassay's own process, `observer_cpu_s` its native sampler, `sessions_cpu_s` what the server
    spent on answering both (None where its processes are not seen). `rate_hz`: looks per second at threads
    and waits; `samples`: how many there were, `missed`: how many came too late.
    """

    rate_hz: float
    samples: int
    missed: int
    tool_cpu_s: float
    observer_cpu_s: float
    sessions_cpu_s: float | None
    share_of_core: float


class Headline(Frozen):
    """What matters most, in a sentence, with the SQL that mends it and the next command ('' for none).

    `cause`: the name of the cause that it tells, or 'statement'; `query_id`: of the statement, if any.
    """

    cause: str
    sentence: str
    remedy: str
    sql: str = ""
    command: str = ""
    query_id: str | None = None


class Diagnosis(Frozen):
    """The JSON document of `pgassay diagnose`.

    `headline`: what matters most. `by_statement`: the statements that took most of the time, with their
    plans; `passed_over`: a sentence for each kind of statement that is in none of the lists. `causes`: the
    limit first, then the faults. `next`: what to look at, one sentence each, in the causes' order. `holders`:
    who keeps row versions of the past from being removed, the oldest first. `missing`: evidence that could
    not be had, with what mends it. `accounts`: by kind of thread, over the interval; idle connections are not
    in them.
    """

    schema_: int = Field(default=DIAGNOSIS_SCHEMA, alias="schema")
    pgassay_version: str
    started_at: str
    seconds_asked: float
    seconds: float
    interrupted: bool
    server: DiagnosedServer
    activity: Activity
    headline: Headline | None = None
    by_statement: tuple[DiagnosedStatement, ...] = ()
    passed_over: tuple[str, ...] = ()
    causes: tuple[Cause, ...]
    next: tuple[str, ...]
    accounts: tuple[Account, ...]
    sampled: tuple[SampledStatement, ...]
    statements: tuple[CalledStatement, ...] | None
    blockers: tuple[Blocker, ...]
    holders: tuple[Holder, ...]
    changes: tuple[Change, ...]
    missing: tuple[str, ...]
    warnings: tuple[str, ...]
    sampling: Sampling
