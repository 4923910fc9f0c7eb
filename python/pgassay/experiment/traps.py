"""Traps that a plan can fall into, known from other people's wrong results; each is a sentence."""

from collections.abc import Sequence

from pgassay.environment.setting_values import parse_number
from pgassay.model.arm import Arm, ArmSpec

# (16 + 1) · 128 kB for each of about 174 processes: below this a backend may pin less than its whole
# look-ahead (src/backend/storage/buffer/bufmgr.c, GetPinLimit), and the methods look alike.
FULL_LOOK_AHEAD_BYTES = 370 * 1024 * 1024
# A range that is most of its table is read by a sequential scan; the stored plans tell.
_ROWS_OF_SYSBENCH = "single rows and (unless a plan says otherwise) ranges by index"
_AIO_SETTINGS = ("io_method", "io_workers", "effective_io_concurrency", "io_combine_limit")


def plan_warnings(arms: Sequence[Arm], base: ArmSpec, compared: str) -> tuple[str, ...]:
    """What the report must say about the plan itself, whatever is measured."""
    sentences = []
    if compared in _AIO_SETTINGS and compared != "shared_buffers":
        small = min(_shared_buffers_bytes(arm) for arm in arms)
        if small < FULL_LOOK_AHEAD_BYTES:
            sentences.append(
                f"shared_buffers is {small >> 20} MB: below about 370 MB a backend may not pin its whole "
                "look-ahead, which can hide a difference between I/O methods (set shared_buffers=1GB)"
            )
    if compared in ("io_method", "io_workers") and base.workload.kind == "load":
        load = base.workload.load
        rows = "single rows by index" if load is None or load.oltp_read_only is None else _ROWS_OF_SYSBENCH
        sentences.append(
            f"the transactions of this load read {rows}, which no version up to 19 does "
            "asynchronously: a difference between I/O methods has another cause"
        )
    return tuple(sentences)


def _shared_buffers_bytes(arm: Arm) -> int:
    blocks = parse_number(arm.spec.settings["shared_buffers"], "8kB")
    return int((blocks or 0) * 8192)


def plan_confounds(arms: Sequence[Arm]) -> tuple[str, ...]:
    """What differs between arms beside the factors."""
    sentences = []
    origins = sorted({arm.spec.build.origin for arm in arms})
    if len(origins) > 1:
        sentences.append(
            f"the builds come from {', '.join(origins)}: compilers and options differ with the build"
        )
    return tuple(sentences)
