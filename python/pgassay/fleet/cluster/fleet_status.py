"""`pgassay fleet status`: which machines answer now, and how soon."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pgassay.fleet.agent_requests import MachineLostError
from pgassay.fleet.cluster import fleet_file, nodes
from pgassay.fleet.cluster.certificates import expires
from pgassay.fleet.cluster.cluster_connection import DaskFleet, DaskMachine
from pgassay.model.machines.fleet import FleetMachine, FleetStatus

_PATIENCE_S = 10.0
_AT_ONCE = 32


def status(path: Path) -> FleetStatus:
    """Ask all. Raises UsageError for a file or certificates that can't be used."""
    fleet = fleet_file.read(path)
    ends = expires(fleet.certificates.certificate)
    with DaskFleet(fleet) as machines:
        try:
            machines.find(_PATIENCE_S)
            answers = True
        except MachineLostError:
            answers = False
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            known = list(machines.machines())
            found = tuple(threads.map(_machine if answers else _lost, known))
    return FleetStatus(
        file=str(path),
        kind=fleet.kind,
        scheduler=fleet.scheduler,
        scheduler_answers=answers,
        certificate_ends=ends.isoformat(),
        hosts=len({each.counts_as or each.host for each in found if each.state == "ready"}),
        machines=found,
    )


def _machine(machine: DaskMachine) -> FleetMachine:
    started_s = time.monotonic()
    try:
        machine.request(nodes.PING, timeout_s=_PATIENCE_S)
    except MachineLostError:
        return _lost(machine)
    took_ms = (time.monotonic() - started_s) * 1000
    return _lost(machine).model_copy(
        update={"state": "ready", "round_trip_ms": took_ms, "host": machine.host}
    )


def _lost(machine: DaskMachine) -> FleetMachine:
    entry = machine.entry
    return FleetMachine(
        name=entry.name,
        host=entry.host,
        counts_as=machine.counts_as,
        ssh=entry.ssh,
        state="lost",
        round_trip_ms=None,
        is_part_of_host=entry.is_part_of_host,
        cores=entry.cores,
        memory_bytes=entry.memory_bytes,
    )
