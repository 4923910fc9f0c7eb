"""`-i`: pgbench's four tables, step by step, with pgbench's schema, rows and messages."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg

from pgassay.pgbench.connection import Server, connect, errors_told, execute, server_text
from pgassay.pgbench.messages import PgbenchError, write
from pgassay.pgbench.options import PgbenchOptions
from pgassay.sql_text import qualified

TELLERS = 10
ACCOUNTS = 100_000
# pgbench.c, SCALE_32BIT_THRESHOLD: from this scale on an account's number needs 64 bits.
SCALE_OF_BIGINT = 20_000
FREEZE_VERSION = 140_000
QUIET_INTERVAL_S = 5
TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers")
_DIGITS = len(str(ACCOUNTS)) - 1
_NAMES = {
    "d": "drop tables",
    "t": "create tables",
    "g": "client-side generate",
    "G": "server-side generate",
    "v": "vacuum",
    "p": "primary keys",
    "f": "foreign keys",
}
_KEYS = (("branches", "bid"), ("tellers", "tid"), ("accounts", "aid"))
_FOREIGN_KEYS = (
    ("tellers", "bid", "branches"),
    ("accounts", "bid", "branches"),
    ("history", "bid", "branches"),
    ("history", "tid", "tellers"),
    ("history", "aid", "accounts"),
)


@dataclass(frozen=True)
class Making:
    """What the tables are made with."""

    server: Server
    chosen: PgbenchOptions

    @property
    def scale(self) -> int:
        """-s."""
        return self.chosen.scale or 1

    def execute(self, statement: str) -> None:
        """Runs a statement. Raises PgbenchError with it."""
        execute(self.server.session, statement)


def initialise(chosen: PgbenchOptions) -> None:
    """Runs the steps. Raises PgbenchError."""
    server = connect(chosen, "initialization")
    with errors_told(), server.session:
        making, took = Making(server, chosen), []
        for step in chosen.steps.replace(" ", ""):
            began = time.monotonic()
            _STEPS[step](making)
            took.append((_NAMES[step], time.monotonic() - began))
    whole = sum(seconds for _, seconds in took)
    parts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in took)
    write(f"done in {whole:.2f} s ({parts}).")


def _drop(making: Making) -> None:
    write("dropping old tables...")
    making.execute(f"drop table if exists {', '.join(TABLES)}")


def _create(making: Making) -> None:
    write("creating tables...")
    chosen = making.chosen
    # Written as pgbench writes it, whose statement a failure shows.
    account = "bigint" if making.scale >= SCALE_OF_BIGINT else "   int"
    unlogged = " unlogged" if chosen.is_unlogged and not chosen.partition_method else ""
    filled = f" with (fillfactor={chosen.fillfactor})"
    accounts = f" partition by {chosen.partition_method} (aid)" if chosen.partition_method else filled
    place = ""
    if chosen.tablespace:
        place = f" tablespace {qualified(None, chosen.tablespace)}"
    for name, columns, storage in (
        ("history", f"tid int,bid int,aid {account},delta int,mtime timestamp,filler char(22)", ""),
        ("tellers", "tid int not null,bid int,tbalance int,filler char(84)", filled),
        ("accounts", f"aid {account} not null,bid int,abalance int,filler char(84)", accounts),
        ("branches", "bid int not null,bbalance int,filler char(88)", filled),
    ):
        making.execute(f"create{unlogged} table pgbench_{name}({columns}){storage}{place}")
    if chosen.partition_method:
        _create_partitions(making)


def _create_partitions(making: Making) -> None:
    chosen = making.chosen
    write(f"creating {chosen.partitions} partitions...")
    unlogged = " unlogged" if chosen.is_unlogged else ""
    size = -(-ACCOUNTS * making.scale // chosen.partitions)
    for number in range(1, chosen.partitions + 1):
        if chosen.partition_method == "hash":
            bounds = f"with (modulus {chosen.partitions}, remainder {number - 1})"
        else:
            # Open at both ends, so that any account has its partition.
            least = "minvalue" if number == 1 else (number - 1) * size + 1
            most = "maxvalue" if number == chosen.partitions else number * size + 1
            bounds = f"from ({least}) to ({most})"
        making.execute(
            f"create{unlogged} table pgbench_accounts_{number} partition of pgbench_accounts "
            f"for values {bounds} with (fillfactor={chosen.fillfactor})"
        )


def _generate_here(making: Making) -> None:
    write("generating data (client-side)...")
    scale = making.scale
    making.execute("begin")
    making.execute(f"truncate table {', '.join(TABLES)}")
    # In this order in case there are foreign keys already.
    branches = "".join(f"{number}\t0\t\\N\n" for number in range(1, scale + 1))
    _fill(making, "pgbench_branches", scale, iter([(scale, branches.encode())]))
    _fill(making, "pgbench_tellers", TELLERS * scale, _tellers(scale))
    _fill(making, "pgbench_accounts", ACCOUNTS * scale, accounts(scale))
    making.execute("commit")


def _tellers(scale: int) -> Iterator[tuple[int, bytes]]:
    rows = (f"{number}\t{(number - 1) // TELLERS + 1}\t0\t\\N\n" for number in range(1, TELLERS * scale + 1))
    yield TELLERS * scale, "".join(rows).encode()


def accounts(scale: int) -> Iterator[tuple[int, bytes]]:
    """The rows of pgbench_accounts in COPY's text format, a branch at a time, and how many there are by then.

    Of a branch's rows all but the last differ from another branch's by the digits before the last five.
    """
    first = "".join(f"{number}\t1\t0\t\n" for number in range(1, ACCOUNTS)).encode()
    others = "".join(f"A{number:0{_DIGITS}}\tB\t0\t\n" for number in range(1, ACCOUNTS)).encode()
    for branch in range(1, scale + 1):
        if branch == 1:
            rows = first
        else:
            rows = others.replace(b"A", b"%d" % (branch - 1)).replace(b"B", b"%d" % branch)
        yield branch * ACCOUNTS, rows + b"%d\t%d\t0\t\n" % (branch * ACCOUNTS, branch)


def _fill(making: Making, table: str, total: int, blocks: Iterator[tuple[int, bytes]]) -> None:
    session = making.server.session
    asked = "select relkind from pg_catalog.pg_class where oid = %s::regclass"
    kind = session.execute(asked, [table]).fetchone()
    is_plain = kind is not None and kind[0] in ("r", b"r")
    frozen = " with (freeze on)" if is_plain and making.server.number >= FREEZE_VERSION else ""
    progress = _Progress(table, total, is_quiet=making.chosen.is_quiet)
    try:
        with session.cursor() as cursor, cursor.copy(f"copy {table} from stdin{frozen}".encode()) as copy:
            for done, rows in blocks:
                copy.write(rows)
                progress.tell(done)
    except psycopg.Error as error:
        raise PgbenchError(f"PQendcopy failed: {server_text(error)}") from None
    progress.clear()


class _Progress:
    """Each 100,000 rows, or each five seconds where it is to be quiet; on a terminal one line for all."""

    def __init__(self, table: str, total: int, *, is_quiet: bool) -> None:
        self._table, self._total, self._is_quiet = table, total, is_quiet
        self._began = time.monotonic()
        self._end = "\r" if sys.stderr.isatty() else "\n"
        self._shown = 0
        self._interval = 1

    def tell(self, done: int) -> None:
        """So many rows are written."""
        elapsed_s = time.monotonic() - self._began
        if self._is_quiet:
            is_time = elapsed_s >= self._interval * QUIET_INTERVAL_S
            if done % 100 or not (is_time or done == self._total):
                return
            self._interval = math.ceil(elapsed_s / QUIET_INTERVAL_S)
        elif done % ACCOUNTS:
            return
        left_s = (self._total - done) * elapsed_s / done
        text = (
            f"{done} of {self._total} tuples ({done * 100 // self._total}%) of {self._table} done "
            f"(elapsed {elapsed_s:.2f} s, remaining {left_s:.2f} s)"
        )
        write(text.ljust(self._shown), self._end)
        self._shown = len(text)

    def clear(self) -> None:
        """Leave an empty line on a terminal."""
        if self._shown and self._end == "\r":
            write(" " * self._shown, "\r")


def _generate_there(making: Making) -> None:
    write("generating data (server-side)...")
    scale = making.scale
    making.execute("begin")
    making.execute(f"truncate table {', '.join(TABLES)}")
    making.execute(
        f"insert into pgbench_branches(bid,bbalance) select bid, 0 from generate_series(1, {scale}) as bid"
    )
    making.execute(
        f"insert into pgbench_tellers(tid,bid,tbalance) select tid, (tid - 1) / {TELLERS} + 1, 0 "
        f"from generate_series(1, {TELLERS * scale}) as tid"
    )
    making.execute(
        "insert into pgbench_accounts(aid,bid,abalance,filler) "
        f"select aid, (aid - 1) / {ACCOUNTS} + 1, 0, '' from generate_series(1, {ACCOUNTS * scale}) as aid"
    )
    making.execute("commit")


def _vacuum(making: Making) -> None:
    write("vacuuming...")
    for table in ("branches", "tellers", "accounts", "history"):
        making.execute(f"vacuum analyze pgbench_{table}")


def _add_primary_keys(making: Making) -> None:
    write("creating primary keys...")
    place = ""
    if making.chosen.index_tablespace:
        place = f" using index tablespace {qualified(None, making.chosen.index_tablespace)}"
    for table, column in _KEYS:
        making.execute(f"alter table pgbench_{table} add primary key ({column}){place}")


def _add_foreign_keys(making: Making) -> None:
    write("creating foreign keys...")
    for table, column, other in _FOREIGN_KEYS:
        making.execute(
            f"alter table pgbench_{table} add constraint pgbench_{table}_{column}_fkey "
            f"foreign key ({column}) references pgbench_{other}"
        )


_STEPS: dict[str, Callable[[Making], None]] = {
    "d": _drop,
    "t": _create,
    "g": _generate_here,
    "G": _generate_there,
    "v": _vacuum,
    "p": _add_primary_keys,
    "f": _add_foreign_keys,
}
