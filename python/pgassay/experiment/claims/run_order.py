"""Which experiment is run next, and for how long: pure, from what is known of each.

The most telling first: the one that is expected to decide most claims a minute. Of an experiment that was
never run that follows from the sizes that were published, of another from what it measured. While it runs,
the same rule says whether it goes on: once another would decide more a minute, that one has its turn.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Less is no time for a block of anything.
LEFT_MIN_S = 10.0
# Trials spread, and an experiment that has just too little time decides nothing.
_RESERVE = 1.5
# How many claims of an experiment that was never run are decided by its least blocks, whatever is expected:
# that rests on a spread that nobody measured, and a full disk hardly spreads.
_SHARE_BY_LUCK = 0.25
# What these blocks take of statements of which nobody knows how long they run, until the first turn tells.
_LEAST_UNKNOWN_S = 120.0
# That a decided claim's size lies in its band is worth less than another verdict.
WEIGHT_OF_A_SIZE = 0.1


@dataclass(frozen=True)
class Outlook:
    """An open claim: the seconds of trials until its verdict, as expected, and what that is worth."""

    seconds: float
    weight: float = 1.0


@dataclass(frozen=True)
class Promise:
    """The best that an experiment can do now: verdicts a second, and the seconds until the last of these."""

    rate: float
    seconds: float


def best_of(outlooks: Sequence[Outlook], left_s: float, setup_s: float = 0.0) -> Promise | None:
    """By which of its claims an experiment decides most a second; None where none fits the time left.

    Claims are decided side by side, so the time of the slowest one that is waited for counts.
    """
    found: Promise | None = None
    worth = 0.0
    for each in sorted(outlooks, key=lambda outlook: outlook.seconds):
        worth += each.weight
        seconds = setup_s + each.seconds
        if seconds > left_s:
            break
        rate = worth / max(seconds, 1.0)
        if found is None or rate > found.rate:
            found = Promise(rate, seconds)
    return found


@dataclass(frozen=True)
class Waiting:
    """An experiment with open claims.

    least_s: what its next verdict takes at least, None where nothing is known. setup_s: until its first
    trial. fruitless: how many turns in a row decided nothing, so that its outlooks were too good.
    """

    name: str
    outlooks: tuple[Outlook, ...]
    is_tried: bool = False
    least_s: float | None = None
    setup_s: float = 0.0
    fruitless: int = 0

    def fits(self, left_s: float) -> bool:
        """Whether a first verdict may come in the time left; what was begun is continued in any case."""
        return self.is_tried or self.least_s is None or self.least_s <= left_s

    def best(self, left_s: float) -> Promise | None:
        """The best that it can do in the time left, for what it promised before.

        One that was never run is worth a try before another's claims have their hundredth block.
        """
        found = best_of(self.outlooks, left_s, self.setup_s)
        if not self.is_tried and self.outlooks and self.fits(left_s):
            worth = sum(each.weight for each in self.outlooks)
            least_s = _LEAST_UNKNOWN_S if self.least_s is None else self.least_s
            lucky = Promise(_SHARE_BY_LUCK * worth / max(least_s, 1.0), least_s)
            # One claim that is expected in an hour makes a try no less likely to decide the others at once.
            found = lucky if found is None or lucky.rate > found.rate else found
        return found and Promise(found.rate * 0.5**self.fruitless, found.seconds)

    @property
    def _nearest_s(self) -> float:
        return min((each.seconds for each in self.outlooks), default=math.inf) * 2.0**self.fruitless


@dataclass(frozen=True)
class Turn:
    """The experiment to run next, its share of the time left, and the rate that the best other one has."""

    chosen: Waiting
    share_s: float
    rival_rate: float = 0.0


def next_of(waiting: Sequence[Waiting], left_s: float) -> Turn | None:
    """The next turn; None where no experiment fits the time left.

    Where none is expected to decide anything in it, those that may share it alike, the nearest first.
    """
    fitting = [each for each in waiting if each.outlooks and each.fits(left_s)]
    if not fitting or left_s < LEFT_MIN_S:
        return None
    promises = [(promise, each) for each in fitting if (promise := each.best(left_s)) is not None]
    if not promises:
        chosen = min(fitting, key=lambda each: each._nearest_s)
        share_s = max(left_s / len(fitting), _RESERVE * (chosen.least_s or 0.0))
        return Turn(chosen, min(share_s, left_s))
    promise, chosen = max(promises, key=lambda found: found[0].rate)
    rival_rate = max((other.rate for other, each in promises if each is not chosen), default=0.0)
    return Turn(chosen, min(_RESERVE * max(promise.seconds, LEFT_MIN_S), left_s), rival_rate)


def times_late(waited_s: float, expected_s: float | None) -> int:
    """How many times the time in which a verdict was expected, with its reserve, went by without one."""
    return 0 if expected_s is None else int(waited_s / (_RESERVE * max(expected_s, LEFT_MIN_S)))


def goes_on(outlooks: Sequence[Outlook], used_s: float, turn: Turn, left_s: float, late: int = 0) -> bool:
    """Whether an experiment that runs is to have another block, after so many seconds of its turn.

    While it decides as much a second as any other would, or a verdict is expected within its share; with no
    verdict in sight it has its share. Each time that a verdict was expected and did not come (`late`), the
    experiment is believed half as much, as turns that decided nothing are.
    """
    found = best_of(outlooks, left_s)
    if found is None:
        return used_s < turn.share_s
    return found.rate * 0.5**late >= turn.rival_rate or used_s + found.seconds <= turn.share_s
