"""A folder for the length of a `with` block; the next start removes it when this process is killed."""

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgassay.environment.cleanup import registry
from pgassay.environment.cleanup.removal import SCRATCH_PREFIX


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a private folder below the system's temporary one; it and all in it is gone afterwards.

    It belongs to the caller: what the servers' account must write into it needs its own place.
    """
    path = Path(tempfile.gettempdir()) / f"{SCRATCH_PREFIX}{secrets.token_hex(4)}"
    token = registry.register("folder", path=str(path))
    try:
        path.mkdir(mode=0o700)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        registry.forget(token)
