"""An experiment's folder as pieces that travel: each is there whole or not at all, on both sides.

A piece is a file that is written at once (the plan, a block's plan, the state) or the folder of one trial.
Its name is its path below the experiment's folder. A trial's folder travels as a compressed archive.
"""

import gzip
import hashlib
import io
import os
import re
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath

from pgassay.durable import replace_file, sync
from pgassay.errors import MeasurementError, UsageError
from pgassay.record import layout

# What a piece may be called: nothing that an answer names is written anywhere else.
_FILE = re.compile(r"experiment\.json|state\.json|servers\.json|blocks/\d{6}\.json")
_TRIAL = re.compile(r"trials/\d{6}/attempt-\d{1,3}")
# Plans and observations become a fifth of their size; more effort gains a tenth, and takes the machine that
# measures three times as long.
_EFFORT = 3
CHANGING = layout.STATE_FILE


def pieces(folder: Path) -> list[str]:
    """The names of all whole pieces: the plan, what goes with it, blocks, then trials as they were run.

    The plan is one once the first block is planned: then it changes no more.
    """
    # A block's plan is there before its trials: looked for after them, none can be missing.
    trials = layout.attempt_folders(folder)
    blocks = layout.block_files(folder)
    # Until then the plan may change: how many blocks run on a set of copies follows from a rehearsal.
    files = [layout.EXPERIMENT_FILE] if trials or blocks else []
    found = [name for name in (*files, layout.SERVERS_FILE, CHANGING) if (folder / name).is_file()]
    found += [str(path.relative_to(folder)) for path in blocks.values()]
    return found + [str(path.relative_to(folder)) for path in trials]


def is_trial(name: str) -> bool:
    """Whether a piece is the folder of a trial; raises UsageError for a name that no piece has."""
    if _TRIAL.fullmatch(name):
        return True
    if not _FILE.fullmatch(name):
        raise UsageError(f"{name} is not a piece of an experiment: ask for one that `state` names")
    return False


def pack(folder: Path, name: str) -> bytes:
    """A piece's content: a file's bytes, or the archive of a trial's folder; the same bytes every time.

    Raises UsageError for a name that no piece has, OSError where it can't be read.
    """
    if not is_trial(name):
        return (folder / name).read_bytes()
    archive = io.BytesIO()
    root = folder / name
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            if path.is_file() and not path.is_symlink():
                content = path.read_bytes()
                entry = tarfile.TarInfo(str(path.relative_to(root)))
                entry.size, entry.mode = len(content), 0o644
                tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(archive.getvalue(), _EFFORT, mtime=0)


def unpack(folder: Path, name: str, content: bytes) -> None:
    """Put a piece in its place, on stable storage; a trial that is there already stays as it is.

    Raises UsageError for a name that no piece has, MeasurementError where the content is none.
    """
    place = folder / name
    if not is_trial(name):
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_file(place, content)
        return
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".tmp", dir=place.parent))
    try:
        # As a whole, so that its checksum is looked at: an archive that was cut short may look complete.
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content)), mode="r:") as tar:
            _extract(tar, made)
        _sync_all(made)
        made.chmod(0o755)
        made.rename(place)
        sync(place.parent)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise MeasurementError(f"what came for {place} is not a trial ({error}): ask for it again") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _extract(tar: tarfile.TarFile, folder: Path) -> None:
    """Files below the folder, and nothing else; raises TarError for an archive that has more.

    Python has a filter for that since 3.11.4, and Debian 12 comes with 3.11.2.
    """
    for entry in tar.getmembers():
        path = PurePosixPath(entry.name)
        if not entry.isfile() or path.is_absolute() or ".." in path.parts:
            raise tarfile.TarError(f"it has {entry.name!r}, which is not a file of a trial")
    if hasattr(tarfile, "data_filter"):
        tar.extractall(folder, filter="data")
    else:
        tar.extractall(folder)


def _sync_all(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        for name in names:
            sync(Path(parent, name))
        sync(Path(parent))


def checksum(content: bytes) -> str:
    """The SHA-256 of a piece's content."""
    return hashlib.sha256(content).hexdigest()
