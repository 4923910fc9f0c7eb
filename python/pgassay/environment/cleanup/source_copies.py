"""Copies of a server's data that a killed `tune DSN` left behind: of a dump of its own, which is gone.

Data that a user names are kept for the next experiment. A server's are its owner's: they go with the run that
dumped them, or with the next start where that run was killed.
"""

from pathlib import Path

from pgassay.environment.datasets import snapshots
from pgassay.environment.home import home
from pgassay.environment.storage.registry import provide
from pgassay.model.storage import StorageSpec

DUMPS_FOLDER = "dumps"


def is_dump_of_a_run(source: str) -> bool:
    """Whether this source of a dataset is a dump that `tune DSN` made, and removes at its end."""
    return Path(source).is_relative_to(home() / DUMPS_FOLDER)


def remove_source_copies() -> list[str]:
    """Remove them, and return one sentence for each; the caller holds the host's lock.

    To be called after `registry.sweep`, which removes the dumps of dead owners. Copies on other storage than
    the host's own go with its images.
    """
    sentences = []
    for snapshot in snapshots.list_snapshots():
        source = str(snapshot.facts["dataset"].get("source", ""))
        if not is_dump_of_a_run(source) or Path(source).exists():
            continue
        volume = provide(StorageSpec(), 0)
        try:
            volume.keep_only(snapshot.key, ())
        finally:
            volume.remove()
        snapshots.remove(snapshot.key)
        sentences.append(
            f"Removed a copy of a server's data that a run which was killed left ({snapshot.key})."
        )
    return sentences
