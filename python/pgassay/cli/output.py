"""What standard output can show, and writing a page where it was asked for."""

import argparse
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


def print_result(result: "Result", outputs: "Outputs[Result]", arguments: argparse.Namespace) -> bool:
    """Print a result as `--json` or `--markdown` ask, else as wide as the terminal; True for the last."""
    is_for_terminal = not arguments.json and not arguments.markdown
    if arguments.json:
        text = outputs.render_json(result)
    elif arguments.markdown:
        text = outputs.render_markdown(result)
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        text = outputs.render(result, width=width, colour=sys.stdout.isatty(), unicode=is_unicode())
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
