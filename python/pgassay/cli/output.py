"""What standard output can show."""

import sys


def is_unicode() -> bool:
    """Whether standard output takes signs beyond ASCII."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
