"""Folders that are there whole or not at all, and the lock that lets one process make one."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pgassay.durable import sync
from pgassay.environment.cleanup import registry

PARTIAL_SUFFIX = ".partial"


@contextmanager
def locked(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock file `path` exclusively, waiting for another process that holds it.

    on_wait: told before it is waited for. The kernel releases it when its holder ends; the file itself stays.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def made_whole(final: Path) -> Iterator[Path]:
    """Yield a path (nothing is there yet) to make a folder at; afterwards it is renamed to `final`.

    When the block fails the half-made folder is removed; when the process dies the next sweep of
    the registry removes it. Hold a lock around this: `final` must not appear meanwhile.
    """
    partial = final.with_name(f"{final.name}{PARTIAL_SUFFIX}-{os.getpid()}")
    token = registry.register("folder", path=str(partial))
    try:
        yield partial
        partial.rename(final)
        sync(final.parent)
    finally:
        if partial.exists():
            shutil.rmtree(partial)
        registry.forget(token)
