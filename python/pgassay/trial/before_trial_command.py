"""`--before-trial "COMMAND"`: the user's command before each trial on a remote server, and the wait after it.

What only the user can do there, a restart, a failover, another size of machine, gives every trial the same
beginning. Whether the server was started anew is read from the server itself: a command that only says so
leaves the caches as they were.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import IO

import psycopg
from psycopg import conninfo

from pgassay.environment.remote.secrets import scrub
from pgassay.environment.server.sessions import ConnectionParameters
from pgassay.errors import MeasurementError, first_line
from pgassay.model.arm import Arm
from pgassay.trial.target import ServerSession
from pgassay.trial.trial_state import TrialState

OPTION = "--before-trial"
# Another size of machine takes a provider a while.
COMMAND_TIMEOUT_S = 3600.0
RETURN_TIMEOUT_S = 600.0
# A provider's command may answer before the server goes down.
RESTART_BEGINS_S = 10.0
_RETRY_S = 0.5
_SERVER = "PGASSAY_SERVER"
_LEVEL = "PGASSAY_ARM_"
# A password is read from a file; that of pgassay's own environment is not handed on.
_SECRET_VARIABLES = frozenset({"PGPASSWORD", "PGSSLPASSWORD"})


def run_before_trial(trial: TrialState) -> None:
    """Run the command of the protocol, if there is one, and wait until the server answers again.

    What it did is in `trial.before_facts`. Raises MeasurementError when it fails or does not end, and when
    the server stays away.
    """
    command = trial.spec.protocol.before_trial
    if not command:
        return
    trial.stage(f"running the command of {OPTION}")
    server = trial.target.session(trial.spec.arm)
    name = trial.arm.server.name if trial.arm.server is not None else "the server"
    started_before = _started(server)
    trial.target.abandon()
    begun = time.monotonic()
    status, said = _run(command, environment_of(trial.spec.arm, server.parameters()))
    trial.before_facts = {"exit_status": status, "seconds": round(time.monotonic() - begun, 3)}
    if status != 0:
        secret = server.parameters()["password"]
        what = scrub(said, [str(secret)] if secret else [])
        ended = (
            f"did not finish within {COMMAND_TIMEOUT_S:.0f} s" if status is None else f"ended with {status}"
        )
        raise MeasurementError(
            f"the command of {OPTION} {ended} ({what}): fix what it runs and run 'pgassay resume'"
        )
    trial.stage("waiting for the server")
    waiting = time.monotonic()
    was_restarted = _wait(server, name, started_before)
    waited_s = round(time.monotonic() - waiting, 3)
    trial.before_facts |= {"restarted": was_restarted, "waited_s": waited_s}
    if not was_restarted:
        trial.warnings.append(
            f"the command of {OPTION} succeeded, but {name} was not restarted: its caches are unchanged"
        )


def environment_of(arm: Arm, parameters: ConnectionParameters) -> dict[str, str]:
    """What the command finds: pgassay's own variables without passwords, the arm's levels, the server.

    PGASSAY_ARM_NAME has the level of the factor NAME, in capitals, with _ for what no variable can hold.
    """
    names = ("host", "port", "dbname", "user", "sslmode")
    place = {name: str(parameters[name]) for name in names if parameters.get(name)}
    kept = {name: value for name, value in os.environ.items() if name not in _SECRET_VARIABLES}
    levels = {_LEVEL + re.sub(r"\W", "_", name).upper(): level for name, level in arm.levels.items()}
    return kept | levels | {_SERVER: conninfo.make_conninfo(**place)}


def _run(command: str, environment: Mapping[str, str]) -> tuple[int | None, str]:
    """Its exit status, None where it did not end in time, and the last line that it said."""
    # A file, because a server that the command starts would keep a pipe open.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return status, _last_line(output)


def _last_line(output: IO[bytes]) -> str:
    output.seek(0)
    lines = output.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else "no error message"


def _started(server: ServerSession) -> str:
    """When the server was started, as it says; raises psycopg.Error while it can't be reached."""
    row = server.control.execute("SELECT pg_postmaster_start_time()::text").fetchone()
    return str(row[0]) if row else ""


def _wait(server: ServerSession, name: str, started_before: str) -> bool:
    """Wait until the server accepts connections; whether it is another start of it than before."""
    began = time.monotonic()
    while True:
        passed_s = time.monotonic() - began
        try:
            if _started(server) != started_before:
                return True
            if passed_s > RESTART_BEGINS_S:
                return False
        except psycopg.OperationalError as error:
            if passed_s > RETURN_TIMEOUT_S:
                raise MeasurementError(
                    f"{name} did not come back within {RETURN_TIMEOUT_S:.0f} s of the command of {OPTION} "
                    f"({first_line(error)}): start it and run 'pgassay resume'"
                ) from error
        # A session of the old start would tell of that one alone.
        server.close_control()
        time.sleep(_RETRY_S)
