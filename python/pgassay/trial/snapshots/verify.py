"""What the protocol checks after a measurement: that the trial was what its label says."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgassay.errors import InvalidTrialError
from pgassay.model.arm import ArmSpec
from pgassay.model.experiment import CacheState, Protocol
from pgassay.model.trial import LoadObservation, StatementObservation
from pgassay.model.workload import LoadSpec
from pgassay.words import figure, lost_connections, plural

if TYPE_CHECKING:
    from pgassay.environment.server.sessions import ControlSession

# A standby snapshot of the background writer is a few hundred bytes; one full-page image is more.
WAL_BYTES_OF_A_READ_TRIAL_MAX = 4096
# Reads below this prove nothing: catalogs, read-ahead and metadata blur so few pages.
PROOF_BYTES_MIN = 16 * 1024 * 1024
# Catalog pages that a statement may find in the page cache although its relations are cold.
CATALOG_BYTES = 2 * 1024 * 1024


def wal_position(connection: "ControlSession") -> int:
    """The write-ahead log's insert position in bytes."""
    row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8").fetchone()
    return int(row[0]) if row else 0


def assert_nothing_written(spec: ArmSpec, wal_bytes: int) -> None:
    """Raise InvalidTrialError when a read-only workload wrote WAL (with checksums a dirtied page does)."""
    if not spec.leaves_data_changed and wal_bytes > WAL_BYTES_OF_A_READ_TRIAL_MAX:
        raise InvalidTrialError(
            f"the workload should only read, but {wal_bytes} bytes of WAL were written "
            "(hint bits, pruning or a function that writes): for your own file, add writes=yes"
        )


def write_regime(spec: ArmSpec, checkpoints: float) -> list[str]:
    """A warning that names the regime when a writing trial saw less than two whole checkpoint cycles."""
    if not spec.workload.writes or checkpoints >= 2:
        return []
    if spec.workload.is_maintenance:
        return [
            "the finding holds for commands right after a checkpoint, where each page's first change logs "
            "the whole page: without one before them they write less WAL, and VACUUM may freeze fewer pages"
        ]
    load = spec.workload.load
    is_timed = load is not None and load.replay is None
    seconds = f"first {load.duration_s + load.warmup_s:.0f} s" if load and is_timed else "moments"
    remedy = " (make the duration longer for a steady state)" if is_timed else ""
    return [
        f"the finding holds for the {seconds} after a checkpoint: full-page images weigh on it, and no "
        f"trial saw two whole checkpoint cycles{remedy}"
    ]


@dataclass(frozen=True)
class BytesRead:
    """What was read over a measurement.

    `device`: by anybody from the device, None where no device is known. `server`: by the server's own
    processes from a device, None where this account may not know; the better witness, since other
    processes can neither spoil a warm state with it nor lend their reads to a cold one.
    """

    postgres: int
    device: int | None
    server: int | None


def assert_load_stayed_warm(cache: CacheState, read: BytesRead, size_bytes: int) -> None:
    """Raise InvalidTrialError when a load read from further away than its cache state says."""
    _assert_stayed_warm("the load", cache, read, size_bytes)


def assert_statement_cache(
    observed: StatementObservation, protocol: Protocol, size_bytes: int, *, reads_once: bool
) -> None:
    """Raise InvalidTrialError unless what was called cold came from the device, and warm from its memory.

    `size_bytes` is that of the relations. `reads_once` False: a maintenance command, which may read a page
    more than once (the heap's second pass, the ring of VACUUM), so that its bytes prove nothing.
    """
    name, cache = f"statement {observed.name}", protocol.cache
    read = BytesRead(
        postgres=observed.postgres_read_bytes or 0,
        device=observed.device_read_bytes,
        server=observed.server_device_read_bytes,
    )
    if observed.cold and read.device is not None and read.postgres >= PROOF_BYTES_MIN:
        # Some file systems read in threads of the kernel: the server's own figure says nothing then.
        delivered = read.server or read.device
        if reads_once and delivered < (read.postgres - CATALOG_BYTES) * protocol.device_fraction_min:
            raise InvalidTrialError(
                f"{name} should have been cold, but the device delivered {delivered >> 20} MB of the "
                f"{read.postgres >> 20} MB that PostgreSQL read: something else had them in memory"
            )
    elif cache == "cold-each" and read.postgres >= PROOF_BYTES_MIN and not observed.cold:
        raise InvalidTrialError(f"{name} did not start cold: the page cache held its relations")
    _assert_stayed_warm(name, cache, read, size_bytes)


def _assert_stayed_warm(what: str, cache: CacheState, read: BytesRead, size_bytes: int) -> None:
    bytes_max = max(PROOF_BYTES_MIN, 0.01 * size_bytes)
    if cache == "warm-buffers" and read.postgres > bytes_max:
        raise InvalidTrialError(
            f"{what} should have found everything in shared buffers but read {read.postgres >> 20} MB: "
            "use a larger shared_buffers or --cache warm-pages"
        )
    if cache != "warm-pages":
        return
    if read.server is not None and read.server > bytes_max:
        raise InvalidTrialError(
            f"{what} should have found everything in the page cache, but the server had {read.server >> 20} "
            "MB read from the device: the memory is too small to keep the data"
        )
    if read.server is None and read.device is not None and read.device > bytes_max:
        raise InvalidTrialError(
            f"{what} should have found everything in the page cache, but the device delivered "
            f"{read.device >> 20} MB: the memory is too small to keep the data, or another process read from "
            "this device (as root, or as the server's account, pgassay can distinguish the two)"
        )


# Rate times latency may differ from the number of clients by so much beyond what the edges explain.
LITTLE_FRACTION_MAX = 0.02
_FOR_ANOTHER_S_SAKE = {"40001", "40P01"}


def load_warnings(load: LoadObservation, spec: LoadSpec | None) -> list[str]:
    """What the load itself says against its figures; without a `spec` it is a replay, whose sessions wait."""
    unaccounted = unaccounted_clients(load, spec) if spec is not None else ""
    sentences = [unaccounted] if unaccounted else []
    if load.errors:
        states = ", ".join(f"{state} {count}" for state, count in sorted(load.failures.items()))
        told = f" (by SQLSTATE: {states})" if states else ""
        # sysbench's scripts go on after a duplicate key, and a replay after any error.
        is_usual = load.failures and load.failures.keys() <= _FOR_ANOTHER_S_SAKE
        why = "ended in a serialisation failure or deadlock" if is_usual else "failed"
        sentences.append(f"{plural(load.errors, 'transaction')} {why}{told}")
    sentences += outages(load)
    if load.per_second and min(load.per_second) == 0:
        sentences.append("in some seconds no transaction ended at all: the throughput is not steady")
    return sentences


def outages(load: LoadObservation) -> list[str]:
    """How long the server was gone for the clients of a load that reconnect, and what that cost."""
    use = load.connections
    if use is None or not (use.lost or use.outages):
        return []
    lost, refused = lost_connections(use.lost, use.refused)
    # What got none until the load ended proves that not all were opened again.
    fate = f"; {plural(use.abandoned, 'transaction')} got none until the load ended" if use.abandoned else ""
    sentences = [f"{lost}{fate or ' and opened again'}{refused}"]
    for each in use.outages:
        if each.is_over:
            sentences.append(
                f"no transaction ended for {each.length_s:.2f} s from second {each.from_s:.2f} on: the "
                "server, or the way to it, was gone"
            )
        else:
            sentences.append(
                f"no transaction ended from second {each.from_s:.2f} until the load ended at second "
                f"{each.from_s + each.length_s:.2f}, its last transactions included: the server, or the way "
                "to it, had not come back by then"
            )
    return sentences


def unaccounted_clients(load: LoadObservation, spec: LoadSpec) -> str:
    """Where a closed loop's rate times its mean latency is not its clients (Little's law); '' where it is.

    A client has always one transaction under way, so what is missing was spent by the load generator, or was
    never counted. At both edges of the interval a transaction of each client counts whole or not at all; what
    failed has taken time as well, and is in no latency.
    """
    mean_ms, longest_ms = load.latency_ms.get("mean", 0.0), load.latency_ms.get("max", 0.0)
    is_series = spec.sysbench is not None and bool(spec.sysbench.series)
    is_troubled = load.connections is not None and (load.connections.lost or load.connections.abandoned)
    if spec.pace is not None or is_series or is_troubled or not load.transactions or not load.elapsed_s > 0:
        return ""
    pauses_s = spec.think_s + spec.idle_in_transaction_s
    found = load.transactions / load.elapsed_s * (mean_ms / 1e3 + pauses_s)
    failed = load.errors / (load.transactions + load.errors)
    allowed = LITTLE_FRACTION_MAX + longest_ms / 1e3 / load.elapsed_s + 2 * failed
    if pauses_s:
        # Pauses are drawn, and are cut at both edges.
        allowed += 4 / load.transactions**0.5 + 3 * pauses_s / load.elapsed_s
    if abs(found / spec.clients - 1) <= allowed:
        return ""
    return (
        f"rate × mean latency accounts for {figure(found)} of {plural(spec.clients, 'client')} "
        "(Little's law): the load generator lost time or transactions, so these figures are not the server's"
    )
