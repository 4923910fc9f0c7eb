"""How the processor time of a function grows, for tests that must hold on any machine and beside any load."""

import time
from collections.abc import Callable


def processor_s(work: Callable[[], object], repeats: int = 3) -> float:
    """The least processor time of this process over some calls, after one that fills the caches."""
    work()
    taken = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return min(taken)


def growth(small: Callable[[], object], large: Callable[[], object]) -> float:
    """How many times the processor time of `small` the work `large` takes."""
    return processor_s(large) / max(processor_s(small), 1e-4)
