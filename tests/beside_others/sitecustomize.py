"""Imported by every Python process that a test starts which shares the machine: this folder is in PYTHONPATH.

Its trials begin without waiting until all is written: other tests write always (`pytest_runtest_setup`). And
it waits for no experiment of another worker's tests, as no time is judged here: their copies are not its own.
"""

import contextlib
import os
import sys

# Where there is no pgassay, there are no trials.
with contextlib.suppress(ImportError):
    from pgassay.environment import lock
    from pgassay.environment.linux import settle
    from pgassay.storage import host

    settle.SETTLED_BYTES = sys.maxsize
    lock.LOCK_NAME += os.environ.get("PYTEST_XDIST_WORKER", "")
    host.OWN_FOLDER += os.environ.get("PYTEST_XDIST_WORKER", "")
