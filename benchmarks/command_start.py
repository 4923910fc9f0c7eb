"""How long `pgassay --help` takes against an empty Python process, interleaved.

    python benchmarks/command_start.py [--runs 25]

Prints the ratio of the medians (target: at most 4).
"""

import argparse
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

RATIO_MAX = 4.0


def seconds(command: list[str]) -> float:
    """Wall time of one run."""
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=25)
    runs = parser.parse_args().runs
    commands = {
        "pgassay --help": [str(Path(sys.executable).with_name("pgassay")), "--help"],
        "python -c pass": [sys.executable, "-c", "pass"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for run in range(runs + 2):
        for name in random.sample(list(commands), len(commands)):
            took = seconds(commands[name])
            if run >= 2:
                times[name].append(took)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        print(f"{name}: median {median * 1000:.1f} ms of {runs}")
    ratio = medians["pgassay --help"] / medians["python -c pass"]
    print(f"ratio {ratio:.2f} (target at most {RATIO_MAX:g})")


if __name__ == "__main__":
    main()
