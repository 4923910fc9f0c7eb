"""The demonstration: which I/O method reads a table faster, on a server and a volume of its own.

On a volume that allows 1000 requests a second time is requests, whatever the disk below does and whatever
else runs: the answer comes early on a quiet machine and on a busy one. With a read-ahead of 64 kB the kernel
cuts what `sync` reads into pieces of 64 and 128 kB, and reads by `worker` and `io_uring` stay whole. Where
there can be no such volume (it needs root), the table is read from the page cache instead.
"""

import os

from steps.project import PGASSAY, PYTHON, ROOT, run_openly, say

_METHODS = "compare io_method=sync,worker,io_uring --workload full-scan:only=read-table --scale 10"
_OPTIONS = "--set max_parallel_workers_per_gather=0 --skip-unavailable"
VOLUME = "loop:read_ahead=64,read_iops=1000"
LIMITED_VOLUME = f"{_METHODS} --cache cold-each --storage {VOLUME} {_OPTIONS} --max-time 140s"
ORDINARY_ACCOUNT = f"{_METHODS} --cache warm-pages {_OPTIONS} --max-time 140s"


def run_demonstration() -> None:
    """Say what is compared and run it, in the project's own environment."""
    run_openly([PYTHON, "-m", __name__], os.environ | {"PYTHONPATH": str(ROOT / "tools")})


def why_no_limited_volume() -> str | None:
    """What this machine or account lacks for a volume with a limit of its own; None when nothing."""
    from pgassay.environment.storage.base import BlockDevice
    from pgassay.environment.storage.limits import limits_for
    from pgassay.environment.storage.parse import parse_storage
    from pgassay.environment.storage.registry import KINDS
    from pgassay.errors import PgassayError

    spec = parse_storage(VOLUME)
    lacking = KINDS[spec.kind].capability()
    if lacking is not None:
        return lacking
    try:
        limits_for(spec, BlockDevice("loop0", 7, 0))
    except PgassayError as error:
        return str(error)
    return None


def _run() -> None:
    reason = why_no_limited_volume()
    if reason is None:
        say("Which I/O method reads a table faster from a volume that allows 1000 requests a second?")
    else:
        say(f"No volume with limits for the demonstration: {reason}")
        say("Which I/O method reads a table faster that the page cache holds?")
    words = LIMITED_VOLUME if reason is None else ORDINARY_ACCOUNT
    say(f"$ pgassay {words}")
    # In this process's place: its exit code and an interrupt are the experiment's own.
    os.execv(PGASSAY, [str(PGASSAY), *words.split()])


if __name__ == "__main__":
    _run()
