"""Source trees in a private git repository: each has a hash, and one of them is checked out for building.

The user's clone is read and never written: its objects are borrowed, its worktree and index are not used.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.atomic_folder import locked
from pgassay.environment.cleanup.scratch import scratch_folder
from pgassay.environment.home import home
from pgassay.environment.source_builds.tree_syntax import TypedTree
from pgassay.errors import UsageError

# The oldest that is built, which is older than the oldest that is measured.
MAJOR_MIN = 13
MESON, CONFIGURE, MESON_OPTIONS = "meson.build", "configure", "meson_options.txt"
_CATALOG = "src/include/catalog/catversion.h"
# The mode of an entry that is a clone of its own.
_GITLINK = "160000 "
# Where a tree says its version, and how; what comes first is believed.
_VERSIONS = {
    MESON: re.compile(r"^\s*version:\s*'((\d+)[^']*)'", re.MULTILINE),
    CONFIGURE: re.compile(r"^PACKAGE_VERSION='((\d+)[^']*)'", re.MULTILINE),
}
# What makes two servers read each other's data: (name in the sources, file, words of it in the record).
_FORMATS = (
    ("CATALOG_VERSION_NO", "src/include/catalog/catversion.h", "catalog"),
    ("PG_CONTROL_VERSION", "src/include/catalog/pg_control.h", "control"),
    ("PG_PAGE_LAYOUT_VERSION", "src/include/storage/bufpage.h", "page"),
    ("XLOG_PAGE_MAGIC", "src/include/access/xlog_internal.h", "WAL"),
)
# What a patch may change that no version says: (file, how it is written, what it is in PostgreSQL).
_SIZES = (
    ("src/include/pg_config_manual.h", r"^#define\s+NAMEDATALEN\s+(\d+)", "names of {} bytes", "64"),
    ("src/include/pg_config_manual.h", r"^#define\s+INDEX_MAX_KEYS\s+(\d+)", "indexes of {} keys", "32"),
    (MESON_OPTIONS, r"^option\('blocksize'[^)]*value: '(\d+)'", "blocks of {} kB", "8"),
    (MESON_OPTIONS, r"^option\('wal_blocksize'[^)]*value: '(\d+)'", "WAL blocks of {} kB", "8"),
    (MESON_OPTIONS, r"^option\('segsize'[^)]*value: (\d+)", "segments of {} GB", "1"),
)
# git sets these for what it runs itself (a hook, an alias, 'git bisect run'): they name that repository, and
# would be believed before the clone that was typed.
_OF_ONE_REPOSITORY = frozenset(
    {
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE"),
        *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX"),
        *("GIT_SHALLOW_FILE", "GIT_GRAFT_FILE"),
    }
)
# What git says of an object that is not there.
_OBJECT_LACKS = re.compile(
    r"unable to read|could not read|unpack tree|missing|bad object|unknown revision", re.I
)


@dataclass(frozen=True)
class SourceTree:
    """A tree of files by git's hash; `commit` is '' for one that is of no commit or was patched.

    `objects`: the folder of the clone that has them, None where the private repository does. `has_meson`: it
    is built by meson, else by configure and make.
    """

    hash: str
    version: str
    commit: str = ""
    objects: Path | None = None
    has_meson: bool = True

    @property
    def major(self) -> int:
        """The major version, of one that is developed too."""
        match = re.match(r"\d+", self.version)
        return int(match[0]) if match else 0


def find_tree(typed: TypedTree) -> SourceTree:
    """The tree that was typed, with its patches; raises UsageError when there is none or it is too old."""
    if shutil.which("git") is None:
        raise UsageError(f"{typed.text}: source trees are read with git, which is not here: install git")
    if typed.kind == "git":
        commit, objects = _commit_of(typed)
        found = _git(["rev-parse", f"{commit}^{{tree}}"], typed.text, objects).strip()
    else:
        commit, objects = "", None
        found = _import(typed)
    for patch in typed.patches:
        found, commit = _patched(typed, found, patch, objects), ""
    version, place = _version_of(typed, found, objects)
    return SourceTree(found, version, commit, objects, place == MESON)


def data_format(tree: SourceTree) -> str:
    """What decides whether two servers read each other's data files, in words; '' where it can't be read."""
    parts = [str(tree.major)]
    for name, path, word in _FORMATS:
        text = _show(tree.hash, path, tree.objects)
        match = re.search(rf"^#define\s+{name}\s+(\w+)", text or "", re.MULTILINE)
        if match is None:
            return ""
        parts.append(f"{word} {match[1]}")
    for path, pattern, words, usual in _SIZES:
        match = re.search(pattern, _show(tree.hash, path, tree.objects) or "", re.MULTILINE)
        if match is not None and match[1] != usual:
            parts.append(words.format(match[1]))
    return ", ".join(parts)


def check_out(tree: SourceTree, folder: Path, index: Path) -> None:
    """Make `folder` hold the tree; files that are right keep their times, so nothing is built twice.

    The caller holds the lock of those who build.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _forget_killed(index)
    where = {"GIT_WORK_TREE": str(folder), "GIT_INDEX_FILE": str(index)}
    _git(["read-tree", "--reset", "-u", tree.hash], tree.hash, tree.objects, where)
    _git(["clean", "-ffdxq"], tree.hash, tree.objects, where, folder)


def changed_files(tree: SourceTree, index: Path) -> list[str]:
    """The files in which a tree differs from what `index` has checked out."""
    where = {"GIT_INDEX_FILE": str(index)}
    text = _git(["diff-index", "--cached", "--name-only", "-z", tree.hash], tree.hash, tree.objects, where)
    return [name for name in text.split("\0") if name]


def clone_environment() -> dict[str, str]:
    """What git runs with where it reads a clone that was typed, whatever repository it was started from."""
    return {name: value for name, value in os.environ.items() if name not in _OF_ONE_REPOSITORY}


def not_a_clone(text: str, place: Path, stderr: str, instead: str) -> UsageError:
    """What to type where git does not read a folder as a clone; stderr: what it printed."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    # Whether to trust another account's clone, whose settings may name programs, is the user's to say.
    trusting = next((line for line in lines if line.startswith("git config ")), "")
    if trusting:
        return UsageError(
            f"{text}: {place} is another account's, so git does not read it: if you trust it, type "
            + (f'"{trusting}"' if "'" in trusting else f"'{trusting}'")
        )
    return UsageError(f"{text}: {place} is not a clone that git reads ({_first(lines)}): {instead}")


def no_revision(text: str, place: Path, revision: str, objects: Path) -> UsageError:
    """What to type where a clone has no such revision; objects: its folder of them."""
    instead = how_to_have_all(objects)
    return UsageError(
        f"{text}: the clone {place} has no revision '{revision}': write a branch, tag or commit that "
        f"'git log' shows there, or fetch it first{f' ({instead})' if instead else ''}"
    )


def how_to_have_all(objects: Path) -> str:
    """How to have all commits in a clone made with --depth, '' in another; objects: its folder of them."""
    if (objects.parent / "shallow").is_file():
        return "the clone was made with --depth and lacks commits: type 'git fetch --unshallow' in it"
    return ""


def show(tree: SourceTree, path: str) -> str:
    """A file of the tree; '' when it has none of that name."""
    return _show(tree.hash, path, tree.objects) or ""


def _commit_of(typed: TypedTree) -> tuple[str, Path]:
    place = ["git", "-C", str(typed.place)]
    environment = clone_environment()
    common = run_program(
        [*place, "rev-parse", "--path-format=absolute", "--git-path", "objects"], environment
    )
    if common.returncode != 0:
        instead = f"write source:{typed.place} for a folder without git"
        raise not_a_clone(typed.text, typed.place, common.stderr, instead)
    objects = Path(common.stdout.rstrip("\n"))
    revision = f"{typed.revision}^{{commit}}"
    found = run_program(
        [*place, "rev-parse", "--verify", "--quiet", "--end-of-options", revision], environment
    )
    commit = found.stdout.strip().splitlines()[-1:] if found.returncode == 0 else []
    if not commit:
        raise no_revision(typed.text, typed.place, typed.revision, objects)
    return commit[0], objects


def _import(typed: TypedTree) -> str:
    if typed.kind == "folder":
        return _add(typed.place, typed, keep=True)
    with scratch_folder() as folder:
        result = run_program(
            ["tar", "-xf", str(typed.place), "-C", str(folder), "--no-same-owner"], os.environ
        )
        if result.returncode != 0:
            raise UsageError(
                f"{typed.text} can't be unpacked ({_said(result)}): name a tarball of PostgreSQL"
            )
        entries = list(folder.iterdir())
        # A tarball of a release holds one folder with everything in it.
        top = entries[0] if len(entries) == 1 and entries[0].is_dir() else folder
        return _add(top, typed, keep=False)


def _add(folder: Path, typed: TypedTree, *, keep: bool) -> str:
    """The tree of a folder's files; what its .gitignore names, such as what a build left, is left out."""
    if not any((folder / name).is_file() for name in _VERSIONS):
        raise UsageError(_no_tree(typed))
    repository = _repository()
    index = repository / f"index-{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}"
    where = {"GIT_WORK_TREE": str(folder), "GIT_INDEX_FILE": str(index)}
    # Another process may take the same folder now; what a tarball was unpacked to is this one's alone.
    with locked(repository / f"{index.name}.taken") if keep else nullcontext():
        _forget_killed(index)
        try:
            _git(["add", "--all", "."], typed.text, None, where, folder)
            _refuse_clones_within(_git(["ls-files", "--stage", "-z"], typed.text, None, where), typed)
            return _git(["write-tree"], typed.text, None, where).strip()
        finally:
            if not keep:
                index.unlink(missing_ok=True)


def _refuse_clones_within(listed: str, typed: TypedTree) -> None:
    """Raise UsageError where git takes a folder with a .git of its own for one entry, without its files."""
    inner = next((line.partition("\t")[2] for line in listed.split("\0") if line.startswith(_GITLINK)), "")
    if inner:
        raise UsageError(
            f"{typed.text}: {inner} is a clone of its own, whose files git does not take along: remove "
            f"{inner}/.git in a copy of the folder, and name that"
        )


def _forget_killed(index: Path) -> None:
    """Remove what a git that was killed left to keep others from the index; the caller alone uses it."""
    index.with_name(f"{index.name}.lock").unlink(missing_ok=True)


def _patched(typed: TypedTree, tree: str, patch: Path, objects: Path | None) -> str:
    with scratch_folder() as folder:
        where = {"GIT_INDEX_FILE": str(folder / "index")}
        _git(["read-tree", tree], typed.text, objects, where)
        result = run_program(
            _command(["apply", "--cached", str(patch)]), _environment(objects, where), folder
        )
        if result.returncode != 0:
            raise UsageError(
                f"{typed.text}: the patch {patch.name} does not apply ({_said(result)}): name the revision "
                "that it was made for"
            )
        return _git(["write-tree"], typed.text, objects, where).strip()


def _version_of(typed: TypedTree, tree: str, objects: Path | None) -> tuple[str, str]:
    """(the version, the file that says it)."""
    if _show(tree, _CATALOG, objects) is None:
        listed = run_program(_command(["ls-tree", tree, _CATALOG]), _environment(objects, {}))
        if _is_partial(objects) and (listed.stdout or listed.returncode != 0):
            raise _lacking(typed.text)
        raise UsageError(_no_tree(typed))
    for name, version in _VERSIONS.items():
        match = version.search(_show(tree, name, objects) or "")
        if match is not None and int(match[2]) < MAJOR_MIN:
            raise UsageError(
                f"{typed.text} is PostgreSQL {match[1]}: trees of {MAJOR_MIN} and newer are built; name a "
                "newer revision"
            )
        if match is not None:
            return match[1], name
    raise UsageError(_no_tree(typed))


def _lacking(text: str) -> UsageError:
    return UsageError(
        f"{text} can't be read: its clone was made with --filter and lacks files: type 'git fetch --refetch "
        "--no-filter' in it"
    )


def _is_partial(objects: Path | None) -> bool:
    """Whether a clone may lack objects that it would fetch when it needs them, which nobody else can."""
    return objects is not None and any((objects / "pack").glob("*.promisor"))


def _no_tree(typed: TypedTree) -> str:
    return (
        f"{typed.text} holds no source tree of PostgreSQL {MAJOR_MIN} or newer (no {' or '.join(_VERSIONS)} "
        f"with its version, or no {_CATALOG}): name one that does"
    )


def _show(tree: str, path: str, objects: Path | None) -> str | None:
    result = run_program(_command(["cat-file", "blob", f"{tree}:{path}"]), _environment(objects, {}))
    return result.stdout if result.returncode == 0 else None


def _repository() -> Path:
    folder = home() / "builds" / "source-trees.git"
    if not (folder / "HEAD").is_file():
        folder.parent.mkdir(exist_ok=True)
        result = run_program(["git", "init", "--quiet", "--bare", str(folder)], _environment(None, {}, None))
        if result.returncode != 0:
            raise UsageError(f"git can't make {folder} ({_said(result)}): free some space there")
    return folder


def _command(arguments: list[str]) -> list[str]:
    # The account's files of patterns are read without any setting, too.
    own = ("core.hooksPath", "core.excludesFile", "core.attributesFile")
    settings = [f"{name}={os.devnull}" for name in own] + ["gc.auto=0"]
    return ["git", *(word for each in settings for word in ("-c", each)), *arguments]


def _git(
    arguments: list[str],
    text: str,
    objects: Path | None,
    where: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> str:
    result = run_program(_command(arguments), _environment(objects, where or {}), folder)
    if result.returncode != 0:
        is_full = "No space left" in result.stderr
        if _is_partial(objects) and _OBJECT_LACKS.search(result.stderr):
            raise _lacking(text)
        remedy = f"free some space in {home()}" if is_full else "check the clone with 'git fsck'"
        raise UsageError(f"{text}: git {arguments[0]} failed ({_said(result)}): {remedy}")
    return result.stdout


def _environment(
    objects: Path | None, where: Mapping[str, str], repository: Path | None = Path()
) -> dict[str, str]:
    """git's own settings of the account are left out: line ends and filters would make another tree."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    kept |= {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "LC_ALL": "C",
    }
    if repository is not None:
        kept["GIT_DIR"] = str(_repository())
    if objects is not None:
        kept["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = _quoted(objects)
    return {**kept, **where}


def _quoted(path: Path) -> str:
    """A path in a list that git parts at colons: one that has some stands in quotes, as in C."""
    text = str(path)
    if ":" not in text and not text.startswith('"'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def run_program(
    command: list[str], environment: Mapping[str, str], folder: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run git or another program with this environment, its output as text; raises FileNotFoundError."""
    return subprocess.run(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def _said(result: "subprocess.CompletedProcess[str]") -> str:
    return _first([line.strip() for line in result.stderr.splitlines() if line.strip()])


def _first(lines: Sequence[str]) -> str:
    return (
        lines[0].removeprefix("fatal: ").removeprefix("error: ").rstrip(".") if lines else "no reason given"
    )
