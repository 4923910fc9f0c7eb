"""Brings a running server and the page cache into the protocol's cache state, in the right order.

Buffers first (that may take a restart), then the measured session opens and warms its catalogs,
then the pages: so nothing that preparing touches is left in a cache that should be empty. After a new start
the server's shared memory is touched first of all, so that no measured statement pays for first faults.
"""

import os
import re
from pathlib import Path

from pgassay.environment.cgroup.group import Cgroup
from pgassay.errors import UsageError
from pgassay.model.arm import ArmSpec
from pgassay.model.experiment import CacheState
from pgassay.trial.caches import states
from pgassay.trial.caches.relations import Relation
from pgassay.trial.target import RunningServer
from pgassay.trial.trial_caps import load_inside

_CHUNK = 8 * 1024 * 1024
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-s \S+ \S+ \d+\s*(.*)$", re.MULTILINE)
_SHARED_NAMES = ("/dev/zero (deleted)", "/anon_hugepage (deleted)", "/memfd:", "/SYSV")
_EMPTY_BUFFERS: frozenset[CacheState] = frozenset({"cold", "cold-each", "warm-pages"})


class CacheKeeper:
    """The cache state of one trial. `facts` says what was done and verified."""

    def __init__(
        self,
        server: RunningServer,
        relations: list[Relation],
        cache: CacheState,
        spec: ArmSpec,
        group: Cgroup | None,
    ) -> None:
        """`group` is the server's; pages are loaded from inside it when the arm's memory is capped."""
        self._server = server
        self._spec = spec
        self._group = group if spec.memory_bytes is not None else None
        self._relations = relations
        self._cache = cache
        self._able = states.capabilities(server.control)
        self.facts: dict[str, object] = {"state": cache}

    def know(self, relations: list[Relation]) -> None:
        """From now on these are the relations: a command has given them other files."""
        self._relations = relations

    def prepare_buffers(self, *, fresh: bool) -> None:
        """Empty shared buffers when the state wants that; a fresh server's are empty already."""
        if self._cache in _EMPTY_BUFFERS and not fresh:
            self.empty_buffers()

    def empty_buffers(self) -> bool:
        """Empty shared buffers now; True when it took a restart, which ends every session."""
        if states.empty_buffers(self._server.control, self._able):
            self.facts["buffers_emptied_by"] = "pg_buffercache"
            return False
        self._server.restart()
        self.facts["buffers_emptied_by"] = "restart"
        return True

    def prepare_pages(self) -> None:
        """Bring the page cache into the state, and verify it; raises InvalidTrialError."""
        if self._cache in ("cold", "cold-each"):
            self.facts["resident_bytes"] = states.make_cold(self._relations)
        elif self._cache == "warm-pages":
            self.facts["resident_fraction"] = self._warm_pages()
        elif self._cache == "warm-buffers":
            self.facts["buffered_fraction"] = states.make_buffers_warm(
                self._server.control, self._relations, self._able, self._spec.memory_bytes
            )

    def _warm_pages(self) -> float:
        if self._group is None:
            return states.make_pages_warm(self._relations)
        self.facts["pages_loaded_from"] = "the server's control group"
        return load_inside(states.all_files(self._relations), self._group, self._spec)


def require_cache_state(cache: CacheState, *, can_verify: bool) -> None:
    """Raise UsageError when this system can't make or verify the state."""
    if cache != "as-is" and not can_verify:
        raise UsageError(
            f"--cache {cache}: this system does not show what is in its page cache: "
            "use --cache as-is, or Linux 6.5 or newer"
        )


def prefault_shared_memory(pid: int) -> int:
    """Read the postmaster's shared mappings through; the number of bytes touched (0: not possible).

    The buffers are an anonymous shared mapping: reading it through /proc/PID/mem makes the kernel allocate
    its pages once, for every process that shares them.
    """
    try:
        mappings = _MAPPING.findall(Path(f"/proc/{pid}/maps").read_text())
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    except OSError:
        return 0
    touched = 0
    buffer = bytearray(_CHUNK)
    try:
        for begin, end, name in mappings:
            if not name.startswith(_SHARED_NAMES):
                continue
            position, stop = int(begin, 16), int(end, 16)
            while position < stop:
                view = memoryview(buffer)[: min(_CHUNK, stop - position)]
                count = os.preadv(memory, [view], position)
                if count <= 0:
                    break
                position += count
                touched += count
    except OSError:
        return touched
    finally:
        os.close(memory)
    return touched
