"""What is run, and on which data."""

from dataclasses import dataclass
from functools import partial

from pgassay.options.option import COPIES, TRIALS, Words, maybe, several, text, value
from pgassay.value_syntax.quantities import whole

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pgassay.model.experiment import CacheState

SCALE_MAX = 100_000


# Methods are the request's, which has these fields: to make them here would cost every start time.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
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
        guide="what to run: [workloads](workloads.md)",
    )
    # None: the workload's own.
    metric: str | None = maybe(
        "--metric NAME",
        text,
        "for a load, what to compare: throughput (or tps), or a latency: mean, p50, p75, "
        "p90, p95, p99, p99.9, p99.99; or the highest rate that an arm sustains within a limit: "
        "'throughput-at:p99<20ms'",
        (*TRIALS, "bisect"),
        otherwise="throughput; with rate= or curve= mean",
        guide="for a load: `throughput` (`tps`), or a [latency](loads.md#latency): `mean`, `p50` to "
        "`p99.99`; `'throughput-at:p99<20ms'`: [the most that an arm "
        "holds](loads.md#the-most-that-a-server-holds)",
    )
    scale: int = value(
        "--scale N",
        partial(whole, least=1, most=SCALE_MAX),
        "pgbench scale of the data",
        COPIES,
        default="10",
        guide="pgbench's scale, 1 to 100000; one unit is 100,000 accounts, about 15 MB",
    )
    dataset: str = value(
        "--dataset KIND[:SOURCE]",
        text,
        "pgbench, sysbench, dump:FILE, folder:DATADIR or script:FILE: the source of the data",
        COPIES,
        default="pgbench",
        servers="own",
        guide="`pgbench`, `sysbench`, `dump:FILE`, `folder:DATADIR` or `script:FILE`: "
        "[datasets](datasets.md)",
    )
    prepare: tuple[str, ...] = several(
        "--prepare SQL|FILE",
        "SQL, or a file ending in .sql, run once on the data; repeatable",
        COPIES,
        servers="own",
    )
    settle: str = value(
        "--settle",
        Words(("on", "off")),
        "on: every table is read once before the trials, as its first reader would; off: each "
        "trial finds dead rows and unset hint bits as they were left",
        (*TRIALS, "tune"),
        default="on",
        servers="own",
        guide="`off`: each trial is the first reader of the tables as they were "
        "[left](datasets.md#data-as-they-were-left)",
    )
    cache: "CacheState | None" = maybe(
        "--cache STATE",
        Words["CacheState"](("cold", "cold-each", "warm-buffers", "warm-pages", "as-is", "restarted")),
        "cold (once per trial), cold-each (before every statement), warm-buffers, warm-pages, as-is, or "
        "restarted (by --before-trial)",
        (*COPIES, "upgrade"),
        otherwise="by the workload",
        guide="`cold`, `cold-each`, `warm-buffers`, `warm-pages`, `as-is` or `restarted`: [cache "
        "states](cache-states.md). Default: [that of the workload](workloads.md); `as-is` on remote servers "
        "and where arms [take turns in one server](compare-how-it-works.md#arms-in-one-server)",
    )
