"""What standard output can show, and writing a page where it was asked for."""

import argparse
import os
import shutil
import sys
from pathlib import Path

from pgassay.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    Result = TypeVar("Result", contravariant=True)

    class Outputs(Protocol[Result]):
        """A module of `report` that has all three outputs of a result."""

        def render_json(self, result: Result, /) -> str: ...

        def render_markdown(self, result: Result, /) -> str: ...

        def render(self, result: Result, /, *, width: int, colour: bool, unicode: bool) -> str: ...


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


def print_result(result: "Result", outputs: "Outputs[Result]", arguments: argparse.Namespace) -> bool:
    """Print a result as `--json` or `--markdown` ask, else as wide as the terminal; True for the last."""
    is_for_terminal = not arguments.json and not arguments.markdown
    if arguments.json:
        text = outputs.render_json(result)
    elif arguments.markdown:
        text = outputs.render_markdown(result)
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        text = outputs.render(result, width=width, colour=is_colour(), unicode=is_unicode())
    sys.stdout.write(text)
    return is_for_terminal


def write_page(target: Path, page: str) -> None:
    """Write a page where --html says; raises UsageError when it can't be written there."""
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"can't write the page to {target} ({error.strerror}): name another file with --html"
        ) from error
