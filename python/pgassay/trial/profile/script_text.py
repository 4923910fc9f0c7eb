"""What `perf script -F pid,time,event,ip,sym,dso` writes, read: samples one by one, and their folding.

A sample is a line with the process, the time and the event, the frames below it, the innermost first, and an
empty line:

    4711 32465.833086: cpu-clock/freq=997/:
            ffffffff815dc885 lock_vma_under_rcu ([kernel.kallsyms])
                      41f2a3 hash_search_with_hash_value (/usr/lib/postgresql/18/bin/postgres)

A sample of the event context-switches is where a process leaves its processor. Lines of their own say when
it has left and is back (`4711 32465.9: PERF_RECORD_SWITCH OUT`, or IN), and between the two it waited, unless
it was made to leave (`OUT preempt`).

Lines that are none of these are passed over: perf writes what it lost among them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

_HEAD = re.compile(r"\s*(-?\d+)\s+(\d+)\.(\d{1,9}):\s*(.*)")
_LEAVES, _SWITCH = "context-switches", "PERF_RECORD_SWITCH "
_FRAME = re.compile(r"\s+([0-9a-f]+)\s+(.*)")
# What stands last: a path, a name in brackets, or "inlined". Names of C++ have such brackets of their own.
_FILE = re.compile(r" \(([/\[].*|[^()]*)\)$")
_KERNEL_FROM = 1 << 63
_LOST = re.compile(r"LOST\s+(?:(\d+) events?)?")
_UNKNOWN = "[unknown]"
# What a compiler appends to the name of a function that it made another form of.
_FORMS = re.compile(r"(?:\.(?:constprop|isra|part|cold|lto_priv|localalias|llvm)(?:\.\d+)*)+$")
# The kernel's functions are marked as in other folded stacks.
KERNEL_MARK = "_[k]"
FRAMES_MAX = 512


@dataclass(frozen=True)
class Sample:
    """One sample: the process, the time on perf's clock in ns, the names of the frames, innermost first.

    is_kernel: of each frame whether it is the kernel's. waited_ns: how long the process waited from then on,
    0 for a sample of one that ran.
    """

    pid: int
    clock_ns: int
    frames: tuple[str, ...]
    is_kernel: tuple[bool, ...]
    waited_ns: int = 0


class ScriptReader:
    """Reads the samples of a recording; `lost` counts those that perf says it lost, once all are read."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.lost = 0

    def __iter__(self) -> Iterator[Sample]:
        waits = _Waits()
        head: tuple[int, int] | None = None
        leaves = False
        names: list[str] = []
        kernel: list[bool] = []
        for line in _ended(self._lines):
            found = None if line is None else _HEAD.match(line)
            if found is not None or line is None:
                if head is not None:
                    sample = Sample(*head, tuple(names), tuple(kernel))
                    if leaves:
                        waits.leaves(sample)
                    else:
                        yield sample
                head = None
            if line is None:
                return
            if found is not None:
                pid, clock_ns = int(found[1]), int(found[2]) * 1_000_000_000 + int(found[3].ljust(9, "0"))
                names, kernel = [], []
                if found[4].startswith(_SWITCH):
                    waited = waits.switched(pid, clock_ns, found[4].removeprefix(_SWITCH).strip())
                    if waited is not None:
                        yield waited
                else:
                    head, leaves = (pid, clock_ns), found[4].startswith(_LEAVES)
            elif head is not None and (frame := _FRAME.match(line)) and len(names) < FRAMES_MAX:
                name, is_kernel = _frame(int(frame[1], 16), frame[2])
                names.append(name)
                kernel.append(is_kernel)
            if "LOST" in line and (lost := _LOST.search(line)):
                self.lost += int(lost[1] or 1)


def _ended(lines: Iterable[str]) -> Iterator[str | None]:
    """The lines, and None behind the last one."""
    yield from lines
    yield None


class _Waits:
    """Puts together where a process left its processor, and when it left and came back."""

    def __init__(self) -> None:
        self._leaving: dict[int, Sample] = {}
        self._away: dict[int, Sample] = {}

    def leaves(self, sample: Sample) -> None:
        """A process is about to leave its processor there."""
        self._leaving[sample.pid] = sample

    def switched(self, pid: int, clock_ns: int, how: str) -> Sample | None:
        """The wait that ends as a process comes back ('IN'), if its beginning was sampled."""
        if how == "IN":
            self._leaving.pop(pid, None)
            away = self._away.pop(pid, None)
            return None if away is None else replace(away, waited_ns=max(1, clock_ns - away.clock_ns))
        leaving = self._leaving.pop(pid, None)
        if leaving is not None and how == "OUT":
            self._away[pid] = replace(leaving, clock_ns=clock_ns)
        return None


def _frame(address: int, text: str) -> tuple[str, bool]:
    """A frame's name and whether it is the kernel's; of a function without a name it is its file's.

    The kernel is in the upper half of all addresses, and its modules are called as they like: [ext4].
    """
    last = _FILE.search(text.rstrip())
    symbol, path = (text.rstrip(), "") if last is None else (text[: last.start()], last[1])
    path = path.removesuffix(" (deleted)")
    is_kernel = path.startswith(("[kernel", "[guest.kernel")) or path.endswith(".ko")
    is_kernel = is_kernel or (address >= _KERNEL_FROM and path != "[vsyscall]")
    if not symbol or symbol == _UNKNOWN:
        file = path.strip("[]").rpartition("/")[2] or "unknown"
        return f"[{_clean('kernel' if is_kernel else file)}]", is_kernel
    return _clean(_FORMS.sub("", symbol)), is_kernel


def _clean(name: str) -> str:
    """A name without what separates frames and counts in folded stacks."""
    return re.sub(r"[;\s]+", ":", name)


def fold(samples: Iterable[Sample], *, callers: bool, keep: Callable[[Sample], bool]) -> Counter[str]:
    """How many samples each stack has, outermost first, joined by ';'.

    callers: whether the callers of user functions are known; without them only the innermost one is kept, and
    the kernel's below it.
    """
    folded: Counter[str] = Counter()
    for sample in samples:
        if keep(sample):
            folded[_stack(sample, callers=callers)] += 1
    return folded


def _stack(sample: Sample, *, callers: bool) -> str:
    names: list[str] = []
    for name, is_kernel in zip(sample.frames, sample.is_kernel, strict=True):
        names.append(name + KERNEL_MARK if is_kernel else name)
        if not callers and not is_kernel:
            break
    return ";".join(reversed(names)) or _UNKNOWN


def fold_waits(
    samples: Iterable[Sample], *, first_ns: int, last_ns: int, period: int, waits: Counter[str]
) -> Iterator[Sample]:
    """Pass on the samples of what ran, and add what waited to `waits`: by stack the µs of it.

    Of each wait the part from first_ns to last_ns counts; it stands for `period` of them.
    """
    nanoseconds: Counter[str] = Counter()
    for sample in samples:
        if not sample.waited_ns:
            yield sample
            continue
        within_ns = min(last_ns, sample.clock_ns + sample.waited_ns) - max(first_ns, sample.clock_ns)
        if within_ns > 0:
            nanoseconds[_stack(sample, callers=True)] += period * within_ns
    waits.update({stack: round(waited / 1000) for stack, waited in nanoseconds.items()})
