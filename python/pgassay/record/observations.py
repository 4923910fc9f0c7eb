"""What a trial's samplers saw, read back: columnar files and the load's histogram."""

import base64
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from pgassay.record import layout
from pgassay.record.documents import damaged

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

# Columns of host_cpu: a processor in use by this machine, lent to another one by the hypervisor, in no use.
PROCESSOR_USED = ("user", "nice", "system", "irq", "softirq")
PROCESSOR_STOLEN = "steal"
PROCESSOR_FREE = ("idle", "iowait")
# The columns of a sampler's file, of equal length. Each column has one type, which its name tells.
Columns = Mapping[str, Sequence[object]]


def observation_path(trial: Path, name: str) -> Path:
    """The file of one sampler below a trial's folder."""
    return trial / layout.OBSERVATIONS_FOLDER / f"{name}.parquet"


def names(trials: Sequence[Path]) -> list[str]:
    """The samplers that left a file in any of the trials' folders, by name."""
    found = {path.stem for trial in trials for path in (trial / layout.OBSERVATIONS_FOLDER).glob("*.parquet")}
    return sorted(found)


def columns(trial: Path, name: str) -> Columns | None:
    """The columns of one sampler in one trial; None when it left none. Raises UsageError when damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = observation_path(trial, name)
    if not path.is_file():
        return None
    try:
        table = pq.ParquetFile(path).read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise damaged(path, error) from error
    read: dict[str, list[object]] = table.to_pydict()
    return read


def integers(read: Columns, name: str) -> Sequence[int]:
    """A column of counts, process numbers or nanoseconds; raises KeyError when there is none."""
    return cast("Sequence[int]", read[name])


def texts(read: Columns, name: str) -> Sequence[str]:
    """A column of names or states; raises KeyError when there is none."""
    return cast("Sequence[str]", read[name])


def floats(read: Columns, name: str) -> NDArray[np.float64]:
    """A column of figures as an array of shape (rows,); raises KeyError when there is none."""
    return np.asarray(read[name], dtype=np.float64)


def stddev_ms(content: bytes) -> float:
    """The standard deviation of a load's latencies, by the content of its histogram's file.

    Of all of them and not of a sample, as pgbench reports it; with the histogram's three digits.
    """
    from hdrh.histogram import HdrHistogram

    return moments_us(HdrHistogram.decode(base64.b64encode(content)))[1] / 1000


def moments_us(found: "HdrHistogram") -> tuple[float, float]:
    """The mean and the standard deviation of a histogram's values, in their own unit; zeros of none.

    Those of the library to the last digit (get_mean_value and get_stddev of hdrhistogram: each value
    counts as the middle of its bucket), which walks over every bucket by Python to find the few that are
    used, and takes a hundred times as long.
    """
    middles = _middles(found)
    total = found.get_total_count()
    if not total:
        return 0.0, 0.0
    mean = float(sum(middle * count for middle, count in middles)) / total
    squares = 0.0
    for middle, count in middles:
        squares += (middle - mean) * (middle - mean) * count
    return mean, math.sqrt(squares / total)


def _middles(found: "HdrHistogram") -> list[tuple[int, int]]:
    """The middle of each bucket that is used, with its count."""
    counts = np.frombuffer(found.counts, dtype=f"i{found.word_size}")
    middles = []
    for place in np.flatnonzero(counts):
        lowest = found.get_value_from_index(int(place))
        size = found.get_highest_equivalent_value(lowest) - lowest + 1
        middles.append((lowest + (size >> 1), int(counts[place])))
    return middles


@contextmanager
def _damage_told(path: Path, otherwise: str) -> Iterator[None]:
    """Whatever the decoder says of a file that is not as it was written is a UsageError."""
    from hdrh.codec import HdrCookieException, HdrLengthException

    decoding = (HdrCookieException, HdrLengthException, ValueError, IndexError, OverflowError, zlib.error)
    try:
        yield
    except (OSError, *decoding) as error:
        raise damaged(path, str(error) or otherwise) from error


def latencies_by_second(trial: Path) -> dict[int, list[tuple[int, int]]]:
    """By second of the measured interval, from 0: latencies in microseconds, each with how many there were.

    From the lines of the histogram log that are tagged so; {} where the trial has none. Raises UsageError
    when it is damaged.
    """
    from hdrh.histogram import HdrHistogram

    path = trial / layout.HISTOGRAM_LOG_FILE
    if not path.is_file():
        return {}
    found = {}
    with _damage_told(path, "no histogram log"):
        for line in path.read_text("utf-8").splitlines():
            tag, _, rest = line.partition(",")
            if tag == "Tag=second":
                start_s, _, _, histogram_text = rest.split(",")
                found[round(float(start_s))] = _middles(HdrHistogram.decode(histogram_text))
    return found


def histogram(trial: Path) -> "HdrHistogram | None":
    """A load's latencies in microseconds; None when the trial has none. Raises UsageError when damaged."""
    from hdrh.histogram import HdrHistogram

    path = trial / layout.HISTOGRAM_FILE
    if not path.is_file():
        return None
    with _damage_told(path, "no HdrHistogram V2"):
        return HdrHistogram.decode(base64.b64encode(path.read_bytes()))


def server_log(trial: Path) -> str:
    """The log's text; '' when there is none, or it can't be read: nothing but marks in time rests on it."""
    try:
        return (trial / layout.SERVER_LOG_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
