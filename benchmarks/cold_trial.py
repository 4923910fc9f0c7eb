"""What a cold trial costs beyond its measured time, and how soon a method's effect is decided.

    python benchmarks/cold_trial.py [--scale 100]

Runs the real `pgassay compare io_method=sync,worker` on a cold scan of pgbench_accounts and prints, from
its own records, the median of wall time less measured time (target: at most 3 s at scale 100), the time
to the first trial of a second experiment on the same data (target: 10 s), and the time to a decision
(target: 5 minutes): on the machine's own disk, where others' reads decide how long it takes, and on a
volume that delivers 250 MB/s whatever they do, as a provisioned cloud volume does.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PGASSAY = Path(sys.executable).with_name("pgassay")
OVERHEAD_S_MAX = 3.0
FIRST_TRIAL_S_MAX = 10.0
DECISION_S_MAX = 300.0
STORAGES = {"the machine's disk": "host", "a volume of 250 MB/s": "loop:size=4GB,read_mb_s=250"}


def compare(scale: int, folder: Path, *more: str) -> dict[str, object]:
    """Run one comparison; returns its JSON document."""
    command = [str(PGASSAY), "compare", "io_method=sync,worker", "--workload", "full-scan:only=read-table"]
    command += ["--scale", str(scale), "--cache", "cold-each", "--set", "shared_buffers=1GB", "--json"]
    finished = subprocess.run(
        [*command, "--quiet", "--out", str(folder), *more], stdout=subprocess.PIPE, text=True, check=True
    )
    document: dict[str, object] = json.loads(finished.stdout)
    return document


def overheads_s(folder: Path) -> list[float]:
    """Wall time less measured time of every valid trial."""
    found = []
    for path in sorted(folder.glob("trials/*/attempt-*/trial.json")):
        record = json.loads(path.read_text())
        if record["status"] == "ok":
            found.append(record["wall_s"] - sum(each["elapsed_s"] for each in record["statements"]))
    return found


def seconds_to_first_trial(scale: int, folder: Path) -> float:
    """From typing the command to the start of the first trial's preparation, data being there."""
    begun = time.time()
    compare(scale, folder, "--blocks", "1")
    first = json.loads((folder / "trials/000000/attempt-1/trial.json").read_text())
    from datetime import datetime

    return datetime.fromisoformat(first["started_at"]).timestamp() - begun


def decide(scale: int, scratch: Path, name: str, storage: str) -> str:
    """Compare the methods on this storage until it is decided, or for five minutes; the line to print."""
    begun = time.monotonic()
    folder = scratch / storage.partition(":")[0]
    result = compare(scale, folder, "--storage", storage, "--max-time", "5m")
    return (
        f"  sync against worker on {name}: {result['stopped']} after {result['blocks']} blocks and "
        f"{time.monotonic() - begun:.0f} s (target {DECISION_S_MAX:.0f} s): {result['verdict']}"
    )


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=int, default=100)
    scale = parser.parse_args().scale
    with tempfile.TemporaryDirectory(prefix="pgassay-bench-") as scratch:
        compare(scale, Path(scratch, "warm-up"), "--blocks", "1")
        first_s = seconds_to_first_trial(scale, Path(scratch, "again"))
        decisions = [decide(scale, Path(scratch), *storage) for storage in STORAGES.items()]
        overhead_s = overheads_s(Path(scratch, "host"))
    print(f"cold trial, scale {scale}: {len(overhead_s)} trials")
    print(
        f"  beyond the measured time: median {statistics.median(overhead_s):.2f} s, "
        f"max {max(overhead_s):.2f} s (target {OVERHEAD_S_MAX} s)"
    )
    print(f"  a second experiment's first trial after {first_s:.1f} s (target {FIRST_TRIAL_S_MAX} s)")
    print("\n".join(decisions))


if __name__ == "__main__":
    main()
