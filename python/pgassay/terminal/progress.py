"""Progress in plain lines, one per event, and the lines that all forms share.

Everything goes to standard error: standard output belongs to the result.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from pgassay.model.result import CompareResult
from pgassay.progress import NullProgress
from pgassay.report import text

_ARMS_IN_LINES_MAX = 8


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
