"""Folded stacks made comparable between builds: where they begin, and the time of each function in them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from pgassay.record.stacks import folded_stacks

KERNEL_MARK = "_[k]"
# The function in which each kind of process begins its work. What is outside of it is the postmaster's way of
# starting processes, which has other names in each version, and which a stack that was cut does not have.
_STARTS = frozenset(
    {
        *("PostgresMain", "ParallelWorkerMain", "BackgroundWorkerMain", "StartBackgroundWorker"),
        *("AutoVacLauncherMain", "AutoVacWorkerMain", "BackgroundWriterMain", "CheckpointerMain"),
        *("WalWriterMain", "WalReceiverMain", "WalSummarizerMain", "StartupProcessMain", "PgArchiverMain"),
        *("SysLoggerMain", "IoWorkerMain", "ReplSlotSyncWorkerMain"),
    }
)
_LEADING = frozenset({"[unknown]"})


def begun(stack: str) -> tuple[str, ...]:
    """The frames of a folded stack from the start of its process's work on, outermost first."""
    frames = tuple(stack.split(";"))
    for place, frame in enumerate(frames):
        if frame in _STARTS:
            return frames[place:]
    place = 0
    while place < len(frames) - 1 and frames[place] in _LEADING:
        place += 1
    return frames[place:]


@lru_cache(maxsize=1024)
def stacks_of(trial: Path) -> Mapping[tuple[str, ...], int] | None:
    """A trial's samples by stack; None where it was not profiled. Raises UsageError for a damaged file."""
    found = folded_stacks(trial)
    if found is None:
        return None
    return by_frames(found)


def by_frames(folded: Mapping[str, int]) -> Counter[tuple[str, ...]]:
    """Samples by folded stack as samples by frames, each from the start of its process's work on."""
    stacks: Counter[tuple[str, ...]] = Counter()
    for stack, count in folded.items():
        stacks[begun(stack)] += count
    return stacks


def under_names(
    stacks: Mapping[tuple[str, ...], float], names: Mapping[str, str]
) -> Mapping[tuple[str, ...], float]:
    """The same stacks with some functions under another name."""
    if not names:
        return stacks
    found: dict[tuple[str, ...], float] = {}
    for frames, count in stacks.items():
        named = tuple(names.get(frame, frame) for frame in frames)
        found[named] = found.get(named, 0) + count
    return found


def own_samples(stacks: Mapping[tuple[str, ...], float]) -> dict[str, float]:
    """By function the samples that it was in itself."""
    found: dict[str, float] = {}
    for frames, count in stacks.items():
        found[frames[-1]] = found.get(frames[-1], 0) + count
    return found


def whole_samples(stacks: Mapping[tuple[str, ...], float]) -> dict[str, float]:
    """By function the samples that it, or anything that it called, was in; a recursion counts once."""
    found: dict[str, float] = {}
    for frames, count in stacks.items():
        for name in set(frames):
            found[name] = found.get(name, 0) + count
    return found


def together(parts: Iterable[Mapping[tuple[str, ...], int]]) -> Counter[tuple[str, ...]]:
    """The samples of several trials by stack."""
    found: Counter[tuple[str, ...]] = Counter()
    for part in parts:
        found.update(part)
    return found
