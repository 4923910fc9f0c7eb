"""`pgassay compare`: is there a difference, and how large?"""

import argparse

from pgassay.cli import options
from pgassay.cli.output import publish
from pgassay.errors import UsageError

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pgassay.experiment.planning.request import CompareRequest

EPILOG = """examples:
  pgassay compare io_method=sync,worker,io_uring --workload full-scan --scale 100 --cache cold-each
  pgassay compare effective_io_concurrency=1,16 --workload sql:my.sql --storage loop:size=4GB,read_iops=3000
  pgassay compare io_method=sync,worker clients=1,8,50 --workload select-only:duration=20s
  pgassay compare version=17,18 --workload oltp_read_only:tables=4,table_size=100000
  pgassay compare prepare=none,index.sql --dataset dump:shop.dump --workload sql:slow.sql
"""
ALPHA_HELP = "the chance of an error over all comparisons together (default 0.05)"
# Every key of every kind; a test holds it against the kinds' own tables.
STORAGE_HELP = (
    "where the data lie: host (default) or host:path=FOLDER; loop:size=4GB,read_ahead=128 with path=, a disk "
    "image of its own; both take limits, read_mb_s=, write_mb_s= (MiB a second), read_iops= and write_iops=. "
    "Or a cloud volume, imitated: volume:gp3,size=100GiB (pgassay volumes lists them) with iops=, "
    "throughput=, credits=full|empty|50%%|N, instance=NAME (its limits and memory), flush_latency=2ms, "
    "first_touch=20ms, read_ahead=, closest=yes, trace=yes (for pgassay size); volume:unlimited,latency=1ms "
    "has no limits. Last, wal=KIND[:OPTIONS]: pg_wal on a storage of its own, as "
    "volume:gp3,size=100GiB,wal=volume:io2,size=10GiB,iops=3000"
)


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "compare",
        help="compare the levels of one or more factors on real servers",
        description="Runs randomised blocks of trials on real servers and says which level is faster, "
        "by how much, or that there is no difference that matters.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "factors",
        nargs="+",
        metavar="NAME=LEVEL,LEVEL",
        help="a factor and its levels: any server setting, or version, build, clients, storage, memory, "
        "cpus, prepare and sql (SQL or files), server, settle, checksums, wal_segsize, read_ahead, copy, "
        "config (levels of several parts, as 18+io_method=sync), rate, arrivals, latency_limit, and "
        "range_size, tables, table_size and other options of sysbench's scripts; several make a grid, of "
        "which the first is compared within the strata of the others",
    )
    add_plan_options(parser, {})
    parser.add_argument(
        "--fleet",
        type=options.folder,
        metavar="FILE",
        help="run it on all machines of this fleet at once (see pgassay fleet)",
    )
    parser.add_argument(
        "--spread",
        choices=("blocks", "cells"),
        default="blocks",
        help="with --fleet: blocks, each machine runs the whole comparison (default); cells, each stratum of "
        "a grid goes to one machine, and an anchor to all of them",
    )
    parser.add_argument(
        "--stratum",
        action="append",
        default=[],
        metavar="NAME",
        help="of a grid run this stratum alone, as clients=8 or 'clients=8 memory=2GB'; can be given several "
        "times. The error rate stays that of the whole grid",
    )
    parser.add_argument(
        "--decide",
        choices=("arms", "effects"),
        default="arms",
        help="in a grid, what it goes on for: each arm, where decided ones rest (default), or the main "
        "effect of every factor, for which all arms go on",
    )
    _add_profile(parser)
    options.add_plan(parser)
    options.add_output_options(parser)
    parser.set_defaults(run=run)


def _add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--profile",
        action="store_true",
        help="after the verdict, run further trials in which perf samples the servers, and say which "
        "functions take more or less time per transaction",
    )
    parser.add_argument(
        "--profile-rounds",
        type=options.whole,
        metavar="N",
        help="with --profile: blocks of such trials (default 10)",
    )


def profile_rounds_of(arguments: argparse.Namespace) -> int:
    """The rounds of trials with perf; 0 for none. Raises UsageError for rounds without a profile."""
    from pgassay.errors import UsageError
    from pgassay.experiment.planning.profile import ROUNDS_DEFAULT

    rounds: int | None = getattr(arguments, "profile_rounds", None)
    if not getattr(arguments, "profile", False):
        if rounds is not None:
            raise UsageError("--profile-rounds is of a profile: add --profile")
        return 0
    if getattr(arguments, "fleet", None) is not None:
        raise UsageError("--profile is of one machine's servers: leave --fleet out")
    return ROUNDS_DEFAULT if rounds is None else rounds


def add_plan_options(parser: argparse._ActionsContainer, texts: "Mapping[str, str]") -> None:
    """The options that shape the experiment; `texts`: of some the help of a command that is not compare."""

    def add(option: str, *, help: str, **rest: "Any") -> None:
        parser.add_argument(option, help=texts.get(option, help), **rest)

    add(
        "--workload",
        default="full-scan",
        metavar="W[:OPTIONS]",
        help="full-scan (default), select-only, tpcb, simple-update, pgbench:file=FILE, oltp_read_only, "
        "sysbench:SCRIPT, sql:FILE or maintenance:FILE; a load takes "
        "clients=, threads=, duration=, warmup=, protocol=prepared|simple, "
        "rate=, arrivals=poisson|constant, curve=FILE, latency_limit=, as "
        "tpcb:clients=8,duration=60s,rate=500",
    )
    add(
        "--metric",
        metavar="NAME",
        help="of a load, what is compared: throughput (or tps), or a figure of its latencies: mean, p50, "
        "p75, p90, p95, p99, p99.9, p99.99 (default throughput; with rate= or curve= mean); or the highest "
        "rate that an arm holds within a bound: 'throughput-at:p99<20ms'",
    )
    add("--scale", type=options.whole, default=10, metavar="N", help="pgbench scale of the data (default 10)")
    add(
        "--dataset",
        default="pgbench",
        metavar="KIND[:SOURCE]",
        help="pgbench (default), sysbench, dump:FILE, folder:DATADIR or script:FILE: what the data are made "
        "from",
    )
    add(
        "--prepare",
        action="append",
        default=[],
        metavar="SQL|FILE",
        help="SQL, or a file ending in .sql, run once on the data of all arms",
    )
    add(
        "--settle",
        default="on",
        metavar="on|off",
        help="on: every table is read once before the trials, as its first reader would; off: each trial "
        "meets dead rows and unset hint bits as they were left (default on)",
    )
    add(
        "--cache",
        metavar="STATE",
        help="cold (once per trial), cold-each (before every statement), warm-buffers, warm-pages or as-is",
    )
    add(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="NAME=VALUE",
        help="a setting of all arms",
    )
    add(
        "--storage",
        default="host",
        metavar="KIND[:OPTIONS]",
        help=STORAGE_HELP,
    )
    add("--memory", metavar="SIZE", help="cap on a server's memory, page cache included, as 2GB")
    add("--cpus", metavar="NUMBER", help="cap on a server's processors, as 1 or 0.5")
    add(
        "--pg",
        metavar="BUILD",
        help="18, apt:18, installed:17, a path to a bin folder, or a source tree as git:PATH@REVISION (see "
        "pgassay builds)",
    )
    add("--server", metavar="DSN", help="a server that runs already, by a connection string of libpq")
    add("--swap", metavar="COMMAND", help="run halfway: swaps the settings of the two servers of server=")
    add(
        "--before-trial",
        metavar="COMMAND",
        help="run before each trial on a server that runs already: restarts or resizes it",
    )
    add(
        "--vcpus",
        metavar="N[,N]",
        help="the processors of the servers that run already, which they can't tell",
    )
    add("--allow-writes", metavar="DATABASE", help="this database of the servers may be written to")
    add(
        "--control",
        metavar="FACTOR=LEVEL",
        help="the level the others are compared with (default: the first)",
    )
    add("--blocks", type=options.whole, metavar="N", help="at most so many blocks (default 60)")
    add(
        "--max-time",
        type=options.duration,
        default=900.0,
        metavar="TIME",
        help="at most so long, as 90s, 12m, 1h (default 15m)",
    )
    add(
        "--margin",
        type=options.fraction,
        default=0.03,
        metavar="FRACTION",
        help="differences smaller than this do not matter (default 0.03, that is 3%%)",
    )
    add("--alpha", type=options.fraction, default=0.05, metavar="FRACTION", help=ALPHA_HELP)
    add(
        "--all-blocks",
        action="store_true",
        help="use all blocks, or all the time, whatever is decided before",
    )
    add("--seed", type=options.whole, metavar="N", help="seed of the order of the trials (default: drawn)")
    add("--out", type=options.folder, metavar="FOLDER", help="a new folder for the results")
    add(
        "--covariate",
        choices=("none", "canary", "memory", "disk"),
        default="none",
        help="adjust for a speed of the machine, read before each trial: of the processor (canary), of fresh "
        "memory, or of the disk",
    )
    add(
        "--observe",
        choices=("off", "normal", "fast"),
        default="normal",
        help="how often the server's threads and their waits are sampled (default normal)",
    )
    add(
        "--between",
        choices=("nothing", "neutral"),
        default="nothing",
        help="what runs before each trial and is not counted: neutral is the workload on the control's "
        "settings, so that no trial follows another arm (default nothing)",
    )
    add(
        "--restart",
        choices=("needed", "each"),
        default="each",
        help="needed: arms that one running server can be (settings of a session, texts, indexes) take turns "
        "in it, in warm caches, and a block is one start; each: a trial of each arm (default each)",
    )
    add(
        "--plans",
        choices=("off", "estimate", "work"),
        help="work: execute each statement's plan once for each arm with EXPLAIN ANALYZE, outside of all "
        "timing; estimate: EXPLAIN alone (default work; on servers that run already estimate)",
    )
    add(
        "--baseline",
        choices=("fixed", "shipped"),
        default="fixed",
        help="settings that nobody gave: alike in all arms (fixed), or each version's own defaults, with "
        "checksums as its initdb makes them (shipped; default fixed)",
    )
    add(
        "--no-pool",
        action="store_true",
        help="compare with the control alone, and not with control and twin (its hidden duplicate) together",
    )
    add(
        "--skip-unavailable",
        action="store_true",
        help="drop the levels that this build or machine refuses, and say so",
    )


def request_of(arguments: argparse.Namespace) -> "CompareRequest":
    """The request that the command line makes."""
    from pgassay.experiment.planning.request import CompareRequest

    return CompareRequest(
        factors=tuple(arguments.factors),
        workload=arguments.workload,
        metric=arguments.metric,
        scale=arguments.scale,
        dataset=arguments.dataset,
        prepare=tuple(arguments.prepare),
        settle=arguments.settle,
        cache=arguments.cache,
        settings=tuple(arguments.settings),
        storage=arguments.storage,
        memory=arguments.memory,
        cpus=arguments.cpus,
        build=arguments.pg,
        control=arguments.control,
        strata=tuple(getattr(arguments, "stratum", ())),
        blocks=arguments.blocks,
        max_time_s=arguments.max_time,
        margin=arguments.margin,
        alpha=arguments.alpha,
        seed=arguments.seed,
        out=arguments.out,
        skip_unavailable=arguments.skip_unavailable,
        pool_twin=not arguments.no_pool,
        covariate=arguments.covariate,
        observe=arguments.observe,
        between=arguments.between,
        decide=getattr(arguments, "decide", "arms"),
        restart=arguments.restart,
        plans=arguments.plans,
        profile_rounds=profile_rounds_of(arguments),
        baseline=arguments.baseline,
        server=arguments.server,
        swap=arguments.swap,
        allow_writes=arguments.allow_writes,
        vcpus=arguments.vcpus,
        before_trial=arguments.before_trial,
        command=tuple(arguments.words),
    )


def run(arguments: argparse.Namespace) -> int:
    """Plan, measure, report: on this machine, or on those of a fleet."""
    if arguments.fleet is not None and (arguments.metric or "").strip().lower().startswith("throughput-at"):
        raise UsageError(
            f"--metric {arguments.metric} chooses each block's rate by what a machine measured, so the "
            "machines of a fleet would compare other rates: run it on one machine, without --fleet"
        )
    if arguments.fleet is None and arguments.spread == "blocks":
        return run_or_plan(request_of(arguments), arguments)
    from pgassay.cli.spread import compare_on_fleet

    return compare_on_fleet(request_of(arguments), arguments)


def run_or_plan(request: "CompareRequest", arguments: argparse.Namespace) -> int:
    """Measure a request and report, as `run` does too; with `--plan` say what that would take."""
    from pgassay.cli.outcome import finish, progress_of
    from pgassay.cli.source_builds import provide_named
    from pgassay.experiment.running.planned import plan_alone
    from pgassay.experiment.running.run import run_new
    from pgassay.report.planned import page_of

    provide_named((request.build, *request.factors), quiet=arguments.quiet)
    if not arguments.plan:
        all_blocks = getattr(arguments, "all_blocks", False)
        with progress_of(arguments) as progress:
            stored = run_new(request, progress, wait=not arguments.no_wait, until_decided=not all_blocks)
        return finish(stored, arguments)
    with progress_of(arguments) as progress:
        planned = plan_alone(request, progress, wait=not arguments.no_wait)
    publish(page_of(planned), arguments)
    return 0
