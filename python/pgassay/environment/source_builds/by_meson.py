"""Building with meson and ninja."""

import shlex
import subprocess
from pathlib import Path

from pgassay.environment.source_builds.build_step import OnFraction
from pgassay.environment.source_builds.build_work import BuildSystem, Doing
from pgassay.environment.source_builds.recipe import GENERATORS
from pgassay.errors import UsageError

_PROGRAM = "postgres"


def _configure(doing: Doing) -> None:
    work, recipe = doing.work, doing.recipe
    doing.run([*doing.tools.meson, "setup", str(work.build), str(work.src), *recipe.options])


def _compile(doing: Doing, jobs: int, on_fraction: OnFraction) -> None:
    # What a long link takes as a file is kept: the server is linked again from it.
    command = [doing.tools.ninja, "-C", str(doing.work.build), "-d", "keeprsp", "-j", str(jobs)]
    doing.run(command, on_fraction)


def _install(doing: Doing, folder: Path) -> None:
    command = [*doing.tools.meson, "install", "-C", str(doing.work.build), "--no-rebuild", "--quiet"]
    doing.run([*command, "--destdir", str(folder)])


def _link_words(doing: Doing) -> tuple[Path, list[str]]:
    build = doing.work.build
    targets = _said(doing, "-t", "targets", "all").splitlines()
    outputs = [line.partition(":")[0] for line in targets if "_LINKER" in line.rpartition(": ")[2]]
    program = next((path for path in outputs if Path(path).name == _PROGRAM), _PROGRAM)
    words = shlex.split(_said(doing, "-t", "commands", "-s", program))
    # Of hundreds of objects the words are in a file, which the build keeps.
    files = [(build / word[1:]).read_text() if word.startswith("@") else "" for word in words]
    found = [each for word, text in zip(words, files, strict=True) for each in (shlex.split(text) or [word])]
    return build, found


def _said(doing: Doing, *words: str) -> str:
    build, environment = doing.work.build, dict(doing.recipe.environment)
    command = [doing.tools.ninja, "-C", str(build), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise UsageError(f"ninja can't say how the server was linked ({done.stderr.strip()}): --layouts 1")
    return done.stdout.partition(f"Entering directory `{build}'\n")[2] or done.stdout


MESON = BuildSystem(
    "build.ninja", (*GENERATORS, "meson_options.txt"), _configure, _compile, _install, _link_words
)
