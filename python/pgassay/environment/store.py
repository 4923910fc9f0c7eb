"""The datasets, working copies and images that pgassay keeps for the next experiment."""

import shutil

from pgassay.environment.home import home

# Everything below data/ and images/ can be made again; results are kept elsewhere, by the user.
KEPT = ("data/snapshots", "data/work", "data/validation", "images")


def remove_all() -> list[str]:
    """Remove everything kept; the caller holds the host's lock, so nothing is in use."""
    sentences = []
    for name in KEPT:
        folder = home() / name
        if not folder.is_dir():
            continue
        size = sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        sentences.append(f"removed {name} ({size >> 20} MB)")
    return sentences
