"""What a worker of a fleet runs as processes of its own: `python -m pgassay.cli.on_machine WHAT …`.

    facts NOISE_S SPEED     prints what this machine says of itself, as JSON
    run PARENT WORD…        `pgassay WORD…`, which ends when the worker does

The kernel sends the second SIGTERM when its parent ends, at which an experiment stops its servers and keeps
its records (prctl(2), PR_SET_PDEATHSIG). That is of the parent's *thread*: who starts it must do so from one
that lives as long as the process.
"""

import ctypes
import json
import os
import signal
import sys

from pgassay.cli.main import main as command
from pgassay.errors import PgassayError
from pgassay.fleet.facts import gather

_PR_SET_PDEATHSIG = 1


def main(words: list[str]) -> int:
    """The exit status; a sentence on standard error where this machine can't be used."""
    if words[0] == "facts":
        try:
            json.dump(gather(noise_s=float(words[1]), with_speed=words[2] == "speed"), sys.stdout)
        except PgassayError as error:
            print(f"pgassay: {error}", file=sys.stderr)
            return error.exit_code
        return 0
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(words[1]):
        print("pgassay: the worker has ended", file=sys.stderr)
        return 1
    return command(words[2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
