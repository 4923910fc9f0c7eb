"""What a measurement hands to the record."""

from dataclasses import dataclass, field
from typing import Any

from pgassay.model.maintenance import MaintenanceObservation
from pgassay.model.trial import LoadObservation, StatementObservation


@dataclass
class Observation:
    """The raw outcome of a measurement, before it is verified.

    `files` are further observation files by name; `plans` maps a statement to its EXPLAIN document.
    """

    statements: list[StatementObservation] = field(default_factory=list)
    load: LoadObservation | None = None
    maintenance: list[MaintenanceObservation] = field(default_factory=list)
    clock_ns: tuple[int, int] | None = None
    plans: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
