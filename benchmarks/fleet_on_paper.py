"""What 1,000 machines and 100,000 trials would take of a fleet's coordinator, from a stored experiment.

    python benchmarks/fleet_on_paper.py FOLDER

FOLDER: an experiment of some 100 trials. It stands for what each machine sends. Measured are the size of a
record on its way, the time to pack and to unpack it, what a trial takes in memory, and the time of a look at
2 to 32 machines; a straight line through the latter says what 1,000 would take.
"""

import argparse
import gc
import resource
import tempfile
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np

from pgassay.analysis.machines.combine import combine
from pgassay.fleet import records
from pgassay.fleet.spreading.coordinate import PollingPace
from pgassay.record.experiment import StoredExperiment, load

MACHINES, TRIALS = 1000, 100_000
LOOKED_AT = (2, 8, 32)


def main() -> None:
    """Measure, then calculate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    names = [name for name in records.pieces(folder) if records.is_trial(name)]
    begun = time.process_time()
    packed = {name: records.pack(folder, name) for name in names}
    pack_s = (time.process_time() - begun) / len(names)
    with tempfile.TemporaryDirectory() as home:
        begun = time.perf_counter()
        for name, content in packed.items():
            records.unpack(Path(home), name, content)
        unpack_s = (time.perf_counter() - begun) / len(names)
    record_bytes = sum(map(len, packed.values())) / len(names)
    stored, trial_bytes = in_memory(folder)
    print(f"a record on its way: {record_bytes / 1e3:.1f} kB, {1e3 * pack_s:.1f} ms to pack")
    print(f"to unpack and to flush it: {1e3 * unpack_s:.1f} ms")
    print(f"a trial in memory: {trial_bytes / 1e3:.1f} kB")
    seconds = [look_s(stored, machines) for machines in LOOKED_AT]
    for machines, taken in zip(LOOKED_AT, seconds, strict=True):
        print(f"a look at {machines} machines of {len(names)} trials: {taken:.2f} s")
    each_s, fixed_s = np.polyfit(LOOKED_AT, seconds, 1)
    print(f"on paper, {MACHINES:,} machines with {TRIALS:,} trials:")
    print(f"  records: {TRIALS * record_bytes / 1e9:.1f} GB come home")
    print(f"  memory: {TRIALS * trial_bytes / 1e9:.1f} GB, beside {own_bytes() / 1e6:.0f} MB of the program")
    scale = TRIALS / MACHINES / len(names)
    print(f"  a look: {fixed_s + MACHINES * each_s * scale:.0f} s")
    pace = PollingPace()
    print(f"  a machine is visited every {pace.visit_s + MACHINES * pace.visit_each_s:.0f} s")


def in_memory(folder: Path) -> tuple[StoredExperiment, float]:
    """The experiment, and the bytes of one of its trials."""
    load(folder)
    gc.collect()
    tracemalloc.start()
    stored = load(folder)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return stored, taken / len(stored.trials)


def look_s(stored: StoredExperiment, machines: int) -> float:
    """Processor seconds of one look at so many machines, each with the trials of this one."""
    experiments = [as_if_on(f"host{number}", stored) for number in range(machines)]
    begun = time.process_time()
    combine(experiments, is_final=False)
    return time.process_time() - begun


def as_if_on(host: str, stored: StoredExperiment) -> StoredExperiment:
    """The same trials on another host."""
    environment = stored.experiment.environment
    machine = environment.machine.updated(hostname=host, machine_id=host)
    plan = stored.experiment.model_copy(update={"environment": environment.updated(machine=machine)})
    changed = {"host": host, "boot_id": f"boot of {host}"}
    trials = tuple(replace(trial, record=trial.record.model_copy(update=changed)) for trial in stored.trials)
    return replace(stored, experiment=plan, trials=trials, folder=Path("/nowhere") / host)


def own_bytes() -> float:
    """The most that this process has taken of memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
