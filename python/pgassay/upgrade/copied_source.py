"""The source's data for both versions: what was given behind --copy, else one plain dump that both read."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.cleanup.source_copies import remove_source_copies
from pgassay.environment.datasets.dump import LEFT_OUT_OF_ARCHIVES
from pgassay.environment.datasets.dump_header import read_header
from pgassay.environment.server.program_errors import said_on_failure
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.build import Build
from pgassay.model.storage import StorageSpec
from pgassay.progress import Progress
from pgassay.sql_text import identifier, qualified
from pgassay.storage.parse import parse_storage
from pgassay.tune.source.dump import PLAIN_FORMAT, dumped
from pgassay.tune.source.source_server import SourceServer
from pgassay.upgrade.builds_of_both import OLDEST
from pgassay.upgrade.physical_copy import is_physical, physical_dataset, read_schema

DUMP_FILE, SCHEMA_FILE, BEFORE_FILE = "source.sql", "schema.sql", "before_upgrade.sql"
# Of this command, with which a user gives the data.
OPTION = "--copy"
SCHEMA_ONLY = "--schema-only"
PG_RESTORE = "pg_restore"
_NO_SCRIPT = "name what pg_dump wrote"
MADE_NOW = "dump"
# Which version pg_dump writes this for, 16 and older do not know (src/bin/pg_dump/pg_backup_archiver.c).
_NOT_KNOWN_BEFORE_17 = b"SET transaction_timeout = 0;"
_HEAD_LINES = 60
_COPY, _END_OF_COPY = re.compile(rb"COPY .* FROM stdin;$"), rb"\."
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


@dataclass(frozen=True)
class LeftOut:
    """What the new version refuses and a copy can do without: views, and extensions that are missing.

    stops: whether it refuses more than that, so that the schema can't be made there. behind: indexes of
    materialized views among them, which go with those.
    """

    views: tuple[tuple[str, str], ...] = ()
    extensions: tuple[str, ...] = ()
    stops: bool = False
    behind: tuple[str, ...] = ()

    def options(self) -> list[str]:
        """Those of pg_dump that leave it out."""
        tables = [f"--exclude-table={name}" for _, name in self.views]
        return [*tables, *(f"--exclude-extension={identifier(name)}" for name in self.extensions)]

    def statements(self) -> list[str]:
        """SQL that drops it on a copy."""
        views = [f"DROP {kind.upper()} IF EXISTS {name} CASCADE" for kind, name in self.views]
        # All at once: one may need another.
        names = ", ".join(qualified(None, name) for name in self.extensions)
        return [*views, *([f"DROP EXTENSION IF EXISTS {names}"] if names else [])]

    def is_kept(self, entry: str) -> bool:
        """Whether a line of an archive's table of contents (pg_restore --list) is of what stays."""
        gone = [f" EXTENSION - {name} " for name in self.extensions]
        gone += [f" COMMENT - EXTENSION {identifier(name)} " for name in self.extensions]
        for kind, name in self.views:
            gone += _entries_of(kind, name)
        schemas = {plain_parts(name)[0] for kind, name in self.views if kind != "view"}
        gone += [f" INDEX {schema} {plain} " for schema in schemas for plain in map(_plain, self.behind)]
        gone += [f" COMMENT {schema} INDEX {index} " for schema in schemas for index in self.behind]
        on_views = [f" ON {_own_part(name)} " for _, name in self.views]
        is_comment = " COMMENT " in entry
        return not any(each in f"{entry} " for each in (*gone, *(on_views if is_comment else ())))


def _entries_of(kind: str, name: str) -> Iterator[str]:
    """How entries of an archive begin that can't be without a view (src/bin/pg_dump/pg_dump.c).

    Names of what is made stand as they are, those of what is commented on as SQL has them.
    """
    schema, own = plain_parts(name)
    made = kind.upper()
    yield from (
        f" {made} {schema} {own} ",
        f" {made} DATA {schema} {own} ",
        f" STATISTICS DATA {schema} {own} ",
    )
    yield from (f" {part} {schema} {own} " for part in ("RULE", "TRIGGER", "DEFAULT"))
    quoted = _own_part(name)
    yield from (f" COMMENT {schema} {made} {quoted} ", f" COMMENT {schema} COLUMN {quoted}.")


def plain_parts(name: str) -> tuple[str, str]:
    """Schema and name of `public."Odd name"` without their quotes, as a table of contents has them."""
    schema, own = bare_name(name)
    return schema, own


def bare_name(name: str) -> list[str]:
    """The parts of a name without their quotes."""
    return [quoted.replace('""', '"') or plain for quoted, plain in _PART.findall(name)]


def _own_part(name: str) -> str:
    """The name behind the schema as SQL has it."""
    return [each.group() for each in _PART.finditer(name)][-1]


def _plain(name: str) -> str:
    return bare_name(name)[-1]


@contextmanager
def copied(
    given: tuple[str, str],
    source: SourceServer,
    program: Build,
    left_out: LeftOut,
    folder: Path,
    progress: Progress,
) -> Iterator[str]:
    """The data as `--dataset` has them, gone when the block is left: what was given, else a dump made now.

    With a dump that was made now all copies of it go. given: as typed behind --copy, `dump:FILE`,
    `folder:DATADIR` or '', and behind --storage. program: whose pg_dump and pg_restore are used. The caller
    holds the host's lock.
    """
    copy, storage = given
    if is_physical(copy):
        before = folder / BEFORE_FILE
        before.write_text("".join(f"{each};\n" for each in left_out.statements()))
        yield physical_dataset(copy, source, before)
    elif is_given_dump(copy):
        name, plain = copy.partition(":")[2], folder / DUMP_FILE
        try:
            progress.stage("unpacking the dump")
            _unpack(Path(name), program, plain, left_out)
            with _errors_name(plain, name):
                yield f"dump:{plain}"
        finally:
            plain.unlink(missing_ok=True)
    else:
        try:
            with dumped(source, program, progress, [*PLAIN_FORMAT, *left_out.options()], OPTION) as dump:
                plain = dump.file.with_name(DUMP_FILE)
                _make_plain(dump.file, plain)
                dump.file.unlink()
                with _errors_name(plain, f"the dump of {source.name}"):
                    yield f"dump:{plain}"
        finally:
            # What cannot be removed now is removed at the next start.
            with suppress(UsageError, MeasurementError):
                remove_source_copies(dict.fromkeys((StorageSpec(), parse_storage(storage))))


@contextmanager
def _errors_name(plain: Path, name: str) -> Iterator[None]:
    """Have errors name the dump, and not the plain one, which is gone when they are read."""
    try:
        yield
    except (UsageError, MeasurementError) as error:
        if str(plain) not in str(error):
            raise
        kind = UsageError if isinstance(error, UsageError) else MeasurementError
        raise kind(str(error).replace(str(plain), name)) from error


@contextmanager
def schema_of(
    given: tuple[str, str],
    source: SourceServer,
    builds: tuple[Build, Build],
    folder: Path,
    progress: Progress,
) -> Iterator[Path]:
    """The schema in plain SQL, without its rows: of the dump or data folder that was given, or the server's.

    A role that may not dump the server can then give what somebody else made. given: what stands behind
    --copy and --storage. builds: the old version's, and one whose pg_dump and pg_restore are used.
    """
    copy, storage = given
    plain = folder / SCHEMA_FILE
    if not has_own_schema(copy, source):
        options = [*PLAIN_FORMAT, SCHEMA_ONLY]
        with dumped(source, builds[1], progress, options, OPTION) as dump:
            yield dump.file
        return
    try:
        _make_private(plain)
        if is_physical(copy):
            read_schema(copy, storage, source, builds, plain, progress)
        else:
            progress.stage("reading the schema of the dump")
            _unpack(Path(copy.partition(":")[2]), builds[1], plain, LeftOut(), SCHEMA_ONLY)
        yield plain
    finally:
        plain.unlink(missing_ok=True)


def has_own_schema(given: str, source: SourceServer) -> bool:
    """Whether the schema is read from what was given: from a data folder whose own version is measured."""
    return is_given_dump(given) or (is_physical(given) and source.major >= OLDEST)


def is_given_dump(given: str) -> bool:
    """Whether what stands behind --copy is a dump that is there already."""
    return given not in ("", MADE_NOW) and not is_physical(given)


def check_copy(given: str) -> None:
    """Raise UsageError for what is neither a dump nor a data folder."""
    kind, _, file = given.partition(":")
    if kind in ("dump", "folder") and file and not Path(file).exists():
        raise UsageError(f"--copy {given}: {file} does not exist: name an existing file or folder")
    if given == MADE_NOW or (is_physical(given) and (Path(file) / "PG_VERSION").exists()):
        return
    if kind != "dump" or not Path(file).exists():
        raise UsageError(
            f"--copy {given}: write dump, for one that is made now; dump:FILE, with a file or folder that "
            "pg_dump wrote when the capture began; or folder:DATADIR, a base backup or the data folder of a "
            "stopped server, for pg_upgrade"
        )
    try:
        read_header(Path(file))
    except UsageError as error:
        # Its remedies are of --dataset, which takes more than this.
        words = str(error).replace(f"for SQL that builds data write --dataset script:{file}", _NO_SCRIPT)
        raise UsageError(words.replace("--dataset folder:", "--copy folder:")) from error


def can_leave_out(given: str) -> bool:
    """Whether the data can be had without what the new version refuses: not out of a plain dump."""
    kind, _, file = given.partition(":")
    return kind != "dump" or not file or read_header(Path(file)).format != "plain"


def _unpack(dump: Path, program: Build, plain: Path, left_out: LeftOut, *more: str) -> None:
    """Any format of pg_dump as a plain one, which any version reads; `more`: options of pg_restore."""
    if read_header(dump).format == "plain":
        _make_plain(dump, plain, has_rows=SCHEMA_ONLY not in more)
        return
    restore = Path(program.bin_directory) / PG_RESTORE
    if not restore.exists():
        raise UsageError(
            f"--copy dump:{dump} is compressed, and PostgreSQL {program.version} of {program.origin} comes "
            f"without pg_restore: install a build that has it, pgassay builds install apt:{program.major}"
        )
    unpacked, contents = plain.with_suffix(".unpacked"), plain.with_suffix(".list")
    words = [str(restore), *LEFT_OUT_OF_ARCHIVES, *more]
    try:
        if left_out != LeftOut():
            entries = _restored([str(restore), "--list", str(dump)], dump, program).splitlines()
            contents.write_text("".join(f"{each}\n" for each in entries if left_out.is_kept(each)))
            words.append(f"--use-list={contents}")
        _make_private(unpacked)
        _restored([*words, f"--file={unpacked}", str(dump)], dump, program)
        _make_plain(unpacked, plain)
    finally:
        unpacked.unlink(missing_ok=True)
        contents.unlink(missing_ok=True)


def _restored(words: list[str], dump: Path, program: Build) -> str:
    """What pg_restore prints; raises MeasurementError with its words."""
    finished = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if finished.returncode != 0:
        said = said_on_failure(finished.stderr) or "no error message"
        raise MeasurementError(
            f"--copy dump:{dump} can't be unpacked by pg_restore {program.version}: {said}"
        )
    return finished.stdout


def _make_private(file: Path) -> None:
    """An empty file for the source's rows, which nobody else may read; the folder of results is for all."""
    file.touch(mode=0o600)
    file.chmod(0o600)


def _make_plain(dump: Path, plain: Path, *, has_rows: bool = True) -> None:
    """The dump as either version reads it: without what an older one does not know, and who wrote it.

    `has_rows`: with what its COPY statements bring.
    """
    _make_private(plain)
    is_copying = False
    with dump.open("rb") as read, plain.open("wb") as written:
        for number, line in enumerate(read):
            is_head = number < _HEAD_LINES
            if is_head and (line.rstrip() == _NOT_KNOWN_BEFORE_17 or line.startswith(b"-- Dumped")):
                continue
            if not has_rows and (is_copying or _COPY.match(line)):
                is_copying = line.rstrip() != _END_OF_COPY
                continue
            written.write(line)
