"""How an answer of `tune` writes its figures: times, gains, their intervals, SQL."""

from pgassay.model.tuning.tune_answer import Ends
from pgassay.words import figure, seconds

SQL_SHOWN_MAX = 300


def time_words(value: float, *, at_least: bool) -> str:
    """A time in words; of what did not end how long it was waited for."""
    return f"more than {seconds(value)}" if at_least else seconds(value)


def gain_words(value: float, *, at_least: bool = False) -> str:
    """A gain in words; of what was stopped without the fix more than the figure."""
    words = f"{figure(value)} ×"
    return f"over {words}" if at_least else words


def interval_words(interval: Ends | None) -> str:
    """An interval in words; an end that nothing bounds is not told."""
    if interval is None:
        return ""
    low, high = (None if end is None else figure(end) for end in interval)
    if low is None or high is None:
        return f"at least {low}" if low else f"at most {high}" if high else "not bounded yet"
    return f"{low} to {high}"


def ends_words(interval: Ends | None) -> str:
    """The same in parentheses, behind a figure."""
    return "" if interval is None else f" ({interval_words(interval)})"


def shortened(sql: str) -> str:
    """SQL in one line, cut where it is longer than is read."""
    one_line = " ".join(sql.split())
    return one_line if len(one_line) <= SQL_SHOWN_MAX else f"{one_line[:SQL_SHOWN_MAX]}…"
