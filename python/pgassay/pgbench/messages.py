"""What pgbench writes on standard error (src/common/logging.c), and the errors that end it."""

import sys

from pgassay.errors import PgassayError
from pgassay.model.redaction import without_secrets

PROGRAM = "pgbench"
TRY_HELP = f'Try "{PROGRAM} --help" for more information.'


class PgbenchError(PgassayError):
    """Ends the command as pgbench ends: its message, a detail or a hint below it, exit status 1."""

    exit_code = 1

    def __init__(self, message: str, *, detail: str = "", hint: str = "", below: str = ""):
        super().__init__(message)
        self.detail = detail
        self.hint = hint
        # Lines without the program's name, as the place of a fault in a script.
        self.below = below


def write(text: str, end: str = "\n") -> None:
    """A line of standard error, where pgbench writes all but its report."""
    sys.stderr.write(text + end)
    sys.stderr.flush()


def say(text: str, level: str = "info") -> None:
    """One message; level: info, error, warning, detail or hint."""
    word = "" if level == "info" else f"{level}: "
    write(f"{PROGRAM}: {word}{text.rstrip()}")


def tell(error: PgbenchError) -> None:
    """An error with all that belongs to it; what it repeats of the words may be a connection string."""
    say(without_secrets(str(error)), "error")
    if error.detail:
        say(error.detail, "detail")
    if error.hint:
        say(error.hint, "hint")
    if error.below:
        write(error.below)
