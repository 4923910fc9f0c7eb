"""What is run, and on which data."""

from dataclasses import dataclass
from functools import partial

from pgassay.options.option import COPIES, TRIALS, Words, maybe, several, text, value
from pgassay.typed.quantities import whole

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pgassay.model.experiment import CacheState

SCALE_MAX = 100_000


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The workload, its data, and the caches that it meets."""

    workload: str = value(
        "--workload W[:OPTIONS]",
        text,
        "full-scan, select-only, tpcb, simple-update, pgbench:file=FILE, oltp_read_only, sysbench:SCRIPT, "
        "sql:FILE or maintenance:FILE; a load takes clients=, threads=, duration=, warmup=, "
        "protocol=prepared|simple, rate=, arrivals=poisson|constant, curve=FILE, latency_limit=, as "
        "tpcb:clients=8,duration=60s,rate=500",
        (*TRIALS, "bisect"),
        default="full-scan",
        note="[workloads.md](workloads.md)",
    )
    # None: the workload's own.
    metric: str | None = maybe(
        "--metric NAME",
        text,
        "of a load, what is compared: throughput (or tps), or a figure of its latencies: mean, p50, p75, "
        "p90, p95, p99, p99.9, p99.99; or the highest rate that an arm holds within a bound: "
        "'throughput-at:p99<20ms'",
        (*TRIALS, "bisect"),
        otherwise="throughput; with rate= or curve= mean",
        note="[latency](workloads.md#latency), "
        "[the most that an arm holds](workloads.md#the-most-that-a-server-holds)",
    )
    scale: int = value(
        "--scale N",
        partial(whole, least=1, most=SCALE_MAX),
        "pgbench scale of the data",
        COPIES,
        default="10",
        note=f"1 to {SCALE_MAX}; one unit is 100,000 accounts and about 15 MB",
    )
    dataset: str = value(
        "--dataset KIND[:SOURCE]",
        text,
        "pgbench, sysbench, dump:FILE, folder:DATADIR or script:FILE: what the data are made from",
        COPIES,
        default="pgbench",
        servers="own",
        note="[datasets.md](datasets.md)",
    )
    prepare: tuple[str, ...] = several(
        "--prepare SQL|FILE",
        "SQL, or a file ending in .sql, run once on the data of all arms; can be given several times",
        COPIES,
        servers="own",
        note="[preparing the data](datasets.md#preparing-the-data)",
    )
    settle: str = value(
        "--settle",
        Words(("on", "off")),
        "on: every table is read once before the trials, as its first reader would; off: each trial "
        "meets dead rows and unset hint bits as they were left",
        (*TRIALS, "tune"),
        default="on",
        servers="own",
        note="[data as they were left](datasets.md#data-as-they-were-left)",
    )
    cache: "CacheState | None" = maybe(
        "--cache STATE",
        Words["CacheState"](("cold", "cold-each", "warm-buffers", "warm-pages", "as-is", "restarted")),
        "cold (once per trial), cold-each (before every statement), warm-buffers, warm-pages, as-is, or "
        "restarted (by --before-trial)",
        (*COPIES, "upgrade"),
        otherwise="by the workload",
        note="[cache-states.md](cache-states.md). By default `cold-each` for statements that only read, "
        "`warm-pages` for loads, for statements that write and for `maintenance`, `as-is` on remote "
        "servers and for arms that share a server by `--restart needed`",
    )
