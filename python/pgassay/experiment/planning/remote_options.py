"""What is asked of servers that run already beside their settings: what only others can be asked, and words
about servers that nobody but the user can tell or change."""

import re
from collections.abc import Sequence

from pgassay.environment.remote.connection_parameters import Resolved
from pgassay.errors import UsageError
from pgassay.experiment.planning.connections import refuse_secrets_in
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.server import NAME
from pgassay.model.experiment import READINGS, CacheState
from pgassay.options.option import Servers
from pgassay.options.table import given

CACHE: CacheState = "as-is"
RESTARTED: CacheState = "restarted"
# Factors that belong to a server that pgassay starts itself; of options the table says so.
_FACTORS_FOR_PROVISIONED = (
    *("version", "build", "storage", "read_ahead", "memory", "cpus", "prepare"),
    *("settle", "checksums", "wal_segsize", "config"),
)
_PROCESSORS = re.compile(r"\d{1,5}(\.\d{1,3})?")


def _given_for(request: CompareRequest, servers: Servers) -> list[str]:
    """The options that were given and are for these servers alone."""
    return [flag for flag, option in given(request).items() if option.servers == servers]


def refuse_what_needs_a_remote_server(request: CompareRequest) -> None:
    """Raise UsageError for what means nothing on servers that pgassay starts itself."""
    for flag in _given_for(request, "running"):
        raise UsageError(
            f"{flag} needs --server or {NAME}=: pgassay starts these servers itself, so leave {flag} out or "
            "name a running server"
        )
    if request.cache == RESTARTED:
        raise UsageError(
            f"--cache {RESTARTED} is for running servers that a command of --before-trial "
            "restarts: use cold here, which empties all caches"
        )


def refuse_what_needs_provisioning(request: CompareRequest) -> None:
    """Raise UsageError for what can't be asked of somebody else's server."""
    for flag in _given_for(request, "own"):
        raise UsageError(
            f"{flag} cannot be used with --server or {NAME}=, which names a running server: leave {flag} out"
        )
    for text in request.factors:
        name = text.partition("=")[0].strip().lower()
        if name in _FACTORS_FOR_PROVISIONED:
            raise UsageError(
                f"{name}= cannot be used with --server or {NAME}=, which names a running server: "
                "leave one of them out"
            )
    if request.covariate in READINGS:
        raise UsageError(
            f"--covariate {request.covariate} is measured on the server's machine before the server "
            "starts, which is not possible with a remote server: use canary, or none"
        )
    _refuse_unfit_command(request)
    if request.cache not in (None, cache_of(request)):
        raise UsageError(_about_caches(request))


def _about_caches(request: CompareRequest) -> str:
    if request.cache == RESTARTED:
        return f'--cache {RESTARTED} needs a command that restarts the server: add --before-trial "COMMAND"'
    if request.before_trial is not None:
        return (
            f"--cache {request.cache}: the cache state of a remote server after --before-trial "
            f"is called {RESTARTED}: leave --cache out, or write --cache {RESTARTED}"
        )
    return (
        f"--cache {request.cache}: pgassay can't control the caches of a remote "
        f"server: leave --cache out, or write --cache {CACHE}"
    )


def _refuse_unfit_command(request: CompareRequest) -> None:
    if request.before_trial is None:
        return
    if not request.before_trial.strip():
        raise UsageError('--before-trial is empty: write --before-trial "COMMAND"')
    if request.between == "neutral":
        raise UsageError(
            "--between neutral runs a trial before each trial, but --before-trial restarts "
            "the server in between: leave one of them out"
        )


def cache_of(request: CompareRequest) -> CacheState:
    """What the caches of a remote server are called."""
    return CACHE if request.before_trial is None else RESTARTED


def refuse_secrets(request: CompareRequest, found: Sequence[Resolved]) -> None:
    """Raise UsageError for a command of the user's that holds a password: commands are stored."""
    for option, command in (("--swap", request.swap), ("--before-trial", request.before_trial)):
        refuse_secrets_in(command or "", found, option)


def processors_of(request: CompareRequest, servers: int) -> tuple[float | None, ...]:
    """The processors of each server: one number for all, or one for each in the order of server=.

    Raises UsageError for what is no such list.
    """
    if request.vcpus is None:
        return (None,) * servers
    words = [word.strip() for word in request.vcpus.split(",")]
    for word in words:
        if not _PROCESSORS.fullmatch(word) or float(word) <= 0:
            raise UsageError(
                f"--vcpus {request.vcpus}: '{word}' is not a number of processors: write for example 2"
            )
    if len(words) not in (1, servers):
        raise UsageError(
            f"--vcpus {request.vcpus} has {len(words)} numbers for {servers} "
            f"{'server' if servers == 1 else 'servers'}: give one number, or one for each server"
        )
    numbers = [float(word) for word in words]
    return tuple(numbers * servers if len(numbers) == 1 else numbers)
