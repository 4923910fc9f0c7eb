"""Waiting by function: where perf saw sessions leave their processors, until they came back."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pgassay.analysis.profile import stacks
from pgassay.analysis.profile.judge_functions import Profiled, gather, judged
from pgassay.analysis.verdicts.study import Study
from pgassay.model.profile.result import FunctionTimes, ProfileFacts
from pgassay.record.experiment import StoredTrial
from pgassay.record.stacks import folded_waits

# A wait shorter than this says little; evidence counts times in it.
UNIT_US = 1000
# The kinds of process that work for a client; others sleep until there is something to do.
_SESSIONS = ("PostgresMain", "ParallelWorkerMain")
# What waits for the client is none of the server's.
_FOR_CLIENTS = frozenset({"secure_read", "secure_write", "secure_raw_read", "secure_raw_write"})
# By these all wait, whatever for: who called them is told.
_ANY_WAIT = frozenset(
    {
        "WaitEventSetWait", "WaitEventSetWaitBlock", "WaitLatch", "WaitLatchOrSocket", "PGSemaphoreLock",
        "ConditionVariableSleep", "ConditionVariableTimedSleep", "LWLockAcquire", "LWLockAcquireOrWait",
        "LWLockWaitForVar", "ProcSleep", "WaitOnLock", "LockAcquire", "LockAcquireExtended",
        "perform_spin_delay", "s_lock", "pg_usleep", "pg_fsync", "pg_fdatasync",
        "pg_fsync_no_writethrough", "FileRead", "FileReadV", "FileWrite", "FileWriteV", "FileSync",
        "FileWriteback", "FileExtend", "pg_preadv", "pg_pwritev", "pg_pwrite_zeros",
        # Of the C library; names that begin with two underlines are its too.
        "epoll_wait", "poll", "ppoll", "select", "fsync", "fdatasync", "sync_file_range", "fallocate",
        "read", "pread", "pread64", "preadv", "preadv64", "preadv64v2", "write", "pwrite", "pwrite64",
        "pwritev", "pwritev64", "pwritev64v2", "posix_fallocate", "posix_fallocate64", "posix_fadvise64",
        "sem_wait", "do_futex_wait", "do_futex_wait.constprop", "syscall", "nanosleep", "usleep",
        "clock_nanosleep", "memcpy",
    }
)  # fmt: skip
NOT_RECORDED = {
    "frames": "waiting is not known by function: callers are not found by frame pointers in these builds",
    "kernel": "waiting is not known by function: perf may not see here when a process leaves its processor",
}


def waiter(stack: str) -> str | None:
    """The function of the server that waits in a stack; None for a wait that is no session's own."""
    frames = stacks.begun(stack)
    if frames[0] not in _SESSIONS or not _FOR_CLIENTS.isdisjoint(frames):
        return None
    for frame in reversed(frames[1:]):
        name = frame.partition("@")[0]
        is_plumbing = name in _ANY_WAIT or name.startswith(("__", "[", "_IO_"))
        if not is_plumbing and not frame.endswith(stacks.KERNEL_MARK):
            return frame
    return frames[0]


@lru_cache(maxsize=1024)
def _waits_of(trial: Path) -> Mapping[tuple[str, ...], float] | None:
    folded = folded_waits(trial)
    if folded is None:
        return None
    return {frames: us / UNIT_US for frames, us in by_waiter(folded).items()}


def by_waiter(folded: Mapping[str, int]) -> Mapping[tuple[str, ...], int]:
    """The µs of waiting by the function that waits, as a stack of it alone; only those of sessions."""
    found: Counter[tuple[str, ...]] = Counter()
    for stack, us in folded.items():
        name = waiter(stack)
        if name is not None:
            found[name,] += us
    return found


def waiting(
    study: Study, trials: Sequence[StoredTrial], renamed: Mapping[str, Mapping[str, str]]
) -> tuple[FunctionTimes, ...]:
    """The functions that wait longest, a family of their own; () where nothing waited or none of it is known.

    Raises UsageError for a damaged file.
    """
    found: Profiled | None = gather(study, trials, renamed, read=_waits_of, rate_hz=1e6 / UNIT_US)
    return () if found is None or not found.own else judged(study, found, own=True)


def why_not_recorded(facts: Sequence[ProfileFacts]) -> str:
    """A note where it could not be recorded what waits; '' where it was, or nobody asked."""
    if all(each.switch_period != 0 for each in facts):
        return ""
    has_frames = all(each.stacks == "frame pointers" for each in facts)
    return NOT_RECORDED["kernel" if has_frames else "frames"]
