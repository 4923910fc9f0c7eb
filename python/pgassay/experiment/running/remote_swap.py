"""`--swap "COMMAND"`: the user's command gives each server the other's settings, halfway.

Until then a difference between two servers is one of their hardware and their settings together. With the
settings crossed, half the difference of both halves is the settings', half their sum the machines'.
"""

import math
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import psycopg
from psycopg import conninfo

from pgassay.design.schedule import next_step
from pgassay.environment.remote.connection_parameters import Resolved
from pgassay.environment.remote.secrets import scrub
from pgassay.environment.remote.settings_swap import ServerFacts, SettingsSwap, judge_swap, read_facts
from pgassay.environment.server.sessions import connect
from pgassay.errors import MeasurementError, first_line
from pgassay.experiment.planning.connections import secrets_of
from pgassay.experiment.planning.servers import ServerConnections
from pgassay.experiment.running.loop import RunLimits, TrialRunner, expected_block_s, run_experiment
from pgassay.progress import Progress
from pgassay.record.experiment import StoredExperiment, load, load_servers, write_state, write_swap
from pgassay.trial.target import Target

VARIABLE = "PGASSAY_SERVER_"
# A managed server that restarts for a new parameter is away for some minutes.
RETURN_TIMEOUT_S = 600.0
TAKEN_UP_TIMEOUT_S = 5.0
_RETRY_S = 0.5
_NAMES_SHOWN_MAX = 12


def run_halves(
    stored: StoredExperiment,
    run: TrialRunner,
    limits: RunLimits,
    progress: Progress,
    target: Target,
    connections: ServerConnections,
) -> StoredExperiment:
    """Half of the blocks or of the time, the swap, the other half; decided or not: both halves count.

    Where a single block uses them up nothing is swapped.
    """
    if stored.swap is None:
        first = RunLimits(max(1, limits.blocks_max // 2), limits.time_max_s / 2, until_decided=False)
        stored = run_experiment(stored, run, first, progress)
        if stored.stopped == "failed":
            return stored
        step = next_step(stored.experiment, (trial.record for trial in stored.trials))
        block_s = expected_block_s(stored, step, 0.0)
        if step.visit >= limits.blocks_max or stored.seconds_used + block_s > limits.time_max_s:
            progress.message(
                "the settings are not swapped, since no block would follow: type 'pgassay resume "
                f"{stored.folder}' with more --blocks or --max-time"
            )
            return stored
        target.abandon()
        try:
            swap_servers(stored, step.spec.block, connections.parameters, progress.message)
        except (MeasurementError, KeyboardInterrupt) as error:
            stopped = "failed" if isinstance(error, MeasurementError) else "interrupted"
            write_state(stored.folder, stopped=stopped, seconds_used=stored.seconds_used)
            raise
        stored = replace(load(stored.folder), stopped="running")
    return run_experiment(stored, run, replace(limits, until_decided=False), progress)


def swap_servers(
    stored: StoredExperiment, block: int, servers: Mapping[str, Resolved], say: Callable[[str], None]
) -> None:
    """Run the command and record what it did; `block` is the first one after it.

    Raises MeasurementError when the command fails, and when the settings have not changed places.
    """
    pair = list(servers)
    before = load_servers(stored.folder)
    facts_before = tuple(_stored_facts(before[name]) for name in pair)
    say("half of the experiment is done: running the command that swaps the settings")
    _run_command(stored, servers)
    swap, facts_after = _observe((facts_before[0], facts_before[1]), servers)
    _refuse_what_is_no_swap(stored, pair, swap, facts_after)
    write_swap(
        stored.folder,
        {
            "at_block": block,
            "swapped": list(swap.swapped),
            "stayed": list(swap.stayed),
            "settings": {name: dict(facts.settings) for name, facts in zip(pair, facts_after, strict=True)},
        },
    )
    say(f"the settings are swapped: {_listed(swap.swapped)}")


def _observe(
    before: tuple[ServerFacts, ServerFacts], servers: Mapping[str, Resolved]
) -> tuple[SettingsSwap, tuple[ServerFacts, ServerFacts]]:
    """What the swap did, once the servers have taken it up: they do that a moment after they are told."""
    first, second = servers.values()
    deadline = math.inf
    while True:
        after = (_read_again(first), _read_again(second))
        # From then on both are back: the first may have been asked before it went away.
        deadline = min(deadline, time.monotonic() + TAKEN_UP_TIMEOUT_S)
        swap = judge_swap(before, after)
        if (swap.swapped and not swap.else_changed) or time.monotonic() > deadline:
            return swap, after
        time.sleep(_RETRY_S)


def _stored_facts(document: Mapping[str, Mapping[str, str]]) -> ServerFacts:
    return ServerFacts(version="", settings=document["settings"], contexts={}, extensions={})


def environment_of(servers: Mapping[str, Resolved]) -> dict[str, str]:
    """What the command finds in its environment: a connection string of each server, without a password."""
    variables = {}
    for number, resolved in enumerate(servers.values(), start=1):
        server = resolved.server
        variables[f"{VARIABLE}{number}"] = conninfo.make_conninfo(
            host=server.host,
            port=server.port,
            dbname=server.dbname,
            user=server.user,
            sslmode=server.encryption,
        )
    return variables


def _run_command(stored: StoredExperiment, servers: Mapping[str, Resolved]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", stored.experiment.swap],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=os.environ | environment_of(servers),
    )
    if done.returncode == 0:
        return
    lines = (done.stderr.strip() or done.stdout.strip() or "no error message").splitlines()
    message = scrub(lines[-1], secrets_of(servers))
    raise MeasurementError(
        f"the command of --swap ended with status {done.returncode} ({message}): earlier measurements are "
        f"kept; fix it and run 'pgassay resume {shlex.quote(str(stored.folder))}', which runs the command "
        "again"
    )


def _read_again(resolved: Resolved) -> ServerFacts:
    """The server's facts, once it is back; raises MeasurementError when it stays away."""
    deadline = time.monotonic() + RETURN_TIMEOUT_S
    while True:
        try:
            with connect(resolved.parameters) as control:
                return read_facts(control)
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"{resolved.server.name} did not come back within {RETURN_TIMEOUT_S:.0f} s of the swap "
                    f"({first_line(error)}): start it and run 'pgassay resume'"
                ) from error
            time.sleep(_RETRY_S)


def _refuse_what_is_no_swap(
    stored: StoredExperiment, names: list[str], swap: SettingsSwap, after: tuple[ServerFacts, ServerFacts]
) -> None:
    what = ""
    waiting = [
        f"{setting} on {name}"
        for name, facts in zip(names, after, strict=True)
        for setting in facts.waiting_for_restart
    ]
    if waiting:
        what = f"{_listed(waiting)} need a restart: have the command restart the servers"
    elif swap.else_changed:
        what = (
            f"{_listed(swap.else_changed)} changed to a value that the other server did not have: "
            "have the command swap the settings and change nothing else"
        )
    elif not swap.swapped:
        what = (
            f"no setting was swapped ({_listed(swap.stayed) or 'none'} differ): have it give each "
            "server the other's settings"
        )
    if what:
        raise MeasurementError(
            f"the command of --swap succeeded, but {what}; earlier measurements are "
            f"kept: 'pgassay resume {shlex.quote(str(stored.folder))}' runs it again"
        )


def _listed(names: "list[str] | tuple[str, ...]") -> str:
    left = len(names) - _NAMES_SHOWN_MAX
    return ", ".join(names[:_NAMES_SHOWN_MAX]) + (f" and {left} more" if left > 0 else "")
