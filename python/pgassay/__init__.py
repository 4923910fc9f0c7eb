"""pgassay: a performance laboratory for PostgreSQL.

Importing this package costs nothing: every heavy import belongs to the stage that needs it.
"""

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from pgassay.notebook import OpenedExperiment

__version__ = "0.2.0"


def open(folder: "str | Path") -> "OpenedExperiment | Any":
    """A stored experiment, or a capture, as data frames, for notebooks: docs/reports.md, docs/capture.md.

    Raises UsageError for a folder that holds neither.
    """
    from pathlib import Path

    if any(Path(folder).glob("*.pgcap")):
        from pgassay.traffic.data_frames import OpenedCapture

        return OpenedCapture(folder)
    from pgassay.notebook import OpenedExperiment

    return OpenedExperiment(folder)
