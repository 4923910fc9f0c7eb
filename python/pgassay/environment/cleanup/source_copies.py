"""Copies of a server's data that a killed `tune DSN` or `upgrade` left: of a dump of its own, which is gone.

Data that a user names are kept for the next experiment. A server's are its owner's: they go with the run that
dumped them, or with the next start where that run was killed. Only a dump that somebody may want to continue
with is kept, for a day.
"""

import contextlib
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from pgassay.environment.datasets import snapshots
from pgassay.environment.home import home
from pgassay.errors import UsageError
from pgassay.model.storage import StorageSpec
from pgassay.storage.registry import provide

DUMPS_FOLDER = "dumps"
# Beside a dump that is kept: until when, in seconds since 1970.
KEPT_UNTIL_FILE = "kept_until"
KEPT_S = 24 * 3600.0


def is_dump_of_a_run(source: str) -> bool:
    """Whether this source of a dataset is a dump that a command made of a server, and removes at its end."""
    return Path(source).is_relative_to(home() / DUMPS_FOLDER)


def keep_dump(dump: Path) -> None:
    """Have a dump outlive its run for a day. Raises OSError where that can't be written."""
    (dump.parent / KEPT_UNTIL_FILE).write_text(f"{time.time() + KEPT_S:.0f}\n", "ascii")


def remove_dump(dump: Path) -> None:
    """Remove a dump of a run, with the folder that was made for it."""
    if is_dump_of_a_run(str(dump)):
        shutil.rmtree(dump.parent, ignore_errors=True)


def remove_kept_dumps(*, at_once: bool = False) -> list[str]:
    """Remove the dumps that were kept and whose day is over, or all of them; a sentence for each."""
    sentences = []
    for mark in sorted((home() / DUMPS_FOLDER).glob(f"*/{KEPT_UNTIL_FILE}")):
        until = 0.0
        with contextlib.suppress(ValueError, OSError):
            until = float(mark.read_text("ascii"))
        if at_once or until <= time.time():
            shutil.rmtree(mark.parent, ignore_errors=True)
            sentences.append(
                f"Removed the dump of a server that was kept to continue from ({mark.parent.name})."
            )
    return sentences


def remove_source_copies(storages: Iterable[StorageSpec] = (StorageSpec(),)) -> list[str]:
    """Remove them, and return one sentence for each; the caller holds the host's lock.

    To be called after `registry.sweep`, which removes the dumps of dead owners. storages: where working
    copies may lie; those of a killed run on other ones go with its images.
    """
    sentences = remove_kept_dumps()
    for snapshot in snapshots.list_snapshots():
        source = str(snapshot.facts["dataset"].get("source", ""))
        if not is_dump_of_a_run(source) or Path(source).exists():
            continue
        for storage in storages:
            volume = provide(storage, 0)
            try:
                volume.keep_only(snapshot.key, ())
            finally:
                volume.remove()
        with contextlib.suppress(UsageError):  # another process that cleans up has removed it since
            snapshots.remove(snapshot.key)
            sentences.append(f"Removed a copy of a server's data left by a killed run ({snapshot.key}).")
    return sentences
