"""From a bin folder to a Build: asks the binaries themselves, and remembers what they answered."""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from pgassay.environment.builds.build_identity import binary_sha256, file_identity
from pgassay.environment.cleanup.scratch import scratch_folder
from pgassay.environment.home import account, closed_folder, home
from pgassay.errors import UsageError
from pgassay.model.build import Build

NEEDED_PROGRAMS = ("postgres", "initdb")
IO_METHOD_MAJOR_MIN = 18
MAKEFILE_FOLDERS = ("lib/postgresql/pgxs", "lib/pgxs")
_ANSWER_TIMEOUT_S = 30


def inspect(bin_directory: Path, origin: str) -> Build:
    """Return the Build that a bin folder holds.

    What the `postgres` binary answers is kept below home() under all that tells of a change of its file;
    extensions are listed anew each time, as packages add them. Raises UsageError when the folder holds no
    server that runs here, or one that the servers' account cannot reach.
    """
    postgres = bin_directory / "postgres"
    for name in NEEDED_PROGRAMS:
        if not os.access(bin_directory / name, os.X_OK):
            raise UsageError(
                f"{bin_directory} holds no program {name}: give the bin folder of a PostgreSQL server, "
                "such as /usr/lib/postgresql/18/bin."
            )
    owner = account()
    closed = None if owner is None else closed_folder(bin_directory.resolve(), owner)
    if owner is not None and closed is not None:
        raise UsageError(
            f"The account {owner.name}, which runs the servers, cannot enter {closed} on the way to "
            f"{bin_directory}: move the binaries to a folder it can reach, or open that one with "
            f"'chmod o+x {closed}'."
        )
    identity: dict[str, object] = {
        "path": str(bin_directory),
        "origin": origin,
        "file": file_identity(postgres),
    }
    build = _remembered(identity)
    if build is None:
        build = _ask(bin_directory, origin)
        _remember(identity, build)
    return build.model_copy(update={"extensions": list_extensions(bin_directory, build.major)})


def those_that_run(folders: Iterable[Path], origin: str) -> list[Build]:
    """The Builds of these bin folders without those that hold no server that runs here.

    A half-removed package, or one that came with the home of another machine, must not stand in the way of
    the servers that work: who names it is told why when it is installed again.
    """
    found = []
    for folder in folders:
        try:
            found.append(inspect(folder, origin))
        except UsageError:
            continue
    return found


def _ask(bin_directory: Path, origin: str) -> Build:
    version = server_version(bin_directory)
    major = int(re.match(r"\d+", version)[0])  # type: ignore[index]
    return Build(
        origin=origin,
        version=version,
        major=major,
        bin_directory=str(bin_directory),
        configure=_pg_config(bin_directory, "--configure") or _makefile(bin_directory, "configure_args"),
        cflags=_pg_config(bin_directory, "--cflags") or _makefile(bin_directory, "CFLAGS"),
        binary_sha256=binary_sha256(bin_directory / "postgres"),
        has_io_uring=accepts_io_uring(bin_directory, major),
    )


def server_version(bin_directory: Path) -> str:
    """Return the version that `postgres --version` answers ("18.6"). Raises UsageError."""
    result = _answer([str(bin_directory / "postgres"), "--version"])
    match = re.search(r"\(PostgreSQL\) (\d\S*)", result.stdout)
    if match is None:
        complaint = (result.stderr or result.stdout).strip().partition("\n")[0] or "no output"
        raise UsageError(
            f"{bin_directory / 'postgres'} does not run on this machine ({complaint}): "
            "give the bin folder of a PostgreSQL server built for it."
        )
    return match[1]


def accepts_io_uring(bin_directory: Path, major: int) -> bool:
    """Whether the binary itself takes `io_method=io_uring` (it does only when built with liburing).

    Asks `postgres -C io_method -c io_method=io_uring`, which parses the setting, prints it and ends
    before any data directory is needed; PostgreSQL allows it to root. The binary's own answer holds
    for every way of building and linking.
    """
    if major < IO_METHOD_MAJOR_MIN:
        return False
    with scratch_folder() as folder:
        (folder / "postgresql.conf").touch()
        command = [
            str(bin_directory / "postgres"),
            "-C",
            "io_method",
            "-c",
            "io_method=io_uring",
            "-D",
            str(folder),
        ]
        result = _answer(command)
    return result.returncode == 0 and result.stdout.strip() == "io_uring"


def list_extensions(bin_directory: Path, major: int) -> tuple[str, ...]:
    """Return the names of the extensions that CREATE EXTENSION can find, sorted."""
    shared = _pg_config(bin_directory, "--sharedir")
    candidates = [
        *([Path(shared)] if shared else []),
        bin_directory.parent / "share" / "postgresql",
        bin_directory.parent / "share",
        bin_directory.parents[3] / "share" / "postgresql" / str(major)
        if len(bin_directory.parents) > 3
        else None,
    ]
    for folder in candidates:
        if folder is not None and (folder / "extension").is_dir():
            return tuple(sorted(path.stem for path in (folder / "extension").glob("*.control")))
    return ()


def _pg_config(bin_directory: Path, option: str) -> str:
    program = bin_directory / "pg_config"
    if not os.access(program, os.X_OK):
        return ""
    result = _answer([str(program), option])
    return result.stdout.strip() if result.returncode == 0 else ""


def _makefile(bin_directory: Path, name: str) -> str:
    """A variable of the Makefile.global that configure wrote (src/Makefile.global.in); '' without one.

    For a build that has no program pg_config, but the files to compile extensions with.
    """
    for folder in MAKEFILE_FOLDERS:
        path = bin_directory.parent / folder / "src" / "Makefile.global"
        if path.is_file():
            match = re.search(rf"^{name}\s*=(.*)$", path.read_text("utf-8", "replace"), re.MULTILINE)
            return match[1].strip() if match else ""
    return ""


def _answer(command: list[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command,
            env=os.environ | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ANSWER_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"{command[0]} does not run on this machine ({error}): "
            "give the bin folder of a PostgreSQL server built for it."
        ) from error


def _memory_file(identity: dict[str, object]) -> Path:
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]
    return home() / "builds" / "inspected" / f"{key}.json"


def _remembered(identity: dict[str, object]) -> Build | None:
    try:
        return Build.model_validate_json(_memory_file(identity).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _remember(identity: dict[str, object], build: Build) -> None:
    path = _memory_file(identity)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two runs may ask the same binary at once: each writes its own file, the rename is atomic.
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(build.model_dump_json())
    temporary.replace(path)
