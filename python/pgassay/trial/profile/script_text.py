"""What `perf script -F pid,time,ip,sym,dso` writes, read: one sample after the other, and their folding.

A sample is a line with the process and the time, the frames below it, the innermost first, and an empty line:

    4711 32465.833086:
            ffffffff815dc885 lock_vma_under_rcu ([kernel.kallsyms])
                      41f2a3 hash_search_with_hash_value (/usr/lib/postgresql/18/bin/postgres)

Lines that are none of these are passed over: perf writes what it lost among them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

_HEAD = re.compile(r"\s*(-?\d+)\s+(\d+)\.(\d{1,9}):")
_FRAME = re.compile(r"\s+([0-9a-f]+)\s+(.*)")
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

    is_kernel: of each frame whether it is the kernel's.
    """

    pid: int
    clock_ns: int
    frames: tuple[str, ...]
    is_kernel: tuple[bool, ...]


class ScriptReader:
    """Reads the samples of a recording; `lost` counts those that perf says it lost, once all are read."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.lost = 0

    def __iter__(self) -> Iterator[Sample]:
        head: tuple[int, int] | None = None
        names: list[str] = []
        kernel: list[bool] = []
        for line in self._lines:
            found = _HEAD.match(line)
            if found is not None:
                if head is not None:
                    yield Sample(*head, tuple(names), tuple(kernel))
                head = int(found[1]), int(found[2]) * 1_000_000_000 + int(found[3].ljust(9, "0"))
                names, kernel = [], []
            elif head is not None and (frame := _FRAME.match(line)) and len(names) < FRAMES_MAX:
                name, is_kernel = _frame(frame[2])
                names.append(name)
                kernel.append(is_kernel)
            if "LOST" in line and (lost := _LOST.search(line)):
                self.lost += int(lost[1] or 1)
        if head is not None:
            yield Sample(*head, tuple(names), tuple(kernel))


def _frame(text: str) -> tuple[str, bool]:
    """A frame's name and whether it is the kernel's; of a function without a name it is its file's."""
    symbol, _, rest = text.rstrip().partition(" (")
    path = rest.removesuffix(")").removesuffix(" (deleted)")
    is_kernel = path.startswith(("[kernel", "[guest.kernel")) or path.endswith(".ko")
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
