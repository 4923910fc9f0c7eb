"""Imported by every Python process that a test starts which shares the machine: this folder is in PYTHONPATH.

Its trials begin without waiting until all is written: other tests write always (`pytest_runtest_setup`).
"""

import contextlib
import sys

# Where there is no pgassay, there are no trials.
with contextlib.suppress(ImportError):
    from pgassay.environment.linux import settle

    settle.SETTLED_BYTES = sys.maxsize
