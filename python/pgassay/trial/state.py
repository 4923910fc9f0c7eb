"""What a trial knows of itself while it runs, and how that becomes its record: on any kind of server."""

import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pgassay.environment.linux import machine
from pgassay.errors import InvalidTrialError, MeasurementError
from pgassay.model.trial import TrialRecord, TrialSpec, TrialStatus
from pgassay.trial.observation import Observation

Progress = Callable[[str], None]


class TrialState:
    """The state of one trial while it runs; `fields` become the record."""

    def __init__(self, spec: TrialSpec, progress: Progress) -> None:
        self.spec = spec
        self.progress = progress
        self.started = time.monotonic()
        self.started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.observation = Observation()
        self.fields: dict[str, Any] = {}
        self.facts: dict[str, Any] = {}
        self.warnings: list[str] = []

    def record(self, status: TrialStatus, reason: str) -> TrialRecord:
        """What is known of the trial so far, as its record."""
        spec = self.spec
        return TrialRecord(
            number=spec.number,
            attempt=spec.attempt,
            block=spec.block,
            position=spec.position,
            arm_id=spec.arm.id,
            status=status,
            reason=reason,
            started_at=self.started_at,
            ended_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            wall_s=round(time.monotonic() - self.started, 6),
            host=socket.gethostname(),
            boot_id=machine.boot_id(),
            clock_ns=self.observation.clock_ns,
            statements=tuple(self.observation.statements),
            load=self.observation.load,
            maintenance=tuple(self.observation.maintenance),
            facts=self.facts,
            warnings=tuple(dict.fromkeys(self.warnings + self.observation.warnings)),
            **self.fields,
        )


def attempt(measure: Callable[[], None], look: str = "") -> tuple[TrialStatus, str]:
    """Measure; the status and the reason of what a trial may fail with. `look`: where to read more."""
    import psycopg

    try:
        measure()
    except InvalidTrialError as error:
        return "invalid", str(error)
    except MeasurementError as error:
        return "failed", str(error)
    except (psycopg.Error, OSError) as error:
        sentence = str(error).strip().split("\n")[0]
        return "failed", f"the server did not answer any more ({sentence}){look}"
    return "ok", ""
