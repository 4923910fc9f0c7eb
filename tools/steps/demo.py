"""The demonstration: does the I/O method matter, on a server and, where possible, a volume of its own?

On a volume that allows 1000 requests a second time is requests, whatever the disk below does and whatever
else runs: the answer comes early on a quiet machine and on a busy one. With a read-ahead of 64 kB the kernel
reads for `sync` in turns 128 and twice 64 kB (1530 requests for 134 MB), and what `worker` and `io_uring` ask
for stays whole (900 to 1060 requests).

Such a volume needs root. An ordinary account reads scattered pages past the page cache instead, which alone
has a price that does not depend on how the kernel reads ahead: `sync` waits for each page by itself.
"""

import os

from steps.project import PGASSAY, PYTHON, ROOT, run_openly, say

VOLUME = "loop:read_ahead=64,read_iops=1000"
# A server starts sooner with fewer buffers; below about 370 MB it could not look ahead as far as it may.
_SHARED = "--set max_parallel_workers_per_gather=0 --set shared_buffers=400MB --max-time 140s"
LIMITED_VOLUME = (
    "compare io_method=sync,worker,io_uring --workload full-scan:only=read-table --scale 10 "
    f"--cache cold-each --storage {VOLUME} --skip-unavailable {_SHARED}"
)
# Two methods make a block of three trials, the hidden twin's among them, and an earlier answer.
ORDINARY_ACCOUNT = (
    "compare io_method=sync,{method} --workload sql:examples/bitmap-heap-scan.sql --scale 20 "
    "--cache cold-each --set debug_io_direct=data --set effective_io_concurrency=64 --set enable_seqscan=off "
    f"--set enable_indexscan=off {_SHARED}"
)


def run_demonstration() -> None:
    """Say what is compared and run it, in the project's own environment."""
    run_openly([PYTHON, "-m", __name__], os.environ | {"PYTHONPATH": str(ROOT / "tools")})


def why_no_limited_volume() -> str | None:
    """What this machine or account lacks for a volume with a limit of its own; None when nothing."""
    from pgassay.environment.linux.device import BlockDevice
    from pgassay.errors import PgassayError
    from pgassay.storage.cgroup_limits import limits_for
    from pgassay.storage.parse import parse_storage
    from pgassay.storage.registry import KINDS

    spec = parse_storage(VOLUME)
    lacking = KINDS[spec.kind].capability()
    if lacking is not None:
        return lacking
    try:
        limits_for(spec, BlockDevice("loop0", 7, 0))
    except PgassayError as error:
        return str(error)
    return None


def asynchronous_method() -> str:
    """io_uring where the build and the machine have it, else worker, which every PostgreSQL 18 has."""
    from pgassay.environment.builds.io_uring_gates import io_uring_gate
    from pgassay.environment.builds.registry import resolve

    return "io_uring" if io_uring_gate(resolve()) is None else "worker"


def _run() -> None:
    reason = why_no_limited_volume()
    if reason is None:
        say("Which I/O method reads a table faster from a volume that allows 1000 requests a second?")
        words = LIMITED_VOLUME
    else:
        say(f"The demonstration for an ordinary account, without a volume with limits. {reason}")
        say("Does asynchronous I/O read scattered pages faster than one after the other?")
        words = ORDINARY_ACCOUNT.format(method=asynchronous_method())
    say(f"$ pgassay {words}")
    # In this process's place: its exit code and an interrupt are the experiment's own.
    os.execv(PGASSAY, [str(PGASSAY), *words.split()])


if __name__ == "__main__":
    _run()
