"""PostgreSQL binaries of known origin, and what stands between them and io_uring."""

import re
from typing import ClassVar, Literal

from pgassay.model.base import Extended, Frozen

# Where the further layouts of a build stand, below its own folder.
LAYOUTS_FOLDER = "layouts"
LAYOUTS_DEFAULT = 4
GateName = Literal["build", "kernel", "limits"]


def major_of(version: str) -> int:
    """The major version of `18.6 (Debian …)` or `19beta4`; 0 when there is none."""
    match = re.match(r"\d+", version)
    return int(match.group()) if match else 0


def layout_folder(number: int) -> str:
    """Where a layout stands below its build's folder; of one length, since a path's moves results as well."""
    return f"{LAYOUTS_FOLDER}/{number:02d}"


class Gate(Frozen):
    """One condition that io_uring needs and this machine or build does not meet."""

    name: GateName
    reason: str
    remedy: str


class SourceTree(Extended):
    """What a build from source was made of: what was typed, git's hashes, how it was compiled.

    `commit` is '' for a folder, a tarball and a tree that was patched. `lacking`: Debian's packages of
    libraries that the tree can use and this machine lacks. `layouts`: the SHA-256 of the server linked with
    its functions in another order, by the number of that order from 1.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("layouts",)

    name: str
    tree: str
    commit: str = ""
    compiler: str
    options: tuple[str, ...]
    lacking: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()


class Build(Extended):
    """A set of PostgreSQL binaries.

    `configure` and `cflags` are what `pg_config` answers; `binary_sha256` is the hash of the
    `postgres` executable; `extensions` lists the contrib modules that can be created.
    `catalog_version` and `control_version` are what its own initdb writes into a control file; 0: not known
    yet, or of an experiment that was stored before they were. `data_format` is of builds from source: those
    that are alike in it read each other's data ('' where nothing says so).
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("catalog_version", "control_version", "source", "data_format")

    origin: str
    version: str
    major: int
    bin_directory: str
    configure: str = ""
    cflags: str = ""
    binary_sha256: str = ""
    has_io_uring: bool = False
    extensions: tuple[str, ...] = ()
    catalog_version: int = 0
    control_version: int = 0
    source: SourceTree | None = None
    data_format: str = ""

    def at_layout(self, number: int) -> "Build":
        """The same build with its functions in another order; 0: as it was built."""
        if not number or self.source is None:
            return self
        folder = f"{self.bin_directory.removesuffix('/bin')}/{layout_folder(number)}/bin"
        sha256 = self.source.layouts[number - 1]
        return self.model_copy(update={"bin_directory": folder, "binary_sha256": sha256})


class BuildListing(Frozen):
    """One line of `pgassay builds`: found, or obtainable by `pgassay builds install`.

    `trees`: of a build from source every tree that builds it, by every name that it was built under.
    """

    origin: str
    version: str
    path: str | None
    io_uring: bool
    gate: Gate | None = None
    obtainable: bool = False
    trees: tuple[SourceTree, ...] = ()
