"""`pgassay report`: what a stored experiment found; needs no server."""

import argparse
import sys

from pgassay.cli import options
from pgassay.cli.output import print_result, write_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.model.result import CompareResult
    from pgassay.record.experiment import StoredExperiment


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "report",
        help="show a stored experiment: a table, HTML, Markdown or JSON",
        description="Analyses a stored experiment again and shows it; writes report.html into its folder.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument("folder", type=options.folder, metavar="FOLDER", help="the experiment's folder")
    options.add_formats(parser, text="print plain text of 72 columns, for a mailing list")
    parser.add_argument("--html", type=options.folder, metavar="FILE", help="write the page here instead")
    parser.add_argument("--png", type=options.folder, metavar="DIR", help="save the plots as PNG files here")
    options.add_redact(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Analyse, write the page, print."""
    from pgassay.cli.chart_library import chart_library
    from pgassay.cli.outcome import REPORT_FILE, analysed, show
    from pgassay.errors import UsageError
    from pgassay.record import layout
    from pgassay.record.experiment import load
    from pgassay.report.compare.page import render_html, render_markdown

    _refuse_text_of_others(arguments)
    if (arguments.folder / layout.FLEET_FILE).is_file():
        from pgassay.cli.spread import report_spread

        return report_spread(arguments)
    if (arguments.folder / layout.TUNE_FILE).is_file():
        return _report_tuning(arguments)
    if (arguments.folder / layout.GATE_FILE).is_file():
        return _report_gate(arguments)
    stored, result = analysed(load(arguments.folder), redact=arguments.redact)
    target = arguments.html or arguments.folder / REPORT_FILE
    page = render_html(result, stored, chart_library=chart_library())
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"can't write the report to {target} ({error.strerror}): name another file with --html"
        ) from error
    if arguments.png:
        _save_plots(arguments.png, result, stored)
    if arguments.markdown:
        sys.stdout.write(render_markdown(result, stored))
        return 0
    if arguments.text:
        from pgassay.report.mail.text import render

        sys.stdout.write(render(result, stored))
        return 0
    show(result, stored, as_json=arguments.json)
    if not arguments.json:
        print(f"report: {target}")
        if arguments.png:
            print(f"plots: {arguments.png}")
    return 0


def _refuse_text_of_others(arguments: argparse.Namespace) -> None:
    """Raise UsageError for `--text` of a folder that has no single comparison."""
    from pgassay.errors import UsageError
    from pgassay.record import layout

    for file in (layout.FLEET_FILE, layout.TUNE_FILE, layout.GATE_FILE):
        if arguments.text and (arguments.folder / file).is_file():
            raise UsageError(
                f"--text is of one comparison, and {arguments.folder} has a {file}: name the folder of an "
                "experiment within it, or use --markdown"
            )


def _report_tuning(arguments: argparse.Namespace) -> int:
    """The answer that `pgassay tune` stored in the folder; its proof/ is an experiment like any other."""
    from pgassay.analysis.redaction.tuning import redacted
    from pgassay.cli.stored_results import read_tuning
    from pgassay.errors import UsageError
    from pgassay.report.tune import text

    result = read_tuning(arguments.folder)
    if arguments.png:
        raise UsageError(f"an answer of tune has no plots: name its proof, {arguments.folder / 'proof'}")
    shown = redacted(result) if arguments.redact else result
    target = arguments.html or arguments.folder / "report.html"
    write_page(target, text.render_html(shown))
    if print_result(shown, text, arguments):
        print(f"report: {target}")
    return 0


def _report_gate(arguments: argparse.Namespace) -> int:
    """The result of a gate again; each workload in its folder is an experiment like any other."""
    from pgassay.errors import UsageError
    from pgassay.record.gates import load_gate
    from pgassay.report.gate import text

    for name in ("html", "png", "redact"):
        if getattr(arguments, name):
            raise UsageError(
                f"--{name}: a gate has no page of its own: leave it out, name the folder of a workload in "
                f"{arguments.folder}, or draw several gates with 'pgassay history FOLDER --html FILE'"
            )
    result = load_gate(arguments.folder)
    if print_result(result, text, arguments):
        folders = ", ".join(str(arguments.folder / each.folder) for each in result.workloads)
        print(f"\ngate: 'pgassay report FOLDER' shows each workload: {folders}")
    return 0


def _save_plots(folder: "Path", result: "CompareResult", stored: "StoredExperiment") -> None:
    """One PNG file for each plot of the page, named as in the page."""
    from pgassay.errors import UsageError
    from pgassay.report.charts import drawing, result_charts
    from pgassay.report.compare import series

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each in result_charts.drawings(result, stored, series.observe(stored)):
            (folder / f"{each.name}.png").write_bytes(drawing.png(each.wide))
    except OSError as error:
        raise UsageError(
            f"can't save the plots in {folder} ({error.strerror}): name a folder that can be written to"
        ) from error
