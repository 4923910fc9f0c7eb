"""Child processes of PostgreSQL's own programs: who they run as, and what they inherit.

As root every such process runs as the servers' account; otherwise as the caller.
"""

import os
import pwd
import resource
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypedDict

from pgassay.environment.home import account
from pgassay.environment.server.enclosure import enclosed_command, is_enclosing
from pgassay.environment.server.program_errors import said_on_failure
from pgassay.errors import MeasurementError, UsageError

INHERITED_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "TZ")
DISK_FULL_WORDS = "No space left on device"


def clean_environment() -> dict[str, str]:
    """Return the environment of a PostgreSQL program: messages in English, no PG* variable of the user's."""
    environment = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    environment.setdefault("PATH", "/usr/bin:/bin")
    environment["LC_ALL"] = "C"
    return environment


class ChildIdentity(TypedDict, total=False):
    """Arguments of subprocess.Popen: who a child process runs as, and what it inherits."""

    env: dict[str, str]
    stdin: int | IO[bytes]
    umask: int
    cwd: str
    user: int
    group: int
    extra_groups: list[int]


def identity() -> ChildIdentity:
    """Return the arguments of subprocess.Popen that make a child run as the servers' account."""
    owner = account()
    arguments: ChildIdentity = {
        "env": clean_environment(),
        "stdin": subprocess.DEVNULL,
        "umask": 0o077,
        # The caller's folder may be closed to the servers' account.
        "cwd": "/",
    }
    if owner is not None:
        arguments |= {"user": owner.uid, "group": owner.gid, "extra_groups": []}
    return arguments


def without_account(arguments: ChildIdentity) -> ChildIdentity:
    """The same without the account: for a launcher that becomes it by itself."""
    kept = arguments.copy()
    kept.pop("user", None)
    kept.pop("group", None)
    kept.pop("extra_groups", None)
    return kept


def user_name() -> str:
    """Return the operating-system user that runs pgassay.

    Raises UsageError when the user id has no name: PostgreSQL refuses to start for it.
    """
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError as error:
        raise UsageError(
            f"The user id {os.geteuid()} has no name on this machine and PostgreSQL needs one: "
            "add it to /etc/passwd or run pgassay as a named account."
        ) from error


@contextmanager
def file_limit_raised() -> Iterator[None]:
    """Let children inherit the hard limit of open files: io_uring takes one descriptor per process slot."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def make_private_folder(folder: Path) -> None:
    """Make `folder` (which must not exist) 0700 and owned by the servers' account."""
    folder.mkdir(mode=0o700)
    _give_to_account(folder)


def ensure_private_folder(folder: Path) -> Path:
    """Make `folder` private unless it is there already; return it."""
    # Another process may make it at the same moment.
    with suppress(FileExistsError):
        if not folder.is_dir():
            make_private_folder(folder)
    return folder


def write_private_file(path: Path, text: str) -> None:
    """Write a 0600 file owned by the servers' account; never through a symbolic link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    _give_to_account(path)


def run_program(
    argv: Sequence[str | Path],
    purpose: str,
    variables: Mapping[str, str] | None = None,
    input_path: Path | None = None,
    sees: Sequence[Path] | None = None,
) -> str:
    """Run one of PostgreSQL's programs to its end and return its standard output.

    `input_path` is a file to give it as its standard input, opened by the caller's own rights. `sees`: for
    one that reads somebody else's data, which may hold commands: what it is shown where servers are enclosed.
    Bytes of its output that are no UTF-8, as of a database with another encoding, are kept as surrogates.
    Raises UsageError when the program is missing, MeasurementError with its error when it fails;
    `purpose` completes the sentence "… failed while".
    """
    arguments = identity()
    arguments["env"] |= variables or {}
    command = [str(part) for part in argv]
    if sees is not None and is_enclosing():
        command, arguments = enclosed_command(command, (), sees), without_account(arguments)
    try:
        with Path(input_path or os.devnull).open("rb") as arguments["stdin"]:
            done = subprocess.run(
                command, capture_output=True, encoding="utf-8", errors="surrogateescape", **arguments
            )
    except FileNotFoundError as error:
        raise UsageError(
            f"The program {argv[0]} is missing: choose a complete PostgreSQL build with --pg."
        ) from error
    except PermissionError as error:
        raise UsageError(
            f"The program {argv[0]} cannot be run by the servers' account ({error.strerror}): "
            "make its folder readable for everyone or choose another build with --pg."
        ) from error
    if done.returncode != 0:
        message = said_on_failure(done.stderr.strip() or done.stdout.strip())
        message = message.encode(errors="replace").decode()
        remedy = "; free some space there, or name a folder with more space by PGASSAY_HOME"
        advice = remedy if DISK_FULL_WORDS in done.stderr else ""
        raise MeasurementError(f"{Path(argv[0]).name} failed while {purpose}: {message}{advice}")
    return str(done.stdout)


def _give_to_account(path: Path) -> None:
    owner = account()
    if owner is not None:
        os.chown(path, owner.uid, owner.gid, follow_symlinks=False)
