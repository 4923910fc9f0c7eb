"""pgassay: a performance laboratory for PostgreSQL.

Importing this package costs nothing: every heavy import belongs to the stage that needs it.
"""

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.notebook import OpenedExperiment

__version__ = "0.1.0"


def open(folder: "str | Path") -> "OpenedExperiment":
    """A stored experiment as data frames, for notebooks: docs/reports.md.

    Raises UsageError for a folder that holds no experiment.
    """
    from pgassay.notebook import OpenedExperiment

    return OpenedExperiment(folder)
