"""`pgassay diagnose DSN`: what limits a server that runs already, and what should be mended in it."""

import argparse
import sys

from pgassay.cli import options
from pgassay.cli.output import is_unicode

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.live.diagnosis.sampling import OnElapsed
    from pgassay.model.live.diagnosis import Diagnosis

SECONDS_DEFAULT = 30.0


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "diagnose",
        help="look at a running server for half a minute: what limits it, what is wrong, where to look next",
        description="Looks at a server that runs already, of version 14 or newer, here or elsewhere: reads "
        "and changes nothing, by about a hundredth of one processor. Says what limits it now, what should "
        "be mended, where its connections' time went, and what to look at next. Ctrl-C ends it early, with "
        "what was seen so far.",
        epilog='examples:\n  pgassay diagnose "dbname=shop"\n'
        "  pgassay diagnose postgresql://me@db.example.com/shop --seconds 60 --json",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument("dsn", metavar="DSN", help="a connection string of libpq: a URI, or key=value pairs")
    parser.add_argument(
        "--seconds",
        type=options.duration,
        default=SECONDS_DEFAULT,
        metavar="TIME",
        help="look for so long (default 30)",
    )
    parser.add_argument(
        "--vcpus",
        type=options.processors,
        metavar="N",
        help="the number of the server's processors, of a server on another machine",
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON document")
    parser.add_argument("--html", type=options.folder, metavar="FILE", help="write a page as well")
    parser.add_argument("--quiet", action="store_true", help="say nothing while it looks")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Look, judge, print."""
    import tempfile
    from pathlib import Path

    from pgassay.analysis.diagnosis.diagnose import diagnose
    from pgassay.live.diagnosis.sampling import APPLICATION, sample
    from pgassay.live.target import open_target
    from pgassay.report.diagnosis import text as report

    _check(arguments)
    target = open_target(arguments.dsn, "DSN", APPLICATION)
    with tempfile.TemporaryDirectory(prefix="pgassay-diagnose-") as folder:
        progress = _progress(arguments.seconds, quiet=arguments.quiet)
        found = sample(target, arguments.seconds, Path(folder), progress, arguments.vcpus)
        progress(-1.0)
        diagnosis = diagnose(found)
    if arguments.json:
        sys.stdout.write(report.render_json(diagnosis))
    else:
        sys.stdout.write(report.render(diagnosis, unicode=is_unicode()))
    sys.stdout.flush()  # the result is said, whatever happens to the page
    if arguments.html is not None:
        _write_page(arguments.html, diagnosis)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """What can't be done is said before anybody waits."""
    from pgassay.errors import UsageError
    from pgassay.live.diagnosis.sampling import SECONDS_MAX, SECONDS_MIN

    if not SECONDS_MIN <= arguments.seconds <= SECONDS_MAX:
        raise UsageError(
            f"--seconds {arguments.seconds:g}: look for {SECONDS_MIN:g} to {SECONDS_MAX:g} seconds"
        )
    if arguments.html is not None and not arguments.html.absolute().parent.is_dir():
        raise UsageError(f"--html {arguments.html}: its folder does not exist, make it first")


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


def _write_page(file: "Path", diagnosis: "Diagnosis") -> None:
    from pgassay.record.documents import write_file
    from pgassay.report.diagnosis.text import render_html

    write_file(file, render_html(diagnosis).encode())
    print(f"report: {file}", file=sys.stderr)
