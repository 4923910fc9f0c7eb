"""What a change is held against: a git revision, another checkout or build, or a server.

Of a revision the gate's file is read, and the SQL files that it names, into the gate's own folder: the record
then holds what the baseline was, and the repository is not touched.
"""

import subprocess
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from pgassay.environment.source_builds.tree_syntax import is_source
from pgassay.errors import UsageError
from pgassay.experiment.gating.gate_file import GateFile, has_pattern, read_gate_file
from pgassay.experiment.planning.experiment_file import read_document
from pgassay.factors.prepare import FILE_SUFFIX
from pgassay.factors.server import split_connection_strings
from pgassay.model.gates.gate import GatedSystem
from pgassay.model.redaction import without_secrets
from pgassay.record.layout import GATE_FILE
from pgassay.value_syntax.paths import typed_path, typed_paths
from pgassay.workloads import pgbench

OPTION = "--baseline"
_SCHEMES = ("postgres://", "postgresql://")


@dataclass(frozen=True)
class GateBaseline:
    """The baseline's gate file, and what it is; its [system] differs from the change's."""

    file: GateFile
    system: GatedSystem


def find_baseline(text: str, change: GateFile, read_into: Path) -> GateBaseline:
    """Find what was typed; raises UsageError that says how each kind is typed.

    read_into: where the files of a git revision are written; it need not be there.
    """
    if not text.strip():
        raise UsageError(f"{OPTION} is empty: name a git revision, a folder or a connection string")
    if is_source(text):
        return _tree(text, change)
    if text.startswith(_SCHEMES) or "=" in text:
        return _server(text, change)
    folder = typed_path(text)
    if folder.is_dir():
        if "/" not in text and text not in (".", "..") and _commit(change.path.parent, text):
            raise UsageError(
                f"{OPTION} {text} is a folder and a revision: write ./{text} for the folder, or "
                f"refs/heads/{text} for the branch"
            )
        return _folder(folder, text, change)
    if folder.exists():
        raise UsageError(f"{OPTION} {text} is a file: name a folder, a git revision or a connection string")
    return _revision(text, change, read_into)


def revision_of(folder: Path) -> str:
    """The commit that a folder is checked out at, with '+' where its files were changed; '' without git."""
    commit = _commit(folder, "HEAD")
    if not commit:
        return ""
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+" if changed is None or changed.strip() else commit


def _server(text: str, change: GateFile) -> GateBaseline:
    if change.system.server is None:
        raise UsageError(
            f"{OPTION} names a server, but {change.path} has none for the change: write server = "
            '"CONNECTION STRING" below [system]'
        )
    (string, *others) = split_connection_strings(text)
    if others:
        raise UsageError(f"{OPTION} names {1 + len(others)} servers: name one")
    file = replace(change, system=replace(change.system, server=string))
    return GateBaseline(file, GatedSystem(kind="server", name=without_secrets(string)))


def _tree(text: str, change: GateFile) -> GateBaseline:
    """The same gate on a server that is built from a source tree."""
    _refuse_build_of_server(text, change)
    return GateBaseline(
        replace(change, system=replace(change.system, pg=text)), GatedSystem(kind="build", name=text)
    )


def _refuse_build_of_server(text: str, change: GateFile) -> None:
    if change.system.server is not None:
        raise UsageError(
            f"{OPTION} {text} is a build, but {change.path} names a running server: name "
            "its baseline by a connection string"
        )


def _folder(folder: Path, text: str, change: GateFile) -> GateBaseline:
    """Another checkout, which has a gate file of the same name, or the folder of a build."""
    if (folder / GATE_FILE).is_file():
        raise UsageError(
            f"{OPTION} {text} has an earlier gate, but a gate measures both sides in "
            "one run: name a checkout, a build's bin folder or a git revision"
        )
    if (folder / "postgres").is_file() or (folder / "bin" / "postgres").is_file():
        _refuse_build_of_server(text, change)
        file = replace(change, system=replace(change.system, pg=str(folder.absolute())))
        return GateBaseline(file, GatedSystem(kind="build", name=text))
    for candidate in dict.fromkeys((folder / _within_repository(change.path), folder / change.path.name)):
        if candidate.is_file():
            system = GatedSystem(kind="checkout", name=text, revision=revision_of(candidate.parent))
            return GateBaseline(read_gate_file(candidate), system)
    raise UsageError(
        f"{OPTION} {text} has neither {change.path.name} nor a build of PostgreSQL: name a checkout "
        "with that file, or a build's bin folder"
    )


def _within_repository(path: Path) -> PurePosixPath:
    """A file's path from the top of its repository; its name where there is none."""
    prefix = _git(path.parent, "rev-parse", "--show-prefix")
    return PurePosixPath((prefix or "").strip()) / path.name


def _revision(text: str, change: GateFile, read_into: Path) -> GateBaseline:
    here = change.path.parent
    if _git(here, "rev-parse", "--git-dir") is None:
        raise UsageError(
            f"{OPTION} {text} is not a folder, and {here} is not in a readable git repository: name "
            "a folder, or run the gate from a repository"
        )
    commit = _commit(here, text)
    if not commit:
        raise UsageError(
            f"{OPTION} {text} is neither a folder nor a git revision here: name one, such as main or "
            "origin/main (fetch it first if the checkout is shallow)"
        )
    tree = _Tree(here, commit)
    name = _within_repository(change.path)
    if tree.read(name) is None:
        raise UsageError(
            f"{OPTION} {text}: {name} is not in that revision: commit the gate file first, "
            "then gate later revisions"
        )
    tree.write(name, read_into)
    for named in _named_files(read_into / name, change.path):
        tree.write_matching(name.parent, named, read_into)
    file = read_gate_file(read_into / name, builds_from=here)
    return GateBaseline(file, GatedSystem(kind="revision", name=text, revision=commit))


def _named_files(path: Path, shown: Path) -> list[str]:
    """The SQL files that a gate's file names, as they are written there; patterns as such.

    What is no table, or no list, is refused by whoever reads the file.
    """
    document = read_document(path)
    workloads = document.get("workloads")
    tables = [document.get("system"), *(workloads.values() if isinstance(workloads, dict) else ())]
    found: list[str] = []
    for table in tables:
        if not isinstance(table, dict):
            continue
        prepare = table.get("prepare", [])
        texts = prepare if isinstance(prepare, list) else [prepare]
        found += [text for text in texts if isinstance(text, str) and text.endswith(FILE_SUFFIX)]
        family, _, rest = typed_paths(str(table.get("workload", ""))).partition(":")
        if family in ("sql", "maintenance") and rest:
            found.append(rest.partition(",")[0])
        elif family == pgbench.FAMILY:
            found += _scripts(rest)
    absolute = [name for name in found if Path(name).is_absolute()]
    if absolute:
        raise UsageError(
            f"{shown}: {absolute[0]} is not in the repository, so it has no revision: name it "
            "relative to the gate file"
        )
    return found


def _scripts(options: str) -> list[str]:
    """The files of pgbench's options; one with a whole path is the same file for both sides."""
    found: list[str] = []

    def kept(name: str) -> str:
        found.append(name)
        return name

    pgbench.with_files(options, kept)
    return [name for name in found if not Path(name).is_absolute()]


@dataclass(frozen=True)
class _Tree:
    """The files of one commit; `here` is a folder of the repository."""

    here: Path
    commit: str

    def read(self, path: PurePosixPath) -> bytes | None:
        """A file's content; None where the commit has none of that name."""
        run = _run(self.here, "cat-file", "blob", f"{self.commit}:{path}")
        return run.stdout if run.returncode == 0 else None

    def write(self, path: PurePosixPath, folder: Path) -> None:
        """Write a file of the commit below `folder`; one that is not there is left out."""
        content = self.read(path)
        if content is not None:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    def write_matching(self, base: PurePosixPath, text: str, folder: Path) -> None:
        """Write the file that `text` names from `base`, or all that match it; raises UsageError outside."""
        parts: list[str] = []
        for part in (base / text).parts:
            if part == ".." and not parts:
                raise UsageError(f"{text} is outside the repository, so it has no revision: move it in")
            if part == "..":
                parts.pop()
            elif part != ".":
                parts.append(part)
        path = PurePosixPath(*parts)
        if not has_pattern(path.name):
            self.write(path, folder)
            return
        tree = f"{self.commit}:{'' if path.parent == PurePosixPath() else path.parent}"
        listed = _run(self.here, "ls-tree", "--full-tree", "-z", "--name-only", tree)
        for name in listed.stdout.decode("utf-8", "surrogateescape").split("\0"):
            if name and fnmatch(name, path.name):
                self.write(path.parent / name, folder)


def _commit(folder: Path, text: str) -> str:
    """The commit that a revision names; '' where it names none."""
    found = _git(folder, "rev-parse", "--quiet", "--verify", "--end-of-options", f"{text}^{{commit}}")
    return (found or "").strip()


def _git(folder: Path, *words: str) -> str | None:
    """What git prints; None where it fails, or is not installed."""
    run = _run(folder, *words)
    return run.stdout.decode("utf-8", "replace") if run.returncode == 0 else None


def _run(folder: Path, *words: str) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=False)
    except OSError as error:
        return subprocess.CompletedProcess(words, 127, b"", str(error).encode())
