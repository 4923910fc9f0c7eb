"""The folder of one process of a fleet: what it is, its keys, whether it runs, where it listens, its log.

home()/fleet/nodes/FLEET/NAME/
    identity/       0700: the private key, the certificate, the authority's certificate
    settings.json   what the process is
    process.json    which process it is, written before it opens a port
    lock            held for as long as it lives: the kernel lets go of it whatever happens
    ready.json      where it listens, once it does
    log             what it says; no request and no answer
"""

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from pgassay.durable import replace_file
from pgassay.environment.cleanup import registry
from pgassay.errors import UsageError
from pgassay.fleet.cluster.certificates import Identity
from pgassay.model.base import Frozen

# The variable in which what a worker starts finds the worker's folder.
STARTED_BY = "PGASSAY_FLEET_NODE"
_POLL_S = 0.05
_LOG_TAIL_BYTES = 4096


class NodeSettings(Frozen):
    """What a process is.

    scheduler: its address, '' for the scheduler itself. listen: the address that it listens at; '' for the
    one that reaches the scheduler. port: 0 for any. cores, memory_bytes: its part of the host, where it has
    one.
    """

    role: Literal["scheduler", "worker"]
    name: str
    scheduler: str = ""
    listen: str = ""
    port: int = Field(default=0, ge=0, le=65535)
    host: str = ""
    is_part_of_host: bool = False
    cores: tuple[int, ...] = ()
    memory_bytes: int | None = None
    home: Path | None = None
    give_up_s: float = Field(default=1800.0, gt=0)


@dataclass(frozen=True)
class NodeFolder:
    """One process's folder."""

    path: Path

    @property
    def identity(self) -> Identity:
        """Its keys."""
        return Identity(self.path / "identity")

    @property
    def log(self) -> Path:
        """What it says."""
        return self.path / "log"

    def write_settings(self, settings: NodeSettings) -> None:
        """Say what it is, before it is started."""
        replace_file(self.path / "settings.json", settings.model_dump_json().encode(), mode=0o600)

    def settings(self) -> NodeSettings:
        """What it is. Raises UsageError when that is not written there."""
        try:
            return NodeSettings.model_validate_json((self.path / "settings.json").read_bytes())
        except (OSError, ValidationError) as error:
            raise UsageError(
                f"{self.path} does not belong to a process of a fleet: start the fleet again."
            ) from error

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Be its process, for the length of the block."""
        for name in ("ready.json", "process.json"):
            (self.path / name).unlink(missing_ok=True)
        with self._lock.open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            document = json.dumps(vars(registry.own_identity()))
            replace_file(self.path / "process.json", document.encode(), mode=0o600)
            try:
                yield
            finally:
                for name in ("ready.json", "process.json"):
                    (self.path / name).unlink(missing_ok=True)

    @property
    def _lock(self) -> Path:
        return self.path / "lock"

    def _is_let_go(self) -> bool:
        """Whether nobody holds the lock that its process holds for as long as it lives.

        The kernel takes it from one that was killed, also from one in a container whose pids mean nothing
        here. False where there is none.
        """
        try:
            with self._lock.open("rb") as asked:
                fcntl.flock(asked, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    @property
    def has_begun(self) -> bool:
        """Whether its process was ever there."""
        return self._lock.exists()

    def may_run(self) -> bool:
        """Whether its process runs, as far as can be told from here, or is just beginning or ending."""
        return self.owner() is not None or (self.has_begun and not self._is_let_go())

    def say_ready(self, address: str) -> None:
        """It listens there."""
        replace_file(self.path / "ready.json", json.dumps({"address": address}).encode(), mode=0o600)

    def address(self) -> str | None:
        """Where it listens; None when it does not yet."""
        try:
            document = json.loads((self.path / "ready.json").read_bytes())
        except (OSError, ValueError):
            return None
        return str(document["address"]) if self.owner() is not None else None

    def owner(self) -> registry.Owner | None:
        """Its process; None when it does not run."""
        try:
            document = json.loads((self.path / "process.json").read_bytes())
            owner = registry.Owner(**document)
        except (OSError, ValueError, TypeError):
            return None
        return owner if registry.is_alive(owner) and not self._is_let_go() else None

    def end(self, patience_s: float) -> bool:
        """End its process: ask, wait, then kill it. False when none ran.

        Raises UsageError for one in another pid namespace: its pid is another process here.
        """
        owner = self.owner()
        if owner is None:
            return False
        if owner.pid_namespace != registry.own_identity().pid_namespace:
            raise UsageError(
                f"the process of {self.path.name} runs in another container, so it can't be ended from here: "
                "type pgassay fleet stop there"
            )
        for number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, patience_s)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(owner.pid, number)
            deadline = time.monotonic() + wait_s
            while registry.is_alive(owner) and time.monotonic() < deadline:
                _reap(owner.pid)
                time.sleep(_POLL_S)
            if not registry.is_alive(owner):
                return True
        return True

    def last_words(self) -> str:
        """The last line of its log."""
        try:
            lines = self.log.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""


def _reap(pid: int) -> None:
    """Where this process is its parent."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
