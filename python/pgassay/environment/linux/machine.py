"""What this machine is: the facts that a record carries and that explain its figures."""

import hashlib
import os
import platform
import re
import secrets
import socket
from dataclasses import dataclass, fields
from pathlib import Path

from pgassay.environment.home import home

_PROC = Path("/proc")
_SYS = Path("/sys")
_MACHINE_ID_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CpuTimes:
    """Seconds that all cores together have spent since boot, by state (proc(5), /proc/stat).

    `steal_s` is time that a hypervisor gave to somebody else although this machine wanted to run.
    """

    user_s: float
    nice_s: float
    system_s: float
    idle_s: float
    iowait_s: float
    irq_s: float
    softirq_s: float
    steal_s: float

    def __sub__(self, earlier: "CpuTimes") -> "CpuTimes":
        """What was spent between `earlier` and this."""
        return CpuTimes(*(getattr(self, field.name) - getattr(earlier, field.name) for field in fields(self)))


def cpu_times() -> CpuTimes | None:
    """The CPU times of the whole machine now; None where there is no /proc/stat."""
    line = _read(_PROC / "stat").partition("\n")[0].split()
    if len(line) < 9:
        return None
    return CpuTimes(*(int(word) / _TICKS_PER_SECOND for word in line[1:9]))


def boot_id() -> str:
    """An id that changes with every boot ('' where the kernel gives none)."""
    return _read(_PROC / "sys/kernel/random/boot_id")


def memory_bytes() -> int:
    """Physical memory the kernel manages."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def machine_id() -> str:
    """A stable, opaque id of this machine: 16 hexadecimal digits.

    machine-id(5) asks that the raw id is not passed on, so it is hashed with the tool's name. A
    machine without one (many containers) gets a random id, kept in the home folder.
    """
    raw = next((text for file in _MACHINE_ID_FILES if re.fullmatch("[0-9a-f]{32}", text := _read(file))), "")
    return hashlib.sha256(f"pgassay {raw or _own_id()}".encode()).hexdigest()[:16]


def host_identity() -> str:
    """16 hexadecimal digits that tell this host from others, until it is started again.

    Of the boot, not of machine-id(5): containers of one host share it (random(4): the kernel makes one at
    each boot, and no namespace has another), and machines made from one image differ. A virtual machine has
    a kernel of its own, and so counts by itself.
    """
    seen = boot_id() or machine_id()
    return hashlib.sha256(f"pgassay host {seen}".encode()).hexdigest()[:16]


def facts() -> dict[str, object]:
    """Everything about the machine that may explain a figure.

    A value is None where the machine does not tell. `virtualisation` is the hypervisor's product
    name, 'unknown hypervisor' when only the processor's flag shows one, '' on bare metal.
    """
    return {
        "hostname": socket.gethostname(),
        "machine_id": machine_id(),
        "boot_id": boot_id(),
        "system": platform.system(),
        "kernel": platform.release(),
        "distribution": _distribution(),
        "architecture": platform.machine(),
        "cpu_model": _cpu_model(),
        "cores_online": os.cpu_count(),
        "cores_usable": cores_usable(),
        "memory_bytes": memory_bytes(),
        "swap_bytes": _meminfo_bytes("SwapTotal"),
        "virtualisation": _virtualisation(),
        "cpu_governor": _read(_SYS / "devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        "transparent_huge_pages": _chosen(_read(_SYS / "kernel/mm/transparent_hugepage/enabled")),
        "huge_pages": meminfo_number("HugePages_Total"),
        "huge_page_bytes": _meminfo_bytes("Hugepagesize"),
        "pressure_stall_information": _has_pressure(),
        "clock_source": _read(_SYS / "devices/system/clocksource/clocksource0/current_clocksource") or None,
        "io_uring_disabled": _optional_int(_read(_PROC / "sys/kernel/io_uring_disabled")),
    }


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _own_id() -> str:
    file = home() / "machine-id"
    try:
        with file.open("x", encoding="ascii") as opened:
            opened.write(secrets.token_hex(16))
    except FileExistsError:
        pass
    return file.read_text(encoding="ascii")


def _distribution() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _cpu_model() -> str | None:
    # "model name" on x86; ARM gives only numbers, of which implementer and part are the telling ones.
    lines = _read(_PROC / "cpuinfo").splitlines()
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    if "model name" in values:
        return values["model name"]
    if "CPU part" in values:
        return f"ARM implementer {values.get('CPU implementer', '?')} part {values['CPU part']}"
    return platform.processor() or None


def cores_usable() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _virtualisation() -> str:
    vendor, product = (_read(_SYS / "class/dmi/id" / name) for name in ("sys_vendor", "product_name"))
    hidden = re.search(r"^flags\s*:.*\bhypervisor\b", _read(_PROC / "cpuinfo"), re.MULTILINE) is not None
    hypervisor = _read(_SYS / "hypervisor/type")
    if hypervisor:
        return hypervisor
    known = "KVM|QEMU|VMware|VirtualBox|Virtual Machine|Xen|Bochs|Amazon EC2|Google|OpenStack|Firecracker"
    if hidden or re.search(known, f"{vendor} {product}"):
        return f"{vendor} {product}".strip() or "unknown hypervisor"
    return ""


def _chosen(text: str) -> str | None:
    """The word in brackets of a sysfs choice such as 'always [madvise] never'."""
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else None


def meminfo_number(name: str) -> int | None:
    """A figure of /proc/meminfo in its own unit, kB or pages; None where the kernel tells none."""
    match = re.search(rf"^{name}:\s+(\d+)", _read(_PROC / "meminfo"), re.MULTILINE)
    return int(match[1]) if match else None


def _meminfo_bytes(name: str) -> int | None:
    number = meminfo_number(name)
    return None if number is None else number * 1024


def _has_pressure() -> bool:
    # The files exist but answer "operation not supported" when PSI is compiled in and switched off.
    return _read(_PROC / "pressure/io") != ""


def _optional_int(text: str) -> int | None:
    return int(text) if text.isdigit() else None
