"""What compare, run and resume share: how progress is shown, and how the result is handed over."""

import argparse
import shutil
import sys

from pgassay.analysis.redaction.experiment import redacted, redacted_result
from pgassay.analysis.verdicts.compare import analyse
from pgassay.cli.chart_library import chart_library
from pgassay.cli.output import is_colour, is_unicode
from pgassay.model.result import CompareResult
from pgassay.record.documents import write_file
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare import json as json_report
from pgassay.report.compare import page, verdicts
from pgassay.terminal import live
from pgassay.terminal.progress import Progress

EXIT_FAILED = 1
EXIT_CONDITION_HOLDS = 3
REPORT_FILE = "report.html"


def progress_of(arguments: argparse.Namespace) -> Progress:
    """Live on a terminal, plain lines elsewhere, nothing when quiet; always on standard error."""
    return live.choose(quiet=arguments.quiet)


def finish(stored: StoredExperiment, arguments: argparse.Namespace) -> int:
    """Print the result, write the HTML report beside it, and choose the exit status."""
    stored, result = analysed(stored, redact=arguments.redact)
    report = stored.folder / REPORT_FILE
    show(result, stored, as_json=arguments.json)
    sys.stdout.flush()  # the result is said, whatever happens to the page
    if arguments.draws_page:
        write_file(report, page.render_html(result, stored, chart_library=chart_library()).encode())
    if not arguments.json:
        # The page is longer than a screen: what a person came for stands at its end as well.
        print("", *verdicts.headline_lines(result), f"report: {report}", sep="\n")
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


def show(result: CompareResult, stored: StoredExperiment, *, as_json: bool) -> None:
    """Print the result on standard output: JSON, or a table as wide as the terminal."""
    if as_json:
        sys.stdout.write(json_report.render(result))
        return
    shown = page.render(
        result,
        stored,
        width=shutil.get_terminal_size((100, 24)).columns,
        colour=is_colour(),
        unicode=is_unicode(),
    )
    sys.stdout.write(shown)
