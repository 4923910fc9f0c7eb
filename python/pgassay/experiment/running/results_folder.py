"""Where new results are written, and where experiments are found."""

import re
import shlex
import tempfile
from datetime import datetime
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.record import layout

DEFAULT_PARENT = Path("pgassay-results")
_NAME_LENGTH_MAX = 60


def new_folder(out: Path | None, title: str) -> Path:
    """The folder for new results: `--out`, or below ./pgassay-results a name of the date and their title.

    It is made here, so that a place where nothing can be written is found before the measuring.
    Raises UsageError when it holds something already, or can't be made.
    """
    folder = out if out is not None else DEFAULT_PARENT / _dated_name(title)
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0" * 65536)
    except OSError as error:
        raise UsageError(
            f"can't record results in {folder} ({error.strerror}): name another folder with --out"
        ) from error
    return folder.resolve()


def check_folder(folder: Path | None) -> None:
    """Raise UsageError when a folder named for new results holds something, or is no folder."""
    if folder is None or not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"--out {folder} is a file: name a new folder")
    try:
        is_empty = not any(folder.iterdir())
    except OSError as error:
        raise UsageError(f"can't read --out {folder} ({error.strerror}): name another folder") from error
    if not is_empty:
        raise UsageError(
            f"--out {folder} is not empty: name a new folder, or 'pgassay resume {shlex.quote(str(folder))}'"
        )


def _dated_name(title: str) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "-", title).strip("-").lower()[:_NAME_LENGTH_MAX].strip("-")
    stamp = datetime.now().strftime("%Y-%m-%d-%H%M%S")
    name = f"{stamp}-{words}"
    number = 2
    while (DEFAULT_PARENT / name).exists():
        name = f"{stamp}-{words}-{number}"
        number += 1
    return name


def find_experiments(parent: Path) -> list[Path]:
    """Every experiment's folder directly below `parent` (or `parent` itself), oldest name first."""
    if (parent / layout.EXPERIMENT_FILE).is_file():
        return [parent]
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if layout.holds(path, layout.EXPERIMENT_FILE))
