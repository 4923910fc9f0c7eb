"""Captures made from a log, for tests that need one without a server."""

import re
from pathlib import Path

from pgassay.traffic.capturing import make_folder
from pgassay.traffic.logs.convert_log import convert

PREFIX = "%m [%p] %q%u@%d "
BEGINNING = "2026-11-27 18:32:{second:06.3f} UTC [{session}] {user}@{database} "


def captured(folder: Path, *logged: tuple[int, str, str, str]) -> Path:
    """A capture of what sessions logged, one statement a second: session, user, database, text."""
    log = folder / "postgresql.log"
    lines = [
        BEGINNING.format(second=second, session=session, user=user, database=database)
        + f"LOG:  duration: 5.000 ms  statement: {text}"
        for second, (session, user, database, text) in enumerate(logged, start=1)
    ]
    log.write_text("\n".join(lines) + "\n")
    make_folder(folder / "c")
    convert([log], folder / "c", PREFIX)
    return folder / "c"


def with_capture(workload: str, folder: Path) -> str:
    """A workload as documented; where it is a replay, of a capture that is there."""
    if not workload.startswith("replay:"):
        return workload
    made = captured(folder, (1, "app", "shop", "SELECT 1"), (2, "web", "shop", "UPDATE t SET x = 1"))
    return re.sub(r"^replay:[\w/]+", f"replay:{made}", workload)
