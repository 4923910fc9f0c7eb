"""Which servers are measured, and what they are given."""

from dataclasses import dataclass

from pgassay.options.option import (
    COPIES,
    EXPERIMENTS,
    FILE,
    GATE_FILE,
    Words,
    maybe,
    several,
    switch,
    text,
    value,
)

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pgassay.model.experiment import Baseline

# Every key of every kind; a test holds it against the kinds' own tables.
STORAGE_HELP = (
    "where to put the data: host or host:path=FOLDER; loop:size=4GB,read_ahead=128 with path=, its "
    "own disk image; both take limits, read_mb_s=, write_mb_s= (MiB/s), read_iops= and write_iops=. "
    "Or a cloud volume, imitated: volume:gp3,size=100GiB (pgassay volumes lists them) with iops=, "
    "throughput=, credits=full|empty|50%|N, instance=NAME (its limits and memory), flush_latency=2ms, "
    "first_touch=20ms, read_ahead=, closest=yes, trace=yes (for pgassay size); volume:unlimited,latency=1ms "
    "has no limits. Last, wal=KIND[:OPTIONS]: pg_wal on its own storage, "
    "as volume:gp3,size=100GiB,wal=volume:io2,size=10GiB,iops=3000"
)


# Methods are the request's, which has these fields: to make them here would cost every start time.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ServerOptions:
    """Servers of pgassay's own, with their build, disk and caps, or servers that run already."""

    settings: tuple[str, ...] = several(
        "--set NAME=VALUE", "a setting for all arms", (*COPIES, "upgrade"), key=""
    )
    storage: str = value(
        "--storage KIND[:OPTIONS]",
        text,
        STORAGE_HELP,
        # `size` chooses the volumes on which it records.
        ("compare", "calibrate", FILE, GATE_FILE, "tune", "bisect", "upgrade"),
        default="host",
        servers="own",
        guide="where the data directories are: [storage](storage.md)",
    )
    prices: tuple[str, ...] = several(
        "--price STORAGE=AMOUNT",
        "what a storage costs in a month by your bill, as volume:rds-gp2,size=40GiB=4.60 USD, with a date if "
        "you like; repeatable. It replaces the catalogue's price",
        ("compare", FILE),
        servers="own",
        guide="what a storage costs in a month by your own bill, not by [the "
        "catalogue](storage.md#cloud-volumes): `volume:rds-gp2,size=40GiB=4.60 USD 2026-01` (the date is "
        "optional); repeatable",
    )
    memory: str | None = maybe(
        "--memory SIZE",
        text,
        "cap on a server's memory, page cache included, as 2GB",
        (*COPIES, "upgrade"),
        servers="own",
        guide="a cap on each server's memory, page cache included, as `2GB` (at least 64MB): "
        "[caps](compare-how-it-works.md#caps). A volume with `instance=` [brings its "
        "own](storage.md#cloud-volumes)",
    )
    cpus: str | None = maybe(
        "--cpus NUMBER",
        text,
        "cap on a server's processors, as 1 or 0.5",
        (*COPIES, "upgrade"),
        servers="own",
    )
    build: str | None = maybe(
        "--pg BUILD",
        text,
        "18, apt:18, installed:17, a path to a bin folder, or a source tree as git:PATH@REVISION (see "
        "pgassay builds)",
        (*EXPERIMENTS, "tune", "probe"),
        otherwise="the newest",
        servers="own",
        guide="the build: `18`, `18.6`, `apt:18`, `installed:17`, a bin folder, or a source tree: "
        "[builds](builds.md), [source builds](source-builds.md)",
    )
    baseline: "Baseline" = value(
        "--baseline",
        Words["Baseline"](("fixed", "shipped")),
        "settings that you do not give: the same in all arms (fixed), or each version's own "
        "defaults, with checksums as its initdb sets them (shipped)",
        EXPERIMENTS,
        default="fixed",
        servers="own",
        guide="[settings that you do not give](compare-how-it-works.md#settings-that-all-arms-have): "
        "`fixed`, the same in all arms; `shipped`, each version's defaults",
    )
    skip_unavailable: bool = switch(
        "--skip-unavailable",
        "drop the levels that this build or machine refuses, with a warning",
        EXPERIMENTS,
        servers="own",
    )
    server: str | None = maybe(
        "--server DSN",
        text,
        "a running server, as a libpq connection string",
        EXPERIMENTS,
        is_secret=True,
        guide="a running server for all arms, as a libpq connection string: [remote](remote.md)",
    )
    swap: str | None = maybe(
        "--swap COMMAND",
        text,
        "a command, run halfway, that swaps the settings of the two servers of server=",
        ("compare", FILE),
        is_secret=True,
        guide="a command, run halfway, that [swaps the "
        "settings](remote.md#two-servers-hardware-and-settings) of the two servers of `server=`",
    )
    before_trial: str | None = maybe(
        "--before-trial COMMAND",
        text,
        "a command to run before each trial on a running server, to restart or resize it",
        servers="running",
        is_secret=True,
        guide="a command [before each trial](remote.md#a-command-before-each-trial) on a remote server, for"
        " example a restart",
    )
    vcpus: str | None = maybe(
        "--vcpus N[,N]",
        text,
        "number of processors of the running servers, which SQL can't show",
        servers="running",
        guide="[the processors](remote.md#what-limits-the-server-by-sql-alone) of the remote servers, one "
        "number for all or one for each",
    )
    allow_writes: str | None = maybe(
        "--allow-writes DATABASE",
        text,
        "allow writes to this database of the running servers",
    )
