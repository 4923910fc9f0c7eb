"""What is added up over threads and trials before it becomes an account."""

from collections import Counter
from dataclasses import dataclass, field

# Wait event type, wait event, the scheduler's state as /proc shows it.
Seen = tuple[str, str, str]


@dataclass
class Times:
    """Times of threads of one kind in seconds, and how often they were seen in what; two can be added.

    run_s and delay_s are the scheduler's own counts, wall_s the time that the threads existed within the
    measured part; unseen_s is CPU time of threads after the last look at them. seen: a counter of looks.
    """

    wall_s: float = 0.0
    run_s: float = 0.0
    delay_s: float = 0.0
    unseen_s: float = 0.0
    seen: Counter[Seen] = field(default_factory=Counter)

    def add(self, other: "Times") -> None:
        """Add another's times and counts to this."""
        self.wall_s += other.wall_s
        self.run_s += other.run_s
        self.delay_s += other.delay_s
        self.unseen_s += other.unseen_s
        self.seen += other.seen

    def remove(self, other: "Times") -> None:
        """Take another's times and counts, which were added before, out of this."""
        self.wall_s -= other.wall_s
        self.run_s -= other.run_s
        self.delay_s -= other.delay_s
        self.unseen_s -= other.unseen_s
        self.seen -= other.seen


@dataclass(frozen=True)
class TrialTimes:
    """One trial: measured_s seconds were measured; per kind of thread, and per connection by its process
    id."""

    measured_s: float
    kinds: dict[str, Times]
    connections: dict[int, Times]
    client_cpu_s: float | None = None
    over_network: bool = False
