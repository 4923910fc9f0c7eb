"""How `make test` spreads the tests: most over all processors, then those with measured servers one by one.

A server that is measured wants the machine for itself: its tests wait until all the others have ended, and
one process runs them. Used with pytest-xdist's `--dist loadgroup`, which appends a test's group to its id.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import pytest
from xdist.scheduler import LoadScheduling
from xdist.workermanage import WorkerController

# Few, so that the processes end at about the same time; more than one, so that none waits for the next.
_AT_ONCE = 4
_SHARING = "tests/server/"


class PureThenServers(LoadScheduling):
    """Hands out what may run beside other tests, and the rest to one process once nothing else runs."""

    _waiting: Sequence[int] = ()

    def __init__(self, config: pytest.Config, log: Any, suffix: str) -> None:
        """`suffix` is what ends the ids of the tests with servers."""
        super().__init__(config, log)
        self._suffix = suffix

    def schedule(self) -> None:
        """Begin; called again when a process that crashed was replaced."""
        if self.collection is None:
            if not self._check_nodes_have_same_collection():
                return
            waiting: list[int] = []
            self.collection = next(iter(self.node2collection.values()))
            for number, name in enumerate(self.collection):
                (waiting if name.endswith(self._suffix) else self.pending).append(number)
            self._waiting = waiting
            # The long ones first, so that the processes end at about the same time.
            self.pending.sort(key=lambda number: not self._keeps_together(number))
        for node in self.nodes:
            self.check_schedule(node)

    @property
    def tests_finished(self) -> bool:
        """Whether nothing is left to hand out; a process runs its last test when it is told to end."""
        return super().tests_finished and not self._waiting

    def check_schedule(self, node: WorkerController, duration: float = 0) -> None:  # noqa: ARG002 - LoadScheduling's
        """Give a process its next tests, or end it, and begin with the servers when it was the last one."""
        if not node.shutting_down:
            # A process begins with a test when it knows its next one.
            while self.pending and len(self.node2pending[node]) < 2:
                self._send_tests(node, self._next_few())
            if not self.pending and (node is not self._kept() or not self._waiting):
                node.shutdown()
        self._begin_with_servers()

    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a process that ended, or crashed; return the test that it crashed in."""
        crashed = super().remove_node(node)
        self._begin_with_servers()
        return crashed

    def _keeps_together(self, number: int) -> bool:
        """Whether the tests of its file share servers and data that take long to make."""
        assert self.collection is not None
        return self.collection[number].startswith(_SHARING)

    def _next_few(self) -> int:
        """How many of the pending tests go to one process now: a whole file of those that share."""
        assert self.collection is not None
        if not self._keeps_together(self.pending[0]):
            return _AT_ONCE
        file = self.collection[self.pending[0]].partition("::")[0]
        names = (self.collection[number] for number in self.pending)
        return sum(1 for _ in takewhile(lambda name: name.partition("::")[0] == file, names))

    def _kept(self) -> WorkerController | None:
        """The process that is to run the tests with servers; none between a crash and its replacement."""
        return next((node for node in self.nodes if not node.shutting_down), None)

    def _begin_with_servers(self) -> None:
        """A process keeps its last test until it has a next one: the kept one's is no reason to wait."""
        kept = self._kept()
        if kept is None or not self._waiting or self.pending or len(self.node2pending[kept]) > 1:
            return
        if not any(self.node2pending[node] for node in self.nodes if node is not kept):
            self.pending, self._waiting = list(self._waiting), ()
            self._send_tests(kept, len(self.pending))
            kept.shutdown()
