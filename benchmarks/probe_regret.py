"""What following the probe costs against the best of its grid.

    python benchmarks/probe_regret.py PATH [--seconds 60] [--rounds 12] [--seed 1]

Probes PATH once, as a user does. Then every value of every recommended setting is measured anew, in rounds of
random order and with no knowledge of the first probe, and the regret of the recommended value is taken from
these measurements alone: the time it takes beyond the best value of the grid (target: at most 3 %).

The best of many noisy values looks better than it is. So the best is picked by the odd rounds and compared
with the recommended value by the even ones, and the other way about; the interval is Student's t over rounds.
"""

import argparse
import math
import random
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pgassay.environment import lock
from pgassay.model.probe import CellSpec, MeasuredCell
from pgassay.native.probe import NativeProbe
from pgassay.probe.analysis.analyse import analyse_probe
from pgassay.probe.analysis.cell_figures import facilities
from pgassay.probe.analysis.estimates import estimate, quantile, rate_of
from pgassay.probe.analysis.probe_plan import Decision, decisions
from pgassay.probe.analysis.recommend import curve_method
from pgassay.probe.measuring import probe_location as places
from pgassay.probe.measuring.probe_files import make_files
from pgassay.probe.measuring.runner import Runner
from pgassay.probe.measuring.session import ProbeRequest, run_probe

Rates = dict[CellSpec, npt.NDArray[np.float64]]

REGRET_MAX = 0.03
# The decision that each recommendation rests on.
SETTINGS = {
    "io_method": "io_method",
    "io_workers": "io_workers",
    "effective_io_concurrency": "effective_io_concurrency",
    "io_combine_limit": "io_combine_limit",
    "read_ahead_kb": "read_ahead_kb",
}


def quiet(text: str, fraction: float | None) -> None:
    """Progress is not printed."""
    del text, fraction


def measured_anew(path: Path, cells: list[CellSpec], rounds: int, seed: int) -> tuple[MeasuredCell, ...]:
    """Every cell once in each round, each round in an order of its own."""
    draw = random.Random(seed)
    place = places.check_folder(path)
    with lock.acquire(True, lambda _holder: None), places.own_folder(path) as folder, NativeProbe() as native:
        files = make_files(native, folder, 60.0, quiet)
        runner = Runner(native, files, place, 0.4)
        for _ in range(rounds):
            draw.shuffle(cells)
            for spec in cells:
                runner.run(spec)
        return runner.cells


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    record = run_probe(
        ProbeRequest(path=arguments.path, seconds=arguments.seconds, seed=arguments.seed), quiet, wait=True
    )
    have, result = facilities(record), analyse_probe(record)
    method = curve_method(have, estimate(record.cells))
    grids: dict[str, Decision] = {each.name: each for each in decisions(have, method)}
    chosen = {
        name: grids[grid] for name, grid in SETTINGS.items() if name in result.recommend and grid in grids
    }
    measured_cells = (
        spec for grid in chosen.values() for specs in grid.candidates.values() for spec in specs
    )
    cells = list(dict.fromkeys(measured_cells))
    started = time.monotonic()
    rates = rates_of_rounds(measured_anew(arguments.path, cells, arguments.rounds, arguments.seed + 1))
    print(f"{len(cells)} cells, {arguments.rounds} rounds, {time.monotonic() - started:.0f} s")
    for name, grid in chosen.items():
        print(f"  {name} = {regret_words(grid, result.recommend[name].value, rates)}")


def rates_of_rounds(measured: tuple[MeasuredCell, ...]) -> Rates:
    """The logarithm of each cell's rate in each round; rounds that not every cell has are left out."""
    rounds = min(len(cell.runs) for cell in measured)
    return {cell.spec: np.log([rate_of(cell.spec, run) for run in cell.runs[:rounds]]) for cell in measured}


def regret_words(grid: Decision, value: str, rates: Rates) -> str:
    """The value with its regret, whether the target is reached, and each value's rate over all rounds."""
    scores = {
        each: np.mean([rates[spec] for spec in specs], axis=0) for each, specs in grid.candidates.items()
    }
    if value not in scores:
        return f"{value}: not in the grid"
    gaps = scores[value] * 0.0
    for half in (0, 1):
        best = max(scores, key=lambda each: float(scores[each][1 - half :: 2].mean()))
        gaps[half::2] = (scores[best] - scores[value])[half::2]
    mean, error = float(gaps.mean()), float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
    reach = quantile(len(gaps) - 1) * error
    regret, low, high = (math.expm1(each) for each in (mean, mean - reach, mean + reach))
    missed = "MISSED" if low > REGRET_MAX else "missed, within the noise"
    told = ", ".join(f"{each} {math.exp(float(score.mean())):,.0f}" for each, score in scores.items())
    verdict = "reached" if regret <= REGRET_MAX else missed
    return (
        f"{value}: regret {regret:.1%} ({low:.1%} to {high:.1%}), target {REGRET_MAX:.0%}: {verdict}; {told}"
    )


if __name__ == "__main__":
    main()
