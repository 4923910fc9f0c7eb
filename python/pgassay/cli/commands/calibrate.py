"""`pgassay calibrate`: equal arms against each other, to tell what this machine can resolve."""

import argparse

from pgassay.cli import options
from pgassay.cli.output import publish
from pgassay.value_syntax.quantities import whole

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pgassay.record.experiment import StoredExperiment

# Levels of the null factor: arms that are equal in all but their copies of the data. The twin has one too.
LEVELS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
COPIES_MIN, COPIES_MAX = 3, len(LEVELS) + 1
EXIT_FAILED = 1


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "calibrate",
        help="measure equal arms, and say which differences this machine can detect, and in how much time",
        description="Runs an experiment whose arms are all equal, each on its own copy of the data, and "
        "reports where the noise comes from and which differences a comparison with this workload "
        "would find.",
        epilog="example:\n  pgassay calibrate --workload select-only:duration=10s --max-time 10m",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    options.add_options(parser, "calibrate")
    parser.add_argument(
        "--from",
        type=options.folder,
        metavar="FOLDER",
        dest="stored",
        help="measure nothing: calibrate from a stored experiment (a comparison's control and twin will do)",
    )
    parser.add_argument(
        "--copies",
        type=options.typed(whole, least=COPIES_MIN, most=COPIES_MAX),
        default=COPIES_MIN,
        metavar="N",
        help="number of copies of the data, one for each arm (default 3): more copies show better how "
        "copies differ",
    )
    options.add_formats(parser, markdown="for an issue or a wiki")
    options.add_quiet_and_no_wait(parser)
    parser.set_defaults(run=run, factors=[])


def run(arguments: argparse.Namespace) -> int:
    """Measure equal arms, or read a stored experiment; then say what it tells."""
    from pgassay.analysis.calibration.calibrate import calibrate
    from pgassay.experiment.running import ledger
    from pgassay.report.calibration import page_of

    if arguments.server is not None:
        options.refuse_with(arguments, ("--copies",), "--server", "which has one copy of its data")
    stored = _stored(arguments)
    result = calibrate(stored, ledger.summary())
    publish(page_of(result), arguments)
    return EXIT_FAILED if stored.stopped == "failed" else 0


def _stored(arguments: argparse.Namespace) -> "StoredExperiment":
    from pgassay.cli.outcome import progress_of
    from pgassay.cli.source_builds import provide_named
    from pgassay.experiment.running.run_experiment import run_new
    from pgassay.record.experiment import load

    if arguments.stored is not None:
        return load(arguments.stored)
    provide_named((arguments.build,), quiet=arguments.quiet)
    with progress_of(arguments) as progress:
        factors = (f"copy={','.join(LEVELS[: arguments.copies - 1])}",)
        request = options.request_of(arguments, factors=factors, calibrates=True)
        return run_new(request, progress, wait=not arguments.no_wait, until_decided=False)
