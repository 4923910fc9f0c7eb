"""The table of the doctor's checks: a new one is a function in its group's file and one line here."""

import socket
from collections.abc import Callable, Sequence

from pgassay import __version__
from pgassay.environment.doctor import groups, kernel, noise, processor, software, storage
from pgassay.environment.doctor.base import Check
from pgassay.errors import UsageError
from pgassay.model.machines.doctor import DoctorReport, Finding

CHECKS: tuple[Check, ...] = (
    software.builds_found,
    software.native_binary,
    software.servers_account,
    software.origins,
    storage.page_cache,
    storage.reflink,
    storage.loop,
    storage.free_space,
    storage.home_device,
    groups.control_groups,
    processor.kind_of_machine,
    processor.governor,
    processor.turbo,
    processor.clock,
    kernel.pressure,
    kernel.delay_accounting,
    kernel.huge_pages,
    kernel.swap,
    kernel.free_memory,
    kernel.other_load,
)


def examine(
    seconds: float, progress: Callable[[str], None] = lambda _: None, required: Sequence[str] = ()
) -> DoctorReport:
    """Run every check, the noise's for `seconds` last; the machine is as before afterwards.

    Raises UsageError when pgassay's home can't be used at all, and for a name in `required` that no check
    has, before the noise is watched.
    """
    findings: list[Finding] = [finding for check in CHECKS for finding in check()]
    known = [*(finding.name for finding in findings), *noise.NAMES]
    for name in required:
        if name not in known:
            raise UsageError(f"--require {name} is not known: use some of {', '.join(known)}")
    if seconds > 0:
        progress(f"measuring the noise for {seconds:g} s")
        findings += noise.noise(seconds)
    return DoctorReport(
        schema=1,
        pgassay_version=__version__,
        hostname=socket.gethostname(),
        seconds=seconds,
        findings=tuple(findings),
    )
