"""PostgreSQL binaries of known origin, and what stands between them and io_uring."""

from typing import Literal

from pgassay.model.base import Frozen

GateName = Literal["build", "kernel", "limits"]


class Gate(Frozen):
    """One condition that io_uring needs and this machine or build does not meet."""

    name: GateName
    reason: str
    remedy: str


class Build(Frozen):
    """A set of PostgreSQL binaries.

    `configure` and `cflags` are what `pg_config` answers; `binary_sha256` is the hash of the
    `postgres` executable; `extensions` lists the contrib modules that can be created.
    """

    origin: str
    version: str
    major: int
    bin_directory: str
    configure: str = ""
    cflags: str = ""
    binary_sha256: str = ""
    has_io_uring: bool = False
    extensions: tuple[str, ...] = ()


class BuildListing(Frozen):
    """One line of `pgassay builds`: found, or obtainable by `pgassay builds install`."""

    origin: str
    version: str
    path: str | None
    io_uring: bool
    gate: Gate | None = None
    obtainable: bool = False
