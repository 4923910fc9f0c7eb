"""What a comparison of checkpoints' settings takes, said before it runs: trials that have some of them."""

from collections.abc import Iterator, Sequence

from pgassay.environment.server.setting_values import parse_number
from pgassay.model.arm import Arm
from pgassay.words import figure

SIZE = "max_wal_size"
_TARGET = "checkpoint_completion_target"
# With fewer in a trial it is chance whether one more falls into it (`report/compare/load_tables.py`).
CHECKPOINTS_WANTED = 3
_TARGET_DEFAULT = 0.9


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
