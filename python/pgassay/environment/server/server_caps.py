"""Caps on a whole server, as typed (`--memory 2GB`, `--cpus 0.5`), and whether this machine can set them."""

import os

from pgassay.environment.cgroup.group import capabilities, cpu_limit, memory_limit
from pgassay.environment.cgroup.usage import memory_cap_bytes
from pgassay.environment.linux import machine
from pgassay.environment.server.settings import SHARED_BUFFERS_SHIPPED
from pgassay.environment.server.validation import shared_buffers_bytes
from pgassay.errors import UsageError
from pgassay.model.arm import ArmSpec
from pgassay.model.build import Build
from pgassay.storage.storage_options import format_bytes, readable_bytes
from pgassay.value_syntax.quantities import processors, size_bytes

# Below this a server of PostgreSQL and its sessions don't start at all.
MEMORY_BYTES_MIN = 64 * 1024 * 1024
# The kernel refuses a quota below 1 ms (tg_set_cfs_bandwidth, kernel/sched/core.c); a period is 100 ms.
CPUS_MIN = 0.01
# A group's cap counts whole pages.
MEMORY_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# What sessions, catalogs and the WAL buffers take beside shared_buffers.
SHARED_BUFFERS_FRACTION_MAX = 0.75
UNLIMITED = "unlimited"


def parse_memory(text: str, what: str) -> int | None:
    """Bytes of `2GB`, whole pages; None for `unlimited`.

    `what` names the option or factor. Raises UsageError for anything else, and below 64 MB.
    """
    if text.strip().lower() == UNLIMITED:
        return None
    limit = size_bytes(text, what, example="2GB") // MEMORY_PAGE_BYTES * MEMORY_PAGE_BYTES
    if limit < MEMORY_BYTES_MIN:
        raise UsageError(
            f"{what}: {text} is too little for a server: use {format_bytes(MEMORY_BYTES_MIN)} or more"
        )
    return limit


def parse_cpus(text: str, what: str) -> float | None:
    """Processors of `1` or `0.5`; None for `unlimited`; raises UsageError for anything else."""
    if text.strip().lower() == UNLIMITED:
        return None
    return processors(text, what, least=CPUS_MIN)


def describe_limits(spec: ArmSpec) -> str:
    """The caps of an arm in words: 'memory 2GB, cpus 0.5'; '' without any."""
    words = []
    if spec.memory_bytes is not None:
        words.append(f"memory {format_bytes(spec.memory_bytes)}")
    if spec.cpus is not None:
        words.append(f"cpus {spec.cpus:g}")
    return ", ".join(words)


def server_limits(spec: ArmSpec) -> dict[str, str]:
    """The lines of the server's group for the arm's caps: control file → line; raises UsageError."""
    lines: dict[str, str] = {}
    if spec.memory_bytes is not None:
        lines |= memory_limit(spec.memory_bytes) | _no_swap(spec.memory_bytes)
    if spec.cpus is not None:
        lines |= cpu_limit(spec.cpus)
    return lines


def _no_swap(limit_bytes: int) -> dict[str, str]:
    """On a machine with swap the cap would only move memory there: none for the group."""
    if not machine.facts()["swap_bytes"]:
        return {}
    capability = capabilities()["memory"]
    if capability.version == 2:
        return {"memory.swap.max": "0"}
    has_file = capability.parent is not None and (capability.parent / "memory.memsw.limit_in_bytes").exists()
    return {"memory.memsw.limit_in_bytes": str(limit_bytes)} if has_file else {}


def check_limits(spec: ArmSpec) -> None:
    """Raise UsageError for a cap that this machine can't set, or that the arm can't live with."""
    server_limits(spec)
    if spec.cpus is not None:
        _check_cpus(spec.cpus)
    if spec.memory_bytes is not None:
        _check_memory(spec.memory_bytes, spec.settings, spec.build)


def _check_cpus(cpus: float) -> None:
    usable = machine.cores_usable()
    if cpus > usable:
        raise UsageError(f"cpus {cpus:g} limits nothing: this machine has {usable}, so use fewer")


def why_not_capped(memory_bytes: int, spec: ArmSpec) -> str | None:
    """Why this machine can't hold the arm's servers to so much memory, in a sentence; None where it can."""
    try:
        server_limits(spec.model_copy(update={"memory_bytes": memory_bytes}))
        _check_room(memory_bytes)
    except UsageError as error:
        return str(error)
    return None


def _check_memory(limit_bytes: int, settings: dict[str, str], build: Build) -> None:
    _check_room(limit_bytes)
    buffers = shared_buffers_bytes(build, settings.get("shared_buffers", SHARED_BUFFERS_SHIPPED))
    if buffers > limit_bytes * SHARED_BUFFERS_FRACTION_MAX:
        raise UsageError(
            f"memory {format_bytes(limit_bytes)} leaves no room "
            f"next to shared_buffers={format_bytes(buffers)}, which counts in it: "
            f"set shared_buffers={limit_bytes // 4 >> 20}MB or give more memory"
        )


def _check_room(limit_bytes: int) -> None:
    if limit_bytes > machine.memory_bytes():
        raise UsageError(
            f"memory {format_bytes(limit_bytes)} limits nothing: this machine has "
            f"{readable_bytes(machine.memory_bytes())}, so use less"
        )
    _refuse_narrower_parent(limit_bytes)


def _refuse_narrower_parent(limit_bytes: int) -> None:
    """A container's own cap above the new group wins, silently."""
    parent = capabilities()["memory"].parent
    if parent is None:
        return
    outer = memory_cap_bytes(parent)
    if outer is not None and outer < limit_bytes:
        raise UsageError(
            f"memory {format_bytes(limit_bytes)} limits nothing: the container or control group that "
            f"pgassay runs in is capped at {readable_bytes(outer)}, so use less"
        )
