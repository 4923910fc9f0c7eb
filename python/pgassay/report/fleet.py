"""A fleet's machines as lines for a person or one document for scripts; pure."""

from datetime import datetime, timedelta

from pgassay.model.machines.fleet import FleetMachine, FleetStatus
from pgassay.report.page import json_text
from pgassay.report.text import aligned, ascii_only, clean
from pgassay.words import bare_quantity, plural, size

_RENEWED_BEFORE = timedelta(days=3)
_HEADS = ["MACHINE", "STATE", "ROUND TRIP", "HOST", "PART OF ITS HOST"]


def render(status: FleetStatus, *, now: datetime, unicode: bool = True) -> str:
    """The scheduler, a line for each machine, and what to type where one is lost or the certificates end."""
    lines = [
        f"Scheduler {clean(status.scheduler)}: "
        f"{'answers' if status.scheduler_answers else 'does not answer'}. {_certificates(status, now)}",
        "",
        *aligned([_HEADS, *(_row(machine) for machine in status.machines)]),
        "",
        _summary(status),
    ]
    text = "\n".join(lines) + "\n"
    return text if unicode else ascii_only(text)


def render_json(status: FleetStatus) -> str:
    """One JSON document with a newline at its end; schema in schemas/fleet.schema.json."""
    return json_text(status)


def _row(machine: FleetMachine) -> list[str]:
    trip = "" if machine.round_trip_ms is None else f"{bare_quantity(machine.round_trip_ms, 'ms')} ms"
    part = ""
    if machine.is_part_of_host:
        cores = ",".join(map(str, machine.cores))
        part = f"processor {cores}" if len(machine.cores) == 1 else f"processors {cores}"
        part += "" if machine.memory_bytes is None else f", {size(machine.memory_bytes)}"
    host = f"{machine.counts_as} (declared)" if machine.counts_as else machine.host
    return [clean(machine.name), machine.state, trip, clean(host), part]


def _certificates(status: FleetStatus, now: datetime) -> str:
    """Until when they hold; at their end all machines are lost at once."""
    ends = datetime.fromisoformat(status.certificate_ends)
    until = f"Certificates until {ends:%Y-%m-%d}"
    if ends - now > _RENEWED_BEFORE or status.kind == "existing":
        return f"{until}."
    return f"{until}: type pgassay fleet stop and start before."


def _summary(status: FleetStatus) -> str:
    ready = sum(machine.state == "ready" for machine in status.machines)
    if ready < len(status.machines) or not status.scheduler_answers:
        remedy = (
            "look after that cluster"
            if status.kind == "existing"
            else f"type pgassay fleet start --file {clean(status.file)} to start again what has ended"
        )
        return f"{ready} of {plural(len(status.machines), 'machine')} ready: {remedy}."
    return f"{plural(ready, 'machine')} ready, on {plural(status.hosts, 'host')}."
