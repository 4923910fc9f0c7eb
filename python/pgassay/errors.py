"""The errors that end a command, each with the exit code it ends with.

Every message is one sentence: what is wrong, where, and what to type or do instead.
The command line prints the message alone, without a traceback.
"""


class PgassayError(Exception):
    """Anything that ends a command with a sentence; `exit_code` is the process's exit status."""

    exit_code = 1


class UsageError(PgassayError):
    """The user asked for something that can't be done as typed; nothing has been run."""

    exit_code = 2


class MeasurementError(PgassayError):
    """A server or a trial failed; what was recorded before is kept."""

    exit_code = 1


class InvalidTrialError(MeasurementError):
    """A trial ran to its end but broke a rule of the protocol, so its figures must not be used."""


class InterruptionError(PgassayError):
    """Ctrl-C or a termination signal: the server is stopped and what is recorded is kept."""

    exit_code = 130
