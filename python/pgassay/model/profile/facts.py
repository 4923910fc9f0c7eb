"""How a trial was profiled."""

from pgassay.model.base import Number, Recorded


class ProfileFacts(Recorded):
    """How perf sampled the server's processes of one trial.

    `rate_hz`: samples of each running process a second, by perf's `event`. `stacks`: how callers were found,
    'frame pointers', 'unwound' or 'none'. `samples`: those within the measured part, `lost` those that perf
    could not keep. `reading_s`: what reading the recording took after the trial.
    """

    perf: str | None = None
    event: str | None = None
    rate_hz: Number | None = None
    stacks: str | None = None
    samples: int | None = None
    lost: int | None = None
    reading_s: Number | None = None
