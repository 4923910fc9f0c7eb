"""The processor's speed and clock: frequency scaling, governor, turbo, clock source."""

from pathlib import Path

from pgassay.environment.doctor.base import ok, read, warning
from pgassay.environment.linux import machine
from pgassay.model.machines.doctor import Finding

GROUP = "processor"
_CPUS = Path("/sys/devices/system/cpu")
FAST_CLOCKS = ("tsc", "arch_sys_counter", "kvm-clock")


def governor() -> list[Finding]:
    """Whether the processor's frequency is the machine's own to choose."""
    name, driver = (
        read(_CPUS / "cpu0/cpufreq/scaling_governor"),
        read(_CPUS / "cpu0/cpufreq/scaling_driver"),
    )
    if not name:
        text = "frequency scaling: not shown (usual in a virtual machine; the host decides)"
        return [ok(GROUP, "governor", text)]
    text = f"frequency scaling: governor {name}, driver {driver or 'unknown'}"
    if name == "performance":
        return [ok(GROUP, "governor", text, governor=name)]
    remedy = "cpupower frequency-set -g performance while measuring"
    return [warning(GROUP, "governor", text, remedy, governor=name)]


def turbo() -> list[Finding]:
    """Whether the frequency depends on temperature and on how many cores are busy."""
    no_turbo, boost = read(_CPUS / "intel_pstate/no_turbo"), read(_CPUS / "cpufreq/boost")
    if not no_turbo and not boost:
        return [ok(GROUP, "turbo", "turbo: not shown (usual in a virtual machine; the host decides)")]
    if no_turbo == "0" or boost == "1":
        file = _CPUS / ("intel_pstate/no_turbo" if no_turbo else "cpufreq/boost")
        remedy = f"echo {1 if no_turbo else 0} > {file} for steadier figures (slower ones)"
        return [warning(GROUP, "turbo", "turbo: on, so speed falls as the processor warms", remedy)]
    return [ok(GROUP, "turbo", "turbo: off")]


def clock() -> list[Finding]:
    """A slow clock source makes track_io_timing and EXPLAIN ANALYZE costly."""
    source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    if not source:
        return [ok(GROUP, "clock", "clock source: not shown by this system")]
    if source in FAST_CLOCKS:
        return [ok(GROUP, "clock", f"clock source: {source}", clock_source=source)]
    remedy = "boot with clocksource=tsc where the processor allows it, or --set track_io_timing=off"
    text = f"clock source: {source}, which is slow to read: timing every I/O costs"
    return [warning(GROUP, "clock", text, remedy, clock_source=source)]


def kind_of_machine() -> list[Finding]:
    """Processors and virtualisation."""
    facts = machine.facts()
    where = f"virtual ({facts['virtualisation']})" if facts["virtualisation"] else "no hypervisor seen"
    text = f"machine: {facts['cores_usable']} processors, {facts['cpu_model']}, {where}"
    return [
        ok(
            GROUP,
            "machine",
            text,
            processors=facts["cores_usable"],
            virtualisation=facts["virtualisation"],
        )
    ]
