"""How the code is cut: no crumbs, no long files, no crowded folders, and `Any` at the edges alone."""

import ast
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

from project_files import ROOT, nodes, project_files, syntax

PACKAGE = ROOT / "python" / "pgassay"
FILE_LINES_MAX = 400
FILES_SIDE_BY_SIDE_MAX = 20
CRUMBS_MAX = 8
CRUMB_LINES = 60
# A tab that says `text.py` says nothing.
FILES_OF_ONE_NAME_MAX = 3
# What each kind of plug-in has: its contract and its table.
NAMES_OF_CONTRACTS = frozenset({"__init__.py", "base.py", "registry.py"})
ORDERED = ("python/pgassay", "crates", "tests", "tools")
MEASURED = ("python", "crates", "tests", "benchmarks", "tools")
# One file and one line in a table: that is the rule there, and not clutter.
PLUG_IN_FOLDERS = frozenset(
    {
        "analysis/causes/rules",
        "cli/commands",
        "cli/commands/stored",
        "environment/builds",
        "environment/datasets",
        "environment/doctor",
        "factors",
        "report/charts",
        "storage",
        "trial/observe",
        "tune/rewrites",
        "tune/finders/design",
        "tune/finders/infrastructure",
        "tune/finders/operations",
        "workloads",
    }
)
# Where text of any shape comes in (a storage as typed, a TOML file, JSON lines of the native binary), and
# where pydantic's schemas go out.
ANY_AT_THE_EDGE = frozenset(
    {
        "storage/storage_options.py",
        "storage/parse.py",
        "experiment/planning/experiment_file.py",
        "native/observer.py",
        "native/probe.py",
        "native/process.py",
        "native/sql.py",
        "native/volume.py",
        "report/schema.py",
        "traffic/capturing.py",
        "traffic/replaying.py",
    }
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines_of(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


@cache
def trees() -> dict[Path, ast.Module]:
    """The syntax tree of each module of the package."""
    files = [path for path in project_files() if PACKAGE in path.parents and path.suffix == ".py"]
    return {path: syntax(path) for path in files}


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def importers() -> dict[str, set[str]]:
    """The modules that import each module, at their start or in a function."""
    modules = {module_of(path) for path in trees()}
    found: dict[str, set[str]] = defaultdict(set)
    for path in trees():
        for node in nodes(path):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                full = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [name if name in modules else str(node.module) for name in full]
            else:
                continue
            for name in names:
                found[name].add(module_of(path))
    return found


def is_plug_in(path: Path) -> bool:
    return str(path.parent.relative_to(PACKAGE)) in PLUG_IN_FOLDERS


def test_the_plug_ins_folders_are_there() -> None:
    folders = {str(path.parent.relative_to(PACKAGE)) for path in trees()}
    assert folders >= PLUG_IN_FOLDERS


def test_few_modules_are_crumbs() -> None:
    """A crumb is short and has one user: it belongs into that, unless it is a plug-in."""
    crumbs = [
        name_of(path)
        for path in trees()
        if path.name != "__init__.py"
        and not is_plug_in(path)
        and lines_of(path) < CRUMB_LINES
        and len(importers().get(module_of(path), ())) == 1
    ]
    assert len(crumbs) <= CRUMBS_MAX, "\n".join([f"{len(crumbs)} crumbs:", *crumbs])


def test_no_file_is_long() -> None:
    files = [
        path
        for path in project_files()
        if path.suffix in (".py", ".rs") and name_of(path).split("/")[0] in MEASURED
    ]
    assert len(files) > 200
    long = {name_of(path): lines_of(path) for path in files if lines_of(path) > FILE_LINES_MAX}
    assert not long


def test_no_folder_is_crowded() -> None:
    beside = Counter(
        str(path.parent.relative_to(ROOT))
        for path in project_files()
        if name_of(path).startswith(ORDERED) and path.name != "README.md"
    )
    assert len(beside) > 20
    assert not {folder: files for folder, files in beside.items() if files > FILES_SIDE_BY_SIDE_MAX}


def test_few_files_share_a_name() -> None:
    folders = defaultdict(list)
    for path in trees():
        if path.name not in NAMES_OF_CONTRACTS:
            folders[path.name].append(str(path.parent.relative_to(PACKAGE)))
    assert len(folders) > 500
    assert not {name: found for name, found in folders.items() if len(found) > FILES_OF_ONE_NAME_MAX}


def uses_any(path: Path) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.Attribute) and ast.unparse(node) == "typing.Any")
        for node in nodes(path)
    )


def aliases_of_any() -> set[str]:
    """Names that a module gives to a type with `Any` in it, as `Document = dict[str, Any]`."""
    found = set()
    for tree in trees().values():
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if isinstance(node.value, ast.Subscript | ast.Name | ast.BinOp) and "Any" in {
                    leaf.id for leaf in ast.walk(node.value) if isinstance(leaf, ast.Name)
                }:
                    found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def test_any_stands_at_the_edges_alone() -> None:
    aliases = aliases_of_any()
    using = {
        str(path.relative_to(PACKAGE))
        for path in trees()
        if uses_any(path) or any(isinstance(node, ast.Name) and node.id in aliases for node in nodes(path))
    }
    assert using == ANY_AT_THE_EDGE, "\n".join(sorted(using ^ ANY_AT_THE_EDGE))
