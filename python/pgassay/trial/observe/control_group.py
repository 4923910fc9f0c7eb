"""The server's control group: CPU used, throttling, memory, as the kernel counts them."""

from pgassay.environment.cgroup import usage
from pgassay.environment.cgroup.group import Cgroup


class ControlGroupSampler:
    """Cumulative counters; of a group without caps the CPU time alone, of none at all nothing."""

    name = "control_group"
    version = 1

    def __init__(self, group: Cgroup | None) -> None:
        """Watch `group`; which columns there are depends on what it caps."""
        self._group = group
        self._names = tuple(usage.counters(group)) if group else ()
        self.columns: tuple[str, ...] = ("cpu_s", *self._names)

    def available(self) -> bool:
        """Whether the server runs in a group whose CPU time is counted."""
        try:
            self.sample()
        except OSError:
            return False
        return self._group is not None

    def sample(self) -> tuple[float, ...]:
        if self._group is None:
            raise OSError("the server is in no control group of its own")
        now = usage.counters(self._group)
        return (self._group.cpu_seconds(), *(now.get(name, 0.0) for name in self._names))
