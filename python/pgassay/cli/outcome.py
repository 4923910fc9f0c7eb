"""What compare, run and resume share: how progress is shown, and how the result is handed over."""

import argparse

from pgassay.analysis.redaction.redacted_experiment import redacted, redacted_result
from pgassay.analysis.verdicts.compare import analyse
from pgassay.cli.output import is_for_reading, print_page, publish
from pgassay.model.result import CompareResult
from pgassay.progress import Progress
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare import verdicts
from pgassay.report.compare.page import brief_page, page_of
from pgassay.terminal import live_progress

EXIT_FAILED = 1
EXIT_CONDITION_HOLDS = 3
REPORT_FILE = "report.html"


def progress_of(arguments: argparse.Namespace) -> Progress:
    """Live on a terminal, plain lines elsewhere, nothing when quiet; always on standard error."""
    return live_progress.choose(quiet=arguments.quiet)


def finish(stored: StoredExperiment, arguments: argparse.Namespace) -> int:
    """Print the result, write the HTML report to its records, and choose the exit status."""
    stored, result = analysed(stored, redact=arguments.redact)
    is_brief = is_for_reading(arguments) and not arguments.details
    if is_brief:
        print_page(brief_page(result, stored), arguments)
    # The page is longer than a screen: what a person came for stands at its end as well.
    below = () if is_brief else ("", *verdicts.headline_lines(result))
    report = stored.folder / REPORT_FILE if arguments.draws_page else None
    publish(
        page_of(result, stored),
        arguments,
        keep=report,
        below=below,
        is_measured=True,
        is_printed=is_brief,
    )
    if stored.stopped == "failed":
        return EXIT_FAILED
    if arguments.fail_if and any(
        arm.verdict == arguments.fail_if and not arm.withheld for arm in result.arms
    ):
        return EXIT_CONDITION_HOLDS
    return 0


def analysed(stored: StoredExperiment, *, redact: bool) -> tuple[StoredExperiment, CompareResult]:
    """An experiment and its result; with `redact` both without the literals of its SQL."""
    if not redact:
        return stored, analyse(stored)
    hidden = redacted(stored)
    return hidden, redacted_result(analyse(hidden))
