"""From a tree to a finished build: in one working folder, from what the build before left there.

One folder for all, so paths that are compiled in are alike, and a revision that touches five files compiles
what depends on them. A finished build appears under its key whole or not at all.
"""

import hashlib
import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.atomic_folder import locked, made_whole
from pgassay.environment.builds.package import make_open_folder, origin_folder
from pgassay.environment.home import home
from pgassay.environment.linux.settle import sync_tree
from pgassay.environment.source_builds import kept_builds, trees
from pgassay.environment.source_builds.build_systems import MAKE, MESON
from pgassay.environment.source_builds.build_tools import BuildTools, OnStep, find_tools
from pgassay.environment.source_builds.build_work import BuildSystem, BuildWork, RunningBuild
from pgassay.environment.source_builds.layouts import (
    Linker,
    add_layouts,
    find_linker,
    hashes_of,
    link_layouts,
    linker_at_hand,
    missing_linker,
)
from pgassay.environment.source_builds.recipe import PREFIX, Recipe, has_assertions, make_recipe_of, recipe_of
from pgassay.environment.source_builds.tree_syntax import TypedTree
from pgassay.environment.source_builds.trees import SourceTree
from pgassay.errors import UsageError
from pgassay.model.build import LAYOUTS_DEFAULT

_KEY_CHARACTERS = 24
# Of the programs what serves, and what makes its data and its settings; all others are clients.
_OF_THE_SERVER = ("postgres", "initdb")


def key_of(tree: SourceTree, recipe: Recipe, linker: str = "") -> str:
    """The name of a build: a hash of its tree, of how it is made, of what links its layouts ('' for none)."""
    parts = f"{tree.hash} {recipe.key}{f' {linker}' if linker else ''}"
    return hashlib.sha256(parts.encode()).hexdigest()[:_KEY_CHARACTERS]


@dataclass(frozen=True)
class Built:
    """What a tree was built to: the folder that has the files, and the tree's own record.

    The folder is another's where two trees build the same files.
    """

    folder: Path
    record: kept_builds.Kept


@dataclass(frozen=True)
class _Order:
    """What is to be built, and with what. `layouts`: the numbers of those that are to be there, from 1.

    linked_by: what the linker says that it is, '' for none.
    """

    typed: TypedTree
    tree: SourceTree
    tools: BuildTools
    recipe: Recipe
    linker: Linker | None
    linked_by: str
    layouts: range

    @property
    def key(self) -> str:
        """The name of the build."""
        return key_of(self.tree, self.recipe, self.linked_by)


def build(
    typed: TypedTree,
    jobs: int | None,
    on_step: OnStep,
    layouts: int | None = None,
    *,
    by_make: bool = False,
) -> Built:
    """Return the build of a tree, building it first unless it is there.

    jobs: how many compilers run at once, None for one for each processor. layouts: in how many orders of its
    functions the server is linked; 1: as it is built alone, None: in LAYOUTS_DEFAULT where the machine has
    a linker for it. by_make: by configure and make, also where the tree has a meson.build. Raises UsageError
    for a tree that does not build, with the first error and its place, and for what the machine lacks.
    """
    tree = trees.find_tree(typed)
    by_make = by_make or not tree.has_meson
    tools = find_tools(on_step, by_make=by_make)
    linker = None if layouts == 1 else find_linker(on_step)
    if linker is None and layouts is not None and layouts > 1:
        raise UsageError(missing_linker(layouts))
    wanted = 0 if linker is None else layouts or LAYOUTS_DEFAULT
    recipe = _recipe_for(typed, tree, tools, on_step, by_make=by_make)
    linked_by = "" if linker is None else linker.identity()
    order = _Order(typed, tree, tools, recipe, linker, linked_by, range(1, wanted + 1))
    with locked(kept_builds.lock_file(), lambda: on_step("waiting for another build from source", None)):
        found = _found(order)
        if found is None or len(hashes_of(found.folder)) < wanted:
            found = _built(order, jobs, on_step)
    return found


def _found(order: _Order) -> Built | None:
    """What was built before; where no layouts are wanted also what has some, as this machine links them."""
    known = linker_at_hand() if order.linker is None else None
    further = () if known is None else (key_of(order.tree, order.recipe, known.identity()),)
    each = (finished(key, order.typed.text) for key in (order.key, *further))
    return next((found for found in each if found is not None), None)


def _recipe_for(
    typed: TypedTree, tree: SourceTree, tools: BuildTools, on_step: OnStep, *, by_make: bool
) -> Recipe:
    if not by_make:
        options = trees.show(tree, "meson_options.txt")
        return recipe_of(tools, options, on_step, assertions=typed.assertions)
    configure = trees.show(tree, trees.CONFIGURE)
    if not configure:
        raise UsageError(
            f"{typed.text} has no script '{trees.CONFIGURE}', and another tree no meson.build: the two can't "
            "be built in one way; name revisions that both have one of them"
        )
    return make_recipe_of(tools, configure, on_step, assertions=typed.assertions)


def finished(key: str, name: str) -> Built | None:
    """What was built before under a key, remembering what it is called now."""
    folder = kept_builds.folder_of(key)
    record = kept_builds.read(folder)
    own = None if record is None else kept_builds.own_folder(folder, record)
    if record is None or own is None:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return Built(own, kept_builds.add_name(folder, record, name))


def find(typed: TypedTree) -> Built | None:
    """The build of a tree as it was made last, None when it was not built here."""
    tree = trees.find_tree(typed)
    built = [
        (folder, record)
        for folder, record in kept_builds.all_kept()
        if record.tree == tree.hash and has_assertions(record.options) == typed.assertions
    ]
    # Of several recipes the one that was asked for last.
    built.sort(key=lambda each: (each[0] / kept_builds.RECORD).stat().st_mtime_ns, reverse=True)
    for folder, record in built:
        own = kept_builds.own_folder(folder, record)
        if own is not None:
            return Built(own, record)
    return None


def _built(order: _Order, jobs: int | None, on_step: OnStep) -> Built:
    begun = time.monotonic()
    typed, tree, tools, recipe = order.typed, order.tree, order.tools, order.recipe
    work = BuildWork(home() / "builds" / "source-work")
    make_open_folder(work.folder)
    what = f"building {typed.text} ({tree.commit[:10] or tree.hash[:10]})"
    on_step(what, None)
    work.log.unlink(missing_ok=True)
    running, system = RunningBuild(typed.text, tools, recipe, work), MAKE if recipe.by_make else MESON
    _set_up(tree, running, system)
    system.compile(running, jobs or os.cpu_count() or 1, lambda fraction: on_step(what, fraction))
    staged = _installed(running, system)
    files, server = _hashes_of_files(staged)
    if order.linker is not None:
        on_step(f"{what}: {len(order.layouts)} layouts", None)
        link_layouts(running, system.link_words(running), order.linker, order.layouts, staged)
    record = kept_builds.Kept(
        names=(typed.text,),
        tree=tree.hash,
        commit=tree.commit,
        version=tree.version,
        compiler=recipe.compiler,
        options=recipe.options,
        lacking=recipe.lacking,
        data_format=trees.data_format(tree),
        files=files,
        server=server,
        seconds=round(time.monotonic() - begun, 1),
        linker=order.linked_by,
    )
    return _keep(staged, record, order.key)


def _keep(staged: Path, record: kept_builds.Kept, key: str) -> Built:
    """Move what was installed to its place, or note that another build has the same files.

    A build that is there already lacks only layouts, which are added to it: it may be measured meanwhile. One
    whose layouts another linker made stays as it is. Raises UsageError where what is compiled has become
    another by what no recipe knows, as a library's header: what was measured with the build would not fit.
    """
    same, folder = kept_builds.with_files(record.files, record.linker), kept_builds.folder_of(key)
    before = kept_builds.read(folder)
    if before is not None and before.files != record.files:
        if not before.same_as:
            name = record.names[-1]
            raise UsageError(
                f"{name} was built before with other programs on this machine: 'pgassay builds clean "
                f"{before.names[-1]}' removes it, so that the same command can rebuild it"
            )
        shutil.rmtree(folder)
        before = None
    if same is not None and record.linker:
        kept_builds.note_linker(same, record.linker)
        add_layouts(staged, same)
        sync_tree(same)
    if same is not None and before is not None:
        if same not in (folder, kept_builds.folder_of(before.same_as)):
            record = record.model_copy(update={"same_as": same.name})
            kept_builds.write(folder, record)
        shutil.rmtree(staged)
        return Built(same, record)
    make_open_folder(origin_folder(kept_builds.ORIGIN))
    with made_whole(folder) as partial:
        if same is None:
            staged.rename(partial)
            kept_builds.write(partial, record)
        else:
            make_open_folder(partial)
            record = record.model_copy(update={"same_as": same.name})
            kept_builds.write(partial, record)
            shutil.rmtree(staged)
        sync_tree(partial)
    return Built(same or folder, record)


def _set_up(tree: SourceTree, running: RunningBuild, system: BuildSystem) -> None:
    """Check the tree out and configure it, from the start where what is there can't be trusted."""
    work, recipe = running.work, running.recipe
    if not _can_continue(tree, recipe, work, system):
        for path in (work.src, work.build):
            shutil.rmtree(path, ignore_errors=True)
        work.index.unlink(missing_ok=True)
    work.state.unlink(missing_ok=True)
    trees.check_out(tree, work.src, work.index)
    if not (work.build / system.configured).is_file():
        shutil.rmtree(work.build, ignore_errors=True)
        system.configure(running)
    # From here on an interrupted build goes on where it was: ninja and make know what they finished.
    work.state.write_text(json.dumps({"tree": tree.hash, "recipe": recipe.key}))


def _can_continue(tree: SourceTree, recipe: Recipe, work: BuildWork, system: BuildSystem) -> bool:
    try:
        state = json.loads(work.state.read_text())
        changed = trees.changed_files(tree, work.index)
    except (OSError, ValueError, UsageError):
        return False
    return state.get("recipe") == recipe.key and not any(
        name.endswith(system.starts_anew) for name in changed
    )


def _installed(running: RunningBuild, system: BuildSystem) -> Path:
    """Install below the working folder and return the folder that has bin/ in it."""
    staging = running.work.folder / "staged"
    shutil.rmtree(staging, ignore_errors=True)
    system.install(running, staging)
    staged = staging / PREFIX.lstrip("/")
    for folder in (staged, *(path for path in staged.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    return staged


def _hashes_of_files(staged: Path) -> tuple[str, str]:
    """Hashes of all that a server or a client program loads, debug information aside, and of the server's."""
    whole, server = hashlib.sha256(), hashlib.sha256()
    stripped = staged.parent / "stripped"
    for path in sorted(staged.rglob("*")):
        relative = path.relative_to(staged)
        top = relative.parts[0]
        is_loaded = top in ("bin", "share") or (top == "lib" and ".so" in path.name)
        if not is_loaded or path.is_symlink() or not path.is_file():
            continue
        options = ("--strip-debug", "--remove-section=.note.gnu.build-id")
        command = ["objcopy", *options, str(path), str(stripped)]
        done = top != "share" and subprocess.run(command, capture_output=True, check=False).returncode == 0
        content = (stripped if done else path).read_bytes()
        file = f"{relative}\0".encode() + hashlib.sha256(content).digest()
        whole.update(file)
        if top != "bin" or path.name in _OF_THE_SERVER:
            server.update(file)
    stripped.unlink(missing_ok=True)
    return whole.hexdigest(), server.hexdigest()
