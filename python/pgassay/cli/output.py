"""What standard output can show, and writing a page where it was asked for."""

import argparse
import os
import shutil
import sys
from pathlib import Path

from pgassay.errors import UsageError

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgassay.report.page import Page


def is_unicode() -> bool:
    """Whether standard output takes signs beyond ASCII."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def is_colour() -> bool:
    """Whether standard output is a terminal and colours are wanted: NO_COLOR, set to anything, says no."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def open_streams() -> None:
    """Give each standard stream that was closed (`>&-`) to nobody.

    The next file to be opened would else take its number, and whatever prints would write into that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is the one that is missing.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def is_for_reading(arguments: argparse.Namespace) -> bool:
    """Whether the result goes to a person's terminal: no other form of it was asked for."""
    return not any(getattr(arguments, form, False) for form in ("json", "markdown", "text"))


def print_page(page: "Page", arguments: argparse.Namespace) -> None:
    """Print what --json, --markdown or --text ask for, else as wide as the terminal and in its colours."""
    if getattr(arguments, "json", False):
        text = page.json()
    elif getattr(arguments, "markdown", False):
        text = page.markdown()
    elif getattr(arguments, "text", False):
        text = page.text()
    else:
        is_fitted = page.is_wrapped or sys.stdout.isatty()
        size = {"width": shutil.get_terminal_size((100, 24)).columns} if is_fitted else {}
        text = page.terminal(**size, colour=is_colour(), unicode=is_unicode())
    sys.stdout.write(text)
    sys.stdout.flush()


def publish(
    page: "Page",
    arguments: argparse.Namespace,
    *,
    keep: Path | None = None,
    below: "Sequence[str]" = (),
    is_measured: bool = False,
    is_printed: bool = False,
) -> None:
    """Print a page, and write it as HTML where --html says, else to `keep`.

    below: what a person reads below it; a line that says where the HTML page is comes last. is_measured:
    `keep` is among the records of what was just measured. is_printed: it was printed already. Raises
    UsageError when the page can't be written, of what was just measured MeasurementError.
    """
    if not is_printed:
        print_page(page, arguments)  # the result is said, whatever happens to the HTML page
    target: Path | None = getattr(arguments, "html", None) or keep
    if target is not None:
        write = keep_page if is_measured and target == keep else write_page
        write(target, page)
    if is_for_reading(arguments):
        for line in (*below, *([f"report: {target}"] if target is not None else [])):
            print(line)


def write_page(target: Path, page: "Page") -> None:
    """Write the HTML page where it was asked for; raises UsageError when it can't be written there."""
    content = _html(page)
    try:
        target.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"can't write the page to {target} ({error.strerror}): name another file with --html"
        ) from error


def keep_page(target: Path, page: "Page") -> None:
    """Write the HTML page to the records that it is about; raises MeasurementError."""
    from pgassay.record.documents import write_file

    write_file(target, _html(page).encode())


def _html(page: "Page") -> str:
    from pgassay.cli.chart_library import chart_library

    return page.html(chart_library=chart_library() if page.drawings else "")
