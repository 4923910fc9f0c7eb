"""What `pgassay doctor` finds: one finding for each thing that a measurement may need or suffer from."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen

FindingStatus = Literal["ok", "missing", "warning"]
DOCTOR_SCHEMA = 1


class Finding(Frozen):
    """One capability or condition of this machine.

    `name` is stable, for scripts; `text` one line of what was found; `remedy` what to do, '' when ok.
    `figures` are the numbers behind the text, with their units in their names.
    """

    name: str
    group: str
    status: FindingStatus
    text: str
    remedy: str = ""
    figures: dict[str, object] = Field(default_factory=dict)


class DoctorReport(Frozen):
    """The document of `pgassay doctor --json`."""

    schema_: int = Field(default=DOCTOR_SCHEMA, alias="schema")
    pgassay_version: str
    hostname: str
    seconds: float
    findings: tuple[Finding, ...]

    def lacking(self, names: tuple[str, ...]) -> tuple[Finding, ...]:
        """Those of the named findings that are missing here."""
        return tuple(item for item in self.findings if item.name in names and item.status == "missing")
