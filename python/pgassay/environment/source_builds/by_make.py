"""Building with configure and make: trees from before PostgreSQL had a meson.build."""

import shlex
import subprocess
from pathlib import Path

from pgassay.environment.source_builds.build_step import COMPILES, OnFraction
from pgassay.environment.source_builds.build_work import BuildSystem, Doing
from pgassay.environment.source_builds.recipe import GENERATORS
from pgassay.errors import UsageError

# Its extensions are no part of what the sources' own `all` makes.
_FOLDERS = ("", "contrib")
_CONFIGURED = "configured"


def _configure(doing: Doing) -> None:
    """Configure beside the sources, which stay as git has them."""
    work = doing.work
    work.build.mkdir()
    doing.run(["env", "-C", str(work.build), str(work.src / "configure"), *doing.recipe.options])
    (work.build / _CONFIGURED).touch()


def _compile(doing: Doing, jobs: int, on_fraction: OnFraction) -> None:
    # Folders make what they need of each other, so one file is named several times.
    steps = len(set().union(*(_ahead(doing, folder) for folder in _FOLDERS)))
    done = 0
    for folder in _FOLDERS:
        before = done

        def told(fraction: float, before: int = before) -> None:
            nonlocal done
            done = before + round(fraction * steps)
            on_fraction(min(1.0, done / steps))

        doing.run([*_make(doing, folder), "-j", str(jobs), "all"], told, steps)


def _ahead(doing: Doing, folder: str) -> set[str]:
    """What make would compile, as far as it can say; sources that are not written yet hide a few."""
    command = [*_make(doing, folder), "--dry-run", "--keep-going", "all"]
    return {line for line in _said(doing, command).stdout.splitlines() if COMPILES in line}


def _install(doing: Doing, folder: Path) -> None:
    for each in _FOLDERS:
        doing.run([*_make(doing, each), "--silent", "install", f"DESTDIR={folder}"])


def _link_words(doing: Doing) -> tuple[Path, list[str]]:
    """As make would link the server if it were not there."""
    folder = doing.work.build / "src" / "backend"
    program, aside = folder / "postgres", folder / "postgres.aside"
    program.rename(aside)
    try:
        done = _said(doing, [*_make(doing, "src/backend"), "--dry-run", "postgres"])
    finally:
        aside.rename(program)
    for line in reversed(done.stdout.splitlines()):
        if line.rstrip().endswith(" -o postgres"):
            return folder, shlex.split(line)
    raise UsageError(f"make can't say how the server was linked ({done.stderr.strip()}): --layouts 1")


def _make(doing: Doing, folder: str) -> list[str]:
    return [doing.tools.make, "-C", str(doing.work.build / folder), "--no-print-directory"]


def _said(doing: Doing, command: list[str]) -> "subprocess.CompletedProcess[str]":
    environment = dict(doing.recipe.environment)
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


# Which folders there are and what is made in them was read when all was configured.
MAKE = BuildSystem(
    _CONFIGURED,
    (*GENERATORS, "configure", "Makefile", ".mk"),
    _configure,
    _compile,
    _install,
    _link_words,
)
