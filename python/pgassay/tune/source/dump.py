"""A dump of the source in pgassay's home: told before, made by pg_dump, gone afterwards."""

import contextlib
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.cleanup import registry
from pgassay.environment.cleanup.source_copies import DUMPS_FOLDER, keep_dump
from pgassay.environment.home import home
from pgassay.environment.remote.secrets import scrub
from pgassay.environment.server.programs import clean_environment, ensure_private_folder
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.build import Build
from pgassay.progress import Progress
from pgassay.sql_text import identifier
from pgassay.tune.source.source_server import APPLICATION, SourceServer
from pgassay.words import duration, size

PROGRAM = "pg_dump"
# Of tune, with which a user gives the data in place of a dump.
OPTION = "--dataset"
FILE = "source.dump"
# What a dump over a network takes, about: for the estimate alone.
DUMP_BYTES_PER_S = 40e6
LOCK_WAIT_S = 10
# The snapshot of the data, and a working copy of it; each arm of the proof has another, which shares its
# blocks where the file system can. And the dump, packed, is about half of the tables.
COPIES_MIN, PACKED_SHARE, MARGIN_BYTES = 2.0, 0.5, 256 * 1024**2
# pg_dump locks every table, for which it needs SELECT on it and USAGE on its schema.
_UNREADABLE = """
SELECT DISTINCT CASE WHEN pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    THEN pg_catalog.format('table %I.%I', n.nspname, c.relname)
    ELSE pg_catalog.format('schema %I', n.nspname) END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
    AND NOT (pg_catalog.has_schema_privilege(n.oid, 'USAGE')
        AND pg_catalog.has_table_privilege(c.oid, 'SELECT'))
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
        WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY 1"""
# Not of a block that can't be read.
_LOCK = re.compile(r"\b(?:lock|deadlock)\b")
_POLL_S = 0.2
_CLEAN_UP_S = 10.0
# The environment variable of each connection parameter (https://www.postgresql.org/docs/current/libpq-envars).
_VARIABLES = {
    "host": "PGHOST", "hostaddr": "PGHOSTADDR", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE",
    "password": "PGPASSWORD", "sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT",
    "channel_binding": "PGCHANNELBINDING",
}  # fmt: skip


def cost_sentence(source: SourceServer, option: str = OPTION) -> str:
    """What the dump costs the source, before it begins; `option`: the one that takes other data."""
    expected_s = source.table_bytes / DUMP_BYTES_PER_S
    costs = (
        "during that time it holds a snapshot, so VACUUM can't remove rows that die meanwhile, and ACCESS "
        "SHARE locks, which block ALTER TABLE, DROP and TRUNCATE, and sessions queued behind them"
    )
    if source.is_standby:
        costs = (
            "it is a standby: what the primary removes or locks meanwhile waits there to be replayed, for "
            "max_standby_streaming_delay at most, which then cancels the dump; with hot_standby_feedback on "
            "VACUUM of the primary removes no rows that die meanwhile"
        )
    return (
        f"{PROGRAM} reads the tables of {source.name} ({size(source.table_bytes)}; {size(source.bytes)} with "
        f"indexes), about {duration(max(expected_s, 1.0))}; {costs}; to spare the source, stop here and use "
        f"{option} folder:BASEBACKUP or dump:FILE"
    )


def refuse_small_disk(source: SourceServer) -> None:
    """Raise UsageError where the disk of pgassay's home can't hold the dump and the copies made from it."""
    needed = COPIES_MIN * source.bytes + PACKED_SHARE * source.table_bytes + MARGIN_BYTES
    free = shutil.disk_usage(home()).free
    if free < needed:
        raise UsageError(
            f"a copy of {source.name} ({size(source.bytes)}) needs about {size(needed)} in {home()}, and "
            f"{size(free)} are free: free some space there, or name a folder with more space by PGASSAY_HOME"
        )


def refuse_without_program(
    build: Build, option: str = OPTION, remedy: str = "choose a build with client programs (--pg apt:{major})"
) -> None:
    """Raise UsageError where the build has no pg_dump."""
    if not (Path(build.bin_directory) / PROGRAM).exists():
        raise UsageError(
            f"PostgreSQL {build.version} of {build.origin} comes without {PROGRAM}: "
            f"{remedy.format(major=build.major)}, or give the data with {option} dump:FILE"
        )


def refuse_unreadable_tables(source: SourceServer, option: str = OPTION) -> None:
    """Raise UsageError where the role may not read a table, which would end the dump after a long wait."""
    with source.reading() as session:
        names = [str(row[0]) for row in session.execute(_UNREADABLE).fetchall()]
    if names:
        others = f" and {len(names) - 1} more" if names[1:] else ""
        said = f"permission denied for {names[0]}{others}"
        raise UsageError(_complaint(said, source, option))


@dataclass
class Dumped:
    """A dump. `is_kept`: it outlives the run for a day, for whoever continues it."""

    file: Path
    is_kept: bool = False


CUSTOM_FORMAT = ("--format=custom", "--compress=1")
PLAIN_FORMAT = ("--format=plain", "--no-owner", "--no-privileges", "--no-tablespaces")


@contextlib.contextmanager
def dumped(
    source: SourceServer,
    build: Build,
    progress: Progress,
    options: Sequence[str] = CUSTOM_FORMAT,
    option: str = OPTION,
) -> Iterator[Dumped]:
    """The dump of the database for the length of the `with` block, longer where `is_kept` is set.

    `options`: of pg_dump, its format first of all. `option`: the user's, which takes other data.

    Raises UsageError with pg_dump's words where the role may not read a table, or a lock is not to be had.
    """
    parent = ensure_private_folder(home() / DUMPS_FOLDER)
    folder = parent / secrets.token_hex(8)
    token = registry.register("folder", path=str(folder))
    is_kept = False
    try:
        folder.mkdir(mode=0o700)
        _dump(source, build, folder / FILE, progress, options, option)
        found = Dumped(folder / FILE)
        yield found
        if found.is_kept:
            keep_dump(found.file)
            is_kept = True
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)
        registry.forget(token)


def _dump(
    source: SourceServer,
    build: Build,
    file: Path,
    progress: Progress,
    options: Sequence[str],
    option: str = OPTION,
) -> None:
    if "--schema-only" not in options:
        progress.message(cost_sentence(source, option))
    # Where pgassay is killed it goes with it, and its locks on the source with that.
    found = shutil.which("setpriv")
    dying_with_us = [found, "--pdeathsig", "TERM"] if found else []
    command = [
        *dying_with_us, str(Path(build.bin_directory) / PROGRAM), *options,
        "--no-password", "--no-publications", "--no-subscriptions", "--no-security-labels",
        f"--lock-wait-timeout={LOCK_WAIT_S}s",
    ]  # fmt: skip
    with file.open("wb") as output, subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, env=variables(source),
        encoding="utf-8", errors="replace",
    ) as process:  # fmt: skip
        try:
            said = _watched(process, source, file, progress)
        except BaseException:
            _end(process)
            raise
    if process.returncode != 0:
        raise UsageError(_complaint(said, source, option))


def _watched(process: "subprocess.Popen[str]", source: SourceServer, file: Path, progress: Progress) -> str:
    """Wait for its end, showing how much is there; what it complained of."""
    expected = max(PACKED_SHARE * source.table_bytes, 1.0)
    while True:
        try:
            _, said = process.communicate(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            if shutil.disk_usage(file.parent).free < MARGIN_BYTES:
                raise MeasurementError(
                    f"The disk of {file.parent} is nearly full while {source.name} is dumped: free some "
                    "space there, or name a folder with more space by PGASSAY_HOME."
                ) from None
            progress.stage(f"dumping {source.name}", min(0.99, file.stat().st_size / expected))
        else:
            return said


def _end(process: "subprocess.Popen[str]") -> None:
    """Stop it: its connection ends, and with it the snapshot and the locks on the source."""
    process.terminate()
    deadline = time.monotonic() + _CLEAN_UP_S
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    if process.poll() is None:
        process.kill()


def variables(source: SourceServer) -> Mapping[str, str]:
    """The environment of pg_dump: how to connect, and nothing else of the user's libpq variables.

    Nothing of it stands on its command line, which every user of the machine can read.
    """
    given = source.resolved.parameters
    found = {
        variable: str(given[name])
        for name, variable in _VARIABLES.items()
        if given.get(name) not in (None, "")
    }
    options = str(given.get("options") or "")
    own = "-c default_transaction_read_only=on"
    if source.checks_clients:
        # Else a backend that waits for a lock hears late that nobody waits for its answer any more.
        own += " -c client_connection_check_interval=1s"
    return {
        **clean_environment(), **found, "PGAPPNAME": APPLICATION, "PGGSSENCMODE": "disable",
        "PGOPTIONS": f"{options} {own}".strip(),
    }  # fmt: skip


def _complaint(said: str, source: SourceServer, option: str = OPTION) -> str:
    secret = str(source.resolved.parameters.get("password") or "")
    lines = [line.strip() for line in scrub(said, [secret]).splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line] or lines[-1:] or ["it ended unexpectedly"]
    message = errors[0].removeprefix(f"{PROGRAM}: ").removeprefix("error: ")
    role = identifier(source.role)
    if "permission denied" in message:
        remedy = f"let {source.role} read all tables (GRANT pg_read_all_data TO {role})"
    elif "row-level security" in message:
        remedy = f"let {source.role} read all rows (ALTER ROLE {role} BYPASSRLS)"
    elif "conflict with recovery" in message:
        remedy = "raise max_standby_streaming_delay of the standby, or name the primary"
    elif "out of shared memory" in message:
        remedy = f"{PROGRAM} locks all tables at once: raise max_locks_per_transaction there and restart it"
    elif _LOCK.search(message):
        remedy = "try again when nobody changes tables"
    else:
        remedy = "fix that"
    return f"{source.name} can't be dumped ({message}): {remedy}, or give the data with {option} dump:FILE"
