"""PgBouncer in front of a private server while a trial is measured: one process, one socket, one folder.

The folder is 0700 and nothing listens on a network. Clients come with a password that is made for this start,
stands in the folder's list of users (0600) alone, and travels to the load generator over its standard input.
To the server PgBouncer connects as the servers' account, by peer, as every session of pgassay's does.
"""

import re
import secrets
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self, SupportsFloat

import psycopg

from pgassay.environment.cleanup import registry
from pgassay.environment.cleanup.removal import end_pooler
from pgassay.environment.debian.toolbox import tool
from pgassay.environment.linux.processes import PROC, process_stat
from pgassay.environment.server import server_folder
from pgassay.environment.server.programs import (
    file_limit_raised,
    identity,
    make_private_folder,
    run_program,
    write_private_file,
)
from pgassay.environment.server.sessions import ConnectionParameters, ControlSession, connect
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import ArmSpec, PoolerSpec

PROGRAM = "pgbouncer"
PORT = 6432
# Its own default.
SIZE_DEFAULT = 20
# From then on it keeps prepared statements for whoever uses a server connection next.
PREPARED_SINCE = (1, 21)
_PREPARED_MAX = 200
# Its console has connections of its own, and so has whoever looks whether it is ready.
_CLIENTS_BESIDE = 10
_READY_TIMEOUT_S, _POLL_S = 10.0, 0.02
_CONSOLE = "pgbouncer"
# Server connections by their state (SHOW POOLS).
_OPEN = ("sv_active", "sv_idle", "sv_used", "sv_tested", "sv_login")
_VERSION = re.compile(r"PgBouncer (\d+(?:\.\d+)*)", re.IGNORECASE)


@cache
def version() -> str:
    """The version of this machine's PgBouncer, "1.18.0"; raises UsageError where there is none to be had."""
    found = _VERSION.search(run_program([tool(PROGRAM), "--version"], "telling its version"))
    if found is None:
        raise UsageError(
            f"{tool(PROGRAM)} does not say which version of PgBouncer it is: install another one"
        )
    return found[1]


def check_pooler(spec: ArmSpec) -> None:
    """Raise UsageError for an arm whose transactions PgBouncer would break, or let wait for ever."""
    load, pooler = spec.workload.load, spec.pooler
    if pooler is None or load is None:
        return
    if pooler.mode == "session":
        # Whoever has none keeps waiting for it, and is sent away after two minutes (query_wait_timeout).
        if pooler.size is not None and pooler.size < load.connections and load.lifetime_s is None:
            raise UsageError(
                f"pooler={pooler.text}: with mode=session a client keeps its server connection, so "
                f"{load.connections - pooler.size} of {load.connections} would never get one: write "
                f"mode=transaction, a size of {load.connections}, or lifetime=1s, after which clients "
                "connect again"
            )
        return
    if load.protocol == "prepared" and not keeps_prepared(version()):
        raise UsageError(
            f"pooler={pooler.text}: with protocol=prepared a client's statements are prepared once in its "
            f"session, and PgBouncer {version()} gives each transaction another one "
            "(it keeps them from 1.21 on): add protocol=extended or protocol=simple to the workload, write "
            "mode=session, or put a newer pgbouncer into PATH"
        )


def keeps_prepared(told: str) -> bool:
    """Whether this version hands prepared statements from one server connection to another."""
    return tuple(int(part) for part in told.split(".")[:2]) >= PREPARED_SINCE


@dataclass(frozen=True)
class PoolerCounts:
    """What PgBouncer has counted since it started, and what the kernel has of its one thread.

    `waited_s`: it was ready and had no processor. `client_wait_s`: clients waited for a server connection,
    summed.
    """

    cpu_s: float
    waited_s: float
    transactions: float
    client_wait_s: float
    server_connections: float
    waiting_clients: float


_Row = Mapping[str, SupportsFloat | str]


def _total(rows: Sequence[_Row], *names: str) -> float:
    return sum(float(row[name]) for row in rows for name in names)


class Pooler:
    """PgBouncer for so many clients of a server, inside `with`."""

    def __init__(self, spec: PoolerSpec, clients: int, server: ConnectionParameters) -> None:
        if server["options"]:
            raise AssertionError("PgBouncer passes no session settings on: they belong to the server")
        self.spec = spec
        self.size = spec.size or (clients if spec.mode == "session" else SIZE_DEFAULT)
        self.folder = server_folder.PARENT / f"pgassay-{secrets.token_hex(6)}"
        self._clients = clients
        self._server = server
        self._password = secrets.token_hex(24)
        self._tokens: list[registry.CleanupToken] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._console: ControlSession | None = None

    def __enter__(self) -> Self:
        """Start it and wait until it answers; raises MeasurementError with what it says otherwise."""
        try:
            self._tokens.append(registry.register("folder", path=str(self.folder)))
            make_private_folder(self.folder)
            self._write_files()
            self._tokens.append(registry.register("pooler", folder=str(self.folder)))
            self._launch()
            self._console = self._ready_console()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *details: object) -> None:
        self._end()

    def parameters(self) -> ConnectionParameters:
        """How its clients connect."""
        return {**self._server, "host": str(self.folder), "port": PORT, "password": self._password}

    def counts(self) -> PoolerCounts:
        """What it did so far; raises OSError when it has gone."""
        cpu_s, waited_s = self._times()
        stats, pools = self._shown("SHOW STATS"), self._shown("SHOW POOLS")
        return PoolerCounts(
            cpu_s=cpu_s,
            waited_s=waited_s,
            transactions=_total(stats, "total_xact_count"),
            client_wait_s=_total(stats, "total_wait_time") / 1e6,
            server_connections=_total(pools, *_OPEN),
            waiting_clients=_total(pools, "cl_waiting"),
        )

    def _times(self) -> tuple[float, float]:
        """On a processor, and ready without one, by the scheduler's counts where it keeps them."""
        if self._process is None:
            raise OSError("PgBouncer is not running")
        try:
            run_ns, waited_ns = (PROC / str(self._process.pid) / "schedstat").read_text("ascii").split()[:2]
            return int(run_ns) / 1e9, int(waited_ns) / 1e9
        except FileNotFoundError:
            stat = process_stat(self._process.pid)
            if stat is None:
                raise
            return stat.cpu_s, 0.0

    def _shown(self, command: str) -> list[_Row]:
        """The rows of a command of its console, of the pools that are not the console's own."""
        if self._console is None:
            raise OSError("PgBouncer is not running")
        try:
            cursor = self._console.execute(command.encode())
            names = [column.name for column in cursor.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except psycopg.Error as error:
            raise OSError(f"PgBouncer's console: {error}") from error
        return [row for row in rows if row["database"] != _CONSOLE]

    def _write_files(self) -> None:
        user, host, port = (self._server[name] for name in ("user", "host", "port"))
        settings = {
            "listen_addr": "",
            "listen_port": PORT,
            "unix_socket_dir": self.folder,
            "unix_socket_mode": "0700",
            "auth_type": "md5",
            "auth_file": self.folder / "userlist.txt",
            "stats_users": user,
            "pool_mode": self.spec.mode,
            "default_pool_size": self.size,
            "max_client_conn": self._clients + _CLIENTS_BESIDE,
            "log_connections": 0,
            "log_disconnections": 0,
            "log_stats": 0,
        }
        if keeps_prepared(version()):
            settings["max_prepared_statements"] = _PREPARED_MAX
        lines = [f"[databases]\n* = host={host} port={port} user={user}\n\n[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in settings.items()]
        write_private_file(self.folder / "userlist.txt", f'"{user}" "{self._password}"\n')
        write_private_file(self.folder / "pgbouncer.ini", "\n".join(lines) + "\n")
        write_private_file(self._log, "")

    @property
    def _log(self) -> Path:
        return self.folder / "pgbouncer.log"

    def _launch(self) -> None:
        # Its working folder tells its process from any other PgBouncer's.
        arguments = identity()
        arguments["cwd"] = str(self.folder)
        with self._log.open("ab") as log, file_limit_raised():
            self._process = subprocess.Popen(
                [str(tool(PROGRAM)), str(self.folder / "pgbouncer.ini")],
                stdout=log,
                stderr=log,
                start_new_session=True,
                **arguments,
            )

    def _ready_console(self) -> ControlSession:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while True:
            try:
                console = connect({**self.parameters(), "dbname": _CONSOLE})
                # It knows simple queries alone, and psycopg prepares what comes often.
                console.prepare_threshold = None
                return console
            except psycopg.OperationalError as error:
                has_ended = self._process is None or self._process.poll() is not None
                if has_ended or time.monotonic() > deadline:
                    raise MeasurementError(f"PgBouncer {version()} did not start: {self._said()}") from error
            time.sleep(_POLL_S)

    def _said(self) -> str:
        """Its first complaint, without the instant and the process before it."""
        lines = self._log.read_text("utf-8", "replace").strip().splitlines() or ["no error message"]
        complaint = next((line for line in lines if " ERROR " in line), lines[-1])
        return complaint.rpartition("] ")[2]

    def _end(self) -> None:
        if self._console is not None:
            self._console.close()
            self._console = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        end_pooler(self.folder)
        for token in self._tokens:
            registry.forget(token)
        self._tokens.clear()
