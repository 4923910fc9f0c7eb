"""`pgassay compare`: is there a difference, and how large?"""

import argparse

from pgassay.cli import options
from pgassay.cli.output import publish
from pgassay.errors import UsageError

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pgassay.experiment.planning.request import CompareRequest

EPILOG = """examples:
  pgassay compare io_method=sync,worker,io_uring --workload full-scan --scale 100 --cache cold-each
  pgassay compare effective_io_concurrency=1,16 --workload sql:my.sql --storage loop:size=4GB,read_iops=3000
  pgassay compare io_method=sync,worker clients=1,8,50 --workload select-only:duration=20s
  pgassay compare version=17,18 --workload oltp_read_only:tables=4,table_size=100000
  pgassay compare prepare=none,index.sql --dataset dump:shop.dump --workload sql:slow.sql
"""


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
        "range_size, tables, table_size and other options of sysbench's scripts, and those in "
        "docs/compare.md; several make a grid, of which the first is compared within the strata of the "
        "others",
    )
    options.add_options(parser, "compare")
    parser.add_argument(
        "--fleet",
        type=options.folder,
        metavar="FILE",
        help="run it on all machines of this fleet at the same time (see pgassay fleet)",
    )
    parser.add_argument(
        "--spread",
        choices=("blocks", "cells"),
        default="blocks",
        help="with --fleet: blocks: each machine runs the whole comparison; cells: each stratum of a grid "
        "goes to one machine, and an anchor to all of them (default blocks)",
    )
    options.add_plan(parser)
    options.add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Plan, measure, report: on this machine, or on those of a fleet."""
    if arguments.fleet is not None and (arguments.metric or "").strip().lower().startswith("throughput-at"):
        raise UsageError(
            f"--metric {arguments.metric} chooses each block's rate from what a machine measured, so "
            "the machines of a fleet would compare different rates: run it on one machine, without --fleet"
        )
    if arguments.fleet is None:
        options.refuse_without(arguments, ("--spread",), "--fleet")
        return run_or_plan(options.request_of(arguments), arguments)
    from pgassay.cli.spread_experiment import compare_on_fleet

    options.refuse_with(arguments, ("--plan", "--profile"), "--fleet", "which runs on several machines")
    return compare_on_fleet(options.request_of(arguments), arguments)


def run_or_plan(request: "CompareRequest", arguments: argparse.Namespace) -> int:
    """Measure a request and report, as `run` does too; with `--plan` say what that would take."""
    from pgassay.cli.outcome import finish, progress_of
    from pgassay.cli.source_builds import provide_named
    from pgassay.experiment.running.plan_preview import plan_alone
    from pgassay.experiment.running.run_experiment import run_new
    from pgassay.report.plan_preview import page_of

    provide_named((request.build, *request.factors), quiet=arguments.quiet, layouts=request.layouts)
    if not arguments.plan:
        until_decided = not request.all_blocks
        with progress_of(arguments) as progress:
            stored = run_new(request, progress, wait=not arguments.no_wait, until_decided=until_decided)
        return finish(stored, arguments)
    with progress_of(arguments) as progress:
        planned = plan_alone(request, progress, wait=not arguments.no_wait)
    publish(page_of(planned), arguments)
    return 0
