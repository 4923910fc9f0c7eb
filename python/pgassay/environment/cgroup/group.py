"""The control group that a server starts in: rate limits, CPU accounting, and caps.

Knows version 1, where every controller has a hierarchy of its own, and version 2, and mixes of both.
Sources: Documentation/admin-guide/cgroup-v1/{blkio-controller,cpuacct,memory}.rst and
Documentation/admin-guide/cgroup-v2.rst of Linux.
"""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgassay.environment.cleanup import registry, removal
from pgassay.environment.linux.mounts import Mount, mounts
from pgassay.errors import MeasurementError, UsageError

Ability = Literal["io", "cpu_accounting", "memory", "cpu_quota"]
_CONTROLLER_V1: dict[Ability, str] = {
    "io": "blkio",
    "cpu_accounting": "cpuacct",
    "memory": "memory",
    "cpu_quota": "cpu",
}
_CONTROLLER_V2: dict[Ability, str] = {
    "io": "io",
    "cpu_accounting": "",
    "memory": "memory",
    "cpu_quota": "cpu",
}
_PREFIX_ABILITY: dict[str, Ability] = {"blkio": "io", "io": "io", "memory": "memory", "cpu": "cpu_quota"}
_QUOTA_PERIOD_US = 100_000
_REMOVE_TIMEOUT_S = 10.0
_JOIN_FAILED_STATUS = 126

# Runs in a fresh interpreter, so that nothing happens between fork and exec of a process with threads.
# Everything is imported before the identity changes: the account may not be able to read Python's
# library, and execvp imports `warnings`.
_LAUNCHER = f"""
import os, sys, warnings
groups, identity, argv = sys.argv[1].split(":"), sys.argv[2], sys.argv[3:]
try:
    for group in groups:
        with open(os.path.join(group, "cgroup.procs"), "w") as procs:
            procs.write(str(os.getpid()))
    if identity:
        uid, gid = map(int, identity.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    os.execvp(argv[0], argv)
except OSError as error:
    sys.stderr.write(f"can't start in the cgroup {{groups}}: {{error}}\\n")
    sys.exit({_JOIN_FAILED_STATUS})
"""


@dataclass(frozen=True)
class Capability:
    """Whether a group can do one thing here, by which version, and if not, why and what to do."""

    version: Literal[1, 2] | None
    parent: Path | None
    reason: str = ""
    remedy: str = ""

    @property
    def is_available(self) -> bool:
        """Whether a group made here has it."""
        return self.version is not None


def capabilities() -> dict[Ability, Capability]:
    """What groups can do on this machine for this account: nothing is created to find out."""
    return {ability: _capability(ability) for ability in _CONTROLLER_V1}


def io_limits(
    major: int,
    minor: int,
    *,
    read_bytes_s: float | None = None,
    write_bytes_s: float | None = None,
    read_iops: int | None = None,
    write_iops: int | None = None,
) -> dict[str, str]:
    """The lines that limit one whole disk: control file → line; empty when no limit is given.

    Rates are per second. On version 1 a write counts only when the server's own process submits it
    (fsync, direct I/O); the kernel's background write-back is not limited. Raises UsageError when
    this machine can't limit I/O.
    """
    given = {"rbps": read_bytes_s, "wbps": write_bytes_s, "riops": read_iops, "wiops": write_iops}
    limits = {name: round(value) for name, value in given.items() if value is not None}
    if not limits:
        return {}
    capability = capabilities()["io"]
    if not capability.is_available:
        raise UsageError(
            f"Rate limits on storage can't be set here: {capability.reason}; {capability.remedy}."
        )
    if capability.version == 2:
        return {"io.max": f"{major}:{minor} " + " ".join(f"{name}={value}" for name, value in limits.items())}
    file_of = {"rbps": "read_bps", "wbps": "write_bps", "riops": "read_iops", "wiops": "write_iops"}
    return {
        f"blkio.throttle.{file_of[name]}_device": f"{major}:{minor} {value}" for name, value in limits.items()
    }


def memory_limit(limit_bytes: int) -> dict[str, str]:
    """The line that caps the group's memory, page cache included; raises UsageError where impossible."""
    version = _require("memory", "A memory cap")
    return {"memory.max" if version == 2 else "memory.limit_in_bytes": str(limit_bytes)}


def cpu_limit(cores: float) -> dict[str, str]:
    """The lines that cap the group's CPU at `cores` (1.5 is one core and a half)."""
    quota_us = round(cores * _QUOTA_PERIOD_US)
    if _require("cpu_quota", "A CPU cap") == 2:
        return {"cpu.max": f"{quota_us} {_QUOTA_PERIOD_US}"}
    return {"cpu.cfs_period_us": str(_QUOTA_PERIOD_US), "cpu.cfs_quota_us": str(quota_us)}


class Cgroup:
    """A group of pgassay's: one folder on version 2, one for each controller on version 1."""

    def __init__(self, folders: dict[Ability, Path], token: registry.CleanupToken) -> None:
        self._folders = folders
        self._token = token

    @classmethod
    def create(cls, name: str, limits: Mapping[str, str]) -> "Cgroup":
        """Make the group pgassay-NAME-NAMESPACE-PID with CPU accounting and these limits (file → line).

        Containers may share the control groups and not the process ids: the pid namespace's number tells
        a process from another one's of the same id.

        Raises UsageError naming what is missing where a group or one of the limits is impossible.
        """
        abilities: list[Ability] = ["cpu_accounting", *(_ability_of(file) for file in limits)]
        available = capabilities()
        folders: dict[Ability, Path] = {}
        whose = f"{Path('/proc/self/ns/pid').stat().st_ino}-{os.getpid()}"
        for ability in dict.fromkeys(abilities):
            capability = available[ability]
            if capability.parent is None:
                raise UsageError(f"No cgroup for {ability} here: {capability.reason}; {capability.remedy}.")
            folders[ability] = capability.parent / f"{removal.CGROUP_PREFIX}{name}-{whose}"
        paths = [str(path) for path in dict.fromkeys(folders.values())]
        group = cls(folders, registry.register("cgroup", paths=paths))
        try:
            for path in group.paths:
                path.mkdir(exist_ok=True)
            for file, line in limits.items():
                group._write(file, line)
        except BaseException:
            group.remove()
            raise
        return group

    @property
    def paths(self) -> list[Path]:
        """The group's folders, each once."""
        return list(dict.fromkeys(self._folders.values()))

    def folder(self, ability: Ability) -> Path | None:
        """The folder whose control files tell of this ability; None when the group was made without it."""
        return self._folders.get(ability)

    def join_command(self, uid: int | None = None, gid: int | None = None) -> list[str]:
        """The words to put before a command so that it runs inside the group from its first instruction.

        With `uid` and `gid` the command is run as that account, after joining: entering a group takes
        more rights than a server has. So start the whole as the caller, without `user=`.
        """
        identity = "" if uid is None else f"{uid}:{uid if gid is None else gid}"
        groups = ":".join(map(str, self.paths))
        return [sys.executable, "-I", "-S", "-c", _LAUNCHER, groups, identity]

    def pids(self) -> set[int]:
        """The processes in the group now."""
        return {int(word) for path in self.paths for word in (path / "cgroup.procs").read_text().split()}

    def cpu_seconds(self) -> float:
        """CPU seconds (user and system) of all processes that are or were in the group."""
        folder = self._folders["cpu_accounting"]
        usage = folder / "cpuacct.usage"
        if usage.exists():
            return int(usage.read_text()) / 1e9
        values = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
        return int(values["usage_usec"]) / 1e6

    def remove(self) -> None:
        """Remove the group; waits for processes that are still ending. May be called twice.

        Raises MeasurementError naming the processes when some stay for longer than 10 s.
        """
        deadline = time.monotonic() + _REMOVE_TIMEOUT_S
        while left := [path for path in self.paths if not removal.remove_empty_cgroup(path)]:
            if time.monotonic() > deadline:
                pids = (left[0] / "cgroup.procs").read_text().split()
                raise MeasurementError(
                    f"The cgroup {left[0]} can't be removed while the processes {', '.join(pids)} are in it: "
                    "end them; the next start of pgassay removes the group."
                )
            time.sleep(0.02)
        registry.forget(self._token)

    def _write(self, file: str, line: str) -> None:
        path = self._folders[_ability_of(file)] / file
        try:
            # Not Path.write_text: opening must not create or truncate, and one write is one command.
            descriptor = os.open(path, os.O_WRONLY)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise UsageError(
                f"The kernel refused the limit '{line}' for {file}: {error.strerror}; "
                "choose another value or leave the limit out."
            ) from error


def _ability_of(file: str) -> Ability:
    return _PREFIX_ABILITY[file.partition(".")[0]]


def _require(ability: Ability, what: str) -> int:
    capability = capabilities()[ability]
    if capability.version is None:
        raise UsageError(f"{what} can't be set here: {capability.reason}; {capability.remedy}.")
    return capability.version


def _capability(ability: Ability) -> Capability:
    controller = _CONTROLLER_V1[ability]
    all_mounts = mounts()
    for mount in all_mounts:
        if mount.kind == "cgroup" and controller in mount.options:
            return _capability_v1(mount, controller)
    for mount in all_mounts:
        if mount.kind == "cgroup2":
            return _capability_v2(mount, _CONTROLLER_V2[ability])
    return Capability(
        None,
        None,
        "no cgroup file system is mounted" if sys.platform == "linux" else "only Linux has cgroups",
        "mount one with mount -t cgroup2 none /sys/fs/cgroup" if sys.platform == "linux" else "use Linux",
    )


def _capability_v1(mount: Mount, controller: str) -> Capability:
    parent = _own_group(mount, controller)
    if os.geteuid() != 0 and not os.access(parent, os.W_OK):
        return Capability(None, None, f"only root may make groups in {parent}", "run pgassay as root")
    if "ro" in mount.options:
        return Capability(
            None, None, f"{mount.point} is mounted read-only", "start the container with writable cgroups"
        )
    return Capability(1, parent)


def _capability_v2(mount: Mount, controller: str) -> Capability:
    # A group with processes can't hand controllers down, so the new group stands beside our own
    # (where a service manager delegated that) or, for root, below the root.
    parent = mount.point if os.geteuid() == 0 else _own_group(mount, "").parent
    if "ro" in mount.options:
        return Capability(
            None, None, f"{mount.point} is mounted read-only", "start the container with writable cgroups"
        )
    if not os.access(parent, os.W_OK) or not parent.is_relative_to(mount.point):
        return Capability(None, None, f"this account may not make groups in {parent}", "run pgassay as root")
    if not controller:
        return Capability(2, parent)
    if controller not in _words(parent / "cgroup.controllers"):
        return Capability(
            None,
            None,
            f"the kernel or the container's host offers no '{controller}' controller in {parent}",
            "run on a host whose cgroup.controllers lists it",
        )
    if controller not in _words(parent / "cgroup.subtree_control"):
        return Capability(
            None,
            None,
            f"the controller '{controller}' is not enabled in {parent}/cgroup.subtree_control",
            f"type echo +{controller} > {parent}/cgroup.subtree_control",
        )
    return Capability(2, parent)


def _own_group(mount: Mount, controller: str) -> Path:
    """The folder of this process's own group; the mount's root where a container hides it."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") if controller else controllers == "":
            inside = Path(path)
            if mount.root != "/" and inside.is_relative_to(mount.root):
                inside = Path("/") / inside.relative_to(mount.root)
            folder = mount.point / inside.relative_to("/")
            return folder if folder.is_dir() else mount.point
    return mount.point


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
