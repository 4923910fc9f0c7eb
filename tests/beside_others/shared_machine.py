"""What a process does otherwise whose tests share the machine with those of other workers.

No time is judged there. So its trials begin without waiting until all is written, as other tests write
always; and experiments of several workers run at once, each worker with a lock of the host and working
copies of its own.
"""

import os
import sys

from pgassay.environment import lock
from pgassay.environment.linux import settle
from pgassay.storage import host

_ALONE = (settle.SETTLED_BYTES, lock.LOCK_NAME, host.OWN_FOLDER)


def set_shared(*, is_shared: bool) -> None:
    """Share the machine from now on, or have it alone."""
    settled_bytes, lock_name, own_folder = _ALONE
    worker = os.environ.get("PYTEST_XDIST_WORKER", "") if is_shared else ""
    settle.SETTLED_BYTES = sys.maxsize if is_shared else settled_bytes
    lock.LOCK_NAME, host.OWN_FOLDER = lock_name + worker, own_folder + worker


def is_shared() -> bool:
    """Whether this process shares it."""
    return sys.maxsize == settle.SETTLED_BYTES
