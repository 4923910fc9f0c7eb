"""What a worker of a fleet runs as processes of its own: `python -m pgassay.cli.fleet_worker WHAT …`.

    facts NOISE_S WORD…     prints what this machine says of itself, as JSON; with `speed` how fast it is,
                            with `storage` how fast its disk is
    data PARENT             answers questions about the data of an experiment
                            (`pgassay.fleet.experiment_data`)
    run PARENT WORD…        `pgassay WORD…`, which ends when the worker does

The kernel sends the last two SIGTERM when their parent ends, at which an experiment stops its servers and
keeps its records (prctl(2), PR_SET_PDEATHSIG). That is of the parent's *thread*: who starts them must do so
from one that lives as long as the process.
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence

from pgassay.cli.main import main as command
from pgassay.cli.main import parser
from pgassay.cli.options import request_of
from pgassay.errors import PgassayError
from pgassay.experiment.planning.experiment_plan import parse_request, plan
from pgassay.fleet import experiment_data
from pgassay.fleet.machine_facts import gather
from pgassay.model.experiment import Experiment

_PR_SET_PDEATHSIG = 1


def main(words: list[str]) -> int:
    """The exit status; a sentence on standard error where this machine can't be used."""
    if words[0] == "facts":
        try:
            asked = {"with_speed": "speed" in words, "with_storage": "storage" in words}
            json.dump(gather(noise_s=float(words[1]), **asked), sys.stdout)
        except PgassayError as error:
            print(f"pgassay: {error}", file=sys.stderr)
            return error.exit_code
        return 0
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(words[1]):
        print("pgassay: the worker has ended", file=sys.stderr)
        return 1
    if words[0] == "data":
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: sys.exit(1))
        experiment_data.serve(_planned, sys.stdin.fileno(), sys.stdout)
        return 0
    # What it measured goes to whoever asked for it, who draws one page of all machines.
    return command(words[2:], draws_page=False)


def _planned(words: Sequence[str]) -> Experiment:
    """The plan that `pgassay compare WORD…` would make; the caller holds the host's lock."""
    chosen = parser().parse_args(["compare", *words])
    chosen.words = ["pgassay", "compare", *words]
    return plan(parse_request(request_of(chosen), _say_nothing), _say_nothing)


def _say_nothing(_stage: str, _fraction: float | None) -> None:
    """Nobody looks on."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
