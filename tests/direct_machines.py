"""Machines of a fleet without anything between them: real agents, homes and experiments, called directly.

Requests and answers go through JSON, as they do on any way. Each machine has a network namespace and a host's
name of its own, so that it has a lock of its own and counts as another machine.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import jsonschema

import whole_tool
from pgassay.cli.main import parser
from pgassay.cli.options import request_of
from pgassay.fleet.agent import Agent
from pgassay.fleet.agent_requests import Document, MachineLostError
from pgassay.fleet.spreading.coordinate import PollingPace
from pgassay.fleet.spreading.run_spread import SpreadRequest
from pgassay.model.machines.combined import CombinedResult
from pgassay.record.experiment import load
from pgassay.report import schema
from pgassay.terminal.fleet import MachineRow

# No test waits for a machine that nobody is going to bring back.
PACE = PollingPace(visit_s=0.1, lost_s=0.1, patience_s=1.0, stop_s=60.0, copy_s=1.0)
_APART = """
hostname "$1"; ip link set lo up 2>/dev/null
[ -z "$2" ] || mount --bind "$2" /etc/machine-id
shift 2; exec "$@"
"""


class DirectMachine:
    """An agent as a machine; `is_lost` takes it away, and what it runs goes on."""

    def __init__(self, name: str, home: Path, *, is_part_of_host: bool = False) -> None:
        self.name, self.home = name, home
        # All of them stand on one host, which nobody would believe them to be machines of.
        self.counts_as = name
        # A file with an identity of its own, as containers have.
        self.machine_id: Path | None = None
        self.is_lost = False
        self.asked: list[Document] = []
        self._options = {"is_part_of_host": is_part_of_host}
        self.agent = self._agent()

    @property
    def host(self) -> str:
        return self.name

    def request(self, document: Document, *, timeout_s: float = 60.0) -> Document:
        del timeout_s
        if self.is_lost:
            raise MachineLostError(f"{self.name} is away")
        self.asked.append(document)
        answer: Document = json.loads(json.dumps(self.agent.handle(json.loads(json.dumps(document)))))
        return answer

    def restart(self) -> None:
        """As a worker that was killed and begun again: what ran has ended, its home is as it was."""
        self.agent.close()
        self.agent = self._agent()

    def count(self, operation: str) -> int:
        return sum(document.get("operation") == operation for document in self.asked)

    def _agent(self) -> Agent:
        own = ("sh", self.name, str(self.machine_id or ""), sys.executable)
        apart = ("unshare", "--uts", "--net", "--mount", "sh", "-c", _APART, *own)
        return Agent(self.home, python=apart, **self._options)


class DirectFleet:
    """All machines that a test made."""

    def __init__(self, *machines: DirectMachine) -> None:
        self._machines = machines

    def machines(self) -> Sequence[DirectMachine]:
        return self._machines

    def __getitem__(self, name: str) -> DirectMachine:
        return next(machine for machine in self._machines if machine.name == name)


class Heard:
    """A view that remembers; `on_standing` is called at each look, and may do what a test wants then."""

    def __init__(self, on_standing: Callable[[Sequence[MachineRow]], None] = lambda _: None) -> None:
        self.messages: list[str] = []
        self._on_standing = on_standing

    def message(self, content: str) -> None:
        self.messages.append(content)

    def standing(self, machines: Sequence[MachineRow], result: CombinedResult | None) -> None:
        del result
        self._on_standing(machines)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        pass


@contextmanager
def fleet_of(*names: str, homes: Sequence[Path] = ()) -> Iterator[DirectFleet]:
    """Machines with prepared homes, or those given; nothing is left of them."""
    with ExitStack() as stack:
        made = [*homes, *(stack.enter_context(whole_tool.prepared_home()) for _ in names[len(homes) :])]
        fleet = DirectFleet(*(DirectMachine(name, home) for name, home in zip(names, made, strict=True)))
        try:
            yield fleet
        finally:
            for machine in fleet.machines():
                machine.agent.close()
        for home in made:
            assert not whole_tool.servers_below(home)


def asked(*words: str, out: Path) -> SpreadRequest:
    """`pgassay compare words…` with the build of the tests, as its command line makes it."""
    typed = ["compare", *words, *whole_tool.build(), *whole_tool.SMALL, "--plans", "off", "--observe", "off"]
    arguments = parser().parse_args([*typed, "--out", str(out)])
    arguments.words = ["pgassay", *typed]
    return SpreadRequest(
        request_of(arguments),
        tuple(typed[1:]),
        tuple(arguments.words),
        out.parent / "fleet.toml",
        until_decided=not arguments.all_blocks,
        spread=arguments.spread,
    )


def numbers(folder: Path) -> list[tuple[int, int]]:
    """Number and attempt of each trial that came home."""
    return [(trial.record.number, trial.record.attempt) for trial in load(folder).trials]


def assert_whole(out: Path, result: CombinedResult, *names: str) -> None:
    """Each trial once, all of blocks of their own machine, and the result is what the folder says again."""
    for name in names:
        found = numbers(out / "machines" / name)
        assert found
        assert len(found) == len(set(found))
        assert {trial.record.host for trial in load(out / "machines" / name).trials} == {name}
    reported = whole_tool.result_of(whole_tool.run("report", out, "--json"))
    jsonschema.validate(reported, schema.COMBINED.schema(), cls=jsonschema.Draft202012Validator)
    these = reported["arms"][0]["these_machines"]
    assert these["blocks"] == result.arms[0].these_machines.blocks
    assert not list(out.rglob("*.tmp"))


def assert_one_experiment(fleet: DirectFleet, out: Path, result: CombinedResult, heard: Heard) -> None:
    """Two machines, alpha and beta, have run blocks of their own, which are one result and nowhere else."""
    assert result.stopped == "blocks"
    assert result.arms[0].these_machines.machines == 2
    assert {machine.name for machine in result.machines} == {"alpha", "beta"}
    assert all(machine.blocks >= 1 for machine in result.machines)
    assert len({load(out / "machines" / name).experiment.contract.seed for name in ("alpha", "beta")}) == 2
    assert any("alpha and beta: each runs all arms in blocks of its own" in line for line in heard.messages)
    # What came home is not kept on the machines.
    assert not [path for machine in fleet.machines() for path in (machine.home / "fleet/runs").iterdir()]
    assert_whole(out, result, "alpha", "beta")
    assert "alpha" in (out / "report.html").read_text()
