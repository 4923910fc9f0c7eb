"""`pgassay report`: what a stored experiment found; needs no server."""

import argparse

from pgassay.cli import options
from pgassay.cli.output import publish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.report.page import Page


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "report",
        help="show a stored experiment as a table, HTML, Markdown or JSON",
        description="Analyses a stored experiment again and shows it; writes report.html into its folder.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument("folder", type=options.folder, metavar="FOLDER", help="the experiment's folder")
    options.add_formats(parser, html=options.HTML_INSTEAD)
    parser.add_argument("--png", type=options.folder, metavar="DIR", help="save the plots as PNG files here")
    options.add_redact(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Analyse, write the page, print."""
    from pgassay.cli.outcome import REPORT_FILE, analysed
    from pgassay.record import layout
    from pgassay.record.experiment import load
    from pgassay.report.compare.page import page_of

    if (arguments.folder / layout.FLEET_FILE).is_file():
        from pgassay.cli.spread_experiment import report_spread

        return report_spread(arguments)
    if (arguments.folder / layout.TUNE_FILE).is_file():
        return _report_tuning(arguments)
    if (arguments.folder / layout.GATE_FILE).is_file():
        return _report_gate(arguments)
    stored, result = analysed(load(arguments.folder), redact=arguments.redact)
    page = page_of(result, stored)
    if arguments.png:
        _save_plots(arguments.png, page)
    plots = (f"plots: {arguments.png}",) if arguments.png else ()
    publish(page, arguments, keep=arguments.folder / REPORT_FILE, below=plots)
    return 0


def _report_tuning(arguments: argparse.Namespace) -> int:
    """The answer that `pgassay tune` stored in the folder; its proof/ is an experiment like any other."""
    from pgassay.analysis.redaction.redacted_tuning import redacted
    from pgassay.cli.stored_results import read_tuning
    from pgassay.errors import UsageError
    from pgassay.report.tune.tune_page import page_of

    result = read_tuning(arguments.folder)
    if arguments.png:
        raise UsageError(f"a tune result has no plots: name its proof, {arguments.folder / 'proof'}")
    shown = redacted(result) if arguments.redact else result
    publish(page_of(shown), arguments, keep=arguments.folder / "report.html")
    return 0


def _report_gate(arguments: argparse.Namespace) -> int:
    """The result of a gate again; each workload in its folder is an experiment like any other."""
    from pgassay.errors import UsageError
    from pgassay.record.gates import load_gate
    from pgassay.report.gate.gate_page import page_of

    for name in ("png", "redact"):
        if getattr(arguments, name):
            raise UsageError(
                f"--{name}: a gate has neither plots nor literals: leave it out, or name the folder of a "
                f"workload in {arguments.folder}"
            )
    result = load_gate(arguments.folder)
    folders = ", ".join(str(arguments.folder / each.folder) for each in result.workloads)
    publish(
        page_of(result),
        arguments,
        below=("", f"gate: 'pgassay report FOLDER' shows each workload: {folders}"),
    )
    return 0


def _save_plots(folder: "Path", page: "Page") -> None:
    """One PNG file for each plot of the page, named as in the page."""
    from pgassay.errors import UsageError
    from pgassay.report.charts import drawing

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each in page.drawings:
            (folder / f"{each.name}.png").write_bytes(drawing.png(each.wide))
    except OSError as error:
        raise UsageError(
            f"can't save the plots in {folder} ({error.strerror}): name a folder that can be written to"
        ) from error
