"""What an imitated volume delivered in a trial: its series, its figures, and what makes them doubtful."""

import os
from collections.abc import Mapping
from typing import get_args

from pgassay.environment.cgroup.caps import usable_processors
from pgassay.model.storage import IMITATION_CPU_SHARE_MAX, IMITATION_DELAY_SHARE_MAX
from pgassay.model.volumes.offer import VolumeModel
from pgassay.native.volume import Counted, Overhead, Second
from pgassay.storage.imitated_device import Taken

# Those on their way when the model begins and ends are counted by one side alone.
_COUNT_TOLERANCE = 0.02
_COUNTED: tuple[Counted, ...] = get_args(Counted)


def columns_of(seconds: list[Second]) -> dict[str, list[float] | list[int]]:
    """The series of the record; credits of a stripe set's volumes are added up."""
    columns: dict[str, list[float] | list[int]] = {"clock_ns": [second["clock_ns"] for second in seconds]}
    for counted in _COUNTED:
        columns[counted] = [float(second[counted]) for second in seconds]
    columns["own_delay_p50_us"] = [second["own_delay_us"]["p50"] for second in seconds]
    columns["own_delay_p99_us"] = [second["own_delay_us"]["p99"] for second in seconds]
    names = dict.fromkeys(level["limiter"] for second in seconds for level in second["credits"])
    for name in names:
        columns[f"credits_{name.replace(' ', '_')}"] = [
            float(sum(level["credits"] for level in second["credits"] if level["limiter"] == name))
            for second in seconds
        ]
    return columns


def summary(seconds: list[Second]) -> dict[str, object]:
    """What was delivered in all, and what imitating it took. Latencies and delays are means of requests."""
    transfers = sum(second["reads"] + second["writes"] for second in seconds)
    requests = transfers + sum(second["flushes"] for second in seconds)
    elapsed_s = sum(second["elapsed_s"] for second in seconds)
    delay_us = sum(
        second["own_delay_us"]["mean"] * (second["reads"] + second["writes"] + second["flushes"])
        for second in seconds
    )
    latency_ms = sum(second["latency_ms"] + second["queued_ms"] for second in seconds)
    cpu_s = sum(second["cpu_s"] for second in seconds)
    emptied = [
        (level["emptied_ns"] / 1e9, level["limiter"])
        for second in seconds
        for level in second["credits"]
        if level["emptied_ns"] is not None
    ]
    return {
        "requests": requests,
        "reads_and_writes": transfers,
        "operations": sum(second["operations"] for second in seconds),
        "bytes": sum(second["bytes_read"] + second["bytes_written"] for second in seconds),
        "queued_s": sum(second["queued_ms"] for second in seconds) / 1e3,
        "latency_ms": latency_ms / max(requests, 1),
        "own_delay_us": delay_us / max(requests, 1),
        "late_share": sum(second["late"] for second in seconds) / max(requests, 1),
        "cpu_s": cpu_s,
        # In a container the machine's processors say nothing.
        "cpu_share": cpu_s / max(elapsed_s, 1e-9) / usable_processors(),
        "credits_ended_s": min(emptied)[0] if emptied else None,
        "credits_ended_of": min(emptied)[1] if emptied else None,
    }


def warnings_of(figures: Mapping[str, object], name: str) -> list[str]:
    """What makes the imitation doubtful, in sentences."""
    found = []
    delays_us = [float(str(figures.get(key) or 0)) for key in ("own_delay_us", "way_delay_us")]
    delay_ms, latency_ms = max(delays_us) / 1e3, float(str(figures["latency_ms"]))
    if latency_ms > 0 and delay_ms > IMITATION_DELAY_SHARE_MAX * latency_ms:
        late_share = float(str(figures["late_share"]))
        found.append(
            f"imitating {name} took {delay_ms * 1e3:.0f} µs a request more than its latency of "
            f"{latency_ms:.2f} ms ({delay_ms / latency_ms:.0%}; {late_share:.0%} of the answers "
            "were sent late): leave the machine more processors"
        )
    early_ms = -float(str(figures.get("way_delay_us") or 0)) / 1e3
    if latency_ms > 0 and early_ms > IMITATION_DELAY_SHARE_MAX * latency_ms:
        found.append(
            f"imitating {name} took {early_ms * 1e3:.0f} µs a request less than its latency of "
            f"{latency_ms:.2f} ms ({early_ms / latency_ms:.0%}): the way through the kernel, which is taken "
            "from every latency, was measured too long or became shorter"
        )
    share = float(str(figures["cpu_share"]))
    if share > IMITATION_CPU_SHARE_MAX:
        found.append(
            f"imitating {name} took {share:.0%} of the processors, which the server lacked: "
            "a faster volume may look slower than it is"
        )
    return found


def unsteady_way(overhead: Overhead | None, model: VolumeModel) -> str | None:
    """That the rounds which measured the way through the kernel disagree, in a sentence; else None.

    They disagree where that is more of the volume's latency than a delay of its own may be. What was not
    measured agrees.
    """
    if overhead is None:
        return None
    apart_ns = overhead["high_ns"] - overhead["low_ns"]
    latency_ns = model.latency.read.median_ns
    if latency_ns <= 0 or apart_ns <= IMITATION_DELAY_SHARE_MAX * latency_ns:
        return None
    return (
        f"the way through the kernel took from {overhead['low_ns'] / 1e3:.0f} to "
        f"{overhead['high_ns'] / 1e3:.0f} µs while it was measured, which is "
        f"{apart_ns / latency_ns:.0%} of the latency of {model.name}: "
        "the first answers may be too early or too late; let nothing else run meanwhile"
    )


def way_delay_us(figures: Mapping[str, object], before: Taken, after: Taken) -> float | None:
    """By how much a request of the block device took longer than the model says, in the mean, in µs.

    That holds what the answers' times don't: a request waits for a thread of the kernel before it reaches the
    server, and its answer for another one after that. None where the device's requests are not the server's.
    """
    served, requests = int(str(figures["reads_and_writes"])), after.requests - before.requests
    if not requests or abs(served - requests) > _COUNT_TOLERANCE * requests:
        return None
    return (after.ms - before.ms) * 1e3 / requests - float(str(figures["latency_ms"])) * 1e3


def failure_of(seconds: list[Second], name: str) -> str | None:
    """Which requests the image could not serve, in a sentence; None where it served all."""
    failed = sum(second["failed"] for second in seconds)
    if not failed:
        return None
    numbers = [second["error"] for second in seconds if second["failed"]]
    requests = "1 request" if failed == 1 else f"{failed:,} requests"
    return f"the imitated volume {name} answered {requests} with: {os.strerror(numbers[0])}"
