"""What the evidence of a trial and that of a live interval are made of alike, from what was observed."""

from dataclasses import asdict, replace

from pgassay.analysis.causes.evidence import MB, DeviceFlow, Observed, Processors
from pgassay.analysis.causes.sampler_files import PROCESSOR_TAKEN, moved, requests
from pgassay.model.experiment import ArmCeiling
from pgassay.model.trial import figure
from pgassay.record.observations import PROCESSOR_FREE

# Where a ceiling comes from, when the server's control groups impose it.
_LIMIT = "limit"


def processors_of(observed: Observed, *, cap_is_clients: bool = False) -> Processors | None:
    """The use of the machine's processors; None where that was not sampled.

    cap_is_clients: the client runs under the server's cap too.
    """
    used = moved(observed.folder, "host_cpu", (*PROCESSOR_TAKEN, *PROCESSOR_FREE), observed.spans)
    if used is None:
        return None
    count = sum(used) / observed.elapsed_s
    own_s = observed.server_cpu_s + observed.client_cpu_s
    available_s = count * observed.elapsed_s
    if observed.caps.cpus is not None:
        beyond_s = 0.0 if cap_is_clients else observed.client_cpu_s
        available_s = min(available_s, observed.caps.cpus * observed.elapsed_s + beyond_s)
    return Processors(count, available_s, own_s, max(0.0, sum(used[: len(PROCESSOR_TAKEN)]) - own_s))


def device_flow(
    observed: Observed, own_bytes: float | None, limits: ArmCeiling | None = None
) -> DeviceFlow | None:
    """What the device delivered, in rates of all who read from it; None where that was not sampled.

    own_bytes: what it delivered to the server, where that is known. limits: of these, where they are those of
    the server's control groups, nobody else uses anything, so that the server's share of the rates counts.
    """
    found = moved(observed.folder, "device", ("read_bytes", "reads", "weighted_ms"), observed.spans)
    if found is None:
        return None
    read_bytes, reads, weighted_ms = found
    seconds = observed.elapsed_s
    share = 1.0 if own_bytes is None or read_bytes <= 0 else min(1.0, own_bytes / read_bytes)
    bytes_share = share if limits is not None and limits.read_mb_s_from == _LIMIT else 1.0
    reads_share = share if limits is not None and limits.read_iops_from == _LIMIT else 1.0
    written = requests(observed.folder, observed.spans)
    if limits is not None and _LIMIT in (limits.read_iops_from, limits.read_mb_s_from):
        # Under such a limit, which is one of reads alone, all that is written may be others'.
        written = replace(written, writes_s=None, write_mb_s=None)
    return DeviceFlow(
        read_bytes=read_bytes if own_bytes is None else own_bytes,
        read_mb_s=bytes_share * read_bytes / seconds / MB,
        reads_s=reads_share * reads / seconds,
        seconds=seconds,
        service_s=weighted_ms / 1000,
        **asdict(written),
    )


def bytes_of_blocks(observed: Observed) -> tuple[float, float]:
    """Bytes read and found in shared buffers, as the databases counted blocks."""
    rows = observed.counters.rows("pg_stat_database")
    size = observed.block_bytes
    return size * sum(figure(row, "blks_read") for row in rows), size * sum(
        figure(row, "blks_hit") for row in rows
    )
