"""Archives of the tests' own, unpacked by any Python 3.11."""

import tarfile
from pathlib import Path


def unpack_archive(archive: tarfile.TarFile, folder: Path) -> None:
    """Everything in it; Python has the filter, and later on asks for it, since 3.11.4."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)
