"""What the protocol checks after the measurement: a read trial wrote nothing, the rate held."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgassay.errors import InvalidTrialError
from pgassay.model.arm import ArmSpec
from pgassay.model.protocol import CacheState
from pgassay.model.trial import LoadObservation

if TYPE_CHECKING:
    import psycopg

# A standby snapshot of the background writer is a few hundred bytes; one full-page image is more.
WAL_BYTES_OF_A_READ_TRIAL_MAX = 4096
# Reads below this prove nothing: catalogs, read-ahead and metadata blur so few pages.
PROOF_BYTES_MIN = 16 * 1024 * 1024


def wal_position(connection: "psycopg.Connection[Any]") -> int:
    """The write-ahead log's insert position in bytes."""
    row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8").fetchone()
    return int(row[0]) if row else 0


def assert_nothing_written(spec: ArmSpec, wal_bytes: int) -> None:
    """Raise InvalidTrialError when a read-only workload wrote WAL (with checksums a dirtied page does)."""
    if not spec.workload.writes and wal_bytes > WAL_BYTES_OF_A_READ_TRIAL_MAX:
        raise InvalidTrialError(
            f"the workload is to read only, and {wal_bytes} bytes of WAL were written "
            "(hint bits, pruning or a function that writes): for a user's file, say writes=yes"
        )


def write_regime(spec: ArmSpec, checkpoints: float) -> list[str]:
    """A warning that names the regime when a writing trial saw less than two whole checkpoint cycles."""
    if not spec.workload.writes or checkpoints >= 2:
        return []
    load = spec.workload.load
    seconds = f"first {load.duration_s + load.warmup_s:.0f} s" if load else "moments"
    return [
        f"the finding holds for the {seconds} after a checkpoint: full-page images weigh on it, and no "
        "trial saw two whole checkpoint cycles (make the duration longer for a steady state)"
    ]


@dataclass(frozen=True)
class BytesRead:
    """What was read over a measurement; `device` None where no device is known."""

    postgres: int
    device: int | None


def assert_load_stayed_warm(cache: CacheState, read: BytesRead, size_bytes: int) -> None:
    """Raise InvalidTrialError when a load read from further away than its cache state says."""
    bytes_max = max(PROOF_BYTES_MIN, 0.01 * size_bytes)
    if cache == "warm-buffers" and read.postgres > bytes_max:
        raise InvalidTrialError(
            f"the load was to find everything in shared buffers and read {read.postgres >> 20} MB: "
            "use a larger shared_buffers or --cache warm-pages"
        )
    if cache == "warm-pages" and read.device is not None and read.device > bytes_max:
        raise InvalidTrialError(
            f"the load was to find everything in the page cache, and the device delivered "
            f"{read.device >> 20} MB: the memory is too small to keep the data"
        )


def load_warnings(load: LoadObservation) -> list[str]:
    """What the load itself says against its figures."""
    sentences = []
    if load.errors:
        sentences.append(f"{load.errors} transactions ended in a serialisation failure or deadlock")
    if load.per_second and min(load.per_second) == 0:
        sentences.append("in some seconds no transaction ended at all: the throughput is not steady")
    return sentences
