"""Pressure stall information: time in which work waited for a resource (Documentation/accounting/psi.rst)."""

from pathlib import Path

_FOLDER = Path("/proc/pressure")
_RESOURCES = ("cpu", "io", "memory")
_KINDS = ("some", "full")


class PressureSampler:
    """Cumulative seconds since boot, of the whole machine: `some` task waited, or all of them did
    (`full`)."""

    name = "pressure"
    version = 1
    columns: tuple[str, ...] = tuple(f"{resource}_{kind}" for resource in _RESOURCES for kind in _KINDS)

    def available(self) -> bool:
        """Whether the kernel keeps it (CONFIG_PSI, not switched off)."""
        try:
            self.sample()
        except OSError:
            return False
        return True

    def sample(self) -> tuple[float, ...]:
        return tuple(total for resource in _RESOURCES for total in _totals(_FOLDER / resource))


def _totals(file: Path) -> tuple[float, ...]:
    """`some` and `full` in seconds; before 5.13 there is no `full` of the CPU."""
    found = {}
    for line in file.read_text().splitlines():
        kind, *pairs = line.split()
        found[kind] = int(dict(pair.split("=", 1) for pair in pairs)["total"]) / 1e6
    return tuple(found.get(kind, 0.0) for kind in _KINDS)
