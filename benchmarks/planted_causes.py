"""Does `pgassay compare` name what limits a server, and predict what lifting it gains?

    python benchmarks/planted_causes.py [--only NAME,NAME] [--quick] [--repetitions 3] [--retries 2] [--pg 18]

Puts each cause into a real server, at two magnitudes, and mixtures of two; one run compares the server with
the plant to the same without it. Counts how often the cause was named, how often the gain it predicted was
within 25 % of the one measured, or told with ends that hold it (a least alone: up to three times of it), and
how often the harmless counterpart (a decoy) was found clean: the cause not named, and no fault. A run in
which the tool itself found noise is repeated; what stays noisy counts for the names alone. What this machine
can't be given is skipped and counted, and so is a plant that was not named and limited nothing: lifting it
gained less than a tenth.
--quick: the first magnitude of each, once.
Exit code 1 when anything that was run was not as it should be.
"""

import argparse
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgassay.environment.builds.registry import resolve
from pgassay.environment.home import home_path
from plants.base import Judgement, Plant, both, is_harmless, judge
from plants.needs import free_memory_disk, missing
from plants.table import PLANTS

COMMAND = (sys.executable, "-m", "pgassay.cli.main")
_TIMEOUT_S = 900
_AIO_SINCE = 18
# Since then a server has as many I/O workers as it needs, up to a setting of another name.
_FIRST_WITH_POOL_OF_WORKERS, _MOST_WORKERS = 19, "io_max_workers"


class RunError(Exception):
    """A comparison that ended without a result; its last sentence."""


@dataclass
class Counts:
    """Of how many, how many were as they should be; the sentences of those that were not, and skips."""

    named: list[bool] = field(default_factory=list)
    near: list[bool] = field(default_factory=list)
    clean: list[bool] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    noisy: int = 0

    @property
    def is_good(self) -> bool:
        """Whether everything that was run was as it should be."""
        return all(self.named) and all(self.near) and all(self.clean) and not self.failed


@contextmanager
def bench_home() -> Iterator[Path]:
    """A home of the bench's own, gone afterwards; what was unpacked for the machine's own is there too."""
    folder = Path(tempfile.mkdtemp(prefix="pgassay-bench-", dir="/tmp"))
    # The account that runs the servers must come through.
    folder.chmod(0o755)
    try:
        for shared in (home_path() / name for name in ("tools", "chart-library")):
            if shared.is_dir():
                (folder / shared.name).symlink_to(shared)
        yield folder
    finally:
        free_memory_disk()
        shutil.rmtree(folder)


@dataclass(frozen=True)
class Place:
    """Where and how comparisons run: the bench's home, the build, its version, a folder for results or None.

    retries: how often a run is repeated in which other processes took the processors.
    """

    home: Path
    pg: str
    major: int
    keep: Path | None
    retries: int


def run(plant: Plant, place: Place, seed: int) -> dict[str, Any]:
    """Compare once; returns the JSON document. Raises RunError with what the tool said."""
    home = place.home
    with tempfile.TemporaryDirectory(prefix="pgassay-plant-") as scratch:
        build = [] if plant.is_remote else ["--pg", place.pg]
        with plant.outside(home) as given, plant.around(home) as before:
            is_pool = not plant.is_remote and place.major >= _FIRST_WITH_POOL_OF_WORKERS
            names = {**given, "io_workers": _MOST_WORKERS} if is_pool else given
            words = [*plant.words(Path(scratch), names), *build, "--seed", str(seed)]
            environment = {**os.environ, "PGASSAY_HOME": str(home)}
            status, said, complaints = _finished([*before, *COMMAND, *words], environment)
        if place.keep is not None and Path(scratch, "results").is_dir():
            name = f"{seed:03}-{plant.name}"
            shutil.copytree(Path(scratch, "results"), place.keep / name, dirs_exist_ok=True)
    if status != 0:
        raise RunError((complaints.strip().splitlines() or ["no error message"])[-1])
    document: dict[str, Any] = json.loads(said)
    return document


def _finished(command: list[str], environment: dict[str, str]) -> tuple[int, str, str]:
    """Status and both outputs of a command that ends in order even when the bench is interrupted."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    )
    try:
        said, complaints = process.communicate(timeout=_TIMEOUT_S)
    except BaseException:
        # It takes its server, mounts and groups away.
        process.terminate()
        process.communicate()
        raise
    return process.returncode, said, complaints


def _words(judgement: Judgement) -> str:
    told = f"{'named' if judgement.is_named else 'NOT NAMED'} ({judgement.planted})"
    if judgement.predicted is not None and judgement.measured is not None:
        near = "" if judgement.is_near else " FAR OFF"
        ends = judgement.predicted_range
        told += "" if ends is None else f"; between {ends[0]:.2f}x and {ends[1]:.2f}x"
        least = "at least " if judgement.is_least else ""
        told += f"; predicted {least}{judgement.predicted:.2f}x, measured {judgement.measured:.2f}x{near}"
    elif judgement.measured is not None:
        told += f"; predicts no gain, measured {judgement.measured:.2f}x"
    if judgement.is_clean is not None:
        told += f"; lifted {'clean' if judgement.is_clean else 'NOT CLEAN'} ({judgement.other})"
    return told


def measure(plant: Plant, place: Place, seeds: Iterator[int], counts: Counts) -> None:
    """One repetition of a plant, and of its decoy where that has a run of its own; prints a line for each."""
    here = f"{plant.name:32} {plant.magnitude:34}"
    try:
        judgement = _quiet(plant, place, seeds)
        print(f"{here} {_words(judgement)}", flush=True)
        if judgement.is_none:
            counts.skipped.append(f"{plant.name}, {plant.magnitude}: it limited nothing here")
            return
        counts.named.append(judgement.is_named)
        if judgement.is_near is not None and judgement.is_noisy:
            counts.noisy += 1
        elif judgement.is_near is not None:
            counts.near.append(judgement.is_near)
        if judgement.is_clean is not None:
            counts.clean.append(judgement.is_clean)
        decoy = plant.harmless()
        if decoy is not None:
            arms = both(decoy, run(decoy, place, next(seeds)))
            is_clean = all(is_harmless(plant, named) for named in arms)
            told = ", ".join(dict.fromkeys(map(str, arms)))
            print(f"{here} decoy {'clean' if is_clean else 'NOT CLEAN'} ({told})", flush=True)
            counts.clean.append(is_clean)
    except RunError as error:
        print(f"{here} FAILED: {error}", flush=True)
        counts.failed.append(f"{plant.name}, {plant.magnitude}: {error}")


def _quiet(plant: Plant, place: Place, seeds: Iterator[int]) -> Judgement:
    """What was found in a run that no other process disturbed, or in the last one of those allowed."""
    for _ in range(place.retries):
        judgement = judge(plant, run(plant, place, next(seeds)))
        if not judgement.is_noisy:
            return judgement
    return judge(plant, run(plant, place, next(seeds)))


def chosen(only: str | None, quick: bool) -> list[Plant]:
    """The plants that the options name; raises SystemExit for a name that no plant has."""
    names = {plant.name for plant in PLANTS}
    wanted = set(only.split(",")) if only else names
    if wanted - names:
        raise SystemExit(
            f"no plant is called {', '.join(sorted(wanted - names))}: use {', '.join(sorted(names))}"
        )
    plants = [plant for plant in PLANTS if plant.name in wanted]
    return list({plant.name: plant for plant in reversed(plants)}.values())[::-1] if quick else plants


def _of(values: Sequence[bool]) -> str:
    return f"{sum(values)}/{len(values)}"


def _too_old(plant: Plant, major: int) -> str:
    """Why a version can't have the plant: it has no asynchronous I/O; '' if it can."""
    texts = f"{plant.factor} {' '.join(plant.options)} {' '.join(plant.settings)}"
    is_asynchronous = any(name in texts for name in ("io_method", "io_workers"))
    return f"PostgreSQL {major} has no io_method" if is_asynchronous and major < _AIO_SINCE else ""


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="NAME,NAME", help="these plants, by the names of their causes")
    parser.add_argument("--quick", action="store_true", help="the first magnitude of each, once")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--pg", default="18", help="the build, as for pgassay compare")
    parser.add_argument(
        "--retries", type=int, default=2, help="how often a run that other processes disturbed is repeated"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the results of every run in there")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plants = chosen(arguments.only, arguments.quick)
    counts = Counts()
    build = resolve(arguments.pg)
    with bench_home() as home:
        place = Place(home, build.bin_directory, build.major, arguments.keep, arguments.retries)
        seeds = itertools.count(1)
        for plant in plants:
            if reason := missing(plant.needs) or _too_old(plant, build.major):
                print(f"{plant.name:32} {plant.magnitude:34} skipped: {reason}", flush=True)
                counts.skipped.append(reason)
                continue
            for _ in range(1 if arguments.quick else arguments.repetitions):
                measure(plant, place, seeds, counts)
    print(f"\nnamed               {_of(counts.named)}")
    print(f"gain within 25 %    {_of(counts.near)}; too noisy to tell: {counts.noisy}")
    print(f"decoys clean        {_of(counts.clean)}")
    print(f"failed              {len(counts.failed)}")
    print(
        f"skipped             {len(counts.skipped)}"
        + "".join(f"\n  {each}" for each in dict.fromkeys(counts.skipped))
    )
    return 0 if counts.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
