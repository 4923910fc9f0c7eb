"""HdrHistogram's log format (version 1.3): several histograms of a load in one file, in microseconds."""

from collections.abc import Iterable


def histogram_log(lines: Iterable[str]) -> str:
    """A log of these lines, each as `line_of` makes it."""
    return (
        "\n".join(
            [
                "#[pgassay: latencies of a load, in microseconds]",
                "#[Histogram log format version 1.3]",
                '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
                *lines,
            ]
        )
        + "\n"
    )


def line_of(tag: str, start_s: float, length_s: float, slowest_ms: float, histogram: str) -> str:
    """One histogram: what it is of, when it began, how long it lasted, its greatest value in milliseconds."""
    # A tag ends at the next comma.
    clean = "".join("_" if each in ", \r\n" else each for each in tag)
    return f"Tag={clean},{start_s:.3f},{length_s:.3f},{slowest_ms:.3f},{histogram}"
