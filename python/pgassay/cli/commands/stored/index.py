"""`pgassay index`: one page over all results in a folder."""

import argparse

from pgassay.cli import options, stored_experiments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.cli.stored_results import OtherResult
    from pgassay.errors import UsageError
    from pgassay.report.index import IndexRow

INDEX_FILE = "index.html"


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "index",
        help="write one page with all results in a folder",
        description="Writes index.html into a folder of results (experiments, what tune, gate and fleet "
        "found, probes that were kept): their verdicts, with links to their reports; a report that is "
        "missing or older than its experiment is written again.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    stored_experiments.add_folder(parser, "the folder to read, and to write to")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read every experiment, make the reports that are missing, write the page."""
    from pgassay.cli.stored_results import others_below
    from pgassay.record.documents import write_file
    from pgassay.report import index

    parent = stored_experiments.parent_of(arguments)
    _check_writable(parent)
    rows = [_row(parent, folder, found) for folder, found in stored_experiments.analysed_below(parent)]
    rows += [_other_row(parent, folder, found) for folder, found in others_below(parent)]
    target = parent / INDEX_FILE
    write_file(target, index.render(rows, title=str(parent)).encode())
    print(f"index: {target}")
    return 0


def _row(parent: "Path", folder: "Path", found: "stored_experiments.Analysed | UsageError") -> "IndexRow":
    """One experiment, its report made; one that can't be read is named with the reason."""
    from pgassay.cli.outcome import REPORT_FILE
    from pgassay.cli.output import keep_page
    from pgassay.errors import UsageError
    from pgassay.report.compare.page import page_of
    from pgassay.report.index import IndexRow, row_of

    relative = folder.relative_to(parent)
    if isinstance(found, UsageError):
        return IndexRow(folder=str(relative), link="", error=str(found))
    stored, result = found
    report = folder / REPORT_FILE
    if _is_stale(report, folder):
        try:
            _check_writable(folder)
            keep_page(report, page_of(result, stored))
        except UsageError as error:
            return IndexRow(folder=str(relative), link="", error=str(error))
    return row_of(result, stored, folder=str(relative), link=(relative / REPORT_FILE).as_posix())


def _other_row(parent: "Path", folder: "Path", found: "OtherResult | UsageError") -> "IndexRow":
    """What tune, gate, fleet or probe found, with the page that it wrote, if it wrote one."""
    from pgassay.cli.outcome import REPORT_FILE
    from pgassay.errors import UsageError
    from pgassay.report.index import IndexRow
    from pgassay.report.listings import ended_words
    from pgassay.report.text import clean

    relative = folder.relative_to(parent)
    if isinstance(found, UsageError):
        return IndexRow(folder=str(relative), link="", error=str(found))
    page = relative / REPORT_FILE
    return IndexRow(
        folder=str(relative),
        link=page.as_posix() if (parent / page).is_file() else "",
        started=found.started,
        title=clean(found.title),
        verdict=tuple(clean(line) for line in found.verdict),
        tone="mixed",
        amount=found.amount,
        ended=ended_words(found.ended),
    )


def _check_writable(folder: "Path") -> None:
    """Raise UsageError for a folder that this account may not write to."""
    import os

    from pgassay.errors import UsageError

    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"can't write into {folder}: make it writable, or name a copy of it")


def _is_stale(report: "Path", folder: "Path") -> bool:
    """Whether the report is missing, or older than what it tells of."""
    from pgassay.record import layout

    if not report.is_file():
        return True
    made = report.stat().st_mtime
    sources = (folder / layout.STATE_FILE, *(folder / layout.TRIALS_FOLDER).glob("*"))
    return any(source.exists() and source.stat().st_mtime > made for source in sources)
