"""The kernel's accounting and memory: PSI, delay accounting, huge pages, swap, free memory, other load."""

import os

from pgassay.environment.doctor.base import ok, read, warning
from pgassay.environment.linux import machine
from pgassay.environment.linux.free_memory import reporting_balloons
from pgassay.model.machines.doctor import Finding
from pgassay.storage.storage_options import readable_bytes

GROUP = "kernel"
# Others use more than a tenth of a processor, on average over the last minute.
LOAD_PER_PROCESSOR_MAX = 0.1


def pressure() -> list[Finding]:
    """Pressure stall information: time lost waiting for CPU, memory and I/O."""
    if machine.facts()["pressure_stall_information"]:
        return [ok(GROUP, "psi", "pressure stall information: available")]
    remedy = "boot with psi=1 (a kernel with CONFIG_PSI); without it stalls can't be separated"
    return [warning(GROUP, "psi", "pressure stall information: off", remedy)]


def delay_accounting() -> list[Finding]:
    """What a process waited for I/O and swap (kernel.task_delayacct)."""
    value = read("/proc/sys/kernel/task_delayacct")
    if value == "1":
        return [ok(GROUP, "delay-accounting", "delay accounting: on")]
    if value == "0":
        remedy = "sysctl kernel.task_delayacct=1 as root"
        return [warning(GROUP, "delay-accounting", "delay accounting: off", remedy)]
    text = "delay accounting: not in this kernel"
    return [warning(GROUP, "delay-accounting", text, "use a kernel with CONFIG_TASK_DELAY_ACCT")]


def huge_pages() -> list[Finding]:
    """Transparent huge pages, and those reserved for huge_pages=on."""
    facts = machine.facts()
    mode = facts["transparent_huge_pages"]
    reserved, size = facts["huge_pages"], facts["huge_page_bytes"]
    findings = []
    if mode == "always":
        text = "transparent huge pages: always, so memory may be moved while something is measured"
        remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
        findings.append(warning(GROUP, "transparent-huge-pages", text, remedy, mode=mode))
    else:
        text = f"transparent huge pages: {mode or 'not in this kernel'}"
        findings.append(ok(GROUP, "transparent-huge-pages", text, mode=mode))
    if isinstance(reserved, int) and reserved > 0 and isinstance(size, int):
        text = f"huge pages: {reserved} reserved ({readable_bytes(reserved * size)})"
        findings.append(ok(GROUP, "huge-pages", text, huge_pages=reserved))
    else:
        remedy = "sysctl vm.nr_hugepages=N as root, for arms with huge_pages=on; others need none"
        findings.append(warning(GROUP, "huge-pages", "huge pages: none reserved", remedy, huge_pages=0))
    return findings


def swap() -> list[Finding]:
    """Swap turns a lack of memory into unexplained slowness."""
    swap_bytes = machine.facts()["swap_bytes"]
    if not isinstance(swap_bytes, int) or swap_bytes == 0:
        return [ok(GROUP, "swap", "swap: none", swap_bytes=0)]
    text = f"swap: {readable_bytes(swap_bytes)}"
    return [warning(GROUP, "swap", text, "swapoff -a while measuring", swap_bytes=swap_bytes)]


def free_memory() -> list[Finding]:
    """Whether the hypervisor takes free memory back, which gives cold scans more than one speed."""
    reporting = reporting_balloons()
    if not reporting:
        return [ok(GROUP, "free-memory", "free memory: stays with this machine")]
    text = (
        f"free memory: the hypervisor takes it back ({reporting[0]}, free page reporting), "
        "so a cold scan into recently used memory may be 2 × as fast"
    )
    remedy = (
        "start the virtual machine without free page reporting, or compare cold scans of a table that is "
        "several times --memory: they read into memory that they gave back themselves"
    )
    return [warning(GROUP, "free-memory", text, remedy, devices=reporting)]


def other_load() -> list[Finding]:
    """What else runs here: the load average of the last minute, for each processor."""
    load = os.getloadavg()[0]
    processors = os.cpu_count() or 1
    text = f"other load: {load:.2f} processes ready or waiting on average, {processors} processors"
    if load / processors <= LOAD_PER_PROCESSOR_MAX:
        return [ok(GROUP, "load", text, load_average=load)]
    remedy = "end what else runs here, or wait until it has ended"
    return [warning(GROUP, "load", text, remedy, load_average=load)]
