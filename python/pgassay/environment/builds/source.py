"""Servers built from source trees, found by what their tree is called; `environment/source` builds them."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pgassay.environment.builds.base import Origin
from pgassay.environment.builds.inspect import inspect, those_that_run
from pgassay.environment.source_builds import building, kept_builds, trees
from pgassay.environment.source_builds.build_tools import OnStep
from pgassay.environment.source_builds.layouts import hashes_of
from pgassay.environment.source_builds.tree_syntax import parse_source
from pgassay.model.build import Build, SourceTree


class SourceOrigin(Origin):
    """Takes a tree where the other origins take a version; none of its builds is chosen by a version."""

    name: ClassVar[str] = kept_builds.ORIGIN

    def builds(self) -> Sequence[Build]:
        """Return what was built before and runs here, each server once."""
        records = {
            folder / "bin": record
            for folder, record in kept_builds.all_kept()
            if not record.same_as and kept_builds.own_folder(folder, record) is not None
        }
        found = those_that_run(records, self.name)
        return [_with_tree(build, records[Path(build.bin_directory)]) for build in found]

    def find(self, version: str) -> Build | None:
        """Return the build of the tree `version` as it is now. Raises UsageError where there is no tree."""
        built = building.find(parse_source(version))
        return None if built is None else _build_in(built.folder, built.record, version)

    def tree(self, text: str) -> trees.SourceTree:
        """The tree that `text` names. Raises UsageError where there is none, or one too old to be built."""
        return trees.find_tree(parse_source(text))

    def provide(
        self,
        text: str,
        jobs: int | None,
        on_step: OnStep,
        layouts: int | None = None,
        *,
        by_make: bool = False,
    ) -> Build:
        """Return the build of a tree, building it first; raises UsageError as `building.build` does."""
        built = building.build(parse_source(text), jobs, on_step, layouts, by_make=by_make)
        return _build_in(built.folder, built.record, text)


def trees_of(build: Build) -> tuple[SourceTree, ...]:
    """Every tree that builds a build from source, by every name that it was built under; () of others."""
    if build.origin != kept_builds.ORIGIN:
        return ()
    here = Path(build.bin_directory).parent
    return tuple(
        _tree(record, name)
        for folder, record in kept_builds.all_kept()
        if kept_builds.own_folder(folder, record) == here
        for name in record.names
    )


def server_of(build: Build) -> str:
    """What is the same for builds whose servers are, however their client programs differ."""
    kept = None
    if build.origin == kept_builds.ORIGIN:
        kept = kept_builds.read(Path(build.bin_directory).parent)
    return kept.server if kept is not None and kept.server else build.bin_directory


def _build_in(folder: Path, record: kept_builds.Kept, text: str = "") -> Build:
    """The build in a folder with what `record` says of its tree; `text`: what it is called now."""
    return _with_tree(inspect(folder / "bin", kept_builds.ORIGIN), record, text)


def _with_tree(build: Build, record: kept_builds.Kept, text: str = "") -> Build:
    layouts = hashes_of(Path(build.bin_directory).parent)
    source = _tree(record, text or record.names[-1]).model_copy(update={"layouts": layouts})
    return build.model_copy(update={"source": source, "data_format": record.data_format})


def _tree(record: kept_builds.Kept, name: str) -> SourceTree:
    return SourceTree(
        name=name,
        tree=record.tree,
        commit=record.commit,
        compiler=record.compiler,
        options=record.options,
        lacking=record.lacking,
    )
