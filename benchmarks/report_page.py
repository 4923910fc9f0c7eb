"""How long a report's page of about 200 trials takes to make, and how large it is.

    python benchmarks/report_page.py [FOLDER] [--runs 5]

FOLDER is a stored experiment, else a short one is run; its recorded blocks are repeated until there are 200
trials. Prints the median wall time with the analysis, and the size (targets: at most 3 s and 3 MB).
"""

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pgassay.analysis.verdicts.compare import analyse
from pgassay.cli.chart_library import chart_library
from pgassay.record.experiment import StoredExperiment, TrialWriter, load, write_experiment
from pgassay.report.compare.page import page_of

TRIALS = 200
SECONDS_MAX, BYTES_MAX = 3.0, 3_000_000
SHORT = (
    *("compare", "work_mem=1MB,2MB", "clients=1,4", "--workload", "select-only:duration=3s,warmup=0s"),
    *("--scale", "1", "--blocks", "2", "--quiet"),
)


def repeated(folder: Path, target: Path) -> StoredExperiment:
    """The experiment with its blocks written again and again, until there are TRIALS trials."""
    stored = load(folder)
    write_experiment(target, stored.experiment)
    records = [(trial.folder, trial.record) for trial in stored.trials if trial.record.status == "ok"]
    if not records:
        raise SystemExit(f"{folder} holds no valid trial: name a folder with results.")
    blocks = max(record.block for _, record in records) + 1
    for turn in range(math.ceil(TRIALS / len(records))):
        for place, (source, record) in enumerate(records):
            number = turn * len(records) + place
            block = turn * blocks + record.block
            writer = TrialWriter(target, number, 1)
            for file in source.rglob("*"):
                if file.is_file() and file.name != "trial.json":
                    writer.add(str(file.relative_to(source)), file.read_bytes())
            writer.finish(record.model_copy(update={"number": number, "attempt": 1, "block": block}))
    return load(target)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    library = chart_library()
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder
        if folder is None:
            folder = Path(name) / "short"
            pgassay = Path(sys.executable).with_name("pgassay")
            subprocess.run([pgassay, *SHORT, "--out", folder], stdout=subprocess.DEVNULL, check=True)
        stored = repeated(folder, Path(name) / "results")
        times, page = [], ""
        for _ in range(arguments.runs):
            begun = time.perf_counter()
            page = page_of(analyse(stored), stored).html(chart_library=library)
            times.append(time.perf_counter() - begun)
    median = statistics.median(times)
    print(f"{len(stored.trials)} trials: median {median:.2f} s (target at most {SECONDS_MAX:g})")
    print(f"{len(page.encode()) / 1e6:.2f} MB (target at most {BYTES_MAX / 1e6:g})")


if __name__ == "__main__":
    main()
