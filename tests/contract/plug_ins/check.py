"""Whether the machine has a place for toys."""

from pathlib import Path

from pgassay.environment.doctor.base import missing, ok
from pgassay.model.machines.doctor import Finding

GROUP = "toys"


def toy_place() -> list[Finding]:
    """/tmp is one."""
    if Path("/tmp").is_dir():
        return [ok(GROUP, "toy-place", "place for toys: /tmp", folder="/tmp")]
    return [missing(GROUP, "toy-place", "place for toys: there is no /tmp", "make /tmp")]
