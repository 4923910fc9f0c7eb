"""What the report must say about a plan itself, whatever is measured."""

from collections.abc import Iterator, Sequence

from pgassay.environment.linux.free_memory import reporting_balloons
from pgassay.environment.server.setting_values import parse_number
from pgassay.experiment.planning.arm_baseline import memory_warnings
from pgassay.experiment.planning.io_traps import io_warnings
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.base import PAGE_BYTES
from pgassay.model.experiment import CacheState
from pgassay.words import figure

SIZE = "max_wal_size"
_TARGET = "checkpoint_completion_target"
# With fewer in a trial it is chance whether one more falls into it (`report/compare/load_tables.py`).
CHECKPOINTS_WANTED = 3
_TARGET_DEFAULT = 0.9


def plan_warnings(
    arms: Sequence[Arm],
    base: ArmSpec,
    compared: str,
    cache: CacheState,
    block_bytes: int = PAGE_BYTES,
) -> tuple[str, ...]:
    """What the report must say about the plan itself, whatever is measured."""
    sentences = [*io_warnings(arms, base, compared, block_bytes), *memory_warnings(arms)]
    sentences += checkpoint_warnings(arms)
    balloons = reporting_balloons()
    if balloons and cache in ("cold", "cold-each") and any(arm.spec.memory_bytes is None for arm in arms):
        sentences.append(
            f"the hypervisor takes free memory back ({balloons[0]}): a cold read into memory that was free "
            "for long costs more, and with io_method=sync the process that computes pays all of it (cap "
            "the servers' --memory below a third of the table)"
        )
    return tuple(sentences)


def checkpoint_warnings(arms: Sequence[Arm]) -> Iterator[str]:
    """A sentence where max_wal_size is varied in loads that write: from which rate of WAL on trials tell.

    PostgreSQL asks for a checkpoint once max_wal_size / (1 + checkpoint_completion_target) is written since
    the last one (CalculateCheckpointSegments).
    """
    if len({arm.spec.settings.get(SIZE) for arm in arms}) < 2:
        return
    needed = []
    for arm in arms:
        load, settings = arm.spec.workload.load, arm.spec.settings
        megabytes = parse_number(settings.get(SIZE, ""), "MB")
        if load is None or not arm.spec.workload.writes or not megabytes:
            continue
        target = parse_number(settings.get(_TARGET, ""), None)
        between = megabytes / (1 + (_TARGET_DEFAULT if target is None else target))
        needed.append((between, load.duration_s))
    if needed:
        between, duration_s = min(needed)
        rate = CHECKPOINTS_WANTED * between / duration_s
        yield (
            f"with the smallest {SIZE} {figure(between)} MB of WAL ask for a checkpoint, so that a trial of "
            f"{figure(duration_s)} s has {CHECKPOINTS_WANTED} from {figure(rate)} MB of WAL a second on: "
            "where less is written, raise duration"
        )
