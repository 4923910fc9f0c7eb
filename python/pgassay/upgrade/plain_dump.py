"""The source's data as one plain dump that the old version and the new one both read."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pgassay.environment.datasets.dump_header import read_header
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.build import Build
from pgassay.terminal.progress import Progress
from pgassay.tune.source.dump import PLAIN_FORMAT, dumped
from pgassay.tune.source.source_server import SourceServer

DUMP_FILE = "source.sql"
# Which version pg_dump writes this for, 16 and older do not know (src/bin/pg_dump/pg_backup_archiver.c).
_NOT_KNOWN_BEFORE_17 = b"SET transaction_timeout = 0;"
_HEAD_LINES = 60


@contextmanager
def copied(
    given: str,
    source: SourceServer,
    program: Build,
    excluded: Sequence[str],
    folder: Path,
    progress: Progress,
) -> Iterator[str]:
    """The data as `--dataset` has them, gone when the block is left: of the dump that was given, else of one
    made now.

    given: as typed behind --copy, `dump:FILE` or ''. program: whose pg_dump and pg_restore are used.
    excluded: options that leave out what the new version refuses.
    """
    plain = folder / DUMP_FILE
    try:
        if given:
            progress.stage("unpacking the dump")
            _unpack(Path(given.partition(":")[2]), program, plain)
        else:
            with dumped(source, program, progress, [*PLAIN_FORMAT, *excluded]) as dump:
                _make_plain(dump.file, plain)
        yield f"dump:{plain}"
    finally:
        plain.unlink(missing_ok=True)


def check_copy(given: str) -> None:
    """Raise UsageError for what is no dump."""
    kind, _, file = given.partition(":")
    if kind != "dump" or not Path(file).exists():
        raise UsageError(
            f"--copy {given}: write dump:FILE, with a file or folder that pg_dump wrote when the capture "
            "began (a data folder is of one version alone)"
        )
    read_header(Path(file))


def _unpack(dump: Path, program: Build, plain: Path) -> None:
    """Any format of pg_dump as a plain one, which any version reads."""
    if read_header(dump).format == "plain":
        _make_plain(dump, plain)
        return
    restore = Path(program.bin_directory) / "pg_restore"
    if not restore.exists():
        raise UsageError(
            f"--copy dump:{dump} is packed, and PostgreSQL {program.version} of {program.origin} comes "
            f"without pg_restore: install a build that has it, pgassay builds install apt:{program.major}"
        )
    unpacked = plain.with_suffix(".unpacked")
    try:
        words = [str(restore), "--no-owner", "--no-privileges", f"--file={unpacked}", str(dump)]
        finished = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
        if finished.returncode != 0:
            said = (finished.stderr.strip().splitlines() or ["without a word"])[-1]
            raise MeasurementError(
                f"--copy dump:{dump} can't be unpacked by pg_restore {program.version}: {said}"
            )
        _make_plain(unpacked, plain)
    finally:
        unpacked.unlink(missing_ok=True)


def _make_plain(dump: Path, plain: Path) -> None:
    """The dump as either version reads it: without what an older one does not know, and who wrote it."""
    with dump.open("rb") as read, plain.open("wb") as written:
        plain.chmod(0o644)
        for number, line in enumerate(read):
            is_head = number < _HEAD_LINES
            if is_head and (line.rstrip() == _NOT_KNOWN_BEFORE_17 or line.startswith(b"-- Dumped")):
                continue
            written.write(line)
