"""What following the probe costs against the best of its grid.

    python benchmarks/probe_regret.py PATH [--seconds 60] [--rounds 12] [--seed 1]

Probes PATH once, as a user does. Then every value of every recommended setting is measured anew, in rounds of
random order and with no knowledge of the first probe, and the regret of the recommended value is taken from
these measurements alone: the time it takes beyond the best value of the grid (target: at most 3 %).
"""

import argparse
import random
import time
from pathlib import Path

from pgassay.analysis.probe.analyse import analyse_probe
from pgassay.analysis.probe.cells import facilities
from pgassay.analysis.probe.choice import judge
from pgassay.analysis.probe.estimates import Estimates, estimate
from pgassay.analysis.probe.plan import Decision, decisions
from pgassay.analysis.probe.recommend import curve_method
from pgassay.environment import lock
from pgassay.model.probe import CellSpec, MeasuredCell
from pgassay.probe import place as places
from pgassay.probe.conversation import NativeProbe
from pgassay.probe.files import make_files
from pgassay.probe.runner import Runner
from pgassay.probe.session import ProbeRequest, run_probe

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
    estimates = estimate(measured_anew(arguments.path, cells, arguments.rounds, arguments.seed + 1))
    print(f"{len(cells)} cells, {arguments.rounds} rounds, {time.monotonic() - started:.0f} s")
    for name, grid in chosen.items():
        print(f"  {name} = {regret_words(grid, result.recommend[name].value, estimates)}")


def regret_words(grid: Decision, value: str, estimates: Estimates) -> str:
    """The recommended value with its regret, the best one, and whether the target is reached."""
    judged = judge(grid, estimates)
    found = {each.value: each for each in judged.alternatives} if judged else {}
    if value not in found:
        return f"{value}: not in the grid"
    low, high = found[value].interval
    regret = found[value].regret
    missed = "MISSED" if low > REGRET_MAX else "missed, within the noise"
    best = min(found.values(), key=lambda each: each.regret).value
    told = f"{value}: regret {regret:.1%} ({low:.1%} to {high:.1%}), best {best}"
    return f"{told}, target {REGRET_MAX:.0%}: {'reached' if regret <= REGRET_MAX else missed}"


if __name__ == "__main__":
    main()
