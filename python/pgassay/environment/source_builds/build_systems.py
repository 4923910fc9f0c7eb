"""The two ways of building: by meson and ninja, and by configure and make for trees from before meson."""

import shlex
import subprocess
from pathlib import Path

from pgassay.environment.source_builds.build_step import COMPILES, OnFraction
from pgassay.environment.source_builds.build_work import BuildSystem, RunningBuild
from pgassay.environment.source_builds.recipe import GENERATORS
from pgassay.errors import UsageError

_PROGRAM = "postgres"
# Its extensions are no part of what the sources' own `all` makes.
_FOLDERS = ("", "contrib")
_CONFIGURED = "configured"


def _meson_configure(running: RunningBuild) -> None:
    work, recipe = running.work, running.recipe
    running.run([*running.tools.meson, "setup", str(work.build), str(work.src), *recipe.options])


def _meson_compile(running: RunningBuild, jobs: int, on_fraction: OnFraction) -> None:
    # What a long link takes as a file is kept: the server is linked again from it.
    command = [running.tools.ninja, "-C", str(running.work.build), "-d", "keeprsp", "-j", str(jobs)]
    running.run(command, on_fraction)


def _meson_install(running: RunningBuild, folder: Path) -> None:
    command = [*running.tools.meson, "install", "-C", str(running.work.build), "--no-rebuild", "--quiet"]
    running.run([*command, "--destdir", str(folder)])


def _meson_link_words(running: RunningBuild) -> tuple[Path, list[str]]:
    build = running.work.build
    targets = _ninja_says(running, "-t", "targets", "all").splitlines()
    outputs = [line.partition(":")[0] for line in targets if "_LINKER" in line.rpartition(": ")[2]]
    program = next((path for path in outputs if Path(path).name == _PROGRAM), _PROGRAM)
    words = shlex.split(_ninja_says(running, "-t", "commands", "-s", program))
    # Of hundreds of objects the words are in a file, which the build keeps.
    files = [(build / word[1:]).read_text() if word.startswith("@") else "" for word in words]
    found = [each for word, text in zip(words, files, strict=True) for each in (shlex.split(text) or [word])]
    return build, found


def _ninja_says(running: RunningBuild, *words: str) -> str:
    build, environment = running.work.build, dict(running.recipe.environment)
    command = [running.tools.ninja, "-C", str(build), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise UsageError(f"ninja can't say how the server was linked ({done.stderr.strip()}): --layouts 1")
    return done.stdout.partition(f"Entering directory `{build}'\n")[2] or done.stdout


def _make_configure(running: RunningBuild) -> None:
    """Configure beside the sources, which stay as git has them."""
    work = running.work
    work.build.mkdir()
    running.run(["env", "-C", str(work.build), str(work.src / "configure"), *running.recipe.options])
    (work.build / _CONFIGURED).touch()


def _make_compile(running: RunningBuild, jobs: int, on_fraction: OnFraction) -> None:
    # Folders make what they need of each other, so one file is named several times.
    steps = len(set().union(*(_ahead(running, folder) for folder in _FOLDERS)))
    done = 0
    for folder in _FOLDERS:
        before = done

        def told(fraction: float, before: int = before) -> None:
            nonlocal done
            done = before + round(fraction * steps)
            on_fraction(min(1.0, done / steps))

        running.run([*_make(running, folder), "-j", str(jobs), "all"], told, steps)


def _ahead(running: RunningBuild, folder: str) -> set[str]:
    """What make would compile, as far as it can say; sources that are not written yet hide a few."""
    command = [*_make(running, folder), "--dry-run", "--keep-going", "all"]
    return {line for line in _run(running, command).stdout.splitlines() if COMPILES in line}


def _make_install(running: RunningBuild, folder: Path) -> None:
    for each in _FOLDERS:
        running.run([*_make(running, each), "--silent", "install", f"DESTDIR={folder}"])


def _make_link_words(running: RunningBuild) -> tuple[Path, list[str]]:
    """As make would link the server if it were not there."""
    folder = running.work.build / "src" / "backend"
    program, aside = folder / "postgres", folder / "postgres.aside"
    program.rename(aside)
    try:
        done = _run(running, [*_make(running, "src/backend"), "--dry-run", "postgres"])
    finally:
        aside.rename(program)
    for line in reversed(done.stdout.splitlines()):
        if line.rstrip().endswith(" -o postgres"):
            return folder, shlex.split(line)
    raise UsageError(f"make can't say how the server was linked ({done.stderr.strip()}): --layouts 1")


def _make(running: RunningBuild, folder: str) -> list[str]:
    return [running.tools.make, "-C", str(running.work.build / folder), "--no-print-directory"]


def _run(running: RunningBuild, command: list[str]) -> "subprocess.CompletedProcess[str]":
    environment = dict(running.recipe.environment)
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


MESON = BuildSystem(
    "build.ninja",
    (*GENERATORS, "meson_options.txt"),
    _meson_configure,
    _meson_compile,
    _meson_install,
    _meson_link_words,
)
# Which folders there are and what is made in them was read when all was configured.
MAKE = BuildSystem(
    _CONFIGURED,
    (*GENERATORS, "configure", "Makefile", ".mk"),
    _make_configure,
    _make_compile,
    _make_install,
    _make_link_words,
)
