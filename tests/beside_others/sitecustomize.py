"""Imported by every Python process of a test that shares the machine: this folder is in PYTHONPATH."""

import contextlib

# Where there is no pgassay, there are no trials.
with contextlib.suppress(ImportError):
    import shared_machine

    shared_machine.set_shared(is_shared=True)
