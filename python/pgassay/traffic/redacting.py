"""A capture that can be handed out: written anew without any value of it."""

from dataclasses import dataclass
from pathlib import Path

from pgassay.errors import MeasurementError, UsageError
from pgassay.native.process import NativeProcess, StatementError
from pgassay.traffic import manifest
from pgassay.traffic.blocks import files
from pgassay.traffic.capturing import made_whole

NOTE = (
    "redacted: values are placeholders, equal where the values were; rows, checksums, COPY data and comments "
    "are left out. Times, order, families, errors and counts of rows are as captured"
)
_SERVER_KEPT = ("version", "version_num", "in_recovery")
_OPTIONS_KEPT = ("copy_data", "users", "databases")


@dataclass(frozen=True)
class Redacted:
    """What was replaced and what was left out, counted; `startup`: parameters of startup messages."""

    sessions: int
    literals: int
    parameters: int
    comments: int
    rows: int
    left_out: int
    startup: int
    bytes: int


def redact(folder: Path, out: Path) -> Redacted:
    """Write a capture without its values into a new folder.

    Raises UsageError for what is no capture or no new folder, MeasurementError where it can't be written.
    """
    files(folder)
    known = manifest.read(folder)
    # Without its manifest, which says that it is redacted, a part of it would pass for a capture with values.
    with made_whole(out):
        done = _written(folder, out)
        try:
            manifest.write(out, redacted_manifest(known))
        except OSError as error:
            raise MeasurementError(f"{out} can't be written ({error.strerror})") from None
    return done


def _written(folder: Path, out: Path) -> Redacted:
    with NativeProcess("capture-redact") as process:
        process.send({"from": str(folder.resolve()), "to": str(out.resolve())})
        try:
            return Redacted(**process.receive()["redacted"])
        except StatementError as error:
            raise MeasurementError(error.message) from None


def redacted_manifest(known: dict[str, object]) -> dict[str, object]:
    """A manifest with what tells no value: settings of the server, names of log files and the like go."""
    server, options, totals = known.get("server"), known.get("options"), known.get("totals")
    kept: dict[str, object] = {
        key: known.get(key)
        for key in ("format", "source", "started_at", "started_unix_ns", "ended_at", "lacks")
        if key in known
    }
    if isinstance(totals, dict):
        # Why it could not be written may name a folder.
        kept["totals"] = {key: value for key, value in totals.items() if not isinstance(value, str)}
    return {
        **kept,
        "server": {key: server[key] for key in _SERVER_KEPT if key in server}
        if isinstance(server, dict)
        else None,
        "options": {key: options[key] for key in _OPTIONS_KEPT if key in options}
        if isinstance(options, dict)
        else {},
        "redacted": True,
        "notes": [NOTE],
    }


def refuse_redacted(folder: Path, what: str) -> None:
    """Raise UsageError where a capture's values are stand-ins; `what` needs those that were sent."""
    if manifest.read(folder).get("redacted"):
        raise UsageError(
            f"{folder} is redacted: its values are placeholders, but {what} needs the original "
            "ones: name the original capture"
        )
