"""Progress while an experiment runs: the contract, a silent form, and one line per event.

Everything goes to standard error: standard output belongs to the result.
"""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, Self, TextIO

from pgassay.model.result import CompareResult
from pgassay.report import text

_ARMS_IN_LINES_MAX = 8


class Progress(Protocol):
    """Where the experiment's loop tells what happens; every method returns at once.

    Used as a context manager, so that a terminal is restored however the loop ends.
    """

    def stage(self, content: str, fraction: float | None = None) -> None:
        """A step of the preparation, e.g. 'loading pgbench data, scale 100'; `fraction` done, 0 to 1."""

    def plan(self, arms: Sequence[str], blocks_max: int, trials_total: int, sentence: str) -> None:
        """The plan before the first trial: `sentence` says what it can resolve in the time given."""

    def trial_started(self, block: int, position: int, arm: str, expected_s: float | None) -> None:
        """A trial begins: block and position count from 0, `arm` is the hidden name."""

    def trial_doing(self, content: str) -> None:
        """What the running trial is at, e.g. 'settling'; called often, and from any thread."""

    def trial_ended(self, block: int, position: int, status: str, metric_text: str) -> None:
        """A trial is recorded; `metric_text` is its figure, or the reason it has none."""

    def estimate(self, result: CompareResult, seconds_left: float | None) -> None:
        """The estimates so far, and the time until the limit or the expected decision."""

    def message(self, content: str) -> None:
        """A sentence a person should see, e.g. a warning."""

    def close(self) -> None:
        """The end: gives the terminal back; calling it again does nothing."""

    def __enter__(self) -> Self:
        """Take the terminal, where the form needs it."""

    def __exit__(self, *details: object) -> None:
        """Give the terminal back, as `close` does."""


class WithoutLiterals:
    """Another form of progress, which is told nothing that `hide` leaves out of a text."""

    def __init__(
        self,
        shown: Progress,
        hide: Callable[[str], str],
        hide_result: Callable[[CompareResult], CompareResult],
    ) -> None:
        self._shown, self._hide, self._hide_result = shown, hide, hide_result

    def stage(self, content: str, fraction: float | None = None) -> None:
        self._shown.stage(self._hide(content), fraction)

    def plan(self, arms: Sequence[str], blocks_max: int, trials_total: int, sentence: str) -> None:
        self._shown.plan([self._hide(arm) for arm in arms], blocks_max, trials_total, self._hide(sentence))

    def trial_started(self, block: int, position: int, arm: str, expected_s: float | None) -> None:
        self._shown.trial_started(block, position, arm, expected_s)

    def trial_doing(self, content: str) -> None:
        self._shown.trial_doing(self._hide(content))

    def trial_ended(self, block: int, position: int, status: str, metric_text: str) -> None:
        self._shown.trial_ended(block, position, status, self._hide(metric_text))

    def estimate(self, result: CompareResult, seconds_left: float | None) -> None:
        hidden = self._hide_result(result)
        # As in `plan`: an arm may be called by the SQL that it has.
        arms = tuple(arm.model_copy(update={"name": self._hide(arm.name)}) for arm in hidden.arms)
        self._shown.estimate(hidden.model_copy(update={"arms": arms}), seconds_left)

    def message(self, content: str) -> None:
        self._shown.message(self._hide(content))

    def close(self) -> None:
        self._shown.close()

    def __enter__(self) -> Self:
        self._shown.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._shown.__exit__(*details)


class WithoutEstimates(WithoutLiterals):
    """Another form of progress for trials that no verdict is of: it shows no estimates of them."""

    def __init__(self, shown: Progress) -> None:
        super().__init__(shown, str, lambda result: result)

    def estimate(self, result: CompareResult, seconds_left: float | None) -> None:
        del result, seconds_left


class NullProgress:
    """Shows nothing: for --quiet, and the base of the forms that show some of it."""

    def stage(self, content: str, fraction: float | None = None) -> None:
        pass

    def plan(self, arms: Sequence[str], blocks_max: int, trials_total: int, sentence: str) -> None:
        pass

    def trial_started(self, block: int, position: int, arm: str, expected_s: float | None) -> None:
        pass

    def trial_doing(self, content: str) -> None:
        pass

    def trial_ended(self, block: int, position: int, status: str, metric_text: str) -> None:
        pass

    def estimate(self, result: CompareResult, seconds_left: float | None) -> None:
        pass

    def message(self, content: str) -> None:
        pass

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


class Lines:
    """Lines on a stream; none without one, and none any more once whoever read them is gone."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, content: str) -> None:
        """One line, in what the stream can show."""
        if self._stream is None:
            return
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        shown = text.clean(content).encode(encoding, "backslashreplace").decode(encoding)
        try:
            self._stream.write(f"{shown}\n")
            self._stream.flush()
        except BrokenPipeError:
            # Whoever read the progress is gone; the experiment goes on.
            self._stream = None


class PlainProgress(NullProgress):
    """One short line per event, for a file, a pipe or a build log."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Writes to `stream`, by default standard error."""
        self._line = Lines(stream if stream is not None else sys.stderr).write
        self._stage = ""
        self._blocks_max = 0
        self._block_estimated = 0

    def stage(self, content: str, fraction: float | None = None) -> None:
        """A line when the stage changes, none for its fractions."""
        del fraction
        if content != self._stage:
            self._stage = content
            self._line(content)

    def plan(self, arms: Sequence[str], blocks_max: int, trials_total: int, sentence: str) -> None:
        """The size of the experiment, then what it can resolve."""
        self._blocks_max = blocks_max
        self._line(plan_text(arms, blocks_max, trials_total))
        if sentence:
            self._line(sentence)

    def trial_ended(self, block: int, position: int, status: str, metric_text: str) -> None:
        """A line per recorded trial."""
        of = f" of at most {self._blocks_max}" if self._blocks_max else ""
        self._line(f"block {block + 1}{of}, trial {position + 1}: {status} {metric_text}".rstrip())

    def estimate(self, result: CompareResult, seconds_left: float | None) -> None:
        """A line per arm when a block has been completed since the last time."""
        if result.blocks <= self._block_estimated:
            return
        self._block_estimated = result.blocks
        for line in _estimates(result):
            self._line(f"after block {result.blocks}: {line}")
        if seconds_left is not None:
            self._line(f"at most {text.duration(seconds_left)} left")

    def message(self, content: str) -> None:
        """The sentence as a line."""
        self._line(content)


def _estimates(result: CompareResult) -> list[str]:
    """One line per compared arm, or how many arms have which word where the grid is large."""
    compared = [arm for arm in result.arms if arm.verdict != "control"]
    if len(compared) > _ARMS_IN_LINES_MAX:
        words = Counter(arm.verdict for arm in compared)
        return [", ".join(f"{count} {word}" for word, count in sorted(words.items()))]
    lines = []
    for arm in compared:
        interval = text.interval_or_why(arm.interval, arm.ratio)
        word = text.verdict_word(arm, result.margin)
        lines.append(f"{arm.name}: {text.ratio(arm.ratio) or 'no ratio'} ({interval}) {word}")
    return lines


def plan_text(arms: Sequence[str], blocks_max: int, trials_total: int) -> str:
    """The size of an experiment in words."""
    count = text.plural(len(arms), "arm")
    limit = f"at most {text.plural(blocks_max, 'block')}, {text.plural(trials_total, 'trial')}"
    if len(arms) > _ARMS_IN_LINES_MAX:
        return f"{count}, from {arms[0]} to {arms[-1]}; {limit}"
    return f"{count}: {text.join(arms)}; {limit}"
