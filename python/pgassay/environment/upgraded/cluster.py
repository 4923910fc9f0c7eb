"""pg_upgrade on a copy of a cluster: what must be alike, its time, what it refuses and where it says so.

The old cluster's files are linked, so its copy can't be used any more; nothing else is touched.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from pgassay.environment.cleanup import registry
from pgassay.environment.home import home
from pgassay.environment.server.enclosure import enclosed_command, is_enclosing
from pgassay.environment.server.initdb import checksum_options
from pgassay.environment.server.programs import (
    ensure_private_folder,
    identity,
    run_program,
    without_account,
    write_private_file,
)
from pgassay.environment.server.server_folder import ServerFolder
from pgassay.environment.server.server_processes import kill_and_wait
from pgassay.environment.upgraded.programs import UpgradePrograms
from pgassay.environment.upgraded.tablespaces import bring_inside, lead_outside
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import DatasetSpec

LINKED = "link"
OLD, NEW = "old", "new"
_OUTPUT, _DUMPS = "pg_upgrade_output.d", "dump"
_LOGS = "pg_upgrade"
_STATUS = re.compile(r"^.*\b(?:fatal|failure)\b\W*$", re.IGNORECASE)
_DONE = re.compile(r"\sok$|^-+$|^Performing ")
_NAMES_FILE = re.compile(r"(/\S*pg_upgrade_output\.d/[^\s\"]+)")
_ENDS = ("Failure, exiting", "*failure*")
_LIBRARY = re.compile(r'could not (?:access file|load library) "\$libdir/([^"]+)"')
_SENTENCES_MAX, _LISTED_MAX = 2, 3
_TAIL = 2000
_KILLED_S = 10.0


class PgUpgradeError(MeasurementError):
    """pg_upgrade refused; `words`: why, `log`: the folder of what it wrote."""

    def __init__(self, words: str, log: Path) -> None:
        super().__init__(f"pg_upgrade refuses: {words}; its log is in {log}")
        self.words = words
        self.log = log


def upgrade_cluster(programs: UpgradePrograms, place: Path, user: str, dataset: DatasetSpec) -> float:
    """Bring the stopped cluster in `place`/old into `place`/new, which is made; the seconds of pg_upgrade.

    Both are shown to pg_upgrade by this folder: files are linked within one mount alone. `user`: the name of
    its bootstrap superuser. Encoding and locale are pg_upgrade's to take over. Raises PgUpgradeError with its
    words, UsageError where a build and not the cluster is at fault.
    """
    old, new = place / OLD, place / NEW
    _make_empty(programs, new, user, dataset)
    _let_in(old)
    lead_outside(old, place)
    private = ServerFolder()
    tokens = [registry.register("server", data_directory=str(folder)) for folder in (old, new)]
    try:
        private.make({})
        began = time.monotonic()
        done = _run(programs, place, user, private.path)
        elapsed_s = time.monotonic() - began
    finally:
        private.remove()
        for token in tokens:
            registry.forget(token)
    if done.returncode != 0:
        said = done.stdout + done.stderr
        if complaint := build_complaint(programs, why_refused(said, _files_named(said))):
            raise UsageError(complaint)
        raise _refused(said, new, dataset)
    shutil.rmtree(new / _OUTPUT, ignore_errors=True)
    bring_inside(new, programs.new.major)
    return elapsed_s


def _make_empty(programs: UpgradePrograms, new: Path, user: str, dataset: DatasetSpec) -> None:
    build = programs.new
    command = [f"{build.bin_directory}/initdb", "--pgdata", str(new), "--username", user]
    command += ["--encoding", dataset.encoding, "--locale", "C", "--text-search-config", "simple"]
    command += ["--wal-segsize", str(dataset.wal_segment_mb)]
    # Its socket is in a private folder.
    command += ["--auth-local", "trust", "--auth-host", "reject", "--no-sync", "--no-instructions"]
    command += checksum_options(build.major, wanted=dataset.checksums)
    run_program(command, f"making a cluster in {new}")


def _let_in(old: Path) -> None:
    """Settings and access rules of the copy, which has none of the original's."""
    write_private_file(old / "postgresql.conf", "listen_addresses = ''\nfsync = off\n")
    write_private_file(old / "pg_hba.conf", "local all all trust\n")
    write_private_file(old / "pg_ident.conf", "")


def _run(
    programs: UpgradePrograms, place: Path, user: str, socket: Path
) -> "subprocess.CompletedProcess[str]":
    arguments = identity()
    old, new = place / OLD, place / NEW
    command = [
        f"{programs.new.bin_directory}/pg_upgrade", f"--{LINKED}", "--no-sync", "--username", user,
        "--old-bindir", programs.old.bin_directory, "--new-bindir", programs.new.bin_directory,
        "--old-datadir", str(old), "--new-datadir", str(new), "--socketdir", str(socket),
    ]  # fmt: skip
    arguments["cwd"] = str(socket)
    if is_enclosing():
        others = (f"{programs.old.bin_directory}/postgres",)
        command = enclosed_command(command, (place, socket), starts=others, stays=socket)
        arguments = without_account(arguments)
    try:
        return subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=False, **arguments
        )
    finally:
        # It starts the servers of both one after the other, which outlive it where it is interrupted.
        for folder in (old, new):
            kill_and_wait(folder, _KILLED_S)


def build_complaint(programs: UpgradePrograms, words: str) -> str:
    """What to say where pg_upgrade fails by a build that lacks a library of an extension; '' elsewhere."""
    found = _LIBRARY.search(words)
    lacking = programs.lacking(found[1]) if found else None
    if found is None or lacking is None:
        return ""
    return (
        f"pg_upgrade can't be tried: the data use the library {found[1]}, and PostgreSQL {lacking.version} "
        f"of {lacking.origin}, whose programs it runs here, comes without it: pgassay builds install "
        f"apt:{lacking.major}, or use dump:FILE instead of folder:"
    )


def _refused(said: str, new: Path, dataset: DatasetSpec) -> PgUpgradeError:
    kept = ensure_private_folder(home() / "data") / _LOGS / f"{Path(dataset.source).name}-{os.getpid()}"
    shutil.rmtree(kept, ignore_errors=True)
    if (new / _OUTPUT).is_dir():
        # Its dumps hold passwords, of roles as they are stored and of user mappings as they are.
        shutil.copytree(new / _OUTPUT, kept, ignore=shutil.ignore_patterns(_DUMPS))
    else:
        kept.mkdir(parents=True)
    (kept / "pg_upgrade.out").write_text(said, encoding="utf-8")
    return PgUpgradeError(why_refused(said, _files_named(said)), kept)


def _files_named(said: str) -> dict[str, str]:
    """By their path the ends of the files to which it points."""
    found = {}
    for path in dict.fromkeys(_NAMES_FILE.findall(said)):
        try:
            found[path] = Path(path).read_text("utf-8", "replace")[-_TAIL:]
        except OSError:
            continue
    return found


def why_refused(said: str, files: "dict[str, str]") -> str:
    """pg_upgrade's own words for a refusal, in one sentence; `files`: the ends of those that it names."""
    lines = [line.strip() for line in said.replace("\r", "\n").splitlines()]
    at = max((place for place, line in enumerate(lines) if _STATUS.match(line)), default=-1)
    told = [
        line
        for line in lines[at + 1 :]
        if line and line not in _ENDS and line not in files and not _DONE.search(line)
    ]
    listed = [line.strip() for text in files.values() for line in text.splitlines() if line.strip()]
    errors = [line for line in listed if "ERROR:" in line or "error:" in line]
    if errors:
        return errors[-1].rpartition("ERROR:")[2].strip() or errors[-1]
    if listed and any("Consult the last few lines" in line for line in told):
        return listed[-1]
    words = _first_sentences(" ".join(told) or "no error message")
    names = [line for line in listed if not line.endswith(":")][:_LISTED_MAX]
    return f"{words} ({', '.join(names)})" if names else words


def _first_sentences(text: str) -> str:
    sentences: Sequence[str] = re.split(r"(?<=\.)\s+", text)
    return " ".join(sentences[:_SENTENCES_MAX]).rstrip(".")
