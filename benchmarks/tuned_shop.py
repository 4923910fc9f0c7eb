"""Does `pgassay tune` mend each slow statement of a shop, and leave alone what needs nothing?

    python benchmarks/tuned_shop.py [--seeds 1-5] [--statements 5] [--megabytes 300] [--max-time 2m] [--pg 18]
        [--write FOLDER] [--out FOLDER]

A shop of six tables is drawn by each seed: sizes, values, and which statements its users type. Of those, some
miss an index, one report dominates the time and can't be helped, one writes, and the others need nothing. The
whole command is run, with its search and proof. A planted statement counts as mended when it is proven to be
faster by what is recommended; one that needs nothing counts as left alone when nothing is recommended for it.
--write writes the shop (shop.sql, slow.sql) of the first seed and runs nothing. Exit code 1 when less than
95 % of either is as it should be.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shop.statements import Asked, statements_of
from shop.tables import script, sizes_of

SHARE_MIN = 0.95


@dataclass(frozen=True)
class Shop:
    """What is typed: the data and the statements."""

    data: str
    asked: tuple[Asked, ...]

    def write(self, folder: Path) -> None:
        """Write shop.sql and slow.sql."""
        (folder / "shop.sql").write_text(self.data, "utf-8")
        texts = (f"-- name: {each.name}\n{each.sql};\n" for each in self.asked)
        (folder / "slow.sql").write_text("\n".join(texts), "utf-8")


def shop(seed: int, statements: int, megabytes: int) -> Shop:
    """The shop of a seed, with so many statements over about so much data."""
    draw = random.Random(seed)
    sizes = sizes_of(draw, megabytes)
    return Shop(script(sizes), statements_of(draw, sizes, statements))


def tuned(made: Shop, folder: Path, max_time: str, version: str) -> dict[str, object]:
    """Run the whole command; returns its answer."""
    made.write(folder)
    words = [
        *("pgassay", "tune", "--dataset", f"script:{folder / 'shop.sql'}"),
        *("--workload", f"sql:{folder / 'slow.sql'}", "--max-time", max_time, "--json"),
        *("--out", str(folder / "out"), "--pg", version),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout))


def main(words: Sequence[str] | None = None) -> int:
    """Run what was asked for; returns the exit code."""
    arguments = _arguments(words)
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if arguments.write:
        arguments.write.mkdir(parents=True, exist_ok=True)
        shop(seeds[0], arguments.statements, arguments.megabytes).write(arguments.write)
        return 0
    mended = planted = alone = quiet = 0
    for seed in seeds:
        made = shop(seed, arguments.statements, arguments.megabytes)
        with tempfile.TemporaryDirectory() as temporary:
            folder = (arguments.out or Path(temporary)) / f"shop-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            began = time.monotonic()
            result = tuned(made, folder, arguments.max_time, arguments.pg)
            took_s = time.monotonic() - began
        print(f"seed {seed}: {took_s:.0f} s; {result['verdict']}", flush=True)
        for name, is_planted, is_right, said in judged(made, result):
            print(f"  {'right' if is_right else 'WRONG'}  {name}: {said}", flush=True)
            planted, mended = planted + is_planted, mended + (is_planted and is_right)
            quiet, alone = quiet + (not is_planted), alone + (not is_planted and is_right)
    print(f"mended {mended} of {planted}; left alone {alone} of {quiet}")
    is_enough = mended >= SHARE_MIN * planted and alone >= SHARE_MIN * quiet
    return 0 if is_enough else 1


def judged(made: Shop, result: dict[str, object]) -> list[tuple[str, bool, bool, str]]:
    """Of each statement: its name, whether a fix was planted, whether the answer is right, and what it is."""
    fixes = {str(each["id"]): each for each in result["fixes"]}  # type: ignore[attr-defined]
    answers = {str(each["name"]): each for each in result["statements"]}  # type: ignore[attr-defined]
    rows = []
    for asked in made.asked:
        given = answers[asked.name]
        by = [fixes[name] for name in given["fixes"] if fixes[name]["verdict"] == "recommended"]
        names = " and ".join(fix["title"] for fix in by)
        is_named = any(asked.is_mended_by(fix["sql"]) for fix in by)
        is_right = given["verdict"] == "faster" and is_named if asked.mends else not by
        ratio = f"{given['ratio']:.3g} ×" if given["ratio"] else "as it was"
        rows.append(
            (asked.name, bool(asked.mends), is_right, f"{given['verdict']}, {ratio}, by {names or '-'}")
        )
    return rows


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--statements", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--max-time", default="2m")
    parser.add_argument("--pg", default="18")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--out", type=Path)
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
