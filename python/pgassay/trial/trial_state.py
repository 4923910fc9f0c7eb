"""What a trial knows of itself while it runs, what was measured, and how both become its record."""

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from pgassay.environment.linux import machine
from pgassay.errors import InvalidTrialError, MeasurementError, first_line
from pgassay.model.maintenance import MaintenanceObservation
from pgassay.model.plans.executed_plan import WorkPlan
from pgassay.model.trial import (
    CounterRow,
    LoadObservation,
    StatementObservation,
    TrialRecord,
    TrialSpec,
    TrialStatus,
)
from pgassay.model.vacuum_state import VacuumState
from pgassay.trial.target import Target

LOG_BYTES_MAX = 4 * 1024 * 1024

OnStep = Callable[[str], None]
# A plan, or one node of it, as EXPLAIN (FORMAT JSON) gives it.
Plan = Mapping[str, object]


@dataclass
class Observation:
    """The raw outcome of a measurement, before it is verified.

    `files` are further observation files by name; `plans` maps a statement to its EXPLAIN document,
    `work_plans` those that were due to be executed after the trial to what came of it.
    """

    statements: list[StatementObservation] = field(default_factory=list)
    load: LoadObservation | None = None
    maintenance: list[MaintenanceObservation] = field(default_factory=list)
    clock_ns: tuple[int, int] | None = None
    plans: dict[str, Plan] = field(default_factory=dict)
    work_plans: dict[str, WorkPlan] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


class RecordFields(TypedDict, total=False):
    """Fields of `TrialRecord` that a trial knows once it has come so far."""

    canary_s: float
    memory_s: float
    disk_s: float
    repeated_s: tuple[float, ...]
    plans_s: float
    steal_s: float
    server_cpu_s: float
    clock_offset_ns: tuple[int, int]
    upkeep_before: VacuumState | None
    upkeep_after: VacuumState | None
    counters: dict[str, list[CounterRow]]
    verification: dict[str, int | None]


@dataclass(frozen=True)
class NeutralTrial:
    """The neutral trial that ran before another: what it took, and why it failed ('' when it did not)."""

    seconds: float
    failure: str = ""


class TrialState:
    """The state of one trial while it runs; `fields` become the record, `observations` files by their names.

    `machine` is that of the servers where it is this one: then what each stage took is a fact of the record.
    """

    def __init__(
        self, spec: TrialSpec, target: Target, on_step: OnStep, neutral: NeutralTrial | None = None
    ) -> None:
        self.spec = spec
        self.neutral = neutral
        self.arm = spec.arm.spec
        self.target = target
        self.machine = target.machine
        self.on_step = on_step
        self.log_offset = _size(self.machine.log) if self.machine else 0
        self._stage = ""
        self._stage_s: dict[str, float] = {}
        self.started = time.monotonic()
        # Of a start that several trials share, what this one took of its time.
        self.share_s: float | None = None
        self.started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.observation = Observation()
        self.observations: dict[str, bytes] = {}
        self.fields: RecordFields = {}
        self.facts: dict[str, object] = {}
        # Parts of the facts that grow while the trial runs.
        self.server_facts: dict[str, object] = {}
        self.limit_facts: dict[str, float | None] = {}
        # What the user's command before the trial did.
        self.before_facts: dict[str, float | int | bool | None] = {}
        self.warnings: list[str] = []
        if neutral is not None and neutral.failure:
            self.warnings.append(f"the neutral trial before a trial failed: {neutral.failure}")
        self._stage_began = self.started

    def stage(self, name: str) -> None:
        """The trial comes to its next stage; what the one before took is kept, to show the overhead."""
        now = time.monotonic()
        if self._stage:
            took = self._stage_s.get(self._stage, 0.0) + now - self._stage_began
            self._stage_s[self._stage] = round(took, 4)
        self._stage, self._stage_began = name, now
        if name:
            self.on_step(name)

    def took_s(self, name: str) -> float:
        """The seconds of a stage that has ended; 0 of one that was never come to."""
        return self._stage_s.get(name, 0.0)

    def log(self) -> bytes:
        """What the servers have logged since the trial began, its beginning where it is long."""
        if self.machine is None or not self.machine.log.exists():
            return b""
        with self.machine.log.open("rb") as file:
            file.seek(self.log_offset)
            return file.read(LOG_BYTES_MAX)

    def record(self, status: TrialStatus, reason: str) -> TrialRecord:
        """What is known of the trial so far, as its record."""
        spec = self.spec
        if self.machine is not None:
            self.facts["stage_s"] = self._stage_s
        if self.before_facts:
            self.facts["before_trial"] = self.before_facts
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
            wall_s=round(self._wall_s(), 6),
            host=socket.gethostname(),
            boot_id=machine.boot_id(),
            neutral_s=round(self.neutral.seconds, 6) if self.neutral else None,
            data_copy=spec.arm.data_copy if self.machine is not None else None,
            clock_ns=self.observation.clock_ns,
            statements=tuple(self.observation.statements),
            load=self.observation.load,
            maintenance=tuple(self.observation.maintenance),
            facts=self.facts,
            warnings=tuple(dict.fromkeys(self.warnings + self.observation.warnings)),
            **self.fields,
        )

    def _wall_s(self) -> float:
        if self.share_s is not None:
            return self.share_s
        return time.monotonic() - self.started - self.fields.get("plans_s", 0.0)


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def outcome(measure: Callable[[], None], details: str) -> tuple[TrialStatus, str]:
    """Measure; the status and the reason of what a trial may fail with. `details`: where to read more."""
    import psycopg

    try:
        measure()
    except InvalidTrialError as error:
        return "invalid", str(error)
    except MeasurementError as error:
        return "failed", str(error)
    except (psycopg.Error, OSError) as error:
        return "failed", f"the server stopped answering ({first_line(error)}){details}"
    return "ok", ""
