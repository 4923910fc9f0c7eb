"""One build's server linked again and again, its functions in another order each time.

Where functions lie in memory moves results by percents, whatever a patch does: a revision that is measured in
several orders shows how much, and a claim on it no longer rests on one of them.
"""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.builds.build_identity import binary_sha256
from pgassay.environment.debian import has_apt
from pgassay.environment.debian.toolbox import find_tool, tool
from pgassay.environment.source_builds.build_step import TreeDoesNotBuildError
from pgassay.environment.source_builds.build_tools import OnStep
from pgassay.environment.source_builds.build_work import RunningBuild
from pgassay.errors import UsageError
from pgassay.model.build import LAYOUTS_FOLDER, layout_folder

# What each linker takes to shuffle: functions alone, since start-up code has an order that matters.
_SHUFFLING = {"mold": "-Wl,--shuffle-sections={seed}", "ld.lld": "-Wl,--shuffle-sections=.text*={seed}"}
_PROGRAM = "postgres"
_absent: set[str] = set()


@dataclass(frozen=True)
class Linker:
    """A linker that can shuffle functions: its name, and where it is."""

    name: str
    path: Path

    def identity(self) -> str:
        """What it says of its name and version: another one orders and aligns functions otherwise."""
        command = [str(self.path), "--version"]
        try:
            said = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError:
            return self.name
        return said.stdout.partition("\n")[0].strip() or self.name

    def option(self, seed: int) -> str:
        """What the compiler is given so that it links in the order of a seed."""
        return _SHUFFLING[self.name].format(seed=seed)


def find_linker(on_step: OnStep) -> Linker | None:
    """A linker that shuffles: the machine's own, else mold unpacked privately; None where there is none."""
    at_hand = linker_at_hand()
    if at_hand is not None:
        return at_hand
    if not has_apt() or "mold" in _absent:
        return None
    on_step("looking for a linker that shuffles functions (mold)", None)
    try:
        return Linker("mold", tool("mold"))
    except UsageError:
        # Asked once in a process: two trees of one experiment must not differ by a moment without network.
        _absent.add("mold")
        return None


def linker_at_hand() -> Linker | None:
    """As `find_linker`, without unpacking anything."""
    for name in _SHUFFLING:
        found = shutil.which(name)
        if found is not None:
            return Linker(name, Path(found))
    unpacked = find_tool("mold")
    return None if unpacked is None else Linker("mold", unpacked)


def missing_linker(count: int) -> str:
    """What to do where functions are to be shuffled and no linker is here that can."""
    return (
        f"--layouts {count} needs a linker that shuffles functions, which this machine lacks: install the "
        "Debian package mold or lld, or write --layouts 1"
    )


def link_layouts(
    running: RunningBuild,
    words_of: tuple[Path, list[str]],
    linker: Linker,
    seeds: Sequence[int],
    staged: Path,
) -> None:
    """Link the server that was just built once for each seed, beside `staged`'s own.

    words_of: where and how it was linked. Raises UsageError where it can't be linked so.
    """
    place, words = words_of
    # By this folder a compiler finds its linker, whatever it is called and however old the compiler is.
    programs = running.work.folder / "linker"
    shutil.rmtree(programs, ignore_errors=True)
    programs.mkdir()
    (programs / "ld").symlink_to(linker.path)
    for seed in seeds:
        bin_folder = staged / layout_folder(seed) / "bin"
        bin_folder.mkdir(parents=True)
        made = bin_folder / _PROGRAM
        command = [*_with_output(words, made), f"-B{programs}", linker.option(seed)]
        try:
            running.run(["env", "-C", str(place), *command])
        except TreeDoesNotBuildError as error:
            # The tree itself was built: it is not left out of a search for this.
            raise UsageError(
                f"{running.name}: {linker.path} can't link it with its functions in another order (its "
                f"output is in {running.work.log}): write --layouts 1"
            ) from error
        # Names of functions stay, for profiles (mold's own option removes them); lines are the first build's.
        running.run(["objcopy", "--strip-debug", str(made)])
        _stand_beside(staged, bin_folder)


def hashes_of(folder: Path) -> tuple[str, ...]:
    """The SHA-256 of each layout's server in a build's folder, by its number from 1."""
    found: list[str] = []
    while (program := folder / layout_folder(len(found) + 1) / "bin" / _PROGRAM).is_file():
        found.append(binary_sha256(program))
    return tuple(found)


def add_layouts(staged: Path, folder: Path) -> None:
    """Move the layouts that were linked below `staged` into a build that is there and lacks them."""
    for made in sorted((staged / LAYOUTS_FOLDER).iterdir()):
        final = folder / LAYOUTS_FOLDER / made.name
        final.parent.mkdir(mode=0o755, exist_ok=True)
        if not final.exists():
            made.rename(final)


def _with_output(words: list[str], path: Path) -> list[str]:
    place = words.index("-o") + 1
    return [*words[:place], str(path), *words[place + 1 :]]


def _stand_beside(staged: Path, bin_folder: Path) -> None:
    """All else is the build's own: a server finds its files from where it stands."""
    for folder in (bin_folder, bin_folder.parent, bin_folder.parent.parent):
        folder.chmod(0o755)
    for path in staged.iterdir():
        if path.name not in ("bin", LAYOUTS_FOLDER):
            (bin_folder.parent / path.name).symlink_to(f"../../{path.name}")
    for path in (staged / "bin").iterdir():
        if path.name != _PROGRAM:
            (bin_folder / path.name).symlink_to(f"../../../bin/{path.name}")
