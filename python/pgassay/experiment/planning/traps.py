"""Traps that a plan can fall into, known from other people's wrong results; each is a sentence."""

from collections.abc import Sequence

from pgassay.environment.linux.free_memory import reporting_balloons
from pgassay.environment.server.setting_values import parse_number
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.experiment import CacheState

# (16 + 1) · 128 kB for each process: with less a backend may not pin its whole look-ahead, and the methods
# look alike (src/backend/storage/buffer/bufmgr.c, GetPinLimit). Processes beside max_connections: 38
# auxiliary ones, those of I/O included, 16 autovacuum slots, 8 workers, 10 WAL senders, 2 special ones.
LOOK_AHEAD_BYTES = 17 * 128 * 1024
OTHER_PROCESSES = 74
# A range that is most of its table is read by a sequential scan; the stored plans tell.
_ROWS_OF_SYSBENCH = "single rows and (unless a plan says otherwise) ranges by index"
_AIO_SETTINGS = ("io_method", "io_workers", "effective_io_concurrency", "io_combine_limit")


def plan_warnings(arms: Sequence[Arm], base: ArmSpec, compared: str, cache: CacheState) -> tuple[str, ...]:
    """What the report must say about the plan itself, whatever is measured."""
    sentences = []
    if compared in _AIO_SETTINGS:
        small, needed = min(map(_look_ahead_room, arms), key=lambda room: room[0] / room[1])
        if small < needed:
            sentences.append(
                f"shared_buffers is {small >> 20} MB: below about {needed >> 20} MB a backend may not pin "
                "its whole look-ahead, which can hide a difference between I/O methods "
                "(set shared_buffers=1GB)"
            )
    if compared in ("io_method", "io_workers") and base.workload.kind == "load":
        load = base.workload.load
        rows = "single rows by index" if load is None or load.oltp_read_only is None else _ROWS_OF_SYSBENCH
        sentences.append(
            f"the transactions of this load read {rows}, which no version up to 19 does "
            "asynchronously: a difference between I/O methods has another cause"
        )
    balloons = reporting_balloons()
    if balloons and cache in ("cold", "cold-each") and any(arm.spec.memory_bytes is None for arm in arms):
        sentences.append(
            f"the hypervisor takes free memory back ({balloons[0]}): a cold read costs more the longer the "
            "memory was free that it goes into, and with io_method=sync the process that computes pays alone "
            "(cap the servers' --memory below a third of the table)"
        )
    return tuple(sentences)


def _look_ahead_room(arm: Arm) -> tuple[int, int]:
    """The bytes of shared_buffers, and those with which every backend may pin a whole look-ahead."""
    blocks = parse_number(arm.spec.settings["shared_buffers"], "8kB")
    connections = parse_number(arm.spec.settings.get("max_connections", "100"), None) or 100
    return int((blocks or 0) * 8192), LOOK_AHEAD_BYTES * (int(connections) + OTHER_PROCESSES)


def plan_confounds(arms: Sequence[Arm]) -> tuple[str, ...]:
    """What differs between arms beside the factors."""
    sentences = []
    origins = sorted({arm.spec.build.origin for arm in arms})
    if len(origins) > 1:
        sentences.append(
            f"the builds come from {', '.join(origins)}: compilers and options differ with the build"
        )
    return tuple(sentences)
