"""Control groups: what the caps and rate limits need, tried by making a group."""

from pgassay.environment.cgroup.group import Ability, Capability, Cgroup, capabilities
from pgassay.environment.doctor.base import missing, ok
from pgassay.errors import PgassayError
from pgassay.model.machines.doctor import Finding

GROUP = "control groups"
_MEANING: dict[str, tuple[Ability, str]] = {
    "cgroup-io": ("io", "rate limits on storage"),
    "cgroup-memory": ("memory", "--memory"),
    "cgroup-cpu": ("cpu_quota", "--cpus"),
    "cgroup-accounting": ("cpu_accounting", "the server's CPU time, dead processes included"),
}
# A cap that binds nothing, to see whether the kernel takes it.
_HARMLESS: dict[Ability, dict[int, dict[str, str]]] = {
    "io": {1: {}, 2: {}},
    "memory": {1: {"memory.limit_in_bytes": str(1 << 40)}, 2: {"memory.max": str(1 << 40)}},
    "cpu_quota": {
        1: {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "100000"},
        2: {"cpu.max": "100000 100000"},
    },
    "cpu_accounting": {1: {}, 2: {}},
}


def control_groups() -> list[Finding]:
    """Each ability, with a group really made for it."""
    found = capabilities()
    return [_finding(name, ability, purpose, found[ability]) for name, (ability, purpose) in _MEANING.items()]


def _finding(name: str, ability: Ability, purpose: str, capability: Capability) -> Finding:
    subject = f"control group for {purpose}"
    if capability.version is None:
        return missing(GROUP, name, f"{subject}: {capability.reason}", capability.remedy)
    try:
        Cgroup.create("doctor", _HARMLESS[ability][capability.version]).remove()
    except (PgassayError, OSError) as error:
        return missing(GROUP, name, f"{subject}: {error}", "run pgassay as root on the host itself")
    return ok(GROUP, name, f"{subject}: version {capability.version}", version=capability.version)
