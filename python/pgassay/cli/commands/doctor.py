"""`pgassay doctor`: what this machine can do, what is missing, and what disturbs a measurement."""

import argparse
import sys

from pgassay.cli import options
from pgassay.cli.output import publish

EXIT_MISSING = 1
SECONDS_DEFAULT = 5.0


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "doctor",
        help="check what this machine can do, what is missing, and what disturbs a measurement",
        description="Tries every capability of this machine that pgassay can use and watches its noise; "
        "each line is ok, a warning or missing, with a remedy.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    options.add_formats(parser, "what was found")
    options.add_seconds(parser, "measure the noise for this long (default 5; 0: not at all)", SECONDS_DEFAULT)
    parser.add_argument(
        "--require",
        metavar="CHECK,CHECK",
        help="exit with 1 when one of these is missing, such as io_uring,cold-cache",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Examine, print, and choose the exit status."""
    from pgassay.environment.doctor.registry import examine
    from pgassay.report.listings import doctor_page

    required = tuple(name.strip() for name in (arguments.require or "").split(",") if name.strip())
    report = examine(arguments.seconds, lambda text: print(text, file=sys.stderr), required)
    publish(doctor_page(report), arguments)
    lacking = report.lacking(required)
    for finding in lacking:
        print(f"pgassay: {finding.name} is required but missing: {finding.text}", file=sys.stderr)
    return EXIT_MISSING if lacking else 0
