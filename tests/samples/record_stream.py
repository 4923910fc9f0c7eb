"""Records a stream of real A/A trials: `python tests/samples/record_stream.py [SLOTS]`, as root or not.

Two servers with the same settings run side by side, each on its own copy of the same data, which lie where
memory and the file system put them. In each slot both run one trial, in an order drawn for the slot: a scan
of a table that is wholly in shared buffers is timed. So at every moment of the stream there is a trial on
either copy, and any design can take the one that it would have run then. Nothing differs between two trials
but their time, their copy and what ran before them.

Who may runs them before all else on the machine, as on one that is kept free for measuring.

Servers, copies, cache states and the clock are the product's own. What a whole trial has beside them
(restoring, settling, samplers) is left out: it would take ten times as long as the scan.
"""

import json
import math
import os
import random
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from pgassay.environment.builds.registry import resolve
from pgassay.environment.datasets import snapshots
from pgassay.environment.server.private_server import Server
from pgassay.errors import InvalidTrialError
from pgassay.model.arm import ArmSpec, DatasetSpec
from pgassay.model.experiment import Protocol
from pgassay.model.storage import StorageSpec
from pgassay.storage.registry import provide
from pgassay.trial.caches import states
from pgassay.trial.caches.relations import user_relations
from pgassay.trial.measure.timed_statements import StatementTimer, explain_all
from pgassay.trial.target import LocalTrialServer, RunningServer
from pgassay.workloads.registry import parse_workload

SLOTS, COPIES, WARM_UP = 2400, 2, 5
ATTEMPTS_MAX = 5
OUTPUT = Path(__file__).parent.parent / "statistics" / "aa_stream.json"
SETTINGS = {"shared_buffers": "384MB", "autovacuum": "off", "max_parallel_workers_per_gather": "0"}


class CopyOfTheData:
    """A running server on one copy of the data, and the session whose scan is timed."""

    def __init__(self, stack: ExitStack, spec: ArmSpec, copy: int) -> None:
        snapshot = snapshots.ensure(spec.build, spec.dataset, (), lambda stage, _: print(stage, flush=True))
        volume = provide(spec.storage, COPIES * snapshot.bytes)
        stack.callback(volume.remove)
        working = volume.clone(snapshot.path, snapshot.key, copy)
        volume.mark(working, clean=False)
        server = stack.enter_context(Server(spec.build, working, SETTINGS))
        running = RunningServer(server, {})
        stack.callback(running.close_control)
        self.relations = user_relations(running.control, working)
        states.make_buffers_warm(running.control, self.relations, states.capabilities(running.control))
        self.explained = explain_all(running, spec)
        local = LocalTrialServer(running, False, volume.device, None, None)
        protocol = Protocol(cache="warm-buffers")
        self.timer = stack.enter_context(
            StatementTimer(running, spec, protocol, local, self.relations, lambda _: None)
        )

    def scan(self) -> float:
        """One trial: the log speed of a scan whose pages are all in shared buffers."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                (statement,) = self.timer.run(self.explained, None).statements
                return -math.log(statement.elapsed_s)
            except InvalidTrialError as reason:
                print(reason, flush=True)
                if attempt == ATTEMPTS_MAX:
                    raise
        raise AssertionError("unreachable")


def main() -> int:
    """Record the stream and write it beside this file."""
    slots = int(sys.argv[1]) if len(sys.argv) > 1 else SLOTS
    spec = ArmSpec(
        build=resolve(None),
        storage=StorageSpec(),
        dataset=DatasetSpec(scale=5),
        settings=SETTINGS,
        workload=parse_workload("full-scan:only=read-table"),
    )
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    draw = random.Random("the order of the copies within a slot")
    with ExitStack() as stack:
        copies = [CopyOfTheData(stack, spec, copy) for copy in range(COPIES)]
        print("recording", flush=True)
        for _ in range(WARM_UP):
            for each in copies:
                each.scan()
        begin = time.monotonic()
        started_s, first_copy, log_speed = [], [], []
        for _ in range(slots):
            order = draw.sample(range(COPIES), COPIES)
            started_s.append(round(time.monotonic() - begin, 1))
            first_copy.append(order[0])
            seen = {copy: round(copies[copy].scan(), 4) for copy in order}
            log_speed.append([seen[copy] for copy in range(COPIES)])
            write(spec, started_s, first_copy, log_speed)
    return 0


def write(spec: ArmSpec, started_s: list[float], first_copy: list[int], log_speed: list[list[float]]) -> None:
    """The stream so far, one list for each column; log_speed is minus the log of seconds, by copy."""
    if len(started_s) % 100:
        return
    document = {
        "postgresql": spec.build.version,
        "statement": spec.workload.statements[0].sql,
        "started_s": started_s,
        "first_copy": first_copy,
        "log_speed": log_speed,
    }
    OUTPUT.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
