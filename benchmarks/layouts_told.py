"""What one layout and several make of trees that are equally fast: which directions does `compare` say?

    python benchmarks/layouts_told.py --clone ~/postgres [--revision HEAD] [--repetitions 1] [--layouts 1,4]
        [--max-time 90s] [--workload select-only:clients=1,duration=1s] [--scale 1] [--out FOLDER]

From a revision of a clone, which is only read, it makes a repository of its own with three more trees: one
whose client says another word (the server is the same program), and two with functions that nobody calls, at
the head of the executor or of nbtree. None of them is faster or slower. Each is built and compared with the
revision, with each number of layouts and each seed in random order; printed are every run's ratio with its
interval and verdict, and for each number of layouts how often a direction was said, how far ratios spread,
and the mean share of the spread that is layout. Several layouts are to say none in 95 of 100; one may say one
each time. Exit code 1 where several layouts said a direction in more than 5 % of the runs. Run it on a
machine with nothing else to do: the first builds take ten minutes on two processors, a run up to --max-time,
so that all of it ends within twenty. For figures take --repetitions 5 --max-time 10m, which takes five hours.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

UNUSED_COUNT = 40
FALSE_SHARE_MAX = 0.05
CLIENT = ("src/bin/pgbench/pgbench.c", "starting vacuum...", "beginning vacuum...")
# Trees that differ from the revision by functions alone that nobody calls, each in a file that queries run.
UNUSED = {
    "unused in execMain.c": "src/backend/executor/execMain.c",
    "unused in nbtsearch.c": "src/backend/access/nbtree/nbtsearch.c",
}
IDENTICAL = "identical server"


@dataclass(frozen=True)
class Run:
    """One comparison. ratio: the tree's speed over the revision's; layout_share: of the spread, or None."""

    tree: str
    layouts: int
    verdict: str
    ratio: float | None
    interval: Sequence[float | None] | None
    layout_share: float | None


def main() -> int:
    """Make the trees, compare them, print what was said."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="pgassay-layouts-") as folder:
        repository = Path(folder) / "trees"
        branches = make_trees(options.clone, options.revision, repository)
        wanted = [
            (tree, layouts, seed)
            for tree in branches
            for layouts in options.layouts
            for seed in range(1, options.repetitions + 1)
        ]
        random.Random(options.seed).shuffle(wanted)
        found = []
        for tree, layouts, seed in wanted:
            out = (options.out or Path(folder)) / f"{branches[tree]}-{layouts}-{seed}"
            found.append(compared(options, repository, branches[tree], tree, layouts, seed, out))
            print(_line(found[-1]), flush=True)
    return told(found)


def make_trees(clone: Path, revision: str, repository: Path) -> dict[str, str]:
    """A repository whose branch `base` is the revision; returns the branches of the other trees by name."""
    git(None, "clone", "--quiet", "--shared", "--no-checkout", str(clone), str(repository))
    commit = git(clone, "rev-parse", "--verify", f"{revision}^{{commit}}")
    git(repository, "checkout", "--quiet", "-B", "base", commit)
    branches = {IDENTICAL: "identical"} | {tree: f"unused{n}" for n, tree in enumerate(UNUSED, start=1)}
    for tree, branch in branches.items():
        git(repository, "checkout", "--quiet", "-B", branch, "base")
        if tree == IDENTICAL:
            path = repository / CLIENT[0]
            before = path.read_text()
            after = before.replace(CLIENT[1], CLIENT[2])
            if before == after:
                raise SystemExit(f"{CLIENT[0]} of {revision} does not say {CLIENT[1]!r}")
            path.write_text(after)
        else:
            _add_unused(repository / UNUSED[tree])
        git(repository, "commit", "--quiet", "--all", f"--message={tree}")
    return branches


def _add_unused(path: Path) -> None:
    """Functions of growing length behind the file's includes: all that follows lies elsewhere."""
    lines = path.read_text().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if line.startswith("#include"))
    made = []
    for number in range(UNUSED_COUNT):
        steps = "".join(f"\tx = x * {step + 3} + {number};\n" for step in range(number % 9 + 1))
        made.append(f"int\tnobody_calls_{number}(int x);\nint\nnobody_calls_{number}(int x)\n{{\n{steps}")
        made.append("\treturn x;\n}\n")
    path.write_text("".join([*lines[: last + 1], "\n", *made, *lines[last + 1 :]]))


def compared(
    options: argparse.Namespace,
    repository: Path,
    branch: str,
    tree: str,
    layouts: int,
    seed: int,
    out: Path,
) -> Run:
    """One whole `pgassay compare` of a tree with the revision."""
    words = [
        *(sys.executable, "-m", "pgassay.cli.main", "compare"),
        f"build=git:{repository}@base,git:{repository}@{branch}",
        *("--workload", options.workload, "--scale", str(options.scale), "--layouts", str(layouts)),
        *("--max-time", options.max_time, "--seed", str(seed), "--json", "--quiet", "--out", str(out)),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(f"{tree}, {layouts} layouts: {done.stderr.strip()}")
    document = json.loads(done.stdout)
    arm = next(each for each in document["arms"] if each["verdict"] != "control")
    shares = [each["share"] for each in document.get("layouts", []) if each.get("share") is not None]
    return Run(tree, layouts, arm["verdict"], arm["ratio"], arm["interval"], mean(shares) if shares else None)


def told(found: Sequence[Run]) -> int:
    """Print the table; 1 where several layouts said a direction too often."""
    rows: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in found:
        rows[run.tree, run.layouts].append(run)
    print(
        "\n| tree | layouts | runs | faster or slower | ratios spread by | of it layout |\n"
        "|---|---|---|---|---|---|"
    )
    false = several = 0
    for (tree, layouts), runs in sorted(rows.items()):
        directions = sum(run.verdict in ("faster", "slower") for run in runs)
        ratios = [run.ratio for run in runs if run.ratio is not None]
        shares = [run.layout_share for run in runs if run.layout_share is not None]
        spread = f"±{100 * stdev(ratios):.1f} %" if len(ratios) > 1 else ""
        share = f"{100 * mean(shares):.0f} %" if shares else ""
        print(f"| {tree} | {layouts} | {len(runs)} | {directions} | {spread} | {share} |")
        if layouts > 1:
            false, several = false + directions, several + len(runs)
    # One of few is no more than chance.
    return 1 if false > max(1, FALSE_SHARE_MAX * several) else 0


def _line(run: Run) -> str:
    ends = "" if run.interval is None else " [" + ", ".join(_figure(end) for end in run.interval) + "]"
    return f"{run.tree}, {run.layouts} layouts: {_figure(run.ratio)}{ends} {run.verdict}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def git(folder: Path | None, *words: str) -> str:
    """Run git, with an identity of its own, and return what it printed."""
    identity = ("-c", "user.name=pgassay", "-c", "user.email=pgassay@localhost")
    place = ("-C", str(folder)) if folder else ()
    done = subprocess.run(["git", *place, *identity, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def _options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clone", type=Path, required=True)
    parser.add_argument("--revision", default="HEAD")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--layouts", type=_numbers, default=(1, 4))
    parser.add_argument("--max-time", default="90s")
    parser.add_argument("--workload", default="select-only:clients=1,duration=1s")
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    return parser.parse_args(words)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
