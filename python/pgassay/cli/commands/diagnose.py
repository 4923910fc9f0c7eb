"""`pgassay diagnose DSN`: which statements take a running server's time and why, and what limits it."""

import argparse
import sys

from pgassay.cli import options
from pgassay.cli.output import publish

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pgassay.model.running_server.diagnosis import Diagnosis
    from pgassay.running_server.diagnosis.sampling import OnElapsed

SECONDS_DEFAULT = 30.0


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "diagnose",
        help="watch a running server for half a minute: which statements take its time, why, what to do next",
        description="Observes a running server, version 14 or newer, local or remote, read-only. Says which "
        "statements take the time and what their plans waste (EXPLAIN, never executed), what limits the "
        "server, what is wrong, and which command to run next. Ctrl-C ends it early, with what was seen so "
        "far. With two files of --json it reports what differs in the second.",
        epilog='examples:\n  pgassay diagnose "dbname=shop"\n'
        "  pgassay diagnose postgresql://me@db.example.com/shop --seconds 60 --html today.html\n"
        "  pgassay diagnose dbname=shop --json > before.json\n"
        "  pgassay diagnose before.json after.json --html change.html",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "dsn",
        metavar="DSN | FILE [FILE]",
        nargs="+",
        help="a connection string of libpq: a URI, or key=value pairs; or a file written by diagnose --json "
        "to show it, or two to compare them",
    )
    options.add_seconds(parser, "observe for this long (default 30)", SECONDS_DEFAULT)
    parser.add_argument(
        "--vcpus",
        type=options.processors,
        metavar="N",
        help="the number of the server's processors, for a server on another machine",
    )
    options.add_formats(parser)
    options.add_quiet(parser, "observes")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Look, judge, print; of stored ones, print."""
    _check(arguments)
    from pgassay.analysis.diagnosis.compare_diagnoses import change_of
    from pgassay.report.diagnosis import change, diagnosis_page

    stored = _stored(arguments.dsn)
    if stored:
        of_servers = ("--seconds", "--vcpus")
        options.refuse_with(arguments, of_servers, "a stored diagnosis", "which is of a server as it was")
    if len(stored) == 2:
        page = change.page_of(change_of(*stored))
    else:
        page = diagnosis_page.page_of(stored[0] if stored else _look(arguments))
    publish(page, arguments)
    return 0


def _stored(names: list[str]) -> "list[Diagnosis]":
    """The diagnoses of files; none where a server is named. Raises UsageError for what is neither."""
    from pathlib import Path

    from pgassay.errors import UsageError
    from pgassay.record.documents import read_result

    files = [Path(name) for name in names if name.endswith(".json")]
    if len(names) > 2 or (len(names) == 2 and len(files) < 2):
        raise UsageError(
            "diagnose takes one connection string (in quotes if it has spaces), or two files of diagnose "
            "--json: pgassay diagnose 'host=HOST dbname=DATABASE'"
        )
    from pgassay.model.running_server.diagnosis import Diagnosis

    remedy = "name a file that diagnose --json of this version wrote"
    return [read_result(file, Diagnosis, "diagnosis", remedy) for file in files]


def _look(arguments: argparse.Namespace) -> "Diagnosis":
    import tempfile
    from pathlib import Path

    from pgassay.analysis.diagnosis.diagnose import diagnose
    from pgassay.running_server.diagnosis.sampling import APPLICATION, sample
    from pgassay.running_server.open_server import open_target

    target = open_target(arguments.dsn[0], "DSN", APPLICATION)
    with tempfile.TemporaryDirectory(prefix="pgassay-diagnose-") as folder:
        progress = _progress(arguments.seconds, quiet=arguments.quiet)
        found = sample(target, arguments.seconds, Path(folder), progress, arguments.vcpus)
        progress(-1.0)
        return diagnose(found)


def _check(arguments: argparse.Namespace) -> None:
    """What can't be done is said before anybody waits."""
    from pgassay.errors import UsageError
    from pgassay.running_server.diagnosis.sampling import SECONDS_MAX, SECONDS_MIN

    if not SECONDS_MIN <= arguments.seconds <= SECONDS_MAX:
        raise UsageError(f"--seconds {arguments.seconds:g}: use {SECONDS_MIN:g} to {SECONDS_MAX:g} seconds")


def _progress(seconds: float, *, quiet: bool) -> "OnElapsed":
    """One line that rewrites itself on a terminal, a line at the beginning elsewhere, nothing when quiet."""
    is_live = sys.stderr.isatty() and not quiet
    if not is_live and not quiet:
        print(f"looking for {seconds:g} s", file=sys.stderr)

    def notify(passed_s: float) -> None:
        if is_live:
            message = "" if passed_s < 0 else f"looking: {passed_s:.0f} s of {seconds:g} s (Ctrl-C ends it)"
            sys.stderr.write(f"\r\x1b[K{message}")
            sys.stderr.flush()

    return notify
