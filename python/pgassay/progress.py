"""Progress while something runs: who runs it tells it here, and what owns a terminal shows it.

The contract, a silent form, and forms that leave something out.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, Self

from pgassay.model.result import CompareResult


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
