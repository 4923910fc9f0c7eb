"""`--dataset dump:FILE`: what pg_dump wrote, in any of its formats, restored into an empty cluster.

The build's own pg_restore or psql does it. A build without them (packages that hold the server
alone) can be given a plain dump, which is then run statement by statement.
"""

import mmap
import re
import subprocess
from pathlib import Path

from psycopg import sql

from pgassay.environment.datasets.base import (
    DATABASE,
    DatasetKind,
    Made,
    OnStage,
    content_sha256,
    existing_source,
    overhead_bytes,
    refuse_changed,
    size_bytes,
)
from pgassay.environment.datasets.dump_header import DumpFacts, read_header, refuse_cut_short
from pgassay.environment.datasets.final_steps import freeze
from pgassay.environment.datasets.loading import make_by_loading
from pgassay.environment.datasets.script import run_file
from pgassay.environment.home import account
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.programs import identity, run_program
from pgassay.environment.server.server_folder import PORT, SUPERUSER
from pgassay.environment.server.sessions import control
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build

# What a cluster of pgassay's own does not have; pg_dump takes no notice of these words for an archive.
LEFT_OUT_OF_ARCHIVES = (
    "--no-owner", "--no-privileges", "--no-tablespaces", "--no-security-labels", "--no-publications",
    "--no-subscriptions",
)  # fmt: skip
# Text grows by tuple headers and indexes; an archive is packed, four times or so, before that.
BYTES_PER_DUMP_BYTE = {"plain": 2.0, "custom": 6.0, "tar": 2.0, "directory": 6.0}
NOTES = ("owners and privileges were left out, all rows frozen and all tables analysed",)
NOTES_NOT_ANALYSED = ("owners and privileges were left out, all rows frozen, and no table was analysed",)
_NAME = re.compile(rb'"(?:[^"]|"")+"|[A-Za-z_\x80-\xff][\w$\x80-\xff]*')
_LISTED = rb"((?:%(name)s)(?:, *(?:%(name)s))*)" % {b"name": _NAME.pattern}
_ROLES = (
    re.compile(
        rb"^(?:ALTER [^\n]* OWNER TO |ALTER DEFAULT PRIVILEGES FOR ROLE "
        rb"|(?:GRANT|REVOKE) [^\n]* (?:TO|FROM) |CREATE POLICY [^\n]* TO "
        rb"|(?:CREATE|ALTER) USER MAPPING (?:IF NOT EXISTS )?FOR )" + _LISTED,
        re.MULTILINE,
    ),
    # Whom default privileges are for stands behind whose objects they are of.
    re.compile(rb"^ALTER DEFAULT PRIVILEGES [^\n]* (?:TO|FROM) " + _LISTED, re.MULTILINE),
)
# The server's words (extension.c and tablespace.c of src/backend/commands, utils/adt/pg_locale_icu.c).
_EXTENSION = re.compile(r'extension "([^"]+)" is not available')
_TABLESPACE = 'parameter "default_tablespace"'
_NO_ICU = "ICU is not supported in this build"
_PUBLIC_SCHEMA = re.compile(rb"^CREATE SCHEMA public;", re.MULTILINE)
_NO_ROLES = (b"public", b"current_user", b"session_user", b"current_role", b"user")


def specify(text: str, _build: Build, spec: DatasetSpec) -> DatasetSpec:
    """`dump:FILE` or `dump:FOLDER`; raises UsageError for what pg_dump did not write."""
    path = existing_source(text, "dump", "a file or folder that pg_dump wrote")
    read_header(path)
    update = {"kind": "dump", "source": str(path), "source_sha256": content_sha256(path)}
    return spec.model_copy(update=update)


def check(build: Build, spec: DatasetSpec) -> None:
    """Raise UsageError when this build can't restore the dump: too old, or without the program."""
    path = Path(spec.source)
    if not path.exists():
        return  # a snapshot may have been made of it; making one says that it is gone
    facts = read_header(path)
    if facts.major > build.major:
        raise UsageError(
            f"{path} was written by pg_dump {facts.program_version} from PostgreSQL {facts.server_version}, "
            f"and {build.version} can't restore what a newer major version wrote: use --pg {facts.major}"
        )
    if facts.format != "plain" and not _program(build, "pg_restore").exists():
        raise UsageError(
            f"{path} is a dump in {facts.format} format, and PostgreSQL {build.version} of {build.origin} "
            "comes without pg_restore: choose a build with client programs (--pg apt:"
            f"{build.major}), or make it plain with 'pg_restore --file=dump.sql {path}'"
        )
    if facts.format == "directory":
        _refuse_unreadable(path)
    if facts.format == "plain":
        refuse_cut_short(path)


def needed_bytes(spec: DatasetSpec) -> int:
    """Return an estimate: how far an archive is packed can't be known."""
    path = Path(spec.source)
    if not path.exists():
        return overhead_bytes(spec)
    growth = BYTES_PER_DUMP_BYTE[read_header(path).format]
    return overhead_bytes(spec) + round(growth * size_bytes(path))


def make(build: Build, folder: Path, spec: DatasetSpec, on_progress: OnStage) -> Made:
    """Make the cluster and restore the dump; see DatasetKind."""
    path = refuse_changed(spec, content_sha256)
    check(build, spec)
    return make_by_loading(
        build,
        folder,
        spec,
        on_progress,
        purpose=f"restoring {path}",
        load=lambda server: _restore_explained(server, path, on_progress),
        finish=lambda server: freeze(server, on_progress, analyses=spec.analysed),
        notes=NOTES if spec.analysed else NOTES_NOT_ANALYSED,
    )


def _restore_explained(server: Server, path: Path, on_progress: OnStage) -> None:
    """Restore it; raises UsageError where the dump asks for what a cluster of pgassay's own can't have."""
    try:
        _restore(server, path, read_header(path), on_progress)
    # psql's words come as the one, those of a server that is asked without psql as the other.
    except (MeasurementError, UsageError) as error:
        extension = _EXTENSION.search(str(error))
        if extension:
            raise UsageError(
                f"{path} needs the extension {extension.group(1)}, which PostgreSQL {server.build.version} "
                f"of {server.build.origin} comes without: name a build that has it, --pg /path/to/bin"
            ) from error
        if _NO_ICU in str(error):
            raise UsageError(
                f"{path} has a collation of ICU, which PostgreSQL {server.build.version} of "
                f"{server.build.origin} was built without: name a build with it, --pg "
                f"apt:{server.build.major} or /path/to/bin"
            ) from error
        if _TABLESPACE in str(error):
            raise UsageError(
                f"{path} puts tables into a tablespace: dump with pg_dump --no-tablespaces, or with "
                "--format=custom, from which tablespaces are left out"
            ) from error
        raise


def _restore(server: Server, path: Path, facts: DumpFacts, on_progress: OnStage) -> None:
    purpose = f"restoring {path}"
    on_progress(purpose, None)
    if facts.format == "plain":
        _restore_plain(server, path, purpose, on_progress)
        return
    command: list[str | Path] = [_program(server.build, "pg_restore"), *LEFT_OUT_OF_ARCHIVES]
    # A folder is read by name; a file is handed over, so that the servers' account need not reach it.
    words: list[Path] = [path] if facts.format == "directory" else []
    given = None if words else path
    sees = [*words, server.socket_directory]
    schema = run_program(
        [*command, "--schema-only", "--file", "-", *words], purpose, input_path=given, sees=sees
    )
    prepare_for_dump(server, schema.encode(errors="surrogateescape"))
    loading = [*command, "--exit-on-error", *_connection(server), *words]
    run_program(loading, purpose, input_path=given, sees=sees)


def _restore_plain(server: Server, path: Path, purpose: str, on_progress: OnStage) -> None:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        prepare_for_dump(server, text)
    psql = _program(server.build, "psql")
    if not psql.exists():
        run_file(server, path, on_progress)
        return
    quiet = ["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--output", "/dev/null"]
    loading: list[str | Path] = [psql, *quiet, *_connection(server), "--file", "-"]
    run_program(loading, purpose, input_path=path, sees=[server.socket_directory])


def prepare_for_dump(server: Server, text: bytes | mmap.mmap) -> None:
    """Create the roles that a dump names, and drop the schema that it creates itself.

    A plain dump gives its tables to their owners, a policy names whom it is for; roles belong to a
    cluster, and so are in no dump of a database.
    """
    with control(server) as session:
        known = {row[0] for row in session.execute("SELECT rolname FROM pg_roles").fetchall()}
        for name in sorted(roles_named(text) - known):
            session.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))
        if _PUBLIC_SCHEMA.search(text):
            session.execute("DROP SCHEMA public")


def roles_named(text: bytes | mmap.mmap) -> set[str]:
    """The roles that a dump names, without quotes."""
    names = {
        name
        for pattern in _ROLES
        for match in pattern.finditer(text)
        for name in _NAME.findall(match.group(1))
        if name.lower() not in _NO_ROLES
    }
    plain = {name.decode("utf-8", "replace") for name in names}
    return {name[1:-1].replace('""', '"') if name.startswith('"') else name.lower() for name in plain}


def _connection(server: Server) -> list[str]:
    address = ["--host", str(server.socket_directory), "--port", str(PORT)]
    return [*address, "--username", SUPERUSER, "--dbname", DATABASE]


def _program(build: Build, name: str) -> Path:
    return Path(build.bin_directory) / name


def _refuse_unreadable(path: Path) -> None:
    """pg_restore opens a folder by its name, as the servers' account."""
    owner = account()
    if owner is None:
        return
    readable = ["test", "-r", str(path / "toc.dat")]
    if subprocess.run(readable, check=False, **identity()).returncode != 0:
        raise UsageError(
            f"the account {owner.name}, which runs the servers, can't read {path}: move the dump where it "
            "can, or dump with pg_dump --format=custom"
        )


KIND = DatasetKind(
    specify=specify,
    check=check,
    needed_bytes=needed_bytes,
    make=make,
    decided_by=(*DatasetKind.decided_by, "analysed"),
    usage="dump:FILE",
)
