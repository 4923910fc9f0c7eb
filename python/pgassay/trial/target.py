"""The contract between a trial and the servers that it runs on.

A trial asks one question of a target: is the server's machine this one? Where it is, `machine` restores
the data, starts and stops the server, tells its device and control group (so that caches can be made and
samplers run), and has its log. Where it is somebody else's, `machine` is None: all that can be had are
sessions, with settings of their own.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from pgassay.environment.cgroup.caps import NO_CAPS, Caps
from pgassay.environment.cgroup.group import Cgroup
from pgassay.environment.storage.base import BlockDevice, Delivered
from pgassay.model.arm import Arm
from pgassay.trial.running import RunningServer, ServerSession


@dataclass(frozen=True)
class LocalServer:
    """A server on this machine, started for a trial, and where its data lie.

    `is_fresh`: it was started just now. `device` has no name where the file system has no block device;
    `group` is the server's control group, `capped_group` the same where the arm is capped, None elsewhere.
    `inherited`: caps of groups above it that are tighter than the arm's own.
    """

    running: RunningServer
    is_fresh: bool
    device: BlockDevice
    group: Cgroup | None
    capped_group: Cgroup | None
    inherited: Caps = NO_CAPS


class Machine(Protocol):
    """What a trial may do below a server on this machine."""

    @property
    def log(self) -> Path:
        """The log of all its servers; a trial takes the part that it caused."""

    @property
    def group(self) -> Cgroup | None:
        """The control group of the running server; None without one."""

    def replace_copies(self, arms: Sequence[Arm]) -> None:
        """Make the copies of the data that these arms run on, and remove all others of the same data."""

    def restore(self, arm: Arm) -> bool:
        """Give the arm's data their original content; True when something had to be copied."""

    def start_server(self, arm: Arm, *, fresh: bool) -> LocalServer:
        """A running server for the arm: with `fresh` a new one. Raises MeasurementError."""

    def stop_server(self) -> None:
        """Stop the running server, if any."""

    def taint(self) -> None:
        """Say that the data in use are no longer as they were (written to, or crashed)."""

    def data_folder(self, arm: Arm) -> Path:
        """A folder on the storage of the arm's data, beside its working copies."""

    def storage_facts(self, arm: Arm) -> Mapping[str, object]:
        """What the arm's storage is, for the record."""

    def measured(self, arm: Arm) -> AbstractContextManager[Delivered | None]:
        """Entered while the arm is measured: what its volume imposes, it imposes meanwhile."""


class Target(Protocol):
    """The servers of an experiment as its trials use them; a context manager around all of them."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *details: object) -> None: ...

    @property
    def machine(self) -> Machine | None:
        """The servers' machine where it is this one; None where sessions are all that can be had."""

    def session(self, arm: Arm) -> ServerSession:
        """Sessions with the arm's settings on its server, which is started first where that is needed."""

    def abandon(self) -> None:
        """Let go of the server after a failure: nothing of it is used again as it is."""
