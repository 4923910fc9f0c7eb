"""`pgassay upgrade DSN --to 18`: what another major version does to a server, found on copies."""

import argparse
import sys

from pgassay.cli import options
from pgassay.cli.output import publish
from pgassay.errors import UsageError

EXIT_LOOK = 3
EXIT_INTERRUPTED = 130
STATEMENTS_DEFAULT = 50
# What an upgrade makes of an experiment's options.
_HELPS = {
    "--max-time": "time limit, copies included, as 10m, 1h",
    "--cache": "warm-pages (default), warm-buffers, cold, cold-each or as-is",
    "--set": "a setting for both versions; settings that were changed on the server are taken over",
    "--storage": "where to put the copies, as in compare",
}


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "upgrade",
        help="find out what an upgrade to another major version does to a server: what breaks, what gets "
        "slower",
        description="Reads a server's catalogs, copies its database into its own version and into the new "
        "one (with pg_dump, or a base backup with pg_upgrade), creates the schema in an empty new server, "
        "and runs the statements that took most of its time, or captured traffic, on both: errors, rows, "
        "plans, and times in interleaved blocks. The server is only read. Exit status 3: something blocks "
        "the upgrade, or a statement fails, returns different rows or is slower.",
        epilog="examples:\n"
        "  pgassay upgrade 'host=db dbname=shop' --to 18 --max-time 20m\n"
        "  pgassay upgrade 'host=db dbname=shop' --to 18 --copy folder:/backup/main\n"
        "  pgassay upgrade 'host=db dbname=shop' --to 18 --capture monday --copy dump:monday.dump",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    add = parser.add_argument
    add("server", metavar="DSN", help="the server, by a connection string of libpq")
    add("--to", required=True, metavar="VERSION", help="the new major version, as 18")
    add(
        "--statements",
        type=options.whole,
        default=STATEMENTS_DEFAULT,
        metavar="N",
        help="number of statements from pg_stat_statements, or from the capture (default 50)",
    )
    add(
        "--workload",
        default="",
        metavar="sql:FILE",
        help="the statements of a file instead of those in pg_stat_statements",
    )
    add(
        "--capture",
        default="",
        metavar="DIR[,OPTIONS]",
        help="replay this captured traffic on both versions instead of statements; options as for "
        "replay, as speed=2,until=10m (default speed=max)",
    )
    add(
        "--copy",
        default="",
        metavar="dump|dump:FILE|folder:DATADIR",
        help="the data: dump (default), taken now; dump:FILE, taken when the capture started; "
        "folder:DATADIR, a base backup or a stopped server's data folder, a copy of which pg_upgrade brings "
        "to the new version",
    )
    options.add_options(parser, "upgrade", _HELPS, defaults={"--margin": "10%"})
    options.add_formats(parser, "the answer", html=options.HTML_INSTEAD)
    options.add_quiet_and_no_wait(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Look, measure, print, and write the page."""
    from pathlib import Path

    from pgassay.cli.outcome import REPORT_FILE, progress_of
    from pgassay.report.traffic.upgrade_page import page_of
    from pgassay.upgrade.run_upgrade import UpgradeRequest, run_upgrade

    _check(arguments)
    compare = options.request_of(arguments, out=None)
    wanted = UpgradeRequest(
        connection_string=arguments.server,
        to=arguments.to,
        compare=compare,
        statements=arguments.statements,
        workload=arguments.workload,
        out=arguments.out,
        capture=arguments.capture,
        copy=arguments.copy,
    )
    with progress_of(arguments) as progress:
        result = run_upgrade(wanted, progress, wait=not arguments.no_wait)
    publish(page_of(result), arguments, keep=Path(result.folder) / REPORT_FILE, is_measured=True)
    if result.interrupted:
        where = f"{result.folder} has the results so far"
        print(f"pgassay: interrupted; nothing is left running; {where}", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_LOOK if result.decision in ("in the way", "look") else 0


def _check(arguments: argparse.Namespace) -> None:
    """Raises UsageError for options that can't be meant together."""
    if arguments.capture and arguments.workload:
        raise UsageError(
            "--capture and --workload both choose what to run on the versions: leave one of them out"
        )
    if arguments.workload:
        options.refuse_with(arguments, ("--statements",), "--workload", "whose statements are all run")
