"""Which function of one tree is which of another under a new name: told by the lines of their bodies.

Only of builds from source: their servers' debug information says where a function begins, and git has the
text of both trees.
"""

import difflib
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.source_builds import trees
from pgassay.environment.source_builds.tree_syntax import parse_source
from pgassay.errors import UsageError
from pgassay.model.build import Build

# Of a body's lines so many must be the same, and no other function may have as many.
SIMILAR_MIN = 0.7
LINES_MIN = 3
# Two trees that differ by more names are other versions, whose bodies would be compared for minutes.
NAMES_MAX = 400
# A tree's own path in the debug information: of a build by meson, by make.
_SOURCE = re.compile(r"/(?:\.\.|source-work)/src/(?P<file>.+)$")
_IDENTIFIER = r"\b{}\b"


@dataclass(frozen=True)
class Body:
    """A function's lines without those that are empty, its own name replaced; `file`: where it stands."""

    name: str
    file: str
    lines: tuple[str, ...]


def renamed_functions(old: Build, new: Build) -> dict[str, str]:
    """By the name of a function in `new` its name in `old`, of those that are in one of both alone.

    {} where nothing can be said of it: other builds, no debug information, a clone that has gone.
    """
    if old.source is None or new.source is None or old.bin_directory == new.bin_directory:
        return {}
    addresses = _addresses(old), _addresses(new)
    gone, added = ({name: mine[name] for name in mine.keys() - other} for mine, other in _both(addresses))
    if not gone or not added or max(len(gone), len(added)) > NAMES_MAX:
        return {}
    return matched(_bodies(old, gone), _bodies(new, added))


def matched(gone: Sequence[Body], added: Sequence[Body]) -> dict[str, str]:
    """New names by whose bodies are those of old ones: each the other's best, and clearly so."""
    shares = {
        (one.name, other.name): difflib.SequenceMatcher(None, one.lines, other.lines, autojunk=False).ratio()
        for one in gone
        for other in added
        if min(len(one.lines), len(other.lines)) * 2 >= max(len(one.lines), len(other.lines))
    }
    found: dict[str, str] = {}
    for (before, after), share in shares.items():
        rivals = [value for pair, value in shares.items() if (pair[0] == before) is not (pair[1] == after)]
        if share >= SIMILAR_MIN and share > max(rivals, default=0.0):
            found[after] = before
    return found


def body_of(name: str, file: str, line: int, text: str) -> Body | None:
    """The body of a function that begins at a line of a file, counted from 1; None where it has no end.

    As PostgreSQL's sources are written: the closing brace stands first in its line.
    """
    rest = text.splitlines()[line - 1 :]
    end = next((place for place, each in enumerate(rest) if each.startswith("}")), None)
    if end is None:
        return None
    own = re.compile(_IDENTIFIER.format(re.escape(name)))
    lines = tuple(own.sub("*", each.strip()) for each in rest[:end] if each.strip())
    return Body(name, file, lines) if len(lines) >= LINES_MIN else None


def _both(pair: "tuple[dict[str, int], dict[str, int]]") -> "list[tuple[dict[str, int], dict[str, int]]]":
    return [pair, (pair[1], pair[0])]


def _addresses(build: Build) -> dict[str, int]:
    """Where the functions of a server begin, by name."""
    found: dict[str, int] = {}
    for line in _said(["nm", "--defined-only", "--format=posix", str(_program(build))]).splitlines():
        parts = line.split()
        if len(parts) < 3 or parts[1] not in ("T", "t"):
            continue
        # Another form of a function, 'name.isra.0', may be all that a compiler left of it.
        name, form, _ = parts[0].partition(".")
        if not form or name not in found:
            found[name] = int(parts[2], 16)
    return found


def _bodies(build: Build, functions: Mapping[str, int]) -> list[Body]:
    show = _texts_of(build)
    names = sorted(functions)
    # One call for all: most of its time goes into reading the debug information.
    command = ["addr2line", "-e", str(_program(build)), *(f"{functions[name]:#x}" for name in names)]
    found = []
    for name, place in zip(names, _said(command).splitlines(), strict=False):
        path, _, line = place.partition(" ")[0].rpartition(":")
        match = _SOURCE.search(path)
        if match is not None and line.isdigit():
            body = body_of(name, match["file"], int(line), show(match["file"]))
            if body is not None:
                found.append(body)
    return found


def _texts_of(build: Build) -> Callable[[str], str]:
    """What shows a file of a build's tree, '' where the tree is gone."""
    source, read = build.source, dict[str, str]()
    assert source is not None
    try:
        found = trees.find_tree(parse_source(source.name))
        # A branch may have moved on since; git still has the tree that was built.
        tree = trees.SourceTree(source.tree, found.version, objects=found.objects)
    except UsageError:
        return lambda _: ""

    def show(path: str) -> str:
        if path not in read:
            read[path] = trees.show(tree, path)
        return read[path]

    return show


def _program(build: Build) -> Path:
    return Path(build.bin_directory) / "postgres"


def _said(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""
