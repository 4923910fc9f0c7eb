"""The machines of a fleet over Dask: requests to their agents, by way of the scheduler.

Only the scheduler is connected to. Each request is a message of its own, so a scheduler that was started
again is simply asked; nothing is subscribed, and no task is submitted.
"""

import asyncio
import contextlib
import json
import math
import threading
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

from distributed.core import ConnectionPool
from pydantic import JsonValue

from pgassay.errors import UsageError
from pgassay.fleet.agent_requests import Document, MachineLostError
from pgassay.fleet.cluster import fleet_file, nodes
from pgassay.fleet.cluster.certificates import check_private, is_name
from pgassay.fleet.cluster.fleet_file import FleetFile, MachineEntry

# A request is a part of a file at the most; what is larger is a mistake of ours.
REQUEST_BYTES_MAX = 8 << 20
_SOON_S = 5.0
_Answer = TypeVar("_Answer")


class DaskFleet:
    """The machines of one fleet; may be asked by many threads. A context manager: `close` ends its thread."""

    def __init__(self, fleet: FleetFile) -> None:
        """Connects when it is first asked. Raises UsageError for certificates that can't be used."""
        nodes.configure()
        self.file = fleet
        check_private(fleet.certificates.key)
        try:
            arguments = nodes.security(fleet.certificates).get_connection_args("client")
        except OSError as error:
            raise UsageError(
                f"the certificates of the fleet can't be used ({error.strerror or error}): start it again"
            ) from error
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pgassay-fleet", daemon=True)
        self._thread.start()
        self._pool = self._call(_pool(arguments), _SOON_S)
        self._addresses: dict[str, str] = {}
        self._lock, self._finding = threading.Lock(), threading.Lock()
        self._found_s = -math.inf
        self._machines = {entry.name: DaskMachine(entry, self) for entry in fleet.machine}

    @classmethod
    def open(cls, path: Path) -> Self:
        """The fleet of a fleet.toml. Raises UsageError where it can't be used."""
        return cls(fleet_file.read(path))

    def machines(self) -> "Sequence[DaskMachine]":
        """All that were ever there, in the order of fleet.toml, then as they joined."""
        if self.file.kind == "existing":
            # Without a scheduler those that were seen before are lost, each by itself.
            with contextlib.suppress(MachineLostError):
                self.find()
        with self._lock:
            return list(self._machines.values())

    def find(self, timeout_s: float = 10.0) -> dict[str, str]:
        """The machines that the scheduler has now, by name, and their addresses.

        Raises MachineLostError when the scheduler does not answer. Where many ask at once, one asks for all.
        """
        begun_s = time.monotonic()
        if not self._finding.acquire(timeout=timeout_s):
            raise MachineLostError(f"the scheduler does not answer within {timeout_s:.0f} s")
        try:
            if self._found_s < begun_s:
                self._find(timeout_s)
                self._found_s = time.monotonic()
            with self._lock:
                return dict(self._addresses)
        finally:
            self._finding.release()

    def _find(self, timeout_s: float) -> None:
        identity = self._asked(self._pool(self.file.scheduler).identity(), "the scheduler", timeout_s)
        found = {
            _name_of(worker["name"], address): address for address, worker in identity["workers"].items()
        }
        with self._lock:
            self._addresses = found
            if self.file.kind == "existing":
                for name in found:
                    if name not in self._machines:
                        self._machines[name] = DaskMachine(MachineEntry(name=name, host=""), self)

    def ask(self, name: str, document: Document, timeout_s: float) -> tuple[str, dict[str, JsonValue]]:
        """The identity of a machine's host, and its agent's answer; as `FleetMachine.request`."""
        text = json.dumps(document)
        if len(text) > REQUEST_BYTES_MAX:
            raise ValueError(f"a request of {len(text)} bytes: send it in parts")
        deadline = time.monotonic() + timeout_s
        with self._lock:
            address = self._addresses.get(name)
        if address is not None:
            try:
                return self._ask_at(address, name, text, deadline)
            except MachineLostError:
                # It may have come back elsewhere.
                if self.find(_left(deadline)).get(name) in (None, address):
                    raise
        address = self.find(_left(deadline)).get(name)
        if address is None:
            raise MachineLostError(f"{name} is not there")
        return self._ask_at(address, name, text, deadline)

    def _ask_at(
        self, address: str, name: str, text: str, deadline: float
    ) -> tuple[str, dict[str, JsonValue]]:
        message = {"op": nodes.OPERATION, "document": text}
        asking = self._pool(self.file.scheduler).broadcast(msg=message, workers=[address], on_error="ignore")
        answer = self._asked(asking, name, _left(deadline)).get(address)
        if not isinstance(answer, str):
            raise MachineLostError(f"{name} does not answer ({_why(answer)})")
        document = json.loads(answer)
        return str(document["host"]), dict(document["answer"])

    def _asked(self, asking: Coroutine[object, object, _Answer], name: str, timeout_s: float) -> _Answer:
        try:
            return self._call(asking, timeout_s)
        except (OSError, TimeoutError, KeyError) as error:
            # A KeyError: the scheduler no longer knows the worker that was named.
            raise MachineLostError(
                f"{name} does not answer within {timeout_s:.0f} s ({_why(error)})"
            ) from error

    def _call(self, doing: Coroutine[object, object, _Answer], timeout_s: float) -> _Answer:
        async def limited() -> _Answer:
            return await asyncio.wait_for(doing, timeout_s)

        return asyncio.run_coroutine_threadsafe(limited(), self._loop).result()

    def close(self) -> None:
        """Close the connections; may be called twice."""
        if not self._loop.is_closed():
            self._call(self._pool.close(), _SOON_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


@dataclass
class DaskMachine:
    """One worker of a fleet."""

    entry: MachineEntry
    _fleet: DaskFleet = field(repr=False)
    _host: str = ""

    @property
    def name(self) -> str:
        """How the user calls it."""
        return self.entry.name

    @property
    def host(self) -> str:
        """The identity of its host; of a cluster that others started, asked once. Raises MachineLostError."""
        if not self._host:
            self._host = self.entry.host or self._fleet.ask(self.name, nodes.PING, _SOON_S)[0]
        return self._host

    @property
    def counts_as(self) -> str:
        """The machine that its user says it is."""
        return self._fleet.file.declared(self.name)

    @property
    def is_part_of_host(self) -> bool:
        """Whether it has a part of its host's processors and memory; others share its disk and caches."""
        return self.entry.is_part_of_host

    def request(self, document: Document, *, timeout_s: float = 60.0) -> Document:
        """The agent's answer; see `pgassay.fleet.agent_requests.Machine`."""
        host, answer = self._fleet.ask(self.name, document, timeout_s)
        self._host = self.entry.host or host
        return answer


async def _pool(arguments: dict[str, object]) -> ConnectionPool:
    """Made on the thread whose loop it belongs to. Answers are read as data: nothing in them is unpickled."""
    pool = ConnectionPool(
        connection_args=arguments,
        serializers=["msgpack"],
        deserializers=["msgpack"],
        timeout=_SOON_S,
    )
    await pool.start()
    return pool


def _name_of(name: object, address: str) -> str:
    """The name that a worker was given; of one without, its address as a name."""
    text = str(name)
    return (
        text
        if is_name(text)
        else address.rpartition("//")[2].translate(str.maketrans(":[]/", "-..-")).strip("-.")
    )


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def _why(error: object) -> str:
    return type(error).__name__ if isinstance(error, BaseException) else "no answer"
