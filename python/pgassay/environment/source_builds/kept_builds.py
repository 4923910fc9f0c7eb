"""The builds from source that are here: a folder each, with a record of what it was built from and how."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from pgassay.durable import replace_file
from pgassay.environment.atomic_folder import locked
from pgassay.environment.builds.package import make_open_folder, origin_folder, whole_folders
from pgassay.environment.home import home
from pgassay.errors import UsageError
from pgassay.model.base import Frozen
from pgassay.model.build import LAYOUTS_FOLDER

ORIGIN = "source"
RECORD = "source.json"
# What only serves to build the next one.
WORK_NAMES = ("source-work", "source-trees.git")


class Kept(Frozen):
    """One finished build, as its record has it.

    names: what was typed for it, the latest last. trees: git's hashes of the trees that build it. files: a
    hash of its programs, libraries and shared files without debug information. server: the same of what a
    server loads and its data are made with, so without client programs. same_as: the folder of the build that
    has the same files, '' when this one has its own. linker: what linked its layouts, as it calls itself with
    its version (its name alone in older records), '' for none.
    """

    names: tuple[str, ...]
    tree: str
    commit: str
    version: str
    compiler: str
    options: tuple[str, ...]
    lacking: tuple[str, ...]
    data_format: str
    files: str
    server: str = ""
    seconds: float
    same_as: str = ""
    linker: str = ""


def folder_of(key: str) -> Path:
    """Where the build of a key stands, or will."""
    return origin_folder(ORIGIN) / key


def read(folder: Path) -> Kept | None:
    """The record of a folder; None when it has none that can be read."""
    try:
        return Kept.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        return None


def write(folder: Path, kept: Kept) -> None:
    """Write a folder's record, whole or not at all."""
    replace_file(folder / RECORD, f"{kept.model_dump_json(indent=1)}\n".encode())


def add_name(folder: Path, kept: Kept, name: str) -> Kept:
    """Remember what this build was called, the latest last, and that it is of today."""
    names = (*(known for known in kept.names if known != name), name)
    found = kept.model_copy(update={"names": names})
    write(folder, found)
    return found


def all_kept() -> list[tuple[Path, Kept]]:
    """Every finished build and every second name of one, oldest folder name first."""
    found = ((folder, read(folder)) for folder in whole_folders(ORIGIN))
    return [(folder, kept) for folder, kept in found if kept is not None]


def own_folder(folder: Path, kept: Kept) -> Path | None:
    """The folder that has the files: this one, or the one that it is the same as; None when that is gone."""
    own = folder_of(kept.same_as) if kept.same_as else folder
    return own if (own / "bin" / "postgres").is_file() else None


def with_files(files: str, linker: str = "") -> Path | None:
    """The build that has exactly these files, if there is one whose layouts are of the linker, if any.

    One without layouts can take them.
    """
    found = [
        (folder, kept)
        for folder, kept in all_kept()
        if kept.files == files and not kept.same_as and own_folder(folder, kept) is not None
    ]
    if not linker:
        return next((folder for folder, _ in found), None)
    mine = [folder for folder, kept in found if kept.linker == linker]
    bare = [folder for folder, kept in found if not kept.linker and not (folder / LAYOUTS_FOLDER).exists()]
    return next(iter((*mine, *bare)), None)


def note_linker(folder: Path, linker: str) -> None:
    """Remember what links the layouts of a build, before it has any."""
    kept = read(folder)
    if kept is not None and kept.linker != linker:
        write(folder, kept.model_copy(update={"linker": linker}))


def refuse_unknown(names: Sequence[str]) -> None:
    """Raise UsageError for a name that no build has."""
    known = {name for _, kept in all_kept() for name in kept.names}
    for name in names:
        if name not in known:
            raise UsageError(
                f"{name} was not built here: 'pgassay builds list' shows what was, and 'pgassay builds "
                "clean' removes all of it"
            )


def remove(names: Sequence[str]) -> list[str]:
    """Remove the builds called so, or all of them and what builds the next one; returns a sentence for each.

    The caller holds the host's lock, so no experiment runs on them. Raises UsageError for a name that no
    build has.
    """
    with locked(lock_file()):
        refuse_unknown(names)
        # One name may be of several builds: a branch moves on, a linker is upgraded.
        kept_now = all_kept()
        gone = {folder.name for folder, kept in kept_now if not {*names}.isdisjoint(kept.names)}
        sentences = []
        for folder, kept in kept_now:
            if not names or folder.name in gone or kept.same_as in gone:
                name = next((name for name in names if name in kept.names), kept.names[-1])
                sentences.append(f"removed {name} ({_removed_bytes(folder) >> 20} MB)")
        work = [home() / "builds" / name for name in WORK_NAMES if not names]
        return sentences + [
            f"removed builds/{path.name} ({_removed_bytes(path) >> 20} MB)" for path in work if path.is_dir()
        ]


def lock_file() -> Path:
    """What whoever builds or removes holds."""
    make_open_folder(home() / "builds")
    return home() / "builds" / "source.lock"


def _removed_bytes(folder: Path) -> int:
    size = sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
    shutil.rmtree(folder)
    return size
