"""What is said of a statement that the copy's server refuses, or that does not end in its time."""

from pgassay.environment.server.enclosure import is_enclosing
from pgassay.errors import UsageError

QUERY_CANCELED = "57014"
_NO_TABLE = "42P01"
_READ_ONLY = "25006"
# undefined_file, external_routine_exception (a program that failed), no connection to another server.
_OUTSIDE = ("58P01", "38000", "08001")


class TooLongError(UsageError):
    """A statement did not end in its time."""


def refused(name: str, reason: str, sqlstate: str | None) -> UsageError:
    """The sentence for a statement that fails."""
    if sqlstate in _OUTSIDE and is_enclosing():
        reason += "; the copy's server sees no file, program or server of this machine"
    if sqlstate == _NO_TABLE and "." not in reason:
        reason += "; if another schema has it, --set search_path=SCHEMA finds it"
    if sqlstate == _READ_ONLY:  # what writes by its own text is executed in a transaction that may
        return UsageError(f"statement {name} fails ({reason}): a function that it calls writes, leave it out")
    return UsageError(f"statement {name} fails ({reason}): correct its SQL, or leave it out")
