"""What standard output can show, and writing a page where it was asked for."""

import sys
from pathlib import Path

from pgassay.errors import UsageError


def is_unicode() -> bool:
    """Whether standard output takes signs beyond ASCII."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def write_page(target: Path, page: str) -> None:
    """Write a page where --html says; raises UsageError when it can't be written there."""
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"can't write the page to {target} ({error.strerror}): name another file with --html"
        ) from error
