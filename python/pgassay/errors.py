"""The errors that end a command, each with the exit code it ends with.

Every message is one sentence: what is wrong, where, and what to type or do instead.
The command line prints the message alone, without a traceback.
"""


def first_line(error: BaseException) -> str:
    """The first line of an error's text, for a sentence of ours; the error's type where it has no text.

    libpq puts `connection failed: ` before what a server said, which our sentence says itself.
    """
    lines = str(error).strip().splitlines()
    return lines[0].removeprefix("connection failed: ") if lines else type(error).__name__


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
