"""What the analysis costs between blocks: a simulated experiment of 100 contrasts in four strata.

    python benchmarks/analysis.py [--blocks 10]

No server is started. Prints the processor time of the look after a block (which arms are decided), of the
whole result with its forecasts, and of the forecasts alone (target: at most 0.2 s a block).
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "samples"))
from pgassay.analysis.verdicts.compare import analyse, interim_result
from pgassay.analysis.verdicts.primary_family import analyse_primary, forecasts
from pgassay.analysis.verdicts.study import gather_study
from pgassay.record.experiment import StoredExperiment
from simulated_worlds import World
from whole_experiments import arms_of, planned, run_whole

STRATA, ARMS_OF_STRATUM = 4, 25
FORECASTS_S_MAX = 0.2


def simulated(blocks: int, strata: str) -> StoredExperiment:
    """An experiment of equal trials but for what some arms do, after so many blocks of each stratum."""
    arms = ",".join(f"{number}MB" for number in range(1, ARMS_OF_STRATUM + 2))
    clients = ",".join(str(number) for number in range(1, STRATA + 1))
    experiment = planned(f"work_mem={arms}", f"clients={clients}", seed=3, blocks=blocks)
    design = experiment.design.model_copy(update={"strata": strata, "decided_rest": False})
    experiment = experiment.model_copy(update={"design": design})
    effects = {arm.name: 0.01 * (place % 7) for place, arm in enumerate(arms_of(experiment))}
    world = World("normal", 0.03, np.random.default_rng(1), effects=effects, trials_max=8000)
    return run_whole(experiment, world, until_decided=False).stored


def cpu_s(work: Callable[[], object]) -> float:
    """The least processor time of three runs."""
    found = []
    for _ in range(3):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=10)
    arguments = parser.parse_args()
    missed = False
    for strata in ("apart", "together"):
        stored = simulated(arguments.blocks, strata)
        study = gather_study(stored)
        primary = analyse_primary(study)
        forecast_s = cpu_s(lambda: forecasts(study, primary))  # noqa: B023
        look_s, whole_s = cpu_s(lambda: interim_result(stored)), cpu_s(lambda: analyse(stored))  # noqa: B023
        print(
            f"strata {strata}, {len(study.experiment.contrasts)} contrasts, {len(stored.trials)} trials: "
            f"a look {look_s:.2f} s, the whole result {whole_s:.2f} s, forecasts {forecast_s:.2f} s"
        )
        missed |= forecast_s > FORECASTS_S_MAX
    if missed:
        raise SystemExit(f"the forecasts take more than {FORECASTS_S_MAX} s")


if __name__ == "__main__":
    main()
