"""The working folder of builds, and what either way of building does in it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.source_builds.build_step import OnFraction, run_step
from pgassay.environment.source_builds.build_tools import BuildTools
from pgassay.environment.source_builds.recipe import Recipe


@dataclass(frozen=True)
class BuildWork:
    """The working folder: `src/` and `build/` stand next to each other, so sources have one relative path."""

    folder: Path

    @property
    def src(self) -> Path:
        return self.folder / "src"

    @property
    def build(self) -> Path:
        return self.folder / "build"

    @property
    def index(self) -> Path:
        return self.folder / "index"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"


@dataclass(frozen=True)
class RunningBuild:
    """A build that goes on: of what was typed as `name`, with what, how, and where."""

    name: str
    tools: BuildTools
    recipe: Recipe
    work: BuildWork

    def run(self, command: list[str], on_fraction: OnFraction | None = None, steps: int = 0) -> None:
        """Run one step; `steps`: how many files are compiled in it, where that is known before."""
        run_step(self.name, command, self.recipe.environment, self.work.log, on_fraction, steps)


@dataclass(frozen=True)
class BuildSystem:
    """What builds a tree: meson, or configure and make.

    configured: the file that `configure` leaves in the build's folder when it has ended. starts_anew: how the
    names of files end after whose change all is built from the start. compile: takes how many compilers run
    at once. install: into a folder, below the prefix. link_words: where and by which words the server was
    linked.
    """

    configured: str
    starts_anew: tuple[str, ...]
    configure: Callable[[RunningBuild], None]
    compile: Callable[[RunningBuild, int, OnFraction], None]
    install: Callable[[RunningBuild, Path], None]
    link_words: Callable[[RunningBuild], tuple[Path, list[str]]]
