"""`git:PATH@REV+patch:FILE+cassert` and `source:FOLDER|TARBALL`: a source tree as it is typed."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pgassay.errors import UsageError
from pgassay.value_syntax.paths import typed_path

GIT = "git:"
SOURCE = "source:"
PATCH = "+patch:"
ASSERTIONS = "+cassert"


@dataclass(frozen=True)
class TypedTree:
    """Where a tree comes from. `text` is what was typed; `revision` is '' unless it is of a clone.

    `assertions`: whether it is built with them.
    """

    text: str
    kind: Literal["git", "folder", "tarball"]
    place: Path
    revision: str = ""
    patches: tuple[Path, ...] = ()
    assertions: bool = False


def is_source(text: str) -> bool:
    """Whether a build is named by its source tree."""
    return text.startswith((GIT, SOURCE))


def parse_source(text: str) -> TypedTree:
    """Read `text`, for which `is_source` holds; raises UsageError for what is not there."""
    tree, *patches = text.removesuffix(ASSERTIONS).split(PATCH)
    found = _clone(text, tree.removeprefix(GIT)) if tree.startswith(GIT) else _source(text, tree)
    return replace(found, patches=_patches(text, patches), assertions=text.endswith(ASSERTIONS))


def _clone(text: str, rest: str) -> TypedTree:
    place, revision = _at_revision(rest)
    if not place:
        raise UsageError(f"{text} has no folder: write git:PATH@REVISION, as git:~/postgres@master")
    folder = typed_path(place).absolute()
    if not folder.is_dir():
        raise UsageError(f"{text}: there is no folder {folder}: write git:PATH@REVISION, PATH a local clone")
    if not revision:
        raise UsageError(
            f"{text} has no revision: write git:{place}@HEAD for what is committed there, or "
            f"source:{place} for the folder as it is"
        )
    return TypedTree(text, "git", folder, revision)


def _at_revision(rest: str) -> tuple[str, str]:
    """(path, revision): parted at the last @ behind a folder, since both may have an @ of their own.

    A worktree pg@fix may stand beside the clone pg, whose branch is called fix.
    """
    parts = rest.split("@")
    for end in (*range(len(parts) - 1, 0, -1), len(parts)):
        place = "@".join(parts[:end])
        if place and typed_path(place).is_dir():
            return place, "@".join(parts[end:])
    return parts[0], "@".join(parts[1:])


def _source(text: str, tree: str) -> TypedTree:
    place = tree.removeprefix(SOURCE)
    path = typed_path(place).absolute()
    if place and path.is_dir():
        return TypedTree(text, "folder", path)
    if place and path.is_file():
        return TypedTree(text, "tarball", path)
    raise UsageError(
        f"{text}: there is no folder and no tarball {place or 'named'}: write source:FOLDER or "
        "source:postgresql-18.6.tar.bz2"
    )


def _patches(text: str, names: list[str]) -> tuple[Path, ...]:
    found = tuple(typed_path(name).absolute() for name in names)
    for name, path in zip(names, found, strict=True):
        if not path.is_file():
            raise UsageError(f"{text}: no patch {name or 'named'} is there: write +patch:FILE, FILE a diff")
    return found
