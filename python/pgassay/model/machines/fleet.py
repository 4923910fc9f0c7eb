"""A fleet's machines as they are now: the document of `pgassay fleet status --json`."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen

FLEET_SCHEMA = 1
MachineState = Literal["ready", "lost"]


class FleetMachine(Frozen):
    """One worker. `host` identifies its host, '' where it was never asked; workers of one host count as one.
    `counts_as`: the machine that fleet.toml says it is, '' where its host decides.

    `round_trip_ms` is of one request, None of a lost one. `cores`: the processors' numbers, and
    `memory_bytes`, of one that has a part of its host (`is_part_of_host`). `ssh`: how it is reached, None on
    this machine.
    """

    name: str
    host: str
    ssh: str | None
    state: MachineState
    round_trip_ms: float | None
    is_part_of_host: bool
    cores: tuple[int, ...]
    memory_bytes: int | None
    counts_as: str = ""


class FleetStatus(Frozen):
    """The whole document. `file`: the fleet's; `hosts`: how many the machines that are ready stand on.

    `certificate_ends`: when the certificate of the commands here ends, ISO 8601.
    """

    schema_: int = Field(default=FLEET_SCHEMA, alias="schema")
    file: str
    kind: Literal["local", "ssh", "existing"]
    scheduler: str
    scheduler_answers: bool
    certificate_ends: str
    hosts: int
    machines: tuple[FleetMachine, ...]
