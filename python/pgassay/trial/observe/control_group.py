"""The server's control group: CPU used, throttling, memory, as the kernel counts them."""

from pgassay.environment.cgroup.caps import NO_CAPS, Caps
from pgassay.environment.cgroup.group import Cgroup
from pgassay.trial.trial_caps import group_counters


class ControlGroupSampler:
    """Cumulative counters; of a group without caps the CPU time alone, of none at all nothing."""

    name = "control_group"
    version = 1

    def __init__(self, group: Cgroup | None, inherited: Caps = NO_CAPS) -> None:
        """Watch `group`, and the groups above it that cap it; which columns there are depends on the caps."""
        self._group, self._inherited = group, inherited
        self._names = tuple(group_counters(group, inherited)) if group else ()
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
        now = group_counters(self._group, self._inherited)
        return (self._group.cpu_seconds(), *(now.get(name, 0.0) for name in self._names))
