"""What a trial that played a capture leaves behind besides its times."""

from pydantic import Field

from pgassay.model.base import Frozen


class ReplayedFamily(Frozen):
    """Statements of a replay that differ in their values alone; `name` as in the workload, '' for others.

    `diverged`: came with other rows, another command tag or SQLSTATE, or were not executed. `other_values`:
    came with as many rows, but other ones. Seconds are those of all executions, in the capture and now.
    `captured`, `now`: what the first that diverged came to, '' where none did.
    """

    name: str
    text: str
    calls: int
    diverged: int
    other_values: int
    seconds_captured: float
    seconds: float
    captured: str = ""
    now: str = ""


class Replayed(Frozen):
    """What a replay came to besides its times.

    `diverged_share`: of the captured time, what statements took that came out otherwise now. `lacking` can't
    come out the same. `reordered` steps did not wait any longer for what should have been before them;
    `waited_s`: what all waited for others. `failures`: why sessions were lost, and how many. `behind_ms`: how
    late statements were sent for whatever reason, by name as latencies; {} without a pace.
    `families_left_out`: so many that are not in `families` and came out as in the capture, with their seconds
    of then.
    """

    statements: int
    diverged: int
    diverged_share: float
    other_values: int
    lacking: int
    reordered: int
    replaced: int
    waited_s: float
    sessions: int
    sessions_lost: int
    failures: dict[str, int] = Field(default_factory=dict)
    behind_ms: dict[str, float] = Field(default_factory=dict)
    families: tuple[ReplayedFamily, ...] = ()
    families_left_out: int = 0
    seconds_left_out: float = 0.0

    @property
    def seconds_captured(self) -> float:
        """What all statements took in the capture."""
        return sum(each.seconds_captured for each in self.families) + self.seconds_left_out
