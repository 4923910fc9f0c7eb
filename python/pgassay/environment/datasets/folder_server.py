"""Making somebody else's cluster usable: a superuser of our name, one database, nothing that calls home."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from pgassay.environment.server.enclosure import enclosed_command, is_enclosing
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.programs import identity, without_account
from pgassay.environment.server.server_folder import SUPERUSER, ServerFolder
from pgassay.environment.server.sessions import control
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build

_DATABASES = "SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1"
# The server's words for a tablespace whose place is not there (src/backend/commands/tablespace.c).
_NO_DIRECTORY = 'FATAL:  directory "'
_HAS_TABLES = "SELECT EXISTS (SELECT FROM pg_class WHERE oid >= 16384 AND relkind IN ('r', 'p', 'm'))"


def ensure_superuser(build: Build, folder: Path, settings: Mapping[str, str]) -> None:
    """Give the cluster a superuser `postgres` that may log in, whatever its own is called.

    A backend in single-user mode is always the bootstrap superuser, under any name
    (src/backend/utils/init/postinit.c, InitPostgres), and needs no client's authentication; it also
    does the recovery. Raises MeasurementError with the server's words when it can't.
    """
    private = ServerFolder()
    private.make(settings)
    try:
        argv = [f"{build.bin_directory}/postgres", "--single", "-D", str(folder)]
        argv += ["-c", f"config_file={private.configuration_file}", "template1"]
        # Each line is one command; the first fails where the role is there already.
        lines = f'CREATE ROLE "{SUPERUSER}"\nALTER ROLE "{SUPERUSER}" SUPERUSER LOGIN CONNECTION LIMIT -1\n'
        arguments = identity()
        arguments.pop("stdin")
        if is_enclosing():
            argv, arguments = enclosed_command(argv, (folder, private.path)), without_account(arguments)
        done = subprocess.run(argv, input=lines, capture_output=True, text=True, **arguments)
    finally:
        private.remove()
    if done.returncode != 0:
        fatal = [line for line in done.stderr.splitlines() if "FATAL" in line or "PANIC" in line]
        message = (fatal or done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise MeasurementError(
            f"the copy of the data folder can't be recovered: the server said '{message.strip()}'"
            + _hint(message, folder)
        )


def _hint(message: str, folder: Path) -> str:
    if _NO_DIRECTORY in message:
        return "; its WAL creates a tablespace outside it: take a new base backup that includes it"
    if "checkpoint record" in message or (folder / "backup_label").exists():
        return "; a base backup must include its WAL: take it with pg_basebackup --wal-method=stream"
    return ""


def choose_database(server: Server, spec: DatasetSpec) -> str:
    """The database that was named, or the only one with tables; raises UsageError listing them."""
    with control(server, "template1") as session:
        names = [row[0] for row in session.execute(_DATABASES).fetchall()]
    if spec.database:
        if spec.database not in names:
            raise UsageError(
                f"{spec.source} has no database '{spec.database}': it has {', '.join(names) or 'none'}"
            )
        return spec.database
    filled = []
    for name in names:
        with control(server, name) as session:
            row = session.execute(_HAS_TABLES).fetchone()
        if row is not None and row[0]:
            filled.append(name)
    if len(filled) == 1:
        return str(filled[0])
    if not filled:
        raise UsageError(f"no database of {spec.source} holds a table: name another folder")
    raise UsageError(
        f"{spec.source} has tables in the databases {', '.join(filled)}: "
        f"write --dataset folder:{spec.source},database={filled[0]}"
    )


def adopt(server: Server) -> list[str]:
    """Cut what would reach out of the copy; returns sentences about it."""
    notes = []
    with control(server, "template1") as session:
        # ALTER SUBSCRIPTION … DISABLE works in its own database alone, a superuser's UPDATE in any.
        cut = session.execute("UPDATE pg_subscription SET subenabled = false WHERE subenabled").rowcount
        if cut:
            notes.append(f"{cut} subscriptions were disabled, so that the copy does not call its publisher")
    return notes
