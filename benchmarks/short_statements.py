"""How many blocks a statement below a millisecond takes to a verdict, executed once and several times.

    python benchmarks/short_statements.py [--rows 7000] [--gains 1,1.1,1.3] [--blocks 40] [--rounds 1]

An experiment as the proof of `tune` runs it, on data in shared buffers: a sum over so many rows, beside
itself over fewer rows by each gain. With a gain of 1 both arms are alike and are to be found equivalent.
Each is run twice, with one execution and with as many as tune plans by the statement's time. Printed are the
statement's time, the blocks until the verdict, and the verdict.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from pgassay.analysis.verdicts.compare import analyse
from pgassay.environment.builds.registry import resolve
from pgassay.experiment.planning.experiment_plan import GivenArms, parse_arms
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.run_experiment import host_lock, run_parsed
from pgassay.model.workload import Statement
from pgassay.progress import NullProgress
from pgassay.tune.copy import TrialCopy
from pgassay.tune.search.executions import executions_of
from pgassay.tune.tune_plan import PlannedTune, TuneRequest, plan_tune
from pgassay.tune.tuned_statements import measured

DATA = """
CREATE TABLE figures (id int, figure int);
INSERT INTO figures SELECT n, n FROM generate_series(1, {}) n;
"""
SUM = "SELECT sum(figure) FROM figures WHERE id <= {}"
NAME = "sum"


def planned(folder: Path, rows: int, blocks: int) -> PlannedTune:
    """The workload as it is."""
    (folder / "data.sql").write_text(DATA.format(rows))
    (folder / "slow.sql").write_text(f"-- name: {NAME}\n{SUM.format(rows)};\n")
    compare = CompareRequest(
        factors=(),
        workload=f"sql:{folder / 'slow.sql'}",
        dataset=f"script:{folder / 'data.sql'}",
        settings=("shared_buffers=64MB",),
        build=resolve("18").bin_directory,
        cache="warm-buffers",
        blocks=blocks,
        max_time_s=3600,
    )
    return plan_tune(TuneRequest(compare), lambda *_: None).with_data_format()


def run(folder: Path, rows: int, fewer: int, executions: dict[str, int], blocks: int) -> str:
    """One experiment of both texts; what it came to."""
    known = planned(folder, rows, blocks)
    base = replace(
        known.base, protocol=known.base.protocol.model_copy(update={"executions": executions, "plans": "off"})
    )
    workload = known.spec.workload.model_copy(
        update={"statements": (Statement(name=NAME, sql=SUM.format(fewer)),)}
    )
    specs = {"fewer": known.spec.model_copy(update={"workload": workload}), "all": known.spec}
    with tempfile.TemporaryDirectory() as out, host_lock(NullProgress(), wait=True):
        request = replace(known.request, out=Path(out) / "out")
        parsed = parse_arms(request, known.servers, base, known.given, GivenArms("text", "fewer", specs))
        result = analyse(run_parsed(parsed, NullProgress()))
    arm = next(each for each in result.arms if each.levels.get("text") == "all")
    ends = " to ".join("?" if end is None else f"{end:.3f}" for end in arm.interval or (None, None))
    return f"{arm.blocks:3d} blocks: {arm.verdict}, {ends}"


def main() -> None:
    """Run the experiments and print what each took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=7000)
    parser.add_argument("--gains", default="1,1.1,1.3")
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=1)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        known = planned(folder, words.rows, words.blocks)
        with (
            host_lock(NullProgress(), wait=True),
            TrialCopy(
                known.spec, cache="warm-buffers", statement_timeout_s=60, on_stage=lambda *_: None
            ) as copy,
        ):
            took_s = copy.seconds(measured(known.statements)[0], SUM.format(words.rows))
        times = executions_of([NAME], {NAME: took_s}, {})
        print(f"one execution takes {took_s * 1e3:.3f} ms; tune plans {times.get(NAME, 1)} of them a trial")
        for gain in map(float, words.gains.split(",")):
            for _ in range(words.rounds):
                for often in ({}, times):
                    came_to = run(folder, words.rows, round(words.rows / gain), often, words.blocks)
                    print(f"gain {gain:g}, {often.get(NAME, 1):3d} executions: {came_to}", flush=True)


if __name__ == "__main__":
    main()
