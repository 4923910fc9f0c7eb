"""How an answer's statements are shown: no exponent, what changed first, a page that fits a telephone."""

from pgassay.report.tune.figures import interval_words


def test_large_intervals_have_no_exponent() -> None:
    assert interval_words((1071.4, 1461.2)) == "1,071 to 1,461"
    assert interval_words((0.98765, 12.3456)) == "0.988 to 12.3"
    assert interval_words((None, 12345.0)) == "at most 12,345"
    assert interval_words((None, None)) == "not bounded yet"
