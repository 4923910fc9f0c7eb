"""A trial under caps: are they in force, what did they do, and was a failure their work?"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pgassay.environment.cgroup import usage
from pgassay.environment.cgroup.caps import Caps, caps_of, counters
from pgassay.environment.cgroup.group import Cgroup
from pgassay.environment.linux import pagecache
from pgassay.environment.server.server_caps import MEMORY_PAGE_BYTES, describe_limits
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import ArmSpec
from pgassay.storage.parse import format_bytes, readable_bytes

RESIDENT_FRACTION_MIN = 0.99
# Reads the files named on standard input, each ended by a null byte, in a process of its own.
_READER = """
import os, sys
buffer = bytearray(1 << 20)
for name in filter(None, sys.stdin.buffer.read().split(b"\\0")):
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW)
    while os.readv(descriptor, [buffer]):
        pass
    os.close(descriptor)
"""


def is_limited(spec: ArmSpec) -> bool:
    """Whether the arm's server is capped at all."""
    return spec.memory_bytes is not None or spec.cpus is not None


def inherited_caps(pid: int, group: Cgroup | None, spec: ArmSpec) -> Caps:
    """The caps of groups above the server's own that are tighter than the arm's: nobody here set them."""
    around = caps_of(pid, beside=group.paths if group else ())
    cpus, memory_bytes = around.cpus, around.memory_bytes
    if cpus is not None and spec.cpus is not None and spec.cpus <= cpus:
        cpus = None
    if memory_bytes is not None and spec.memory_bytes is not None and spec.memory_bytes <= memory_bytes:
        memory_bytes = None
    return Caps(
        cpus,
        None if cpus is None else around.cpu_folder,
        memory_bytes,
        None if memory_bytes is None else around.memory_folder,
    )


def inherited_facts(caps: Caps) -> dict[str, float | None]:
    """Those caps for the record; {} without any."""
    found = {"inherited_cpus": caps.cpus, "inherited_memory_bytes": caps.memory_bytes}
    return {name: value for name, value in found.items() if value is not None}


def group_counters(group: Cgroup | None, inherited: Caps) -> dict[str, float]:
    """What the caps on a server did so far: of its own group, and of those above that are tighter."""
    return {**(usage.counters(group) if group else {}), **counters(inherited)}


def assert_limits(spec: ArmSpec, group: Cgroup | None, pid: int) -> dict[str, float | None]:
    """The caps as the kernel holds them; raises MeasurementError when one of the arm's does not hold."""
    if not is_limited(spec):
        return {}
    if group is None or pid not in group.pids():
        raise MeasurementError(
            f"the server is not in the control group that caps it ({describe_limits(spec)}): something moved "
            "it; run pgassay outside services that manage control groups of their own"
        )
    facts = usage.limits_in_force(group)
    memory, cpus = facts.get("memory_bytes"), facts.get("cpus")
    wrong_memory = spec.memory_bytes is not None and (
        memory is None or abs(memory - spec.memory_bytes) > MEMORY_PAGE_BYTES
    )
    wrong_cpus = spec.cpus is not None and (cpus is None or abs(cpus - spec.cpus) > 1e-4)
    if wrong_memory or wrong_cpus:
        raise MeasurementError(
            f"the server's control group should have {describe_limits(spec)}, and the kernel has "
            f"memory {memory} bytes, cpus {cpus}: something changed it"
        )
    return facts


def load_inside(files: Sequence[Path], group: Cgroup, spec: ArmSpec) -> float:
    """Read the files from inside the group, so that their pages count in it; the fraction that stayed.

    Raises UsageError when the cap is too small to keep them, MeasurementError when they can't be read.
    """
    size = sum(file.stat().st_size for file in files)
    pagecache.evict(files)
    done = subprocess.run(
        [*group.join_command(), sys.executable, "-I", "-S", "-c", _READER],
        input=b"\0".join(os.fsencode(file) for file in files),
        capture_output=True,
        check=False,
    )
    fraction = 1.0 if size == 0 else min(1.0, pagecache.resident_bytes(files) / size)
    if fraction < RESIDENT_FRACTION_MIN:
        raise UsageError(
            f"--cache warm-pages: only {fraction:.0%} of {readable_bytes(size)} of data stay in the page "
            f"cache of a server with {describe_limits(spec)}: use --cache as-is or cold, or name more memory"
        )
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it was killed"]
        raise MeasurementError(f"the data could not be read inside the server's control group: {lines[-1]}")
    return fraction


def out_of_memory_reason(spec: ArmSpec, group: Cgroup | None) -> str:
    """What to add to a failure's reason when the kernel killed for the cap; '' when it did not."""
    if spec.memory_bytes is None or group is None:
        return ""
    kills = usage.counters(group).get("oom_kills", 0.0)
    if not kills:
        return ""
    return (
        f"; the kernel killed {kills:.0f} of the server's processes because memory "
        f"{format_bytes(spec.memory_bytes)} was used up: name more, or lower shared_buffers or work_mem"
    )
