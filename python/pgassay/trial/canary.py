"""The canary: a fixed task before each trial, the same whatever the arm.

It shows the machine's speed at that moment; a declared covariate takes its drift out.
"""

import hashlib
import time

_BLOCK = bytes(range(256)) * 4096  # 1 MB
_BLOCKS = 64


def canary_s() -> float:
    """Seconds to hash 64 MB: one core, no I/O, no server."""
    begin = time.perf_counter()
    digest = hashlib.sha256()
    for _ in range(_BLOCKS):
        digest.update(_BLOCK)
    digest.digest()
    return time.perf_counter() - begin
