"""What a process does otherwise whose tests share the machine with those of other workers.

No time is judged there. So its trials begin without waiting until all is written, as other tests write
always; and experiments of several workers run at once, each worker with a lock of the host and working
copies of its own. Nor is anything flushed to the machine's disk, which matters only if it loses its power: a
flush waits for all that the other workers have written. That is so of tests without servers too. Arms that
take turns in a start do so for some seconds and not until their difference is exact.
"""

import os
import sys
import tempfile
from types import ModuleType
from typing import Any

from pgassay import durable
from pgassay.environment import lock
from pgassay.environment.linux import libc, settle
from pgassay.storage import host

_ALONE = (settle.SETTLED_BYTES, lock.LOCK_NAME, host.OWN_FOLDER)
_FLUSHES = libc.syncfs
# Patched where something has imported it: whoever only waits for a file need not have it.
_TURNS = "pgassay.experiment.running.start_blocks"
_TURNS_S_SHARED = 3.0
_turns_s_alone: dict[str, float] = {}
_DISK = os.stat(tempfile.gettempdir()).st_dev  # noqa: PTH116 - before any path is made


class _WithoutFlushing(ModuleType):
    """Stands where the module os would: files and disks are not flushed, all else is as it is."""

    def fsync(self, _descriptor: int) -> None:
        pass

    def sync(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def _flush_others(descriptor: int) -> None:
    """Flush a file system that is a test's own, such as a volume's."""
    if os.fstat(descriptor).st_dev != _DISK:
        _FLUSHES(descriptor)


def set_shared(*, is_shared: bool) -> None:
    """Share the machine from now on, or have it alone."""
    settled_bytes, lock_name, own_folder = _ALONE
    worker = os.environ.get("PYTEST_XDIST_WORKER", "") if is_shared else ""
    settle.SETTLED_BYTES = sys.maxsize if is_shared else settled_bytes
    lock.LOCK_NAME, host.OWN_FOLDER = lock_name + worker, own_folder + worker
    if (turns := sys.modules.get(_TURNS)) is not None:
        alone_s = _turns_s_alone.setdefault(_TURNS, turns.ROUNDS_S_MAX)
        turns.ROUNDS_S_MAX = _TURNS_S_SHARED if is_shared else alone_s  # type: ignore[attr-defined]
    settle.os = _WithoutFlushing("os") if is_shared else os  # type: ignore[attr-defined]
    set_flushing(flushes=not is_shared)


def set_flushing(*, flushes: bool) -> None:
    """Flush what is recorded or copied from now on, or leave it to the kernel."""
    libc.syncfs = _FLUSHES if flushes else _flush_others
    durable.os = os if flushes else _WithoutFlushing("os")  # type: ignore[attr-defined]


def flushes() -> bool:
    """Whether this process flushes what it records."""
    return durable.os is os  # type: ignore[attr-defined]


def is_shared() -> bool:
    """Whether this process shares it."""
    return sys.maxsize == settle.SETTLED_BYTES
