"""pg_stat_statements between two readings, whatever became of its counts meanwhile."""

from pgassay.running_server.diagnosis.counted_statements import moved_by_statement

# Calls, milliseconds, rows, blocks read, found, of temporary files.
LONG_KNOWN = (1000.0, 50_000.0, 1000.0, 9e6, 9e6, 0.0)
SINCE = (1200.0, 300.0, 1200.0, 10.0, 2400.0, 0.0)


def test_what_was_counted_between_is_the_difference_over_users_and_databases() -> None:
    before = {("7", "10", "5"): (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)}
    after = {
        ("7", "10", "5"): (2.0, 4.0, 6.0, 8.0, 10.0, 12.0),
        ("7", "11", "5"): (1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
        ("8", "10", "5"): (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    }
    assert moved_by_statement(before, after) == ({"7": (2.0, 3.0, 4.0, 5.0, 6.0, 7.0)}, 0)


def test_counts_that_were_reset_are_those_since_then() -> None:
    """There were more calls after the reset than had ever been counted before it, in less time."""
    key = ("7", "10", "5")
    assert moved_by_statement({key: LONG_KNOWN}, {key: SINCE}) == ({"7": SINCE}, 1)
    few = (10.0, *SINCE[1:])
    assert moved_by_statement({key: LONG_KNOWN}, {key: few}) == ({"7": few}, 1)


def test_of_a_statement_of_two_users_only_the_counts_that_fell_begin_anew() -> None:
    one, other = ("7", "10", "5"), ("7", "11", "5")
    moved, anew = moved_by_statement({one: LONG_KNOWN, other: LONG_KNOWN}, {one: LONG_KNOWN, other: SINCE})
    assert (moved, anew) == ({"7": SINCE}, 1)


def test_of_hidden_statements_the_whole_past_is_not_taken_for_the_interval() -> None:
    """They have one number together, so that the rest of them stays in the sum where some are put out."""
    hidden = ("", "10", "5")
    moved, anew = moved_by_statement({hidden: LONG_KNOWN}, {hidden: (1100.0, 49_000.0, *LONG_KNOWN[2:])})
    assert (moved, anew) == ({"": (100.0, 0.0, 0.0, 0.0, 0.0, 0.0)}, 0)
