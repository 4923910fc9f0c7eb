"""Arms: one combination of levels each, and everything a trial of it needs to know."""

from typing import ClassVar, Literal, Self

from pgassay.model.base import Extended, Frozen
from pgassay.model.build import Build
from pgassay.model.storage import StorageSpec
from pgassay.model.workload import Distribution, WorkloadSpec

Role = Literal["control", "arm", "twin"]


class DatasetSpec(Extended):
    """The data in a server, and the initdb options it is made with (alike in all arms).

    `kind` is the name of one in `environment/datasets/registry.py`, or `remote` for the data of a server
    that runs already. `source` is the file or folder that other data than pgbench's come from,
    `source_sha256` what it held when the experiment was planned, `database` the one that the user named
    ('' for none). `load` tells independent loads of the same data apart. `settled`: every table is read once
    before the data are frozen; else each trial meets them as the load and its preparation left them.
    `before_upgrade`: of a data folder that pg_upgrade brings to a newer build's version, SQL that is run on
    the copy before; None: a folder of another version is refused. `analysed`: of data that are restored or
    upgraded, whether they are ANALYZEd, or have what statistics came with them.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("settled", "before_upgrade", "analysed")

    kind: str = "pgbench"
    scale: int = 1
    checksums: bool = True
    encoding: str = "UTF8"
    locale: str = "C"
    wal_segment_mb: int = 16
    load: int = 0
    source: str = ""
    source_sha256: str = ""
    database: str = ""
    tables: int = 1
    table_size: int = 10_000
    distribution: Distribution = "uniform"
    settled: bool = True
    before_upgrade: tuple[str, ...] | None = None
    analysed: bool = True


class RemoteServer(Frozen):
    """A server that runs already, as it was found; never a password.

    `name` is how reports call it, `connection` the string that names it to libpq, without its secrets.
    `version` is the server's, "18.1"; `encryption` libpq's sslmode as it was settled ('disable': none).
    """

    name: str
    connection: str
    host: str
    port: int
    dbname: str
    user: str
    version: str
    major: int
    encryption: str = "disable"


class PoolerSpec(Frozen):
    """PgBouncer between the clients of a load and the server.

    `text`: as typed. `mode`: when a server connection goes back to the pool; `size`: how many there are at
    most, None for one of each client where a session keeps it, else PgBouncer's default.
    """

    text: str
    mode: Literal["session", "transaction"]
    size: int | None = None


class ArmSpec(Extended):
    """Everything that a level may patch; `settings` holds every setting given explicitly.

    `memory_bytes` and `cpus` cap the whole server, page cache included; None: as the machine has.
    `server`: one that runs already, in place of a build, a storage and a dataset of pgassay's own.
    `without_indexes`: those that the data have and this arm does not, hidden while it has its turn. `pooler`:
    what the clients of its load connect to in place of the server.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("without_indexes", "pooler")

    build: Build
    storage: StorageSpec
    dataset: DatasetSpec
    prepare: tuple[str, ...] = ()
    settings: dict[str, str]
    workload: WorkloadSpec
    memory_bytes: int | None = None
    cpus: float | None = None
    server: RemoteServer | None = None
    without_indexes: tuple[str, ...] = ()
    pooler: PoolerSpec | None = None

    @property
    def leaves_data_changed(self) -> bool:
        """Whether a trial changes the data: by writing, or as their first reader."""
        return self.workload.writes or not self.dataset.settled

    def settings_unlike(self, other: Self) -> list[str]:
        """The settings in which two arms differ, by name: also those that one of them has alone."""
        one, two = self.settings, other.settings
        return [name for name in sorted(one.keys() | two.keys()) if one.get(name) != two.get(name)]

    @property
    def data_identity(self) -> tuple[object, ...]:
        """What the data are and where they lie: arms that are alike in it can run on one copy of them.

        Two binaries that call themselves alike may write pages that the other can't read, so each has data of
        its own, unless their sources say that they share a format.
        Limits and read-ahead belong to a device and not to what lies
        on it.
        """
        build, storage = self.build, self.storage
        # Experiments that were stored before the catalogs' version was known shared by version and options,
        # and stay as they were planned.
        binary = build.binary_sha256 if build.catalog_version else ""
        made_by: tuple[object, ...] = (build.version, build.configure, sorted(build.extensions), binary)
        if build.data_format:
            made_by = (build.data_format, sorted(build.extensions))
        return (
            made_by,
            self.dataset,
            self.prepare,
            storage.kind,
            storage.path,
            storage.size_bytes,
            self.server,
        )


class Arm(Frozen):
    """An arm of the design.

    `id` says nothing of the levels, so a record does not give the twin away. `stratum` names the
    levels of the factors that are not compared ('' when there are none). `data_copy` is 0 for the
    copy of the data shared by the arms of a stratum and 1 for the twin's own.
    """

    id: str
    name: str
    levels: dict[str, str]
    stratum: str = ""
    role: Role = "arm"
    data_copy: int = 0
    spec: ArmSpec
