"""`pgassay upgrade DSN --to 18`: what another major version does to a server, found on copies."""

import argparse

from pgassay.cli import options
from pgassay.cli.output import publish

EXIT_LOOK = 3
STATEMENTS_DEFAULT = 50
# What an upgrade makes of an experiment's options.
_HELPS = {
    "--max-time": "at most so long, the copies included, as 10m, 1h",
    "--cache": "warm-pages (default), warm-buffers, cold, cold-each or as-is",
    "--set": "a setting of both versions; those that the server has been given are taken over",
    "--storage": "where the copies lie, as for compare",
}


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "upgrade",
        help="find out what another major version does to a server: what breaks, what gets slower",
        description="Reads a server's catalogs, copies its database by pg_dump into its own version and into "
        "the new one, makes the schema in an empty new server, and runs the statements that took most of its "
        "time on both: errors, rows, plans, and times in interleaved blocks. Nothing is done to the server. "
        "Exit status 3: something is in the way, or a statement fails, returns other rows or is slower.",
        epilog="example:\n  pgassay upgrade 'host=db dbname=shop' --to 18 --max-time 20m",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    add = parser.add_argument
    add("server", metavar="DSN", help="the server, by a connection string of libpq")
    add("--to", required=True, metavar="VERSION", help="the major version to come, as 18")
    add(
        "--statements",
        type=options.whole,
        default=STATEMENTS_DEFAULT,
        metavar="N",
        help="so many of those that pg_stat_statements counted (default 50)",
    )
    add(
        "--workload",
        default="",
        metavar="sql:FILE",
        help="the statements of a file in place of those that the server counted",
    )
    options.add_options(parser, "upgrade", _HELPS, defaults={"--margin": "10%"})
    options.add_formats(parser, "the answer", html=options.HTML_INSTEAD)
    options.add_quiet_and_no_wait(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Look, measure, print, and write the page."""
    from pathlib import Path

    from pgassay.cli.outcome import REPORT_FILE, progress_of
    from pgassay.report.traffic.upgrade import page_of
    from pgassay.upgrade.run import UpgradeRequest, run_upgrade

    compare = options.request_of(arguments, out=None)
    wanted = UpgradeRequest(
        arguments.server, arguments.to, compare, arguments.statements, arguments.workload, arguments.out
    )
    with progress_of(arguments) as progress:
        result = run_upgrade(wanted, progress, wait=not arguments.no_wait)
    publish(page_of(result), arguments, keep=Path(result.folder) / REPORT_FILE, is_measured=True)
    return EXIT_LOOK if result.decision in ("in the way", "look") else 0
