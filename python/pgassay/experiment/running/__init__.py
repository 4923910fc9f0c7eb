"""Runs a planned experiment: prepare, loop, stop, resume, remember.

The next trial is a pure function of the plan and the recorded trials (`design/schedule.py`), so resuming asks
it again. A block's order depends on the seed and its number alone. A failed or invalid trial is repeated once
within its block; a second failure voids the block, whichever arm it was. An arm that failed so in two blocks
in a row is dropped, and the others go on, in whatever order several fail; where none would be left, void
blocks in a row end the experiment as `failed`: two of one arm's, or three without a good trial. An
interrupted attempt counts as neither.

After each complete block the analysis is asked whether everything is decided. Limits of blocks and time are
looked at between blocks only, so no limit leaves a block half done, and a block that would probably end after
the limit of time is not begun.

What must be removed after a crash is registered before it is made (`environment/cleanup/registry.py`).
"""
